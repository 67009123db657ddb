"""Rules of the house that no linter knows: who may import whom, and what lies where."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.flow_diagrams import flow_chart, shown_chart

PAGE = ROOT / "docs" / "discussion" / "architecture.md"

#: What a package may import of ours, by dotted beginnings. The three meet only downward: gateway →
#: protocol ← container; on top are the names and what both commands share.
ALLOWED = {
    "protocol": {"partway.protocol"},
    "gateway": {
        "partway.gateway", "partway.protocol", "partway.__version__",
        "partway.command_parser", "partway.completion",
        "partway.documentation", "partway.importing", "partway.log_lines",
        "partway.service_links", "partway.variables",
    },
    "container": {
        "partway.container", "partway.protocol", "partway.__version__",
        "partway.command_parser", "partway.completion",
        "partway.documentation", "partway.importing", "partway.log_lines",
        "partway.service_links", "partway.unknown_names", "partway.variables",
    },
    "src/partway": {"partway"},
}  # fmt: skip

#: What nothing that is installed imports: it is there in a checkout only, or is another's.
OURS = {"partway", "gateway", "container", "protocol", "tests", "benchmarks"}

#: What ``protocol`` imports of others in its connections alone.
WITH_IO = {
    "asyncio", "select", "selectors", "socket", "socketserver", "ssl", "threading", "time",
    "aiohttp", "anyio", "uvloop",
}  # fmt: skip

#: The one room of ``protocol`` that may, and that nothing else in it imports.
CONNECTIONS = "partway.protocol.connections"

#: The workbench is for authors of containers and clients: its doors are the commands, and
#: ``partway.testing``.
WORKBENCH = "partway.gateway.workbench"
ITS_USERS = ("gateway/workbench/", "gateway/cli/", "src/partway/testing.py")

TOP_LEVEL_FILES = {
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "Dockerfile",
    ".gitignore", ".dockerignore", "zensical.toml",
}  # fmt: skip
TOP_LEVEL_FOLDERS = {"protocol", "gateway", "container", "src", "tests", "docs", "benchmarks"}
#: Allowed as either.
TOP_LEVEL_EITHER = {".ci"}


def sources(package: str) -> list[Path]:
    """A package's modules; what a new project begins with is its author's, and no part of it."""
    starter = ROOT / "container" / "starter"
    return sorted(path for path in (ROOT / package).rglob("*.py") if starter not in path.parents)


@functools.cache
def imported(text: str) -> frozenset[str]:
    """The dotted name of everything that a module imports, wherever in it it does."""
    return frozenset(_imported(ast.parse(text)))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=name, names=names, level=0) if name:
                yield from (f"{name}.{alias.name}" for alias in names)
            case ast.ImportFrom():
                yield ".."
            case ast.Call(
                func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name
            case _:
                pass


def begins(name: str, beginnings: Iterable[str]) -> bool:
    return any(f"{name}.".startswith(f"{beginning}.") for beginning in beginnings)


def forbidden_imports(package: str, relative: str, text: str) -> list[str]:
    names = imported(text)
    ours = {name for name in names if name.partition(".")[0] in OURS}
    wrong = {name for name in ours if not begins(name, ALLOWED[package])} | names & {".."}
    if package == "protocol":
        pure = not relative.startswith("protocol/connections/")
        others = {"logging"} | (WITH_IO | {CONNECTIONS} if pure else set())
        wrong |= {name for name in names if begins(name, others)}
    if not relative.startswith(ITS_USERS):
        wrong |= {name for name in names if begins(name, {WORKBENCH})}
    return sorted(wrong)


@pytest.mark.parametrize("package", ALLOWED)
def test_import_directions(package):
    found = {}
    for path in sources(package):
        relative = path.relative_to(ROOT).as_posix()
        if names := forbidden_imports(package, relative, path.read_text("utf-8")):
            found[relative] = names
    assert sources(package), f"no sources in {package}/"
    assert found == {}


@pytest.mark.parametrize(
    ("package", "relative", "text", "expected"),
    [
        ("protocol", "protocol/a.py", "import asyncio.events", ["asyncio.events"]),
        ("protocol", "protocol/a.py", "def f():\n    from time import sleep", ["time.sleep"]),
        ("protocol", "protocol/a.py", "import os, socket as s", ["socket"]),
        ("protocol", "protocol/a.py", "import timeit, logging.handlers", ["logging.handlers"]),
        ("protocol", "protocol/a.py", "from partway.gateway import x", ["partway.gateway.x"]),
        ("protocol", "protocol/a.py", "from partway import gateway", ["partway.gateway"]),
        ("protocol", "protocol/a.py", "from partway import __version__", ["partway.__version__"]),
        ("protocol", "protocol/a.py", "from partway.protocol import frames", []),
        ("protocol", "protocol/a.py", "from . import frames", [".."]),
        ("protocol", "protocol/a.py", f"from {CONNECTIONS} import tcp", [f"{CONNECTIONS}.tcp"]),
        ("protocol", "protocol/connections/a.py", f"import asyncio, time, {CONNECTIONS}.tcp", []),
        ("protocol", "protocol/connections/a.py", "import logging", ["logging"]),
        ("gateway", "gateway/a.py", "import partway.protocol.websocket.frames, asyncio, time", []),
        ("gateway", "gateway/a.py", "import protocol.frames", ["protocol.frames"]),
        ("gateway", "gateway/a.py", "import partway.container", ["partway.container"]),
        ("gateway", "gateway/a.py", "from partway import container", ["partway.container"]),
        ("gateway", "gateway/a.py", "from partway import connect", ["partway.connect"]),
        ("gateway", "gateway/a.py", "i.import_module('partway.container')", ["partway.container"]),
        ("gateway", "gateway/a.py", "from partway.gateway import workbench", [WORKBENCH]),
        ("gateway", "gateway/a.py", f"import {WORKBENCH}.dev", [f"{WORKBENCH}.dev"]),
        ("gateway", "gateway/cli/a.py", f"import {WORKBENCH}.dev", []),
        ("gateway", "gateway/workbench/dev/a.py", f"import {WORKBENCH}.dev", []),
        ("container", "container/a.py", "__import__('partway.gateway')", ["partway.gateway"]),
        ("container", "container/a.py", "from partway import __version__, completion", []),
        ("container", "container/a.py", "import tests.conftest", ["tests.conftest"]),
    ],
)  # fmt: skip
def test_the_check_of_imports_sees(package, relative, text, expected):
    assert forbidden_imports(package, relative, text) == expected


# --- No circles ----------------------------------------------------------------------------------


def module_name(path: Path) -> str:
    """The dotted name under which a source is imported."""
    relative = path.relative_to(ROOT / "src" if "src" in path.parts else ROOT).with_suffix("")
    parts = [part for part in relative.parts if part != "__init__"]
    return ".".join(parts if parts[0] == "partway" else ["partway", *parts])


def import_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Of modules by name: which others each names in an import, also for a type checker alone."""
    graph: dict[str, set[str]] = {}
    for module, text in texts.items():
        graph[module] = set()
        for name in imported(text):
            while name and name not in texts:  # what is imported may be in a module, not one
                name = name.rpartition(".")[0]
            graph[module] |= {name} - {"", module}
    return graph


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Modules that import each other in a circle, the first one again at its end; or none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_modules_import_each_other_in_a_circle():
    paths = [path for package in ALLOWED for path in sources(package)]
    graph = import_graph({module_name(path): path.read_text("utf-8") for path in paths})
    assert "partway.gateway.streams.legs" in graph["partway.gateway.streams.session"]
    assert circle(graph) == []


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({"p.a": "import p.b", "p.b": "from p import c", "p.c": "import os"}, set()),
        ({"p.a": "import p.b", "p.b": "from p import a"}, {"p.a", "p.b"}),
        ({"p.a": "from p.b import x", "p.b": "def f():\n    import p.a"}, {"p.a", "p.b"}),
        ({"p.a": "if TYPE_CHECKING:\n    from p.b import x", "p.b": "import p.a"}, {"p.a", "p.b"}),
        ({"p.a": "import p.q", "p.q": "from p.q.b import x", "p.q.b": "import p.a"},
         {"p.a", "p.q", "p.q.b"}),
        ({"p.q": "from p.q.b import x", "p.q.b": "import p.q.c", "p.q.c": ""}, set()),
    ],
)  # fmt: skip
def test_the_check_of_circles_sees(texts, expected):
    assert set(circle(import_graph(texts))) == expected


