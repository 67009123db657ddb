"""Rules of the house that no linter knows: who may import whom, and what lies at the top."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

#: What each package may not import. The three meet only downward: gateway → protocol ← container.
FORBIDDEN = {
    "protocol": {
        "gateway", "container", "tests", "benchmarks",
        "asyncio", "logging", "selectors", "socket", "socketserver", "ssl", "threading", "time",
        "aiohttp", "anyio", "uvloop",
    },
    "gateway": {"container", "tests", "benchmarks"},
    "container": {"gateway", "tests", "benchmarks"},
}  # fmt: skip

#: The one module of ``protocol`` with IO.
#: The one module with IO; and what is gathered, is gathered by loop, and so by thread.
EXCEPTIONS = {
    "protocol/connection.py": {"asyncio", "socket"},
    "protocol/gathering.py": {"threading"},
}

TOP_LEVEL_FILES = {
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "Dockerfile",
    ".gitignore", ".dockerignore",
}  # fmt: skip
TOP_LEVEL_FOLDERS = {"protocol", "gateway", "container", "tests", "docs", "benchmarks"}
#: Allowed as either.
TOP_LEVEL_EITHER = {".ci"}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(tree: ast.AST, module: str) -> Iterator[str]:
    """The top-level name of everything that a module imports, wherever in it it does."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=name, level=0) if name:
                yield name.partition(".")[0]
            case ast.ImportFrom(level=level) if level:
                # Up to the package itself a relative import stays at home.
                yield module.partition(".")[0] if module.count(".") >= level else ".."
            case ast.Call(
                func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name.partition(".")[0]
            case _:
                pass


def forbidden_imports(package: str, relative: str, text: str) -> list[str]:
    module = relative.removesuffix(".py").replace("/", ".")
    not_allowed = (FORBIDDEN[package] | {".."}) - EXCEPTIONS.get(relative, set())
    return sorted(set(imported(ast.parse(text), module)) & not_allowed)


@pytest.mark.parametrize("package", FORBIDDEN)
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
        ("protocol", "protocol/a.py", "import asyncio.events", ["asyncio"]),
        ("protocol", "protocol/a.py", "def f():\n    from time import monotonic", ["time"]),
        ("protocol", "protocol/a.py", "import os, socket as s", ["socket"]),
        ("protocol", "protocol/a.py", "import logging.handlers", ["logging"]),
        ("protocol", "protocol/a.py", "from gateway.settings import x", ["gateway"]),
        ("protocol", "protocol/connection.py", "import asyncio, time", ["time"]),
        ("protocol", "protocol/connection.py", "import asyncio", []),
        ("protocol", "protocol/a.py", "from . import frames\nfrom .frames import Frame", []),
        ("protocol", "protocol/a.py", "from .. import gateway", [".."]),
        ("protocol", "protocol/media/a.py", "from ..frames import Frame", []),
        ("gateway", "gateway/a.py", "import protocol.frames, asyncio, time", []),
        ("gateway", "gateway/a.py", "import container", ["container"]),
        ("gateway", "gateway/a.py", "importlib.import_module('container.x')", ["container"]),
        ("container", "container/a.py", "__import__('gateway')", ["gateway"]),
    ],
)
def test_the_check_of_imports_sees(package, relative, text, expected):
    assert forbidden_imports(package, relative, text) == expected


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
