"""partway.documentation: what help and messages lead to is there, also without a checkout."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from partway.container.cli.main import main as container_main
from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.main import main as gateway_main
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

SOURCES = [
    path
    for package in ("gateway", "container", "protocol")
    for path in sorted((ROOT / package).rglob("*.py"))
]

#: What gets Partway where no index has it yet.
ARCHIVE = f"{PROJECT['urls']['Homepage']}/archive/main.tar.gz"


def said(text: str) -> list[str]:
    """The strings of a source that somebody may be shown: all but docstrings."""
    tree = ast.parse(text)
    documenting = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documenting
    ]


def test_it_is_the_address_in_the_projects_metadata():
    assert page("README.md") == PROJECT["urls"]["Documentation"]


def test_no_message_leads_to_a_file_that_an_installation_lacks():
    found = {
        path.relative_to(ROOT).as_posix(): text
        for path in SOURCES
        for text in said(path.read_text("utf-8"))
        if re.search(r"(?<![/\w])docs/", text)
    }
    assert found == {}


def test_every_page_that_is_named_is_there():
    named = [
        path
        for source in SOURCES
        for path in re.findall(r"\bpage\(['\"]([^'\"]+)['\"]\)", source.read_text("utf-8"))
    ]
    assert len(named) >= 4
    assert [path for path in named if not (ROOT / "docs" / path).is_file()] == []


@pytest.mark.parametrize(
    ("main", "arguments"),
    [(gateway_main, []), (container_main, []), *((gateway_main, [name]) for name in COMMANDS)],
)
def test_help_leads_to_no_page_but_by_its_address(main, arguments, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    shown = capsys.readouterr().out
    assert re.findall(r"(?<!blob/main/)docs/\S+", shown) == []
    if not arguments:
        assert f"documentation: {page('README.md')}" in shown


def test_nobody_is_told_to_get_it_from_an_index_that_does_not_have_it_yet():
    """Until there is a release the name on an index is anybody's.

    Where it is installed already, ``partway[dev]`` adds what the extra asks for, and no other one.
    """
    texts = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
    texts += [path for path in (ROOT / "container" / "starter").iterdir() if path.is_file()]
    lines = {
        f"{path.relative_to(ROOT)}: {line}"
        for path in texts
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\bpip install\b[^#]* '?partway('| (?!@)|$)", line)
    }
    assert lines == set()
    for path in texts:
        text = path.read_text("utf-8")
        assert set(re.findall(r"partway(?:\[\w+\])? @ ([^'\"\s]+)", text)) <= {ARCHIVE}, path
