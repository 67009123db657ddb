"""The checks of starting, where the machine has little time."""

from __future__ import annotations

import socket

import pytest

from partway.gateway.dialling import Address
from partway.gateway.workbench.conformance.checks import startup
from partway.gateway.workbench.conformance.probes import BUILT_IN
from partway.gateway.workbench.conformance.run import Run
from partway.gateway.workbench.conformance.subject import Subject
from partway.gateway.workbench.conformance.trial import Trial

ACCEPTS = tuple(
    each for each in startup.checks if each.id in ("startup.listens", "startup.accepts")
)


async def said_of(tries: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said where connections, and those beside them, have taken so many seconds."""
    measure = startup._slowest

    async def measured(trial: Trial) -> tuple[float, float]:
        assert all(seconds > 0 for seconds in await measure(trial))
        return tries.pop(0)

    monkeypatch.setattr(startup, "_slowest", measured)
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listening:
        subject = Subject(Address(*listening.getsockname()))
        report = await Run(ACCEPTS, BUILT_IN["echo"], only=["startup.accepts"]).run(subject)
    assert tries == []
    return report.results[-1].said


async def test_time_that_the_machine_takes_is_not_the_containers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await said_of([(1.1, 0.01), (0.9, 0.66), (1.2, 0.7)], monkeypatch) == ""


async def test_a_container_that_is_late_in_each_try_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = await said_of([(1.1, 0.01), (0.9, 0.64), (1.2, 0.7)], monkeypatch)
    assert said == (
        "of 32 connections at once the slowest was accepted after 900 ms, in the best of 3 tries; "
        "connections of the checks' own, made beside them, took 640 ms"
    )
