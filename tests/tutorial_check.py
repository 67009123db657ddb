"""The tutorial "A container that keeps the contract", as it is printed, step by step.

The page is read from its beginning: each listing and each change makes the folder that the next
output belongs to. The runs are started together, since most of what they do is wait.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.dockerfiles import Recipe, departures
from tests.gateway.workbench.conformance.archives import saved, written
from tests.test_docs import page

PAGE = page("tutorial/conformant-container.md")
HOW_TO = page("how-to/check-a-container.md")

#: The command with its longest waits cut shorter than --fast does.
CONFORM = """
import sys
from partway.gateway.cli.main import main
from partway.gateway.workbench.conformance.checks import shutdown, startup, streams, violations
startup._FAST_START, streams._FAST_IDLE = 10.0, 0.5
violations._END_TIMEOUT, shutdown.END_TIMEOUT = 1.0, 15.0
sys.exit(main(sys.argv[1:]))
"""
#: The command says this of a container that is slow to start; the page shows standard output.
WAITS = re.compile(r"partway conform: waiting for the container for \d+ s: ")
_AT_ONCE = 5

pytestmark = pytest.mark.timeout(150)


@dataclass(frozen=True)
class Step:
    """A command, in the folder as it is by then, and what the page prints below it."""

    files: dict[str, str]
    command: str
    printed: str


@dataclass(frozen=True)
class Done:
    status: int
    output: str
    folder: Path


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and text of each code block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def changed(text: str, diff: str) -> str:
    """A file with a change that the page prints: its old lines are there, and once."""
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] or "\n" for line in lines if not line.startswith("+"))
    new = "".join(line[1:] or "\n" for line in lines if not line.startswith("-"))
    assert text.count(old) == 1, f"not once in server.py:\n{old}"
    return text.replace(old, new)


def steps() -> list[Step]:
    """The page from its beginning to its end."""
    files: dict[str, str] = {}
    command = ""
    found = []
    for language, text in blocks(PAGE):
        match language:
            case "python":
                files["server.py"] = text
            case "diff":
                files["server.py"] = changed(files["server.py"], text)
            case "toml":
                files["probe.toml"] = text
            case "dockerfile":
                files["Dockerfile"] = text
            case "sh":
                command = next(
                    (line for line in text.splitlines() if line.startswith("partway conform")),
                    command,
                )
            case "":
                found.append(Step(dict(files), command, text))
    return found


STEPS = steps()
LAST = STEPS[-1].files
WORKFLOW = next(text for language, text in blocks(PAGE) if language == "yaml")


def commands(text: str) -> list[str]:
    """The runs of ``partway conform`` in a recipe for a CI."""
    return re.findall(r"(partway conform .*)$", text, re.MULTILINE)


def build(recipe: Recipe, folder: Path) -> None:
    """What a builder makes of the recipe's entry point and label, without its layers."""
    entry = recipe.last("ENTRYPOINT")
    command = recipe.last("CMD")
    members = {
        "Entrypoint": entry.command if entry else None,
        "Cmd": (command.command or ["/bin/sh", "-c", command.arguments]) if command else None,
        "ExposedPorts": {f"{each.arguments}/tcp": {} for each in recipe.named("EXPOSE")},
        "Labels": recipe.values("LABEL"),
        "WorkingDir": each.arguments if (each := recipe.last("WORKDIR")) else "",
    }
    written(folder, saved(members)).rename(folder / "shout.tar")


def run(step: Step, folder: Path) -> Done:
    """Do what the page says, in a folder of its own."""
    folder.mkdir()
    with socket.socket() as taken:  # what the page calls 8765 may be somebody's here
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    for name, text in step.files.items():
        (folder / name).write_text(text.replace("8765", port), "utf-8")
    if "--image" in step.command:
        build(Recipe(step.files["Dockerfile"]), folder)
    program, name, *arguments = shlex.split(step.command)
    assert (program, name) == ("partway", "conform")
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    process = subprocess.run(
        [sys.executable, "-c", CONFORM, name, *arguments, "--junit", "conform.xml"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
        env=os.environ | {"PATH": search, "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"},
    )
    assert all(map(WAITS.match, process.stderr.splitlines())), process.stderr
    return Done(process.returncode, process.stdout, folder)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """What came of each step."""
    folder = tmp_path_factory.mktemp("tutorial")
    # Those with a probe take longest: what begins first ends first.
    order = sorted(range(len(STEPS)), key=lambda number: "--probe" not in STEPS[number].command)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        runs = {number: pool.submit(run, STEPS[number], folder / str(number)) for number in order}
    return [runs[number].result() for number in range(len(STEPS))]


def timeless(text: str) -> str:
    """Without what differs from run to run: seconds and ports."""
    text = re.sub(r"\d+(\.\d+)? s\b", "# s", text)
    return re.sub(r"(port |localhost:|listens on )\d{4,5}\b", r"\1#", text)


def labels() -> list[str]:
    return [f"{number}-{each.printed.split()[2]}" for number, each in enumerate(STEPS)]


@pytest.mark.parametrize("number", range(len(STEPS)), ids=labels())
def test_each_step_says_what_the_page_prints(number: int, done: list[Done]) -> None:
    output = timeless(done[number].output)
    for piece in timeless(STEPS[number].printed).split("…\n"):
        assert piece in output
        output = output[output.index(piece) + len(piece) :]  # in this order


def test_each_step_ends_as_the_page_says(done: list[Done]) -> None:
    for step, each in zip(STEPS, done, strict=False):
        fails = re.search(r"^FAIL +must", step.printed, re.MULTILINE)
        assert each.status == (1 if fails else 0), each.output
        assert (": not conformant" in each.output) == bool(fails)


def test_one_must_fails_at_a_time(done: list[Done]) -> None:
    """What is mended at a step is all that there is to mend there; but the image has two."""
    for step, each in zip(STEPS, done, strict=False):
        musts = re.findall(r"^FAIL +must +(\S+)", each.output, re.MULTILINE)
        assert musts == re.findall(r"^FAIL +must +(\S+)", step.printed, re.MULTILINE)
        assert len(musts) <= (2 if "--image" in step.command else 1)


def test_it_begins_naive_and_ends_as_the_example() -> None:
    assert len(STEPS[0].files["server.py"].splitlines()) <= 25
    example = ROOT / "docs" / "examples" / "conformant_server.py"
    assert LAST["server.py"] == example.read_text("utf-8")
    assert "(../examples/conformant_server.py)" in PAGE


def test_the_recipes_are_a_bad_and_a_good_one() -> None:
    first, last = (Recipe(text) for language, text in blocks(PAGE) if language == "dockerfile")
    assert departures(first)
    assert departures(last) == []
    assert json.loads(last.last("ENTRYPOINT").arguments) == ["python", "server.py"]


def test_the_workflow_runs_what_the_page_has_run(done: list[Done]) -> None:
    push, nightly, image = commands(WORKFLOW)
    fast = next(each.command for each in STEPS if "--probe" in each.command)
    assert push == f"{fast} --junit conform.xml"
    assert nightly == f"{fast.removesuffix(' --fast')} --junit conform.xml --html conform.html"
    assert image == STEPS[-1].command
    for each in done:
        report = ET.parse(each.folder / "conform.xml").getroot()
        assert list(report.iter("testcase"))
        assert bool(list(report.iter("failure"))) == (each.status == 1)


def test_the_recipe_for_any_ci_is_the_same() -> None:
    push, nightly, _ = commands(WORKFLOW)
    assert commands(HOW_TO.partition("## In CI")[2])[:2] == [push, nightly]
