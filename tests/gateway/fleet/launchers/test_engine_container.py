"""partway.gateway.fleet.launchers.engine_container: its end and its output, whatever the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from partway.gateway.fleet.launchers.engine_answers import EngineState
from partway.gateway.fleet.launchers.engine_client import EngineClient
from partway.gateway.fleet.launchers.engine_container import (
    EngineContainer,
    EngineEnd,
    growing_waits,
)
from partway.gateway.fleet.limits import (
    ENGINE_RETRY_LONGEST,
    ENGINE_RETRY_SHORTEST,
    KILL_TIMEOUT,
    OUTPUT_BURST,
)
from partway.gateway.network.dialling import Address
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.launchers.fake_engine import refusal
from tests.gateway.fleet.waiting import Output, eventually, soon
from tests.gateway.streams.fakes import FakeClock

RUNNING = EngineState(True, 0, False, "", 40123)

Run = Callable[..., Awaitable[EngineContainer]]


@pytest.fixture
def output() -> Output:
    return Output()


@pytest.fixture
def removed() -> list[str]:
    return []


@pytest.fixture
async def run(fake, output, removed) -> AsyncIterator[Run]:
    """Makes containers named "one"; they are followed until their end."""
    clients, containers = [], []

    async def run(clock: object = None) -> EngineContainer:
        client = EngineClient(fake.where, LoopClock())
        clients.append(client)
        await soon(client.create("one", {}))
        await soon(client.start("one"))
        container = EngineContainer(client, "one", RUNNING, removed.append, clock or LoopClock())
        container.pass_output(output.take)
        containers.append(container)
        await fake.container()
        return container

    yield run
    for container in containers:
        if (left := fake.containers.get("one")) is not None:
            left.end(0)
        container.kill()
        await soon(container.wait())
    for client in clients:
        await client.aclose()


# --- Its end -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (EngineEnd(0), "ended with status 0"),
        (EngineEnd(3), "ended with status 3"),
        (EngineEnd(137), "was ended by SIGKILL"),
        (EngineEnd(143), "was ended by SIGTERM"),
        (EngineEnd(128), "ended with status 128"),
        (EngineEnd(255), "ended with status 255"),
        (EngineEnd(137, "no memory is left"), "was ended by SIGKILL: no memory is left"),
        (EngineEnd(None, "was removed"), "was removed"),
    ],
)  # fmt: skip
def test_an_end_in_words(end, words):
    assert str(end) == words


async def test_it_ends_by_itself_and_is_removed(run, fake, removed):
    container = await run()
    fake.containers["one"].out_of_memory = True
    fake.containers["one"].end(137)
    assert container.address == Address("127.0.0.1", 40123)
    end = await soon(container.wait())
    assert str(end) == "was ended by SIGKILL: it used more memory than it may have"
    assert container.ended == end
    assert removed == ["one"]
    assert await soon(container.stop(1)) is True


async def test_what_the_engine_says_of_the_end(run, fake):
    container = await run()
    fake.containers["one"].error = "no such device"
    fake.containers["one"].end(1)
    assert str(await soon(container.wait())) == "ended with status 1: no such device"


async def test_somebody_else_removed_it(run, fake):
    container = await run()
    one = fake.containers.pop("one")
    one.end(137)
    assert str(await soon(container.wait())) == "was removed from its engine by somebody else"


async def test_it_is_stopped_by_sigterm(run, fake):
    container = await run()
    assert await soon(container.stop(30)) is True
    assert str(await soon(container.wait())) == "was ended by SIGTERM"


async def test_sigkill_comes_when_its_time_is_over(run, fake):
    clock = FakeClock()
    container = await run(clock)
    fake.containers["one"].ends_by = frozenset({"SIGKILL"})
    stopping = asyncio.create_task(container.stop(30))
    await eventually(lambda: fake.asked[-1] == "POST /containers/one/kill")
    clock.advance(29)
    assert fake.containers["one"].running
    clock.advance(1)
    assert await soon(stopping) is False
    assert str(await soon(container.wait())) == "was ended by SIGKILL"


async def test_one_that_was_killed_was_not_stopped(run):
    container = await run()
    container.kill()
    assert await soon(container.stop(30)) is False


async def test_an_engine_that_cannot_kill_it(run, fake, removed):
    clock = FakeClock()
    container = await run(clock)
    fake.containers["one"].ends_by = frozenset()
    container.kill()
    await eventually(lambda: fake.asked[-1] == "POST /containers/one/kill")
    clock.advance(KILL_TIMEOUT)
    await eventually(lambda: len(clock.armed))
    clock.advance(KILL_TIMEOUT)
    end = await soon(container.wait())
    assert str(end) == "could not be killed: its engine does not report its end"
    assert removed == ["one"]


# --- The engine comes and goes -------------------------------------------------------------------


async def test_an_engine_that_goes_away_is_no_end(run, fake, caplog):
    container = await run()
    for _ in range(3):
        await fake.stop()
        await eventually(lambda: "about a container again" in caplog.text)
        caplog.clear()
        fake.asked.clear()
        await fake.start()
        await fake.container()
    fake.containers["one"].end(3)
    assert str(await soon(container.wait())) == "ended with status 3"


async def test_its_end_while_the_engine_was_away(run, fake):
    container = await run()
    await fake.stop()
    fake.containers["one"].end(3)
    await fake.start()
    assert str(await soon(container.wait())) == "ended with status 3"


async def test_sigterm_is_sent_once_the_engine_is_back(run, fake):
    container = await run()
    await fake.stop()
    stopping = asyncio.create_task(container.stop(30))
    await asyncio.sleep(0)
    await fake.start()
    assert await soon(stopping) is True


async def test_killed_it_is_over_in_seconds_though_the_engine_is_away(run, fake, removed):
    clock = FakeClock()
    container = await run(clock)
    await fake.stop()
    container.kill()
    for _ in range(2):
        await eventually(lambda: clock.armed)
        clock.advance(KILL_TIMEOUT)
    ending = asyncio.create_task(container.wait())
    await eventually(lambda: clock.advance(1) or ending.done())
    assert str(ending.result()) == "could not be killed: its engine does not report its end"
    assert removed == ["one"]


async def test_a_container_that_somebody_has_started_anew_has_not_ended(run, fake, caplog):
    container = await run()
    one = fake.containers["one"]

    async def start_anew() -> None:
        one.running = True

    fake.answers["GET /containers/one/json"] = start_anew
    one.end(3)
    await eventually(lambda: "but says that it still runs" in caplog.text)
    fake.answers.clear()
    one.end(4)
    assert str(await soon(container.wait())) == "ended with status 4"


def test_an_engine_is_asked_less_and_less_often():
    waits = growing_waits()
    found = [next(waits) for _ in range(10)]
    assert found[0] == ENGINE_RETRY_SHORTEST
    assert found == sorted(found)
    assert found[-1] == ENGINE_RETRY_LONGEST


# --- What it prints ------------------------------------------------------------------------------


async def test_what_it_prints_comes_once_and_in_order(run, fake, output):
    container = await run()
    one = fake.containers["one"]
    said = b""
    for number in range(6):
        line = b"line %d\n" % number
        one.says(line, 1 + number % 2)
        said += line
        await eventually(lambda: output.data == said)  # noqa: B023 (called in its own round only)
        if number % 2:
            await fake.stop()
            line = b"said while the engine was away\n"
            one.says(line)
            said += line
            await fake.start()
    one.says(b"last words")
    one.end(0)
    await soon(container.wait())
    assert output.data == said + b"last words"


async def test_one_that_prints_without_end_is_read_at_a_pace(run, fake, output):
    clock = FakeClock()
    container = await run(clock)
    one = fake.containers["one"]
    for _ in range(16):
        one.says(b"x" * (OUTPUT_BURST // 4))
    await eventually(lambda: len(output.data) >= OUTPUT_BURST and clock.armed)
    assert len(output.data) < 3 * OUTPUT_BURST
    before = len(output.data)
    clock.advance(1)
    await eventually(lambda: len(output.data) > before)
    one.end(0)
    await soon(container.wait())
    assert len(output.data) == 4 * OUTPUT_BURST, "once it has ended there is no pace"


async def test_output_that_the_engine_does_not_keep(run, fake, output, caplog):
    fake.answers["GET /containers/one/logs"] = refusal(501, "configured logging driver does not")
    container = await run()
    fake.containers["one"].end(0)
    assert str(await soon(container.wait())) == "ended with status 0"
    assert "container's output is lost" in caplog.text