# --- One noun, one place -------------------------------------------------------------------------


#: Names that authors of models import from ``partway``. The gateway, which no author imports, may
#: have classes of its own with them.
OF_AUTHORS = {"Session", "Settings"}


def public_classes(text: str) -> set[str]:
    """The classes at the top of a module whose names others may use."""
    classes = (node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    return {name for name in classes if not name.startswith("_")}


def recurring(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Of modules by name: the public classes that more than one of them defines."""
    places: dict[str, list[str]] = {}
    for module, text in sorted(texts.items()):
        for name in public_classes(text):
            places.setdefault(name, []).append(module)
    for name in OF_AUTHORS & set(places):
        places[name] = [each for each in places[name] if not each.startswith("partway.container.")]
    return {name: modules for name, modules in places.items() if len(modules) > 1}


def test_each_public_class_has_its_name_for_itself():
    paths = [path for package in ALLOWED for path in sources(package)]
    texts = {module_name(path): path.read_text("utf-8") for path in paths}
    assert "Session" in public_classes(texts["partway.gateway.streams.session"])
    assert recurring(texts) == {}


def test_the_check_of_names_sees():
    texts = {"a": "class X: pass\nclass _Y: pass", "b": "class X: pass\nclass _Y: pass\nclass Z: 1"}
    assert recurring(texts) == {"X": ["a", "b"]}


# --- An event and its fields ---------------------------------------------------------------------

#: What only people at a terminal see, as text: the author of a container, or of a client's tests.
FOR_PEOPLE = ("gateway/workbench/dev/", "gateway/workbench/testing/")


def texts_with_fields(text: str) -> list[int]:
    """The lines of a module that log a text with values in it, in place of a LogLine."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Name(id="log" | "_log"),
                    attr="debug" | "info" | "warning" | "error" | "exception" | "critical",
                ),
                args=[said, *values],
            ) if values or isinstance(said, ast.JoinedStr | ast.BinOp):
                found.append(node.lineno)
            case _:
                pass
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_what_is_particular_to_a_line_of_the_log_is_a_field(package):
    wrong = [
        f"{name}:{line}"
        for path in sources(package)
        if not (name := path.relative_to(ROOT).as_posix()).startswith(FOR_PEOPLE)
        for line in texts_with_fields(path.read_text("utf-8"))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("log.info('drained')", []),
        ("log.info(LogLine('a', b=1))", []),
        ("_log.error(LogLine('a'), exc_info=error)", []),
        ("log.info('a %s', b)", [1]),
        ("_log.error(f'a {b}')", [1]),
        ("log.exception('a ' + b)", [1]),
    ],
)
def test_the_check_of_fields_sees(text, expected):
    assert texts_with_fields(text) == expected


