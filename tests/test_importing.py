"""partway.importing, and which modules an endpoint needs.

A module that is imported to stay is out of the garbage collector's sight.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from importlib.util import find_spec
from pathlib import Path

import pytest

import partway.gateway
from partway.importing import import_to_stay

#: Imports a module that makes as much as a command's, and says what the collector has done.
PROGRAM = """
import gc, sys
from partway.importing import import_to_stay
sys.path.insert(0, sys.argv[1])
{before}
looks = []
gc.callbacks.append(lambda phase, what: looks.append(what["generation"]))
module = import_to_stay("made")
seen = {{id(each) for each in gc.get_objects()}}
print(len(looks), id(module.KEPT) in seen, gc.isenabled())
"""


def said(tmp_path, before: str = "", module: str = "KEPT = [[] for _ in range(100_000)]") -> str:
    (tmp_path / "made.py").write_text(module)
    program = PROGRAM.format(before=before)
    command = [sys.executable, "-c", program, str(tmp_path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_collector_looks_at_nothing_of_it(tmp_path):
    assert said(tmp_path) == "0 False True\n"


def test_what_is_imported_already_is_left_as_it_is(tmp_path):
    assert said(tmp_path, "import made; gc.collect()") == "0 True True\n"


def test_a_collector_that_was_off_stays_off(tmp_path):
    assert said(tmp_path, "gc.disable()") == "0 True False\n"


def test_after_a_fault_the_collector_is_on_again(tmp_path):
    (tmp_path / "faulty.py").write_text("1 / 0")
    command = (
        "import gc, sys; sys.path.insert(0, sys.argv[1])\n"
        "from partway.importing import import_to_stay\n"
        "try: import_to_stay('faulty')\n"
        "except ZeroDivisionError: print(gc.isenabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", command, str(tmp_path)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "True\n"


def test_a_module_that_is_not_there():
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        import_to_stay("partway.nowhere")


# --- What an attached endpoint imports ------------------------------------------------------------

#: Our code lines that a gateway may import for one attached endpoint, with no API switched on.
MOST_LINES = 14_000

#: Runs a command, and prints the names of our modules that are imported then.
COMMAND = """
import sys
from partway.gateway.cli.main import main
main()
print(*(name for name in sys.modules if name.partition(".")[0] == "partway"))
"""
ARGUMENTS = ("serve", "--apis", "none", "--port", "0", "--endpoint", "chat=http://127.0.0.1:9")


@pytest.fixture(scope="module")
def imported() -> list[str]:
    """Our modules that a gateway has imported from its start to its end."""
    command = [sys.executable, "-c", COMMAND, *ARGUMENTS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        assert "listening" in gateway.stdout.readline()
        gateway.terminate()
        names, _ = gateway.communicate(timeout=60)
    return names.split()


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
)


def code_lines(source: str) -> int:
    """Lines that are not blank, a comment or a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines -= {*range(docstring.lineno, (docstring.end_lineno or 0) + 1)}
    return len(lines)


def test_lines_of_code_are_those_that_do_something():
    assert code_lines('"""Of a module."""\n\n# Why.\nx = (\n    1,  # one\n)\n') == 3
    assert code_lines('def f():\n    """Of a function.\n\n    More.\n    """\n    return 1') == 2


def test_a_gateway_with_one_attached_endpoint_is_small(imported):
    assert "partway.gateway.fleet.launchers.attached" in imported
    specs = [find_spec(name) for name in imported]
    sources = [Path(spec.origin).read_text() for spec in specs if spec and spec.origin]
    assert len(sources) == len(imported)
    lines = sum(map(code_lines, sources))
    assert lines <= MOST_LINES


#: Beginnings of modules' names: each kind of client, what commands ask for, launched containers,
#: model data, archives, the store, certificates, and files of settings.
NOT_NEEDED = (
    "partway.gateway.configuration.toml_bounds",
    "partway.gateway.settings.endpoint_reader",
    "partway.gateway.fleet.kept_instances",
    "partway.gateway.fleet.processes.child",
    "partway.gateway.fleet.launchers.gpus",
    "partway.gateway.fleet.launched_provisions",
    "partway.gateway.fleet.launchers.containers",
    "partway.gateway.fleet.launchers.engine",
    "partway.gateway.fleet.launchers.kept_programs",
    "partway.gateway.fleet.launchers.process",
    "partway.gateway.fleet.launchers.program",
    "partway.gateway.fleet.processes.leash",
    "partway.gateway.fleet.output.log_tail",
    "partway.gateway.fleet.output.capture",
    "partway.gateway.fleet.output.reader",
    "partway.gateway.fleet.processes.process_table",
    "partway.gateway.fleet.health.slow_start",
    "partway.gateway.fleet.health.startup_pace",
    "partway.gateway.fleet.processes.process_table",
    "partway.gateway.fleet.unclaimed_instances",
    "partway.gateway.kept_state",
    "partway.gateway.admin.operations.",
    "partway.gateway.streams.event_stream_front",
    "partway.gateway.streams.websocket_front",
    "partway.gateway.http.http1.duplex",
    "partway.gateway.http.http2.connection.",
    "partway.gateway.http.tls_port",
    "partway.gateway.storage.archives",
    "partway.gateway.storage.model_data",
    "partway.gateway.storage.places.s3_place",
    "partway.gateway.storage.store.backups",
    "partway.gateway.storage.store.database",
    "partway.gateway.storage.store.disk_thread",
    "partway.gateway.storage.store.record_rows",
    "partway.gateway.storage.store.sqlite",
    "partway.gateway.tls.certificates",
    "partway.gateway.tls.context",
    "partway.gateway.tls.local_ca",
)


def test_an_attached_endpoint_imports_what_it_needs(imported):
    assert [name for name in imported if f"{name}.".startswith(NOT_NEEDED)] == []


def test_each_module_that_it_does_not_need_is_there():
    gateway = Path(partway.gateway.__file__).parent
    for name in NOT_NEEDED:
        path = name.removeprefix("partway.gateway.").rstrip(".").replace(".", "/")
        assert list(gateway.glob(f"{path}*")), f"nothing is called {name}"
