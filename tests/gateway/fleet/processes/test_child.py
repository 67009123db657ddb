"""gateway.fleet.processes.child: a process and its group, on both loops. Shells are containers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from partway.gateway.fleet.processes.child import Child
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.fleet.processes.process_table import marked
from tests.gateway.fleet.waiting import Output, eventually, soon

Start = Callable[..., Awaitable[Child]]


@pytest.fixture
def output() -> Output:
    return Output()


@pytest.fixture
async def start(
    anyio_backend: object, no_leaks: None, leash: Leash, output: Output
) -> AsyncIterator[Start]:
    """Runs shell scripts; none of them is left."""
    started = []

    async def start(script: str, **options: object) -> Child:
        child = Child(output.take, leash)
        await child.start(["/bin/sh", "-c", script], **{"environment": {}, **options})
        started.append(child)
        return child

    yield start
    for child in started:
        if not child.silent.is_set():
            child.kill_group()
            await soon(child.silent.wait())
        await soon(child.exited.wait())
        child.release()


async def test_it_ends_by_itself(start, output, tmp_path):
    child = await start(
        "echo $WORD $PYTHONUNBUFFERED; pwd; echo bad >&2; exit 3",
        environment={"WORD": "hello"},
        cwd=tmp_path,
    )
    await soon(child.exited.wait())
    await soon(child.silent.wait())
    assert child.status == 3
    assert output.data.decode() == f"hello 1\n{tmp_path}\nbad\n"


async def test_its_errors_may_be_taken_apart(anyio_backend, no_leaks, leash, output):
    errors = Output()
    child = Child(output.take, leash, on_errors=errors.take)
    await child.start(["/bin/sh", "-c", "echo good; echo bad >&2"], environment={})
    await soon(child.exited.wait())
    await soon(child.silent.wait())
    child.release()
    assert (output.data, errors.data) == (b"good\n", b"bad\n")


async def test_its_streams_can_be_opened_by_path(start, output):
    """As a container's under Docker can: a socket cannot be opened, and ENXIO ends the program."""
    child = await start(
        "set -e; echo out > /dev/stdout; echo err > /dev/stderr; echo fd > /proc/self/fd/2;"
        "echo appended >> /dev/stderr; readlink /proc/self/fd/0"
    )
    await soon(child.exited.wait())
    await soon(child.silent.wait())
    assert output.data.decode() == "out\nerr\nfd\nappended\n/dev/null\n"
    assert child.status == 0


async def test_more_than_a_pipe_holds_comes_whole_and_in_order(start, output):
    child = await start("i=0; while [ $i -lt 60000 ]; do echo $i; i=$((i+1)); done")
    await soon(child.silent.wait())
    assert output.data == b"".join(b"%d\n" % number for number in range(60_000))


async def test_sigterm_is_for_the_process_alone(start, output):
    child = await start("(trap '' TERM; echo; while :; do sleep 0.02; done) & wait")
    await output.first_line()
    child.terminate()
    await soon(child.exited.wait())
    assert child.status == -signal.SIGTERM
    assert not child.silent.is_set(), "what it has started holds its output"
    child.kill_group()
    await soon(child.silent.wait())


async def test_one_that_ends_at_once_has_a_status(start, output):
    child = await start("echo last; exit 3")
    await soon(child.exited.wait())
    await soon(child.silent.wait())
    assert (child.status, output.data) == (3, b"last\n")


async def test_sigterm_after_its_end_is_for_nobody(start):
    child = await start("exit 0")
    await soon(child.exited.wait())
    child.terminate()
    assert child.status == 0


async def test_its_status_is_known_though_sigterm_meets_its_end(start):
    child = await start("sleep 1000")
    child.kill_group()
    for _ in range(50):  # while it ends; one that looked for the end itself would take the status
        child.terminate()
    await soon(child.exited.wait())
    assert child.status == -signal.SIGKILL


async def test_without_a_program_there_is_no_child(anyio_backend, no_leaks, leash):
    with pytest.raises(FileNotFoundError):
        await Child(lambda data: None, leash).start(["/no/such/program"], environment={})


@pytest.mark.parametrize("turns", range(6))
async def test_of_a_cancelled_start_nothing_is_left(anyio_backend, no_leaks, leash, turns):
    """A loop may have started the process by then."""
    child = Child(lambda data: None, leash)
    command = ["/bin/sh", "-c", "sleep 1000 & wait"]
    starting = asyncio.create_task(child.start(command, environment={}))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    await soon(asyncio.wait((starting,)))
    assert starting.cancelled() or starting.exception() is None
    if not starting.cancelled():  # it was quicker
        child.kill_group()
        await soon(child.exited.wait())
        child.release()
    await eventually(lambda: not marked({child.mark}))


async def test_a_cancelled_start_may_fail_as_well(anyio_backend, no_leaks, leash):
    starting = asyncio.create_task(
        Child(lambda data: None, leash).start(["/no/such/program"], environment={})
    )
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises((asyncio.CancelledError, FileNotFoundError)):
        await soon(starting)


async def test_released_it_holds_nothing(start, output):
    """Somebody who has left the group keeps the output open; that binds nobody."""
    child = await start("setsid sh -c 'echo $$; exec sleep 1000' & exit 0")
    stranger = int(await output.first_line())
    await soon(child.exited.wait())
    child.release()
    await soon(child.silent.wait())
    os.kill(stranger, signal.SIGKILL)
