"""partway.gateway.fleet.health.ping_pace: apart, but together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from partway.gateway.fleet.health import startup_pace as startup
from partway.gateway.fleet.health.ping_pace import PingPace
from partway.gateway.fleet.health.startup_pace import pinged
from partway.gateway.fleet.launchers.process import HOST, free_port
from partway.gateway.fleet.limits import (
    EXTRA_PING_AFTER,
    PING_TIMEOUT,
    STARTUP_PING_LONGEST,
    STARTUP_PING_SHORTEST,
)
from partway.gateway.network.dialling import Address, OutOfDescriptors
from tests.gateway.fleet.fakes import turns
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

INTERVAL = 10.0


async def waiting(pace):
    task = asyncio.create_task(pace.until_next())
    await turns(3)
    return task


async def behind_its_first_wait(clock):
    pace = PingPace(clock, INTERVAL)
    wait = await waiting(pace)
    clock.advance(INTERVAL)
    await wait
    return pace


async def test_many_part_at_once_stay_apart_and_share_their_moments():
    """Rules 1 and 2."""
    clock = FakeClock(now=1234.56)
    paces = [PingPace(clock, INTERVAL) for _ in range(400)]
    first = [await waiting(pace) for pace in paces]
    moments = {timer.due for timer in clock.armed}
    assert 17 <= len(moments) <= 21  # of a quarter of a second each, in five seconds
    assert all(0.47 * INTERVAL <= moment - clock.now <= INTERVAL for moment in moments)
    clock.advance(INTERVAL)
    await asyncio.gather(*first)
    further = [await waiting(pace) for pace in paces]
    moments = {timer.due for timer in clock.armed}
    assert 5 <= len(moments) <= 9  # in two seconds
    assert all(0.77 * INTERVAL <= moment - clock.now <= INTERVAL for moment in moments)
    clock.advance(INTERVAL)
    await asyncio.gather(*further)
    assert not clock.armed


async def test_a_failure_hastens_it_but_not_without_end():
    """Rule 3."""
    clock = FakeClock()
    pace = await behind_its_first_wait(clock)
    wait = await waiting(pace)
    pace.hurry()
    clock.advance(EXTRA_PING_AFTER / 2)
    pace.hurry()
    await turns(3)
    assert not wait.done()
    clock.advance(EXTRA_PING_AFTER / 2)
    await wait
    wait = await waiting(pace)  # nothing has failed since
    clock.advance(EXTRA_PING_AFTER)
    await turns(3)
    assert not wait.done()
    pace.hurry()
    clock.advance(0)
    await wait


async def test_a_failure_hastens_the_first_too(monkeypatch):
    monkeypatch.setattr("random.uniform", lambda *_: 0.9)
    clock = FakeClock()
    pace = PingPace(clock, INTERVAL)
    wait = await waiting(pace)
    pace.hurry()
    clock.advance(EXTRA_PING_AFTER / 2)
    await turns(3)
    assert not wait.done()
    clock.advance(EXTRA_PING_AFTER / 2)
    await wait


async def test_a_failure_while_it_is_pinged_hastens_the_next():
    clock = FakeClock()
    pace = await behind_its_first_wait(clock)
    pace.hurry()
    wait = await waiting(pace)
    clock.advance(EXTRA_PING_AFTER)
    await wait


async def test_a_short_interval_is_not_waited_beyond():
    clock = FakeClock()
    pace = PingPace(clock, 0.05)
    pace.hurry()
    wait = await waiting(pace)
    clock.advance(0.05)
    await wait


async def test_whoever_waits_may_leave():
    clock = FakeClock()
    pace = PingPace(clock, INTERVAL)
    wait = await waiting(pace)
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert not clock.armed
    pace.hurry()
    assert not clock.armed


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def refusal(status: int, *headers: str) -> bytes:
    head = (f"HTTP/1.1 {status} No", "Content-Length: 0", *headers, "", "")
    return "\r\n".join(head).encode()


class Server:
    """Says one answer after the other, a connection each, and writes down what it is asked.

    Args:
        answers: bytes; none of them leaves a request without an answer until the other side has
            gone.
    """

    def __init__(self, *answers: bytes) -> None:
        self.asked: list[str] = []
        self._answers = list(answers)
        self._server: asyncio.Server
        self.address: Address

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, port)
        self.address = Address(HOST, self._server.sockets[0].getsockname()[1])

    async def aclose(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head.split(b" HTTP")[0].decode())
        writer.write(self._answers.pop(0))
        await reader.read()
        writer.close()


Start = Callable[..., Awaitable[Server]]


@pytest.fixture
async def start(anyio_backend, no_leaks) -> AsyncIterator[Start]:
    servers = []

    async def start(*answers: bytes) -> Server:
        servers.append(Server(*answers))
        await servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        await soon(server.aclose())


async def waits_for(clock: FakeClock, seconds: float) -> None:
    """Wait until nothing is waited for but so long a time."""
    expected = [pytest.approx(seconds)]
    await eventually(lambda: [each.due - clock.now for each in clock.armed] == expected)


async def pass_over(clock: FakeClock, seconds: float) -> None:
    """Wait until so long a time is waited for, and let it pass."""
    await waits_for(clock, seconds)
    clock.advance_to(clock.armed[0].due)


@pytest.mark.clause("1.1-3")
async def test_200_is_enough(start):
    clock = FakeClock()
    server = await start(OK)
    await soon(pinged(server.address, clock))
    assert server.asked == ["GET /ping"]
    assert clock.armed == []


@pytest.mark.clause("1.1-2")
async def test_post_where_get_is_not_allowed(start):
    server = await start(refusal(405), OK)
    await soon(pinged(server.address, FakeClock()))
    assert server.asked == ["GET /ping", "POST /ping"]


@pytest.mark.clause("1.1-3")
@pytest.mark.parametrize(
    "answer",
    [
        refusal(503),
        refusal(404),
        refusal(500),
        b"HTTP/1.1 204 No Content\r\n\r\n",
        refusal(302, "Location: /elsewhere"),
        b"this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 " + b"x" * 20_000,
    ],
)
async def test_everything_else_is_asked_again(start, answer):
    clock = FakeClock()
    server = await start(answer, OK)
    pinging = asyncio.create_task(pinged(server.address, clock))
    await pass_over(clock, STARTUP_PING_SHORTEST)
    await soon(pinging)
    assert server.asked == ["GET /ping"] * 2


@pytest.mark.clause("1.1-2")
async def test_an_answer_that_does_not_come_is_not_waited_for(start):
    clock = FakeClock(0.0)
    server = await start(b"", OK)
    pinging = asyncio.create_task(pinged(server.address, clock))
    await eventually(lambda: server.asked)
    await pass_over(clock, PING_TIMEOUT)
    await pass_over(clock, PING_TIMEOUT / 10)
    await soon(pinging)


async def test_a_body_without_end_is_not_read(start):
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nagain\r\n"
    server = await start(endless)
    await soon(pinged(server.address, FakeClock()))


async def test_one_that_listens_later_is_waited_for(start):
    clock = FakeClock()
    address = Address(HOST, free_port())
    pinging = asyncio.create_task(pinged(address, clock))
    await waits_for(clock, STARTUP_PING_SHORTEST)
    server = Server(OK)
    await server.start(address.port)
    clock.advance(STARTUP_PING_SHORTEST)
    await soon(pinging)
    await server.aclose()


async def test_the_longer_it_takes_the_less_often_it_is_asked(no_leaks):
    clock = FakeClock(0.0)
    with socket.create_server((HOST, 0)) as taken:  # its port is nobody else's meanwhile
        address = Address(HOST, taken.getsockname()[1])
    pinging = asyncio.create_task(pinged(address, clock))
    waits: list[float] = []
    while clock.now < 60:
        waits.append(max(STARTUP_PING_SHORTEST, min(clock.now / 10, STARTUP_PING_LONGEST)))
        await pass_over(clock, waits[-1])
    assert waits[0] == STARTUP_PING_SHORTEST
    assert waits[-1] == STARTUP_PING_LONGEST
    pinging.cancel()
    await asyncio.wait((pinging,))


async def test_what_cannot_be_asked_is_asked_again(anyio_backend, monkeypatch):
    answers = iter([OutOfDescriptors("Too many open files"), None])

    async def ping(*_, **__):
        if (answer := next(answers)) is not None:
            raise answer

    monkeypatch.setattr(startup, "ping", ping)
    clock = FakeClock()
    waiting = asyncio.create_task(pinged(Address(HOST, 1), clock))
    await eventually(lambda: clock.armed)
    clock.advance(STARTUP_PING_SHORTEST)
    await soon(waiting)
