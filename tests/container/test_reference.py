"""The author's reference says what the code has: names, limits, times, variables."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping

import pytest

import partway.container
from partway.container import limits, testing
from partway.container.cli import serve
from partway.container.model import Model
from partway.container.shutdown import ShutdownTimes
from partway.container.stream import Stream
from partway.container.workers import Processes, Threads, Workers
from tests.conftest import ROOT
from tests.test_docs import page, rows, section

REFERENCE = page("reference/container.md")

_UNITS = {"KiB": 1024, "MiB": 1024 * 1024, "s": 1.0}


def in_code(name: str) -> bool:
    """Whether a name stands in backticks, by itself or in what is written with it."""
    return re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", REFERENCE) is not None


def own(kind: type) -> list[str]:
    """The public names that a class defines, annotations included."""
    names = {*vars(kind), *inspect.get_annotations(kind)}
    return sorted(name for name in names if not name.startswith("_"))


@pytest.mark.parametrize("name", partway.container.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert in_code(name)


@pytest.mark.parametrize(
    "kind",
    [
        Model,
        Stream,
        Workers,
        partway.container.Request,
        partway.container.Opening,
        testing.Answered,
    ],
)
def test_every_method_and_attribute_is_there(kind: type) -> None:
    ignored = {"start", "stop", "trouble"} if kind is Workers else set()
    assert [name for name in own(kind) if name not in ignored and not in_code(name)] == []


def test_signatures_are_as_they_are() -> None:
    (workers,) = {
        ", ".join(f"{each.name}={each.default}" for each in dataclasses.fields(kind))
        for kind in (Threads, Processes)
    }
    assert f"`Threads({workers})`" in REFERENCE
    assert f"`Processes({workers})`" in REFERENCE
    assert "`ModelError(reason, code=1011, status=500)`" in REFERENCE
    fields = dataclasses.fields(partway.container.Reply)
    assert [each.name for each in fields] == ["body", "content_type", "headers", "status", "length"]
    assert "`Reply(body, content_type=None, headers={}, status=200, length=None)`" in REFERENCE
    assert Model.max_concurrent_transforms == 1
    assert Model.max_payload_mb == 6


def documented_limits() -> Mapping[str, float]:
    found = {}
    for name, value, _ in rows(section(REFERENCE, "Limits")):
        if name.startswith("`"):
            number, _, unit = value.partition(" ")
            found[name.strip("`")] = float(number) * _UNITS[unit] if unit else int(number)
    return found


def test_every_limit_is_there_with_its_value() -> None:
    named = inspect.get_annotations(limits)
    assert documented_limits() == {name: getattr(limits, name) for name in named}


def test_the_timetable_is_the_shutdowns() -> None:
    times = ShutdownTimes()
    seconds = [float(row[0]) for row in rows(section(REFERENCE, "SIGTERM"))[1:]]
    closing = times.grace + times.spread
    cut = closing + times.hard
    # Handlers and connections; worker processes; tasks and generators of the model; its threads.
    gone = cut + 4 * limits.CANCEL_GRACE + limits.REAP_TIMEOUT + serve.EXIT_GRACE
    assert seconds == [0, times.grace, closing, cut, gone]
    assert gone < 30


def test_every_variable_is_there() -> None:
    documented = {row[0].strip("`") for row in rows(section(REFERENCE, "Environment"))[1:]}
    text = "".join(
        path.read_text("utf-8")
        for folder in ("cli", "hosting")
        for path in (ROOT / "container" / folder).glob("*.py")
    )
    named = set(re.findall(r'"((?:PARTWAY|SAGEMAKER|SM)_[A-Z_]+)"', text))
    assert documented == named
