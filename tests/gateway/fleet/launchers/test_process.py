"""partway.gateway.fleet.launchers.process: real processes, by a clock that the test turns."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from partway.gateway.fleet.health.startup_pace import pinged
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.launchers.process import (
    HOST,
    Command,
    ContainerProcess,
    ProcessEnd,
    free_port,
    launch,
)
from partway.gateway.fleet.limits import (
    KILL_TIMEOUT,
    LAST_OUTPUT_TIMEOUT,
    START_TIMEOUT,
    STOP_GRACE,
)
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.network.dialling import Address
from tests.gateway.fleet.waiting import Output, eventually, is_gone, soon, until_gone
from tests.gateway.streams.fakes import FakeClock

#: A shell's way to stay.
STAY = "while :; do sleep 0.02; done"

#: A container that answers each request with 200, and ends by its first one after that.
SERVER = """
import os, socket
server = socket.create_server(("127.0.0.1", int(os.environ["SAGEMAKER_BIND_TO_PORT"])))
for answer in (b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n", b""):
    connection, _ = server.accept()
    connection.recv(1000)
    connection.sendall(answer)
"""

Start = Callable[..., Awaitable[ContainerProcess]]


@pytest.fixture
def output() -> Output:
    return Output()


@pytest.fixture
async def start(
    anyio_backend: object, no_leaks: None, leash: Leash, clock: FakeClock, output: Output
) -> AsyncIterator[Start]:
    """Runs shell scripts as containers, on the test's clock; none of them is left."""
    started = []

    async def start(script: str, **options: object) -> ContainerProcess:
        command = Command(["/bin/sh", "-c", script], port=1)
        process = await launch(command, leash, output.take, **{"clock": clock, **options})
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        await soon(process.wait())


async def waits_for(clock: FakeClock, seconds: float) -> None:
    """Wait until so long a time from now is waited for."""
    await eventually(lambda: clock.now + seconds in [each.due for each in clock.armed])


async def never(*_: object) -> None:
    await asyncio.get_running_loop().create_future()


# --- Starting ------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1")
async def test_what_it_is_told_and_what_it_says(anyio_backend, no_leaks, leash, output, tmp_path):
    command = Command(
        ["/bin/sh", "-c", "echo $SAGEMAKER_BIND_TO_PORT $WORD; pwd; echo bad >&2; exit 3"],
        port=4321,
        environment={"WORD": "hello"},
        cwd=tmp_path,
    )
    process = await launch(command, leash, output.take)
    assert process.address == Address(HOST, 4321)
    end = await soon(process.wait())
    assert (end, process.ended, process.status, process.pid) == (ProcessEnd(3), end, 3, None)
    assert output.data.decode() == f"4321 hello\n{tmp_path}\nbad\n"


async def test_its_errors_are_taken_apart_where_that_is_asked_for(start, output):
    errors = Output()
    process = await start("echo bad >&2", on_errors=errors.take)
    await soon(process.wait())
    assert (output.data, errors.data) == (b"", b"bad\n")


async def test_its_port_takes_the_place_of_the_placeholder(anyio_backend, no_leaks, leash, output):
    argv = ["/bin/sh", "-c", 'echo "$@"', "sh", "--port={port}", '{"port": 1}', "{{port}}"]
    process = await launch(Command(argv, port=4321), leash, output.take)
    await soon(process.wait())
    assert output.data.decode() == '--port=4321 {"port": 1} {4321}\n'


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (Command(["/no/such/program"], 1), "/no/such/program: there is no such program"),
        (
            Command(["true"], 1, cwd=Path("/no/such/folder")),
            "/no/such/folder: there is no such folder to run 'true' in",
        ),
    ],
)
async def test_what_cannot_be_started_is_no_process(anyio_backend, no_leaks, leash, command, why):
    with pytest.raises(LaunchError) as refused:
        await launch(command, leash, lambda data: None)
    assert str(refused.value) == why


async def test_a_program_is_found_beside_our_python(anyio_backend, no_leaks, leash, output):
    """An environment that is not activated is in no PATH."""
    command = Command([Path(sys.executable).name, "-c", "print(1)"], 1, {"PATH": "/nowhere"})
    process = await launch(command, leash, output.take)
    await soon(process.wait())
    assert output.data == b"1\n"


def test_a_free_port_can_be_listened_on():
    with socket.create_server((HOST, free_port())):
        pass


def test_a_free_port_is_none_that_somebody_may_be_given_meanwhile():
    given = [free_port() for _ in range(50)]
    assert max(given) < 32_768, "where Linux begins to hand them out"
    assert len(set(given)) > 40


def test_a_port_that_is_taken_is_not_given(monkeypatch):
    with socket.create_server((HOST, 0)) as taken:
        ports = (taken.getsockname()[1],)
        monkeypatch.setattr("partway.gateway.fleet.launchers.process._PORTS", ports)
        with socket.create_server((HOST, free_port())):
            pass


