"""The checks of starting, where the machine has little time."""

from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from partway.gateway.fleet.health import slow_start
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance.checks import startup
from partway.gateway.workbench.conformance.probes import BUILT_IN
from partway.gateway.workbench.conformance.run import Result, Run
from partway.gateway.workbench.conformance.subject import Launched, Subject
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Verdict
from tests.gateway.fleet.waiting import eventually

ACCEPTS = tuple(
    each for each in startup.checks if each.id in ("startup.listens", "startup.accepts")
)


#: Answers /ping with each status that it is told, and then with the last one for ever.
ANSWERS = """
import os, socket, sys
server = socket.create_server(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])))
statuses = sys.argv[1].split()
while statuses:
    connection, _ = server.accept()
    if connection.recv(1000):
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        if status == "end":
            sys.exit(4)
        head = f"HTTP/1.1 {status} Said\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"
        connection.sendall(head.encode())
    connection.close()
"""

READY = tuple(each for each in startup.checks if each.id in ("startup.listens", "startup.ready"))


async def ready(statuses: str) -> Result:
    """Try the check on a container that answers so."""
    launched = Launched([sys.executable, "-c", ANSWERS, statuses])
    try:
        subject = Subject(await launched.start(), process=launched)
        report = await Run(READY, BUILT_IN["echo"], fast=True).run(subject)
    finally:
        await launched.aclose()
    return report.results[-1]


@pytest.mark.parametrize("status", [204, 301, 400, 401, 404, 405, 429, 500, 502, 503, 504])
async def test_no_status_but_200_is_final_while_a_container_starts(status: int) -> None:
    assert (await ready(f"{status} {status} {status} {status} 200")).verdict is Verdict.PASS


async def test_a_container_that_never_says_200_is_told_what_it_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(startup, "_FAST_START", 1.0)
    result = await ready("404")
    assert result.verdict is Verdict.FAIL
    assert result.said == (
        "/ping did not answer with 200 within 1 s; "
        "the last result: 404 Said, without a body, for POST"
    )
    assert "answer GET and POST /ping with 200" in result.remedy


async def test_one_that_ends_is_not_waited_for() -> None:
    result = await ready("502 502 end")
    assert result.verdict is Verdict.FAIL
    assert result.said.startswith("the process ended with status 4; the last result of /ping: ")
    assert result.seconds < startup._FAST_START


async def listens(*command: str) -> Result:
    """Try whether what a command starts listens."""
    launched = Launched([sys.executable, *command])
    try:
        subject = Subject(await launched.start(), process=launched)
        report = await Run(READY[:1], BUILT_IN["echo"], fast=True).run(subject)
    finally:
        await launched.aclose()
    return report.results[0]


async def test_the_remedy_of_a_death_at_an_import_is_about_the_death() -> None:
    result = await listens("-c", "print('loads', flush=True)\nimport module_that_is_not")
    assert result.said.startswith("the process ended with status 1 before it listened on port ")
    assert result.remedy.startswith(
        'find out why the program ended with status 1; it must keep running. Its last lines: "'
    )
    assert result.remedy.endswith("No module named 'module_that_is_not'\"")
    assert "serve" not in result.remedy


async def test_the_remedy_of_a_death_by_a_signal_names_it() -> None:
    result = await listens("-c", "import os; os.kill(os.getpid(), 11)")
    assert result.said.startswith("the process was ended by SIGSEGV before it listened on port ")
    assert result.remedy == (
        "find out why the program was ended by SIGSEGV; it must keep running. It printed nothing: "
        "run the command by itself"
    )


async def test_a_program_that_wants_other_arguments_may_want_serve() -> None:
    usage = "import sys; sys.exit(print('usage: app.py COMMAND') or 2)"
    result = await listens("-c", usage)
    assert '"usage: app.py COMMAND"; the command was run as it is written' in result.remedy
    assert result.remedy.endswith("append it to the command if the program needs it")
    assert "serve" not in (await listens("-c", usage, "serve")).remedy


async def test_a_death_while_ping_is_asked_has_a_remedy_about_the_death() -> None:
    result = await ready("404 404 end")
    assert result.remedy.startswith(
        "find out why the program ended with status 4; it must keep running."
    )


async def test_why_a_container_is_not_ready_is_told_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(startup, "_FAST_START", 60.0)
    for each in ("LOOK_AFTER", "LOOK_INTERVAL", "WARNING_AFTER", "WARNING_INTERVAL"):
        monkeypatch.setattr(slow_start, f"SLOW_START_{each}", 0.1)
    told: list[str] = []
    launched = Launched([sys.executable, "-c", ANSWERS, "404"])
    try:
        subject = Subject(await launched.start(), process=launched)
        run = Run(
            *(READY, BUILT_IN["echo"]), fast=True, on_slow=lambda _, reason: told.append(reason)
        )
        running = asyncio.create_task(run.run(subject))
        await eventually(lambda: told[-1:] == ["/ping: 404 Said, without a body, for POST"])
        running.cancel()
        await asyncio.wait((running,))
    finally:
        await launched.aclose()


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
        "the container accepted the slowest of 32 connections at once after 900 ms, in the best of "
        "3 tries; at the same time connections to a socket of the checks themselves took 640 ms"
    )
