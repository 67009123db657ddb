"""partway.gateway.client.backoff: which errors lead to another stream, when, and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from partway.gateway.client import (
    ConnectionLost,
    GatewayUnreachable,
    ModelStreamFailed,
    PartwayError,
    StreamEnded,
    StreamRefused,
    connect,
)
from partway.gateway.client.backoff import Reconnecting, reconnecting
from partway.gateway.timing.deadlines import pause
from tests.frame_factory import TEXT, close, frame
from tests.gateway.client.peers import until, url_of
from tests.gateway.streams.fakes import FakeClock
from tests.wire.peers import ENDPOINT, soon

LOST, FAULT = ConnectionLost("lost"), ModelStreamFailed("4000", "mine")
BUSY, UNKNOWN = StreamRefused(429, "Busy", "later"), StreamRefused(400, "Unknown", "never")
DOWN = GatewayUnreachable("down")


class Series:
    """Attempts by a clock that a test turns, of streams that are names."""

    def __init__(self, *openings: PartwayError | None, chance: float = 1.0, **numbers) -> None:
        self.clock = FakeClock()
        self.openings = list(openings)
        #: When each stream was asked for, and how each that was opened was left.
        self.asked: list[float] = []
        self.left: list[type[BaseException] | None] = []
        numbers = {"attempts": None, "first_delay": 1.0, "longest_delay": 60.0} | numbers
        self.attempts = Reconnecting(self.open, **numbers, clock=self.clock, chance=lambda: chance)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        self.asked.append(self.clock.time() - 1000.0)
        error = self.openings.pop(0) if self.openings else None
        if error is not None:
            raise error
        try:
            yield f"stream {len(self.asked)}"
        except BaseException as error:
            self.left.append(type(error))
            raise
        self.left.append(None)

    async def run(self, *ends: BaseException | None, lasting: float = 0.0) -> list[str]:
        """Leave one block after the other by these errors; returns the streams that there were."""
        found: list[str] = []

        async def loop() -> None:
            left = list(ends)
            async for attempt in self.attempts:
                async with attempt as stream:
                    found.append(stream)
                    await pause(self.clock, lasting)
                    if left and (error := left.pop(0)) is not None:
                        raise error

        task = asyncio.create_task(loop())
        try:
            while not task.done():
                await asyncio.sleep(0)
                if self.clock.armed:
                    self.clock.advance_to(self.clock.armed[0].due)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        return found


# --- Which errors ---------------------------------------------------------------------------------


async def test_a_block_that_ends_ends_the_loop():
    series = Series()
    assert await series.run(None) == ["stream 1"]
    assert series.left == [None]


async def test_errors_that_may_pass_lead_to_another_stream():
    series = Series(DOWN, BUSY, None, None, DOWN)
    assert await series.run(LOST, ModelStreamFailed("1012", "again")) == [
        "stream 3",
        "stream 4",
        "stream 6",
    ]
    assert series.left == [ConnectionLost, ModelStreamFailed, None]


@pytest.mark.parametrize("error", [FAULT, StreamEnded("done"), ZeroDivisionError("mine")])
async def test_any_other_error_is_raised(error):
    series = Series()
    with pytest.raises(type(error)) as caught:
        await series.run(LOST, error)
    assert caught.value is error
    assert series.left == [ConnectionLost, type(error)]


async def test_a_refusal_that_will_not_pass_is_raised():
    series = Series(BUSY, UNKNOWN)
    with pytest.raises(StreamRefused, match="never"):
        await series.run()
    assert len(series.asked) == 2


async def test_an_opener_that_is_wrong_is_not_tried_again():
    def wrong() -> None:
        raise ValueError("url")

    attempts = reconnecting(wrong)
    with pytest.raises(ValueError, match="url"):
        async with await anext(attempts):
            pytest.fail("a stream opened")
    with pytest.raises(StopAsyncIteration):
        await anext(attempts)


async def test_a_group_is_followed_if_all_of_it_may_pass():
    series = Series()
    inner = ExceptionGroup("", [LOST, ConnectionLost("too")])
    assert len(await series.run(ExceptionGroup("tasks", [LOST, inner]))) == 2
    with pytest.raises(ExceptionGroup):
        await Series().run(ExceptionGroup("tasks", [LOST, FAULT]))
    with pytest.raises(ExceptionGroup):
        await Series().run(ExceptionGroup("tasks", [LOST, ValueError()]))


async def test_tasks_that_use_the_stream_side_by_side():
    series = Series()
    streams = []

    async def talk(stream: str) -> None:
        streams.append(stream)
        if len(streams) == 1:
            raise LOST

    async def loop() -> None:
        async for attempt in series.attempts:
            async with attempt as stream, asyncio.TaskGroup() as tasks:
                tasks.create_task(talk(stream))

    task = asyncio.create_task(loop())
    await until(lambda: bool(series.clock.armed), "the delay")
    series.clock.advance(1.0)
    await soon(task)
    assert streams == ["stream 1", "stream 2"]


async def test_what_is_not_entered_opens_nothing():
    """A body may be left before its ``async with``: nobody would close what were open by then."""
    series = Series()
    async for _ in series.attempts:
        break
    assert series.asked == []


async def test_an_attempt_that_is_not_entered_is_an_error():
    """It is neither one that has gone well, nor one to be followed at once by another."""
    series = Series()
    with pytest.raises(
        RuntimeError, match="the last attempt was not entered; each attempt must be"
    ):
        async for _ in series.attempts:
            pass


async def test_an_attempt_is_for_one_block():
    series = Series()
    async for attempt in series.attempts:
        async with attempt:
            with pytest.raises(RuntimeError, match="an attempt was entered twice"):
                await attempt.__aenter__()
    assert series.left == [None]


# --- When -----------------------------------------------------------------------------------------


async def test_delays_double_up_to_the_longest():
    series = Series(*[DOWN] * 6, first_delay=1.0, longest_delay=10.0)
    await series.run()
    assert series.asked == [0, 1, 3, 7, 15, 25, 35]


async def test_the_log_says_why_and_when(caplog):
    caplog.set_level("INFO", "partway.client")
    await Series(DOWN, first_delay=2.0).run()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "a stream failed next_in=2.0 error=down"


@pytest.mark.parametrize(("chance", "share"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
async def test_up_to_half_of_a_delay_is_left_to_chance(chance, share):
    series = Series(DOWN, DOWN, chance=chance, first_delay=4.0)
    await series.run()
    assert series.asked == [0, 4 * share, 12 * share]


async def test_delays_grow_on_after_a_stream_that_was_short():
    series = Series(DOWN, None, DOWN)
    await series.run(LOST, lasting=59.0)
    assert series.asked == [0, 1, 1 + 59 + 2, 1 + 59 + 2 + 4]


async def test_a_stream_that_was_well_starts_the_delays_anew():
    series = Series(DOWN, DOWN, None, DOWN, attempts=3)
    await series.run(LOST, lasting=60.0)
    assert series.asked == [0, 1, 3, 3 + 60 + 1, 3 + 60 + 1 + 2]


async def test_a_thousand_failures_make_no_number_too_large():
    series = Series(*[DOWN] * 1100, longest_delay=10.0)
    await series.run()
    assert series.asked[-1] - series.asked[-2] == 10.0


async def test_without_a_delay():
    series = Series(DOWN, DOWN, first_delay=0.0, longest_delay=0.0)
    await series.run()
    assert series.asked == [0, 0, 0]


async def test_who_is_cancelled_in_a_delay_has_no_stream():
    series = Series(DOWN)
    attempt = await anext(series.attempts)
    task = asyncio.create_task(attempt.__aenter__())
    await until(lambda: bool(series.clock.armed), "the delay")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert series.clock.armed == []
    assert len(series.asked) == 1


# --- How often ------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 3])
async def test_the_last_error_is_raised(attempts):
    last = GatewayUnreachable("the last")
    series = Series(*[DOWN] * (attempts - 1), last, attempts=attempts)
    with pytest.raises(GatewayUnreachable, match="the last") as caught:
        await series.run()
    assert caught.value is last
    assert len(series.asked) == attempts
    with pytest.raises(StopAsyncIteration):
        await anext(series.attempts)


@pytest.mark.parametrize(("longest_delay", "lasting"), [(0.0, 0.0), (1.0, 1.0), (1.0, 29.0)])
async def test_streams_that_fail_soon_are_given_up_however_short_the_delays(longest_delay, lasting):
    series = Series(attempts=3, first_delay=0.0, longest_delay=longest_delay)
    with pytest.raises(ConnectionLost):
        await series.run(*[LOST] * 9, lasting=lasting)
    assert len(series.asked) == 3


async def test_without_a_delay_others_get_their_turn():
    series = Series(*[DOWN] * 3, first_delay=0.0, longest_delay=0.0)
    others: list[int] = []

    async def watch() -> None:
        while not series.left:
            others.append(len(series.asked))
            if series.clock.armed:
                series.clock.advance(0.0)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    async for attempt in series.attempts:
        async with attempt:
            pass
    await watching
    assert {1, 2, 3} <= set(others)


async def test_streams_that_fail_count_as_those_that_do_not_open():
    series = Series(DOWN, None, DOWN, None, attempts=4)
    with pytest.raises(ConnectionLost):
        await series.run(LOST, LOST)
    assert len(series.asked) == 4


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"attempts": 0}, "attempts: 0 was given; it must be 1 or more, or None"),
        ({"first_delay": -1}, "first_delay: -1 was given; it must be from 0 to longest_delay"),
        ({"first_delay": 40}, "first_delay: 40 was given; .* which is 30"),
        ({"first_delay": float("nan")}, "first_delay: nan"),
    ],
)
async def test_numbers_out_of_their_range(numbers, message):
    with pytest.raises(ValueError, match=message):
        reconnecting(lambda: None, **numbers)


# --- With a gateway -------------------------------------------------------------------------------


async def test_a_stream_that_is_lost_is_opened_again(transport, gateway_for, container):
    answers: list[str | bytes] = []

    async def talk() -> None:
        attempts = reconnecting(
            lambda: connect(url, ENDPOINT, transport=transport), first_delay=0.001
        )
        async for attempt in attempts:
            async with attempt as stream:
                answers.append(await stream.ask("hello"))
                break

    gateway = await gateway_for()
    url = url_of(gateway)
    talking = asyncio.create_task(talk())
    (await container.stream()).reset()
    model = await container.stream()
    await model.frame()
    model.send(frame(TEXT, b"hi"))
    await model.until_close()
    model.send(close(1000))
    model.end()
    await soon(talking)
    assert answers == ["hi"]
    await until(lambda: sum(gateway.causes().values()) == 2, "both ends")
    assert gateway.causes() == {"container_lost": 1, "client_finished": 1}