# --- What lies where -----------------------------------------------------------------------------


def test_the_folders_are_linked_into_the_package():
    for name in ("gateway", "container", "protocol"):
        link = ROOT / "src" / "partway" / name
        assert link.is_symlink()
        assert link.resolve() == ROOT / name


def test_top_level_holds_only_what_belongs_there():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip(f"git ls-files: {listed.stderr.decode().strip()}")
    files, folders = set(), set()
    for path in listed.stdout.decode().rstrip("\0").split("\0"):
        first, slash, _ = path.partition("/")
        (folders if slash else files).add(first)
    assert files, "git lists nothing"
    assert files - TOP_LEVEL_FILES - TOP_LEVEL_EITHER == set()
    assert folders - TOP_LEVEL_FOLDERS - TOP_LEVEL_EITHER == set()


# --- References in docstrings --------------------------------------------------------------------

#: A reference to a name of ours that says its module: ``:class:`~.states.State``` and its kin.
_REFERENCE = re.compile(r":\w+:`~?(partway)?\.([a-z_0-9.]+)")


def stale_references(text: str, modules: Collection[str]) -> list[str]:
    """The references of a module to modules that are not there."""
    parts = {part for module in modules for part in module.split(".")}
    found = []
    for match in _REFERENCE.finditer(text):
        path = match[2].rstrip(".")
        if match[1]:
            known = any(f"{module}.".startswith(f"partway.{path}.") for module in modules)
            known = known or f"partway.{path.rpartition('.')[0]}" in modules
        else:
            known = path.split(".")[0] in parts
        if not known:
            found.append(match[0])
    return found


