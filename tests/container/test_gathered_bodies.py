"""Bodies of predict that nobody has read are received where they stay; all else as ever."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web
from aiohttp.web_protocol import HttpRequestParser
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.container.bounded_heads import BoundedParser
from partway.container.gathered_bodies import GATHERED_UP_TO, GatheredBody, GatheringProtocol
from partway.container.model import Reply, Request
from partway.protocol.limits import KIB
from partway.protocol.unread_bodies import unread_lines
from tests.container.wire import (
    TEXT,
    ScriptedModel,
    open_stream,
    raw_client,
    serving,
    until,
    upgrade_request,
)

pytestmark = pytest.mark.usefixtures("no_leaks")

UNREAD = unread_lines(columns=False)


def post(body: bytes, lines: str = UNREAD) -> bytes:
    head = f"POST /invocations HTTP/1.1\r\nHost: c\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def numbers(size: int, first: int = 0) -> bytes:
    """A body of predict of about so many bytes."""
    return b'{"instances": [[%d%b]]}' % (first, b", 1" * (size // 3))


def test_a_body_is_where_it_came_to() -> None:
    body = GatheredBody(10)
    body.add(b"abc")
    body.room[:4] = b"defg"
    body.filled(4)
    assert body.left == 3
    body.add(b"hij")
    assert (body.left, body.whole()) == (0, b"abcdefghij")


class Wire:
    """A transport, the connection of a bounded parser behind it, and what that has found."""

    _reading_paused = False

    def __init__(self) -> None:
        self.protocol: Any = self
        self.found: list[Any] = []
        self.given: list[int] = []
        loop = asyncio.get_running_loop()

        def theirs() -> HttpRequestParser:
            return HttpRequestParser(
                *(self, loop, 2**18),
                payload_exception=web.RequestPayloadError,
                auto_decompress=False,
            )

        def gathers() -> bool:
            if self.protocol is self:
                GatheringProtocol(self, self, self.parser)  # type: ignore[arg-type]
            return True

        self.parser = BoundedParser(theirs(), theirs, gathers)

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def is_reading(self) -> bool:
        return True

    def pause_reading(self) -> None: ...
    def resume_reading(self, **_: object) -> None: ...

    def data_received(self, data: bytes) -> None:
        self.given.append(len(data))
        self.found += self.parser.feed_data(data)[0]

    async def receive(self, sent: bytes, sizes: list[int], turns: list[bool]) -> None:
        """Read as a loop does: as much as there is, and there is room for."""
        at = turn = 0
        while at < len(sent):
            size = sizes[turn % len(sizes)]
            if self.protocol is self:
                piece = sent[at : at + size]
                self.data_received(piece)
                at += len(piece)
            else:
                room = self.protocol.get_buffer(-1)
                size = min(size, len(room), len(sent) - at)
                room[:size] = sent[at : at + size]
                self.protocol.buffer_updated(size)
                del room
                at += size
            if turns[turn % len(turns)]:
                await asyncio.sleep(0)
            turn += 1
        await asyncio.sleep(0)


#: Bodies: how long they are, and whether nobody has read them.
BODIES = st.lists(
    st.tuples(
        st.integers(1, 100 * KIB)
        | st.integers(GATHERED_UP_TO - 2, GATHERED_UP_TO + 2)
        | st.integers(65 * KIB, 600 * KIB),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(
    bodies=BODIES,
    sizes=st.lists(st.integers(1, 300 * KIB) | st.integers(200, 9000), min_size=1, max_size=4),
    turns=st.lists(st.booleans(), min_size=1, max_size=4),
)
def test_requests_are_what_was_sent_wherever_they_are_cut(
    bodies: list[tuple[int, bool]], sizes: list[int], turns: list[bool]
) -> None:
    said = [bytes([65 + index]) * size for index, (size, _) in enumerate(bodies)]
    sent = b"".join(
        post(body, UNREAD if unread else "") for body, (_, unread) in zip(said, bodies, strict=True)
    )

    async def found() -> list[bytes]:
        wire = Wire()
        await wire.receive(sent, [max(size, len(sent) // 300) for size in sizes], turns)
        assert all(body.is_eof() for _, body in wire.found)
        return [b"".join(body._buffer) for _, body in wire.found]

    assert asyncio.run(found()) == said


async def test_no_more_than_its_beginning_is_given_to_who_parses() -> None:
    wire = Wire()
    sent = post(b"x" * (500 * KIB))
    await wire.receive(2 * sent, [256 * KIB], [False])
    assert wire.given == [256 * KIB, 64 * KIB]
    assert [len(body._buffer) for _, body in wire.found] == [1, 1]


@pytest.mark.parametrize(
    ("size", "lines", "is_gathered"),
    [
        (GATHERED_UP_TO, UNREAD, True),
        (GATHERED_UP_TO + 1, UNREAD, False),
        (60 * KIB, UNREAD, False),
        (GATHERED_UP_TO, "", False),
    ],
    ids=["the longest", "a longer one", "a short one", "one that is read as it comes"],
)
async def test_which_bodies_are_gathered(size: int, lines: str, is_gathered: bool) -> None:
    wire = Wire()
    await wire.receive(post(b"x" * size, lines)[:-1], [10_000], [False])
    assert (wire.parser.gathered is not None) == is_gathered
    ((_, body),) = wire.found
    assert (body.total_bytes < 10_000) == is_gathered


async def test_who_takes_the_connection_over_has_what_comes_then() -> None:
    """Also where a loop goes on to fill the buffers of who had it before, as uvloop does."""
    wire, taken = Wire(), Wire()
    await wire.receive(post(b"x" * 100_000), [10_000], [False])
    before, wire.protocol = wire.protocol, taken
    before.get_buffer(-1)[:5] = b"GET /"
    before.buffer_updated(5)
    assert taken.given == [5]


class Sums(ScriptedModel):
    """A model that adds up each instance."""

    def __init__(self) -> None:
        super().__init__(on_invoke=self.answer)
        self.asked = 0

    async def answer(self, request: Request) -> Reply:
        self.asked += 1
        return Reply(json.dumps([*map(sum, await request.instances())]))


async def answer(client: Any) -> tuple[int, bytes]:
    head = await client.head()
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    return int(head.split()[1]), await client.reader.readexactly(length)


@pytest.mark.clause("1.1-9")
async def test_each_request_of_a_connection_is_answered() -> None:
    sizes = [100_000, 600_000, 10, 70_000, GATHERED_UP_TO, 300_000, 540_000]
    bodies = [numbers(size, index) for index, size in enumerate(sizes)]
    async with serving(Sums()) as (_, port), raw_client(port) as client:
        for body in bodies:
            client.send(post(body))
        for index, body in enumerate(bodies):
            assert await answer(client) == (200, b"[%d]" % (index + body.count(b", 1")))
        client.send(post(b"x" * 200_000))
        status, why = await answer(client)
        assert (status, why[:20]) == (400, b"the body is not JSON")
        client.send(post(bodies[1]))
        assert (await answer(client))[0] == 200


async def test_a_stream_may_follow_on_the_same_connection() -> None:
    async with serving(Sums()) as (_, port), raw_client(port) as client:
        client.send(post(numbers(300_000)))
        assert (await answer(client))[0] == 200
        client.send(upgrade_request())
        assert (await client.head()).startswith(b"HTTP/1.1 101 ")
        await open_stream(client)
        for size in (1, 60_000, 200_000):
            client.send_frame(TEXT, b"x" * size)
            assert await client.frames(1) == [(TEXT, b"x" * size, True)]


async def test_of_a_body_that_is_cut_no_model_hears() -> None:
    model = Sums()
    async with serving(model) as (server, port):
        for body in (numbers(300_000), numbers(300_000)[:-1]):
            async with raw_client(port) as client:
                client.send(post(numbers(100_000)))
                assert (await answer(client))[0] == 200
                client.send(post(body + b" ")[:-1])
                await until(lambda: not server.runtime.activity.idle)
        await until(lambda: server.runtime.activity.idle)
    assert model.asked == 2