# --- Getting ready -------------------------------------------------------------------------------


async def test_it_is_ready_once_that_is_found_out(start, clock):
    told = asyncio.Event()
    process = await start(STAY, readiness=lambda *_: told.wait())
    await waits_for(clock, START_TIMEOUT)
    assert not process.ready.is_set()
    told.set()
    await soon(process.ready.wait())
    assert clock.armed == [], "one that is ready has no deadline"


@pytest.mark.clause("1.1-3")
async def test_it_is_ready_once_it_answers_ping(anyio_backend, no_leaks, leash, output):
    command = Command([sys.executable, "-c", SERVER], free_port())
    process = await launch(command, leash, output.take, readiness=pinged)
    await soon(process.ready.wait())
    reader, writer = await asyncio.open_connection(HOST, command.port)
    writer.write(b"end\r\n")
    assert await soon(process.wait()) == ProcessEnd(0), output.data
    assert await reader.read() == b""
    writer.close()


@pytest.mark.clause("1.1-3")
async def test_one_that_never_listens_is_killed(start, clock):
    process = await start(STAY, readiness=pinged)
    await waits_for(clock, START_TIMEOUT)
    clock.advance(START_TIMEOUT - 0.1)
    assert process.pid is not None
    clock.advance(0.1)
    assert await soon(process.wait()) == ProcessEnd(-signal.SIGKILL, "is not ready after 480 s")
    assert not process.ready.is_set()
    assert clock.armed == []


async def test_one_that_ends_at_once_is_watched_no_longer(start, clock):
    process = await start("exit 1", readiness=never)
    assert await soon(process.wait()) == ProcessEnd(1)
    assert not process.ready.is_set()
    assert clock.armed == []


async def test_nobody_asks_whether_it_is_ready(start, clock):
    process = await start("echo; " + STAY)
    assert not process.ready.is_set()
    assert clock.armed == []


async def test_a_fault_in_finding_out_ends_it(anyio_backend, no_leaks, leash, output):
    async def fault(*_: object) -> None:
        await output.has_line.wait()
        raise ZeroDivisionError

    command = Command(["/bin/sh", "-c", f"echo; {STAY}"], 1)
    process = await launch(command, leash, output.take, readiness=fault)
    with pytest.raises(ExceptionGroup) as caught:
        await soon(process.wait())
    assert caught.group_contains(ZeroDivisionError)
    assert process.ended == ProcessEnd(-signal.SIGKILL)


# --- Ending by itself ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "end", "words"),
    [
        ("exit 0", ProcessEnd(0), "ended with status 0"),
        ("exit 3", ProcessEnd(3), "ended with status 3"),
        ("kill -SEGV $$", ProcessEnd(-signal.SIGSEGV), "was ended by SIGSEGV"),
        ("kill -35 $$", ProcessEnd(-35), "was ended by signal 35"),
    ],
)
async def test_its_end_in_words(start, script, end, words):
    process = await start(script)
    assert await soon(process.wait()) == end
    assert str(process.ended) == words


async def test_its_death_is_noticed_without_a_question(start, output):
    process = await start(f"echo; {STAY}", readiness=lambda *_: output.has_line.wait())
    await soon(process.ready.wait())
    os.kill(process.pid, signal.SIGKILL)
    assert await soon(process.wait()) == ProcessEnd(-signal.SIGKILL)


async def test_what_it_has_started_ends_with_it(start, output):
    process = await start("sleep 1000 & echo $!")
    assert await soon(process.wait()) == ProcessEnd(0)
    await until_gone(int(output.data))


async def test_what_holds_no_output_ends_with_it_too(start, output):
    # Not by a shell: uvloop lets it have its output a second time, and it passes that on.
    start_silent = (
        "import subprocess as s; print(s.Popen(['sleep', '1000'], stdout=-3, stderr=-3).pid)"
    )
    process = await start(f'{sys.executable} -c "{start_silent}"', wait_for_all=True)
    assert await soon(process.wait()) == ProcessEnd(0)
    await until_gone(int(output.data))


async def test_what_it_has_started_can_be_waited_for(start, clock, output):
    """A shell that takes SIGTERM for itself leaves its container behind."""
    process = await start(f"(trap '' TERM; echo; {STAY}) & wait", wait_for_all=True)
    await output.first_line()
    process.terminate()
    ending = asyncio.create_task(process.ends_within(STOP_GRACE))
    await eventually(lambda: process.status == -signal.SIGTERM)
    await waits_for(clock, STOP_GRACE)
    clock.advance(STOP_GRACE)
    assert await soon(ending) is False
    assert (process.pid, process.ended) == (None, None)
    process.kill()
    assert await soon(process.wait()) == ProcessEnd(-signal.SIGTERM)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="Linux tells")
