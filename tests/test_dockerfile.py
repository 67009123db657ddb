"""The image, as far as its recipe says (clause 1.1-1)."""

from __future__ import annotations

import fnmatch
import json
import re
import tomllib

import pytest

from tests.conftest import ROOT

Instruction = tuple[str, str]


def instructions(text: str) -> list[Instruction]:
    """Each instruction with its arguments; comments gone, continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [
        (name.upper(), arguments.strip())
        for name, _, arguments in (line.strip().partition(" ") for line in joined.splitlines())
    ]


@pytest.fixture
def recipe() -> list[Instruction]:
    return instructions((ROOT / "Dockerfile").read_text("utf-8"))


def arguments_of(recipe: list[Instruction], name: str) -> list[str]:
    return [arguments for instruction, arguments in recipe if instruction == name]


def test_the_label_that_tells_of_bidirectional_streams(recipe):
    labels = dict(label.split("=", 1) for label in arguments_of(recipe, "LABEL"))
    assert (
        labels["com.amazonaws.sagemaker.capabilities.bidirectional-streaming"].strip('"') == "true"
    )


def test_the_entry_point_is_in_exec_form(recipe):
    (text,) = arguments_of(recipe, "ENTRYPOINT")
    command = json.loads(text)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert command[0] in scripts, "a shell in front would get the signal in its place"
    assert "serve" not in command, "the platform appends it"


def test_what_the_platform_appends_is_the_default_too(recipe):
    (text,) = arguments_of(recipe, "CMD")
    assert json.loads(text) == ["serve"]


def test_the_port(recipe):
    assert arguments_of(recipe, "EXPOSE") == ["8080"]


def test_it_runs_as_root_with_nothing_before_it(recipe):
    assert arguments_of(recipe, "USER") == []
    everything = " ".join(arguments for _, arguments in recipe)
    assert not re.search(r"\btini\b|dumb-init|s6-", everything)


def test_the_base_image_can_be_another(recipe):
    (name, base), (first, source) = recipe[:2]
    assert (name, first) == ("ARG", "FROM")
    variable, _, default = base.partition("=")
    assert default.startswith("python:3.")
    assert source == f"${{{variable}}}"
    assert len(arguments_of(recipe, "FROM")) == 1


def test_the_parser_of_this_test():
    text = '# no\nARG A=1\nRUN a && \\\n    b\n\n# ENTRYPOINT x\nENTRYPOINT ["x"]\n'
    assert instructions(text) == [("ARG", "A=1"), ("RUN", "a && b"), ("ENTRYPOINT", '["x"]')]


# --- What is sent to the build -------------------------------------------------------------------


def is_ignored(path: str) -> bool:
    """As Docker reads .dockerignore: the last pattern that matches a path or a folder above it."""
    parts = path.split("/")
    above = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    ignored = False
    for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines():
        pattern = line.strip().strip("/")
        if not pattern or pattern.startswith("#"):
            continue
        wanted = pattern.startswith("!")
        expression = pattern.removeprefix("!").replace("**/", "*/")
        names = {expression, expression.removeprefix("*/")}
        if any(
            fnmatch.fnmatchcase(place, name) and ("/" in name or "/" not in place)
            for place in above
            for name in names
        ):
            ignored = not wanted
    return ignored


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".git", ".venv/bin/python", ".ci/x", ".pytest_cache/v", ".mypy_cache/x",
        ".hypothesis/x", "tests/conftest.py", "docs/README.md", "gateway/__pycache__/x.pyc",
    ],
)  # fmt: skip
def test_what_stays_out_of_the_build(path):
    assert is_ignored(path)


def needed() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    metadata = project["project"]
    files = ["pyproject.toml", metadata["readme"], *metadata["license-files"]]
    for package in wheel["packages"]:
        files += [p.relative_to(ROOT).as_posix() for p in (ROOT / package).rglob("*.py")]
        files.append(f"{package}/py.typed")
    return files


def test_what_the_build_needs_goes_in():
    assert len(needed()) > 30
    assert [path for path in needed() if is_ignored(path) or not (ROOT / path).exists()] == []