def test_references_lead_to_modules():
    paths = [path for package in ALLOWED for path in sources(package)]
    modules = {module_name(path) for path in paths}
    found = {
        path.relative_to(ROOT).as_posix(): stale
        for path in paths
        if (stale := stale_references(path.read_text("utf-8"), modules))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        (":class:`~.states.State`", False),
        (":class:`~.gone.State`", True),
        (":mod:`partway.p.states`", False),
        (":func:`~partway.p.states.next`", False),
        (":func:`~partway.p.gone.next`", True),
    ],
)
def test_the_check_of_references_sees(text, stale):
    assert bool(stale_references(text, {"partway.p.states"})) is stale


# --- The gateway's floors ------------------------------------------------------------------------

#: From the ground up: a room imports from its own floor and from those below it. The page of the
#: architecture shows them.
FLOORS = (
    {"arns", "configuration", "kept_state", "limits", "metrics", "network", "plain_text", "quota",
     "storage", "terminal", "timing"},
    {"access", "client", "cluster", "tls"},
    {"http"},
    {"fleet"},
    {"containers", "streams"},
    {"admin", "apis", "batch", "discovery", "ports", "service", "settings", "status_routes"},
    {"core"},
    {"gateway"},
    {"workers"},
    {"apis.api", "operator", "settings_reload", "workbench"},
    {"aiohttp_app", "cli"},
)  # fmt: skip

#: Of ``apis``, the modules that are imported whichever APIs are served.
MANIFESTS = {"handling", "limits", "manifest", "manifests", "switched_off"}

#: Of ``apis``, the modules that say what a custom resource is; discovery reads them too.
CUSTOM_RESOURCES = {"custom_object", "endpoint_rules", "schemas"}


def floor_of(name: str) -> int:
    """Of ``partway.gateway.ROOM…``; an API itself is installed into the gateway from above."""
    room, *rest = name.split(".")[2:]
    of_kinds = rest[:1] == ["kubernetes"] and CUSTOM_RESOURCES & {*rest[1:2]}
    if room == "apis" and not (of_kinds or MANIFESTS & {*rest[:2]}):
        room = "apis.api"
    (floor,) = [number for number, rooms in enumerate(FLOORS) if room in rooms]
    return floor


def arrows_up(relative: str, text: str) -> list[str]:
    """What a module of the gateway imports from floors above its own."""
    own = floor_of("partway." + relative.removesuffix(".py").replace("/", "."))
    below = [name for name in imported(text) if begins(name, {"partway.gateway"})]
    return sorted(name for name in below if floor_of(name) > own)


def test_no_arrow_runs_up():
    found = {}
    for path in sources("gateway"):
        relative = path.relative_to(ROOT).as_posix()
        if relative == "gateway/__init__.py":
            continue
        if names := arrows_up(relative, path.read_text("utf-8")):
            found[relative] = names
    assert found == {}


@pytest.mark.parametrize(
    ("relative", "text", "expected"),
    [
        ("gateway/timing/clock.py", "from partway.gateway.timing.deadlines import Deadline", []),
        ("gateway/timing/clock.py", "from partway.gateway import tls", ["partway.gateway.tls"]),
        ("gateway/http/a.py", "import partway.gateway.access.origins", []),
        ("gateway/access/a.py", "import partway.gateway.http", ["partway.gateway.http"]),
        ("gateway/apis/logs/api.py", "from partway.gateway.gateway import Gateway", []),
        (
            *("gateway/gateway.py", "import partway.gateway.apis.logs.api"),
            ["partway.gateway.apis.logs.api"],
        ),
    ],
)
def test_the_check_of_floors_sees(relative, text, expected):
    assert arrows_up(relative, text) == expected


# --- The page ------------------------------------------------------------------------------------


def test_the_page_shows_the_floors():
    made = flow_chart([[", ".join(sorted(rooms)) for rooms in reversed(FLOORS)]])
    assert shown_chart(PAGE.read_text("utf-8"), "FLOORS in tests/test_house.py") == made


def test_the_page_shows_each_folder_with_modules():
    tree = PAGE.read_text("utf-8").partition("\n### Folders\n")[2].partition("```\n")[2]
    shown, above = [], [""]
    for indent, name in re.findall(r"^( *)(\w+)/  ", tree.partition("```")[0], re.MULTILINE):
        depth = len(indent) // 2
        above[depth + 1 :] = [f"{above[depth]}{name}/"]
        shown.append(above[-1])
    three = [ROOT / name for name in ("protocol", "gateway", "container")]
    folders = {path.parent for root in three for path in root.rglob("*.py")}
    assert sorted(shown) == sorted(f"{each.relative_to(ROOT).as_posix()}/" for each in folders)