@pytest.mark.parametrize("wait_for_all", [False, True])
async def test_what_has_left_its_group_ends_with_it(start, output, wait_for_all):
    script = f"setsid sh -c '(sleep 1000 & echo $!) & wait; {STAY}' & {STAY}"
    process = await start(script, wait_for_all=wait_for_all)
    stranger = int(await output.first_line())
    process.kill()
    assert await soon(process.wait()) == ProcessEnd(-signal.SIGKILL)
    await until_gone(stranger)


@pytest.mark.parametrize("wait_for_all", [False, True])
async def test_what_cannot_be_found_holds_nothing_up(start, clock, output, wait_for_all):
    process = await start(
        f"env -i setsid sh -c 'echo $$; exec sleep 1000' & {STAY}", wait_for_all=wait_for_all
    )
    stranger = int(await output.first_line())
    try:
        process.kill()
        await waits_for(clock, LAST_OUTPUT_TIMEOUT)
        await eventually(lambda: process._strays._looking is None)
        clock.advance(LAST_OUTPUT_TIMEOUT)
        assert await soon(process.wait()) == ProcessEnd(-signal.SIGKILL)
        assert not is_gone(stranger), "it is out of reach"
    finally:
        os.kill(stranger, signal.SIGKILL)


# --- Being ended ---------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1")
async def test_sigterm_ends_it(start, clock, output):
    process = await start(f"trap 'exit 5' TERM; echo; {STAY}")
    await output.first_line()
    assert await soon(process.stop()) is True
    assert process.ended == ProcessEnd(5)
    assert await soon(process.stop()) is True, "nothing is left to do"
    process.kill()
    assert clock.armed == []


@pytest.mark.clause("1.1-1")
async def test_sigkill_comes_last(start, clock, output):
    process = await start(f"trap 'echo asked' TERM; echo; {STAY}")
    await output.first_line()
    stopping = asyncio.create_task(process.stop())
    await waits_for(clock, STOP_GRACE)
    await eventually(lambda: b"asked" in output.data)
    clock.advance(STOP_GRACE - 0.1)
    assert process.pid is not None
    clock.advance(0.1)
    assert await soon(stopping) is False
    assert process.ended == ProcessEnd(-signal.SIGKILL)
    assert clock.armed == []


async def test_one_that_prints_without_end_can_be_ended(start, output):
    process = await start("while echo more; do :; done")
    await output.first_line()
    assert await soon(process.stop()) is True
    assert process.ended == ProcessEnd(-signal.SIGTERM)
    assert set(output.data.split(b"\n")[:-1]) == {b"more"}


async def test_killed_while_it_is_being_stopped(start, clock, output):
    process = await start(f"trap '' TERM; echo; {STAY}")
    await output.first_line()
    stopping = asyncio.create_task(process.stop())
    await waits_for(clock, STOP_GRACE)
    process.kill()
    process.kill()
    assert await soon(stopping) is True
    assert process.ended == ProcessEnd(-signal.SIGKILL)


async def test_dead_before_it_is_stopped(start):
    process = await start(STAY)
    os.kill(process.pid, signal.SIGKILL)
    assert await soon(process.stop()) is True
    assert process.ended == ProcessEnd(-signal.SIGKILL)


async def test_whoever_stops_waiting_does_not_end_it(start):
    process = await start(STAY)
    waiting = asyncio.create_task(process.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert (waiting.cancelled(), process.ended) == (True, None)


async def test_one_that_cannot_be_killed_is_left(start, clock, output, monkeypatch, caplog):
    """The system refuses to signal a program that has become another user's."""

    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    process = await start("echo; exec sleep 1000")
    await output.first_line()
    pid = process.pid
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", refuse)
        patch.setattr(os, "killpg", refuse)
        stopping = asyncio.create_task(process.stop())
        for seconds in (STOP_GRACE, KILL_TIMEOUT, LAST_OUTPUT_TIMEOUT):
            await waits_for(clock, seconds)
            clock.advance(seconds)
        assert await soon(stopping) is False
    assert process.ended == ProcessEnd(None)
    assert str(process.ended) == "could not be killed, and still runs"
    assert caplog.messages == [f"a process did not end after SIGKILL, and still runs pid={pid}"]
    assert (process.pid, clock.armed) == (None, [])
    process.terminate()  # nothing more is asked of it
    with suppress(ProcessLookupError):  # uvloop kills what it lets go of, and not by os.kill
        os.kill(pid, signal.SIGKILL)
    await until_gone(pid)


@pytest.mark.parametrize("policy", ["asyncio", "uvloop"])
def test_a_loop_that_ends_takes_it_along(leash, policy):
    """Whoever forgets it, or is cancelled before the end, leaves nothing running."""
    module = pytest.importorskip(policy)

    async def forget() -> int:
        process = await launch(Command(["sleep", "1000"], 1), leash, lambda data: None)
        assert process.pid is not None
        return process.pid

    pid = module.run(forget())
    asyncio.run(until_gone(pid))
