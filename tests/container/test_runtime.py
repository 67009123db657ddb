"""The surface of the contract's section 1.1: routes, refusals, bodies, deadlines."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import connect

from partway.container.errors import Busy, ModelError
from partway.container.health import Health
from partway.container.limits import HEAD_JOINED_UP_TO
from partway.container.model import Model, Opening, Reply, Request
from partway.container.models.echo import Echo
from partway.container.routes import check_kinds, takes_invocations
from partway.container.runtime import Runtime
from partway.container.stream import Stream
from tests.container.wire import (
    PATIENCE,
    STREAM,
    RawClient,
    ScriptedModel,
    raw_client,
    raw_stream,
    serving,
    until,
    upgrade_request,
)
from tests.frame_factory import BINARY, KEY, TEXT, close, frame

pytestmark = pytest.mark.usefixtures("no_leaks")


@asynccontextmanager
async def runtime(model: Model | None = None, **options: Any) -> AsyncIterator[int]:
    """A runtime with other limits than a process has; gives its port."""
    health = Health(lambda: True)
    health.set_loaded()
    runtime = Runtime(model or Echo(), health, **options)
    listener = await asyncio.get_running_loop().create_server(runtime.http.protocol, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await runtime.http.shutdown(0.1)


async def ask(port: int, request: bytes) -> bytes:
    """The whole answer to a request; the server ends the connection."""
    async with raw_client(port) as client:
        client.send(request)
        async with asyncio.timeout(PATIENCE):
            return await client.eof()


def status_of(head: bytes) -> int:
    return int(head.split(b" ", 2)[1])


# --- Routes --------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_ping_answers_200_with_nothing(method: str) -> None:
    async with serving() as (_, port):
        request = f"{method} /ping HTTP/1.1\r\nHost: c\r\nX-Extra: yes\r\nConnection: close\r\n\r\n"
        head, _, body = (await ask(port, request.encode())).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"Content-Length: 0" in head
    assert body == b""


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("DELETE /ping", 405),
        ("GET /invocations", 405),
        ("GET /", 404),
        ("GET /ping/", 404),
        ("GET //ping", 404),
        ("GET /p%69ng", 404),
        ("GET /x/../ping", 404),
        ("GET /ping?verbose=1", 200),
        (f"GET {STREAM}", 426),
        (f"POST {STREAM}", 426),
    ],
)
async def test_routes(line: str, status: int) -> None:
    async with serving() as (_, port):
        request = f"{line} HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
        answer = await ask(port, request.encode())
    assert status_of(answer) == status
    if status == 405:
        assert b"\r\nAllow: " in answer
    if status == 426:
        assert b"\r\nUpgrade: websocket\r\n" in answer


async def test_a_connection_carries_one_request_after_another() -> None:
    async with serving() as (_, port), raw_client(port) as client:
        for _ in range(3):
            client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nhi")
        for _ in range(3):
            assert status_of(await client.head()) == 200
            assert await client.reader.readexactly(2) == b"hi"


# --- Upgrades ------------------------------------------------------------------------------------


async def test_the_101_is_what_the_rfc_says() -> None:
    extras = {
        "Sec_WebSocket_Extensions": "permessage-deflate; client_max_window_bits",
        "Sec_WebSocket_Protocol": "payloadpart.v1.raw",
        "X_Unknown": "ignored",
    }
    async with serving() as (_, port), raw_client(port) as client:
        client.send(upgrade_request(f"{STREAM}?model=x", **extras))
        head = (await client.head()).lower()
    assert head.startswith(b"http/1.1 101 switching protocols\r\n")
    assert b"\r\nupgrade: websocket\r\n" in head
    assert b"\r\nconnection: upgrade\r\n" in head
    # RFC 6455 §1.3's example.
    assert b"\r\nsec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n" in head
    for absent in (b"extensions", b"sec-websocket-protocol", b"content-", b"transfer-encoding"):
        assert absent not in head


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Upgrade": "h2c"}, 426),
        ({"Upgrade": None, "Connection": None}, 426),
        ({"Connection": "keep-alive"}, 400),
        ({"Sec_WebSocket_Version": "8"}, 426),
        ({"Sec_WebSocket_Version": None}, 426),
        ({"Sec_WebSocket_Key": None}, 400),
        ({"Sec_WebSocket_Key": "c2hvcnQ="}, 400),
        ({"Sec_WebSocket_Key": "not base64 at all!!!!!!!"}, 400),
        ({"Content_Length": "5"}, 400),
        ({"Transfer_Encoding": "chunked"}, 400),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
async def test_upgrades_that_are_refused(changes: dict[str, str | None], status: int) -> None:
    async with serving() as (_, port), raw_client(port) as client:
        client.send(upgrade_request(**changes))
        head = await client.head()
        client.send(b"0\r\n\r\n")  # the end of whichever body was announced
    assert status_of(head) == status
    if status == 426:
        assert b"\r\nUpgrade: websocket\r\n" in head or b"Sec-WebSocket-Version: 13" in head


async def test_an_upgrade_over_http_1_0_is_refused() -> None:
    async with serving() as (_, port):
        answer = await ask(port, upgrade_request().replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert status_of(answer) == 400


@pytest.mark.parametrize("path", ["/nowhere", "/ping", STREAM + "/"])
async def test_what_follows_a_refused_upgrade_is_not_http(path: str) -> None:
    smuggled = b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 8\r\n\r\nsmuggled"
    async with serving() as (_, port):
        answer = await ask(port, upgrade_request(path) + smuggled)
    assert b"Connection: close" in answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"smuggled" not in answer


@pytest.mark.parametrize("size", [10, 700_000], ids=["short", "long"])
async def test_frames_right_behind_the_head_are_not_lost(size: int) -> None:
    data = frame(TEXT, b"early", mask=KEY) + frame(BINARY, bytes(size), mask=KEY)
    async with serving() as (_, port), raw_client(port) as client:
        client.send(upgrade_request() + data + close(1000, mask=KEY))
        assert status_of(await client.head()) == 101
        assert await client.frames(2) == [(TEXT, b"early", True), (BINARY, bytes(size), True)]
        assert (await client.frame()).close_code == 1000
        assert await client.eof() == b""


@pytest.mark.clause("1.1-8")
async def test_text_that_is_not_utf_8() -> None:
    async with (
        serving() as (_, port),
        connect(f"ws://127.0.0.1:{port}{STREAM}", compression=None) as client,
    ):
        await client.send(b"\xff", text=True)
        await client.wait_closed()
        assert client.close_code == 1007


async def test_a_stream_is_known_while_it_is_open() -> None:
    async with serving() as (server, port):
        async with raw_stream(port) as client:
            client.send_frame(TEXT, b"x")
            await client.frame()
            assert len(server.runtime.activity.streams) == 1
            assert not server.runtime.activity.idle
            client.send_close(1000)
            await client.eof()
        await until(lambda: server.runtime.activity.idle)
        assert not server.runtime.activity.streams


# --- Pages -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", ["Origin: https://page.example", "origin: null", "Sec-Fetch-Site: cross-site"]
)
async def test_a_page_cannot_ask_for_an_invocation(header: str) -> None:
    """A browser asks nobody before it sends a POST whose body passes for text."""
    asked: list[Request] = []

    async def note(request: Request) -> Reply:
        asked.append(request)
        return Reply(b"")

    async with serving(ScriptedModel(on_invoke=note)) as (_, port):
        for line, body in (
            ("POST /invocations", b"hello"),
            ("GET /invocations", b""),
            ("GET /execution-parameters", b""),
        ):
            head = f"{line} HTTP/1.1\r\nHost: c\r\n{header}\r\nContent-Type: text/plain\r\n"
            length = f"Content-Length: {len(body)}\r\n\r\n"
            answer = await ask(port, (head + length).encode() + body)
            assert status_of(answer) == 403
            assert answer.endswith(
                b"\r\n\r\na container takes requests from its platform, not from web pages\n"
            )
        ping = f"GET /ping HTTP/1.1\r\nHost: c\r\nConnection: close\r\n{header}\r\n\r\n"
        assert status_of(await ask(port, ping.encode())) == 200
    assert asked == []


# --- Bodies --------------------------------------------------------------------------------------

CHUNKED = b"POST /invocations HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"


async def whole(request: Request) -> Reply:
    """A model that answers once it has everything."""
    return Reply(await request.read(), "text/plain")


async def test_a_body_without_length_is_empty() -> None:
    async with serving() as (_, port):
        answer = await ask(
            port, b"POST /invocations HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"
        )
    assert status_of(answer) == 200
    assert b"Content-Length: 0" in answer


async def test_an_announced_body_that_is_too_large_is_refused_before_it_comes() -> None:
    async with runtime(max_body=10) as port, raw_client(port) as client:
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 11\r\n\r\n")
        head = await client.head()
        client.send(bytes(11))
    assert status_of(head) == 413
    assert b"Connection: close" in head


@pytest.mark.parametrize(
    ("sent", "items"),
    [
        (b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", [b"a", b"bc"]),
        (b"Content-Length: 3\r\n\r\nabc", [b"abc"]),
    ],
    ids=["chunks", "length"],
)
async def test_chunks_of_a_body_are_never_joined(sent: bytes, items: list[bytes]) -> None:
    found = []

    async def read(request: Request) -> bytes:
        found.extend([item async for item in request.body])
        return b""

    async with runtime(ScriptedModel(on_invoke=read)) as port:
        await ask(port, b"POST /invocations HTTP/1.1\r\nHost: c\r\nConnection: close\r\n" + sent)
    assert found == items


async def test_a_chunked_body_that_is_too_large() -> None:
    async with runtime(ScriptedModel(on_invoke=whole), max_body=10) as port:
        answer = await ask(port, CHUNKED + b"b\r\n01234567890\r\n0\r\n\r\n")
    assert status_of(answer) == 413


async def test_a_body_that_turns_out_too_large_cuts_the_answer() -> None:
    async with runtime(max_body=10) as port, raw_client(port) as client:
        client.send(CHUNKED + b"a\r\n0123456789\r\n")
        await client.head()
        assert await client.reader.readexactly(15) == b"a\r\n0123456789\r\n"
        client.send(b"1\r\nx\r\n0\r\n\r\n")
        assert await client.rest() == b""  # the last chunk is missing


async def test_a_body_that_does_not_come() -> None:
    model = ScriptedModel(on_invoke=whole)
    async with runtime(model, body_timeout=0.05) as port, raw_client(port) as client:
        client.send(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 5\r\n\r\n")
        assert status_of(await client.head()) == 408
        client.send(bytes(5))


async def test_a_body_that_dribbles() -> None:
    model = ScriptedModel(on_invoke=whole)
    async with runtime(model, body_timeout=0.2) as port, raw_client(port) as client:
        client.send(CHUNKED)
        head = asyncio.create_task(client.head())
        while not head.done():
            client.send(b"1\r\nx\r\n")
            await asyncio.sleep(0.01)  # this client dribbles
        assert status_of(head.result()) == 408
        client.send(b"0\r\n\r\n")


async def test_a_model_s_own_time_is_not_the_body_s() -> None:
    async def slowly(request: Request) -> Reply:
        await asyncio.sleep(0.1)  # this model is slow
        return await whole(request)

    async with runtime(ScriptedModel(on_invoke=slowly), body_timeout=0.05) as port:
        answer = await ask(port, CHUNKED + b"1\r\nx\r\n0\r\n\r\n" + PING_AND_CLOSE)
    assert status_of(answer) == 200


PING_AND_CLOSE = b"GET /ping HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"


async def test_a_broken_body() -> None:
    async with runtime(ScriptedModel(on_invoke=whole)) as port:
        answer = await ask(port, CHUNKED + b"5\r\nhello\r\nnonsense\r\n")
    assert status_of(answer) == 400


async def test_expect_100_continue() -> None:
    async with serving() as (_, port), raw_client(port) as client:
        client.send(
            b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"hi")
        assert status_of(await client.head()) == 200
        assert await client.reader.readexactly(2) == b"hi"


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_a_model_that_fails_answers_500(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Request) -> Reply:
        raise LookupError("a payload's secret")

    async with runtime(ScriptedModel(on_invoke=fail)) as port:
        answer = await ask(port, CHUNKED + b"0\r\n\r\n")
    assert status_of(answer) == 500
    assert answer.endswith(b"\r\n\r\nthe model failed: LookupError\n")
    (record,) = errors(caplog)
    assert record.exc_info is not None
    assert record.exc_info[0] is LookupError


class NotingTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


async def _items(*items: bytes) -> AsyncIterator[bytes]:
    for each in items:
        yield each


@pytest.mark.parametrize(
    ("body", "first"),
    [
        (lambda: b"short", b"short"),
        (lambda: b"x" * HEAD_JOINED_UP_TO, b"x" * HEAD_JOINED_UP_TO),
        (lambda: b"x" * (HEAD_JOINED_UP_TO + 1), b""),
        (lambda: _items(b"item", b"more"), b"4\r\nitem\r\n"),
        (lambda: _items(b"", b"more"), b""),
    ],
    ids=["short", "longest", "long", "item", "empty item"],
)
async def test_a_head_leaves_with_what_is_short_behind_it(
    body: Callable[[], Any], first: bytes
) -> None:
    async def answer(request: Request) -> Reply:
        return Reply(body())

    health = Health(lambda: True)
    health.set_loaded()
    made = Runtime(ScriptedModel(on_invoke=answer), health)
    transport, protocol = NotingTransport(), made.http.protocol()
    protocol.connection_made(transport)
    protocol.data_received(b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n")
    await until(lambda: transport.writes)
    assert transport.writes[0].partition(b"\r\n\r\n")[2] == first
    protocol.connection_lost(None)
    await made.http.shutdown(0.1)


def coded(body: bytes, *codings: str) -> bytes:
    """A request whose body comes in three chunks."""
    lines = "".join(f"Content-Encoding: {coding}\r\n" for coding in codings).encode()
    third = len(body) // 3 + 1
    pieces = [body[at : at + third] for at in range(0, len(body), third)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    head = b"POST /invocations HTTP/1.1\r\nHost: c\r\nConnection: close\r\n" + lines
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("Deflate", zlib.compress)],
)
@pytest.mark.parametrize("items", [False, True], ids=["whole", "items"])
async def test_a_model_gets_a_coded_body_without_its_coding(
    coding: str, pack: Callable[[bytes], bytes], items: bool
) -> None:
    body = bytes(range(256)) * 500
    seen: list[Request] = []

    async def read(request: Request) -> bytes:
        seen.append(request)
        if items:
            return b"".join([item async for item in request.body])
        return await request.read()

    async with runtime(ScriptedModel(on_invoke=read)) as port:
        answer = await ask(port, coded(pack(body), coding))
    assert answer.endswith(b"\r\n\r\n" + body)
    assert "Content-Encoding" not in seen[0].headers
    assert "Content-Length" not in seen[0].headers
    assert seen[0].length is None


async def test_a_body_without_a_coding_is_left_alone() -> None:
    async with runtime(ScriptedModel(on_invoke=whole)) as port:
        assert (await ask(port, coded(b"as it is", "identity"))).endswith(b"\r\n\r\nas it is")


async def test_instances_are_read_without_their_coding() -> None:
    async def count(request: Request) -> bytes:
        return str(len(await request.instances())).encode()

    async with runtime(ScriptedModel(on_invoke=count)) as port:
        answer = await ask(port, coded(gzip.compress(b'{"instances": [1, 2]}'), "gzip"))
    assert answer.endswith(b"\r\n\r\n2")


@pytest.mark.parametrize(
    ("codings", "body", "status", "reason"),
    [  # no time of day in what is packed: a case has the same name in every process
        (["br"], b"x", 415, "its Content-Encoding is 'br'; it must be gzip or deflate"),
        (["gzip", "br"], b"x", 415, "its Content-Encoding is 'gzip, br'; it must be"),
        (["gzip"], b"not gzip", 400, "it must be one complete gzip body"),
        (["gzip"], gzip.compress(b"cut", mtime=0)[:-4], 400, "it must be one complete gzip body"),
        (["gzip"], gzip.compress(bytes(1001), mtime=0), 413, "it is over 1000 bytes when unpacked"),
    ],
)
async def test_a_coded_body_that_cannot_be_taken(
    codings: list[str], body: bytes, status: int, reason: str
) -> None:
    async with runtime(ScriptedModel(on_invoke=whole), max_body=1000) as port:
        answer = await ask(port, coded(body, *codings))
    assert status_of(answer) == status
    assert reason in answer.decode()


async def test_an_unknown_coding_is_refused_before_the_body_comes() -> None:
    async with runtime() as port, raw_client(port) as client:
        head = b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Encoding: zstd\r\n"
        client.send(head + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        answer = await client.head()
    assert status_of(answer) == 415
    assert b"Accept-Encoding: gzip, deflate" in answer


# --- Server-sent events --------------------------------------------------------------------------


@pytest.fixture
def comments_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event stream that is silent has a comment at once."""
    monkeypatch.setattr("partway.container.replies.EVENT_COMMENT_INTERVAL", 0.01)


COMMENT = b"3\r\n:\n\n\r\n"


class Thinking:
    """A model that answers with events, once a test lets it.

    Args:
        content_type: of its answer.
        length: of its answer, as it states it.
    """

    def __init__(self, content_type: str = "text/event-stream", length: int | None = None) -> None:
        self.has_thought = asyncio.Event()
        self.fault: Exception | None = None
        self.reply = Reply(self._events(), content_type, length=length)

    async def _events(self) -> AsyncIterator[bytes]:
        async with asyncio.timeout(PATIENCE):  # of one task from its beginning to its end
            await self.has_thought.wait()
            if self.fault is not None:
                raise self.fault
            yield b"data: 1\n\n"
            yield b"data: 2\n\n"

    async def invoke(self, request: Request) -> Reply:
        return self.reply


@pytest.mark.parametrize("content_type", ["text/event-stream", "Text/Event-Stream; charset=utf-8"])
async def test_events_that_are_long_in_coming_have_comments_before_them(
    comments_soon: None, content_type: str
) -> None:
    thinking = Thinking(content_type)
    async with (
        runtime(ScriptedModel(on_invoke=thinking.invoke)) as port,
        raw_client(port) as client,
    ):
        client.send(CHUNKED + b"0\r\n\r\n")
        head = await client.head()
        assert head.startswith(b"HTTP/1.1 200 ")
        assert f"Content-Type: {content_type}".encode() in head
        assert await client.reader.readexactly(2 * len(COMMENT)) == 2 * COMMENT
        thinking.has_thought.set()
        body = await client.reader.readuntil(b"\r\n0\r\n\r\n")
    while body.startswith(COMMENT):
        body = body.removeprefix(COMMENT)
    assert body == b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("content_type", "length"),
    [("text/plain", None), ("text/event-stream", 18)],
    ids=["no events", "a stated length"],
)
async def test_what_can_have_no_comment_has_none(
    comments_soon: None, content_type: str, length: int | None
) -> None:
    thinking = Thinking(content_type, length)
    async with (
        runtime(ScriptedModel(on_invoke=thinking.invoke)) as port,
        raw_client(port) as client,
    ):
        client.send(CHUNKED + b"0\r\n\r\n")
        asyncio.get_running_loop().call_later(0.1, thinking.has_thought.set)
        await client.head()
        assert (await client.reader.readuntil(b"data: 1")).strip(b"9\r\n") == b"data: 1"


async def test_a_quick_failure_of_events_is_answered_with_its_status(comments_soon: None) -> None:
    thinking = Thinking()
    thinking.fault = ModelError("too hot", status=400)
    thinking.has_thought.set()
    async with runtime(ScriptedModel(on_invoke=thinking.invoke)) as port:
        assert status_of(await ask(port, POST)) == 400


async def test_events_that_fail_behind_a_comment_are_cut_off(comments_soon: None) -> None:
    thinking = Thinking()
    thinking.fault = ModelError("too hot", status=400)
    async with (
        runtime(ScriptedModel(on_invoke=thinking.invoke)) as port,
        raw_client(port) as client,
    ):
        client.send(CHUNKED + b"0\r\n\r\n")
        await client.head()
        thinking.has_thought.set()
        assert (await client.rest()).replace(COMMENT, b"") == b""


async def test_comments_do_not_lengthen_the_wait_for_the_first_event(comments_soon: None) -> None:
    thinking = Thinking()
    model = ScriptedModel(on_invoke=thinking.invoke)
    async with runtime(model, answer_timeout=0.2) as port, raw_client(port) as client:
        client.send(CHUNKED + b"0\r\n\r\n")
        await client.head()
        assert (await client.rest()).replace(COMMENT, b"") == b""


async def test_a_client_that_leaves_between_comments(
    comments_soon: None, caplog: pytest.LogCaptureFixture
) -> None:
    thinking = Thinking()
    async with (
        runtime(ScriptedModel(on_invoke=thinking.invoke)) as port,
        raw_client(port) as client,
    ):
        client.send(CHUNKED + b"0\r\n\r\n")
        await client.head()
        await client.reader.readexactly(len(COMMENT))
        client.writer.transport.abort()
    assert errors(caplog) == []


# --- Answers that break --------------------------------------------------------------------------


@pytest.mark.parametrize("length", [None, 6, 12], ids=["chunked", "too long", "too short"])
async def test_an_answer_that_breaks_off_does_not_look_whole(
    length: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"begun"
        if length is None:
            raise LookupError
        yield b"ends"

    async def fail(request: Request) -> Reply:
        return Reply(broken(), "text/plain", length=length)

    async with runtime(ScriptedModel(on_invoke=fail)) as port, raw_client(port) as client:
        client.send(CHUNKED + b"0\r\n\r\n")
        await client.head()
        rest = await client.rest()
        assert not rest.endswith(b"0\r\n\r\n")
        assert length is None or len(rest) < length
    assert len(errors(caplog)) == 1


async def test_an_answer_that_is_too_long_from_the_first_is_a_failure() -> None:
    async def fail(request: Request) -> Reply:
        return Reply(_items(b"begun"), "text/plain", length=4)

    async with runtime(ScriptedModel(on_invoke=fail)) as port:
        assert status_of(await ask(port, POST)) == 500


async def test_a_client_that_leaves_is_nobody_s_failure(caplog: pytest.LogCaptureFixture) -> None:
    begun = asyncio.Event()

    async def begin(request: Request) -> Reply:
        begun.set()
        return await whole(request)

    async with serving(ScriptedModel(on_invoke=begin)) as (server, port):
        async with raw_client(port) as client:
            client.send(CHUNKED + b"1\r\nx\r\n")
            await begun.wait()
        await until(lambda: server.runtime.activity.idle)
    assert not errors(caplog)


# --- Deadlines, and what is not HTTP -------------------------------------------------------------


async def dribble(client: RawClient, data: bytes) -> None:
    for byte in data:
        client.send(bytes((byte,)))
        await asyncio.sleep(0.01)  # this client dribbles


@pytest.mark.parametrize("before", [b"", PING_AND_CLOSE.replace(b"close", b"keep-alive")])
async def test_a_head_that_dribbles_is_not_waited_for(before: bytes) -> None:
    async with runtime(head_timeout=0.1) as port, raw_client(port) as client:
        client.send(before)
        if before:
            await client.head()
        dribbling = asyncio.create_task(dribble(client, upgrade_request() * 10))
        async with asyncio.timeout(PATIENCE):
            assert await client.rest() == b""
        dribbling.cancel()


async def test_a_head_that_holds_too_much_is_refused_before_its_end() -> None:
    """64 lines of 8 KiB would hold a megabyte."""
    line = b"x: " + b"v" * 8000 + b"\r\n"
    async with runtime() as port, raw_client(port) as client:
        client.send(b"GET /ping HTTP/1.1\r\nHost: a\r\n" + line * 6)
        assert status_of(await client.rest()) == 431


async def test_a_stream_outlives_the_head_s_deadline() -> None:
    async with runtime(head_timeout=0.3) as port, raw_stream(port) as client:
        await asyncio.sleep(0.4)
        client.send_frame(TEXT, b"still here")
        assert await client.frames(1) == [(TEXT, b"still here", True)]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"GET /ping HTTP/1.1\r\nHost: c\r\nAuthorization: secret\r\nbad header\r\n\r\n", 400),
        (CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"), 400),
        (b"GET /ping HTTP/1.1\r\nHost: c\r\nX: " + b"x" * 10_000 + b"\r\n\r\n", 431),
        (b"GET /ping HTTP/1.1\r\nHost: c\r\n" + b"X: x\r\n" * 200 + b"\r\n", 431),
        (b"GET /ping?" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: c\r\n\r\n", 414),
        (b"GET /ping HTTP/1.1\r\n\r\n", 400),
    ],
    ids=["TLS", "no header", "two lengths", "long header", "many headers", "target", "no Host"],
)
async def test_what_is_not_http_is_refused_and_not_logged(
    request_bytes: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as (_, port):
        answer = await ask(port, request_bytes)
    assert status_of(answer) == status
    assert not errors(caplog)
    assert "secret" not in caplog.text


# --- Answers -------------------------------------------------------------------------------------


class Generating(Model):
    """Answers as it makes the answer."""

    def __init__(self, *items: bytes | str | Exception) -> None:
        self.items = items
        self.go_on = asyncio.Event()

    async def invoke(self, request: Request) -> AsyncIterator[bytes | str]:  # type: ignore[override]
        for item in self.items:
            if isinstance(item, Exception):
                raise item
            yield item
            await self.go_on.wait()


POST = b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.clause("1.1-5")
async def test_a_model_that_yields_is_sent_chunk_by_chunk() -> None:
    model = Generating("é", "", "b")
    async with runtime(model) as port, raw_client(port) as client:
        client.send(POST)
        head = await client.head()
        assert b"\r\nTransfer-Encoding: chunked\r\n" in head
        assert b"\r\nContent-Type: text/plain; charset=utf-8\r\n" in head
        assert b"\r\nServer: partway-container\r\n" in head
        assert await client.reader.readexactly(7) == "2\r\né\r\n".encode()
        model.go_on.set()
        assert await client.reader.readuntil(b"0\r\n\r\n") == b"1\r\nb\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("items", "status", "body"),
    [
        ((LookupError("secret"),), 500, b"the model failed: LookupError\n"),
        ((ModelError("too long", status=400),), 400, b"too long\n"),
        ((Busy("16 jobs wait"),), 503, b"16 jobs wait\n"),
        ((3,), 500, b"the model failed: TypeError\n"),
    ],
)
async def test_a_failure_before_the_first_item_is_answered(
    items: tuple[Any, ...], status: int, body: bytes
) -> None:
    async with runtime(Generating(*items)) as port:
        answer = await ask(port, POST)
    assert status_of(answer) == status
    assert answer.endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize(
    ("answer", "content_type", "body"),
    [
        ("é", b"text/plain; charset=utf-8", "é".encode()),
        (b"\x00", b"application/octet-stream", b"\x00"),
        ("", b"text/plain; charset=utf-8", b""),
        (Reply("{}", "application/json"), b"application/json", b"{}"),
        (Reply(b"x", headers={"Content-Type": "a/b", "X-Own": "1"}), b"a/b", b"x"),
        (Reply(b"x", headers={"content-type": "a/b"}), b"a/b", b"x"),
        (Reply(b"x", "a/b", headers={"server": "another", "DATE": "never"}), b"a/b", b"x"),
    ],
)
async def test_whole_answers(answer: Any, content_type: bytes, body: bytes) -> None:
    async def give(request: Request) -> Any:
        return answer

    async with runtime(ScriptedModel(on_invoke=give)) as port, raw_client(port) as client:
        client.send(POST)
        head = await client.head()
        assert b"\r\nContent-Type: " + content_type + b"\r\n" in head
        assert b"\r\nContent-Length: %d\r\n" % len(body) in head
        names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:-2]]
        assert len(set(names)) == len(names)
        assert b"\r\nServer: partway-container\r\n" in head
        assert b"never" not in head
        assert await client.reader.readexactly(len(body)) == body


@pytest.mark.parametrize(
    "headers", [{"X": "a\0b"}, {"X": "a\r\nY: b"}, {"X ": "a"}, {"": "a"}, {"X": "\x7f"}]
)
async def test_what_is_no_header(headers: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    async def give(request: Request) -> Any:
        return Reply(b"x", headers=headers)

    async with runtime(ScriptedModel(on_invoke=give)) as port:
        assert status_of(await ask(port, POST)) == 500
    assert "must be a name and one line of text" in caplog.text


async def test_what_is_no_content_type(caplog: pytest.LogCaptureFixture) -> None:
    async def give(request: Request) -> Any:
        return Reply(b"x", "text/\x01plain")

    async with runtime(ScriptedModel(on_invoke=give)) as port:
        assert status_of(await ask(port, POST)) == 500
    assert "must be a name and one line of text" in caplog.text


@pytest.mark.parametrize("answer", [None, 3, {"a": 1}, Reply(None)])  # type: ignore[arg-type]
async def test_what_is_no_answer(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def give(request: Request) -> Any:
        return answer

    async with runtime(ScriptedModel(on_invoke=give)) as port:
        got = await ask(port, POST)
    assert status_of(got) == 500
    assert "an answer must be bytes, str or Reply, not" in caplog.text


async def test_what_a_request_says() -> None:
    async def describe(request: Request) -> Reply:
        custom = request.headers["x-amzn-sagemaker-custom-attributes"]
        return Reply(f"{request.content_type} {request.length} {custom}", status=201)

    async with runtime(ScriptedModel(on_invoke=describe)) as port, raw_client(port) as client:
        client.send(
            b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Type: text/csv\r\n"
            b"X-Amzn-SageMaker-Custom-Attributes: trace\r\nContent-Length: 2\r\n\r\nhi"
        )
        assert status_of(await client.head()) == 201
        assert await client.reader.readexactly(16) == b"text/csv 2 trace"


@pytest.mark.clause("1.1-2")
async def test_a_model_that_does_not_answer() -> None:
    ended: list[str] = []

    async def never(request: Request) -> bytes:
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        finally:
            ended.append("cancelled")

    async with runtime(ScriptedModel(on_invoke=never), answer_timeout=0.05) as port:
        answer = await ask(port, POST)
    assert status_of(answer) == 504
    assert answer.endswith(b"the model has not answered within 0.05 s\n")
    assert ended == ["cancelled"]


async def test_an_answer_that_has_begun_may_take_its_time() -> None:
    model = Generating("a", "b")
    async with runtime(model, answer_timeout=0.3) as port, raw_client(port) as client:
        client.send(POST)
        await client.head()
        await asyncio.sleep(0.4)  # more than the time for its head
        model.go_on.set()
        assert (await client.reader.readuntil(b"0\r\n\r\n")).endswith(b"b\r\n0\r\n\r\n")


async def test_work_of_a_client_that_left_is_given_up() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def compute(request: Request) -> bytes:
        begun.set()
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        finally:
            ended.set()

    async with runtime(ScriptedModel(on_invoke=compute)) as port:
        async with raw_client(port) as client:
            client.send(POST)
            await begun.wait()
        async with asyncio.timeout(PATIENCE):
            await ended.wait()


async def test_a_model_without_invocations() -> None:
    class Streams(Model):
        async def stream(self, stream: Stream) -> None: ...

    async with runtime(Streams()) as port:
        answer = await ask(port, POST)
    assert status_of(answer) == 501
    assert answer.endswith(b"this model takes streams, not invocations\n")


def test_an_invoke_that_is_not_async() -> None:
    class Sync(Model):
        def invoke(self, request: Request) -> bytes:  # type: ignore[override]
            return b""

    with pytest.raises(TypeError, match=r"Sync\.invoke answers requests: it must be async def"):
        takes_invocations(Sync())


async def test_execution_parameters() -> None:
    class Tuned(Echo):
        max_concurrent_transforms = 4

    async with runtime(Tuned()) as port:
        answer = await ask(port, request_line("GET /execution-parameters"))
        refused = await ask(port, request_line("POST /execution-parameters"))
    assert status_of(answer) == 200
    assert b"\r\nContent-Type: application/json" in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
        "MaxConcurrentTransforms": 4,
        "BatchStrategy": "MULTI_RECORD",
        "MaxPayloadInMB": 6,
    }
    assert status_of(refused) == 405


@pytest.mark.parametrize(
    "error",
    [SystemExit(3), KeyboardInterrupt(), ConnectionResetError("db"), asyncio.CancelledError()],
    ids=lambda each: type(each).__name__,
)
async def test_what_else_an_invocation_may_raise(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """It is neither the end of the loop nor taken for the client's leaving."""

    async def fail(request: Request) -> bytes:
        raise error

    async with runtime(ScriptedModel(on_invoke=fail)) as port:
        answer = await ask(port, POST)
    assert status_of(answer) == 500
    assert b"\r\n\r\nthe model failed: " in answer
    assert len(errors(caplog)) == 1


async def test_a_model_that_answers_too_late() -> None:
    async def fall_back(request: Request) -> bytes:
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        except asyncio.CancelledError:
            return b"sorry"

    async with runtime(ScriptedModel(on_invoke=fall_back), answer_timeout=0.05) as port:
        assert status_of(await ask(port, POST)) == 504


async def test_none_is_no_item() -> None:
    model = Generating("one", None, "three")  # type: ignore[arg-type]
    model.go_on.set()
    async with runtime(model) as port, raw_client(port) as client:
        client.send(POST)
        await client.head()
        assert not (await client.rest()).endswith(b"0\r\n\r\n")


async def test_an_upgrade_that_is_admitted_while_the_container_stops() -> None:
    admitting, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Echo):
        async def admit(self, opening: Opening) -> None:
            admitting.set()
            await go_on.wait()

    async with serving(Slow()) as (server, port), raw_client(port) as client:
        client.send(upgrade_request())
        await admitting.wait()
        server.runtime.activity.draining = True
        go_on.set()
        assert status_of(await client.head()) == 503


@pytest.mark.parametrize("name", ["load", "healthy", "admit"])
def test_methods_of_the_wrong_kind(name: str) -> None:
    async def is_async(self: Model, *args: object) -> None: ...
    def is_plain(self: Model, *args: object) -> None: ...

    wrong = type("Wrong", (Model,), {name: is_plain if name == "admit" else is_async})
    with pytest.raises(TypeError, match=rf"Wrong\.{name} must be"):
        check_kinds(wrong())


async def test_a_model_that_can_do_nothing() -> None:
    class Typo(Model):
        async def streams(self, stream: Stream) -> None: ...

    with pytest.raises(TypeError, match=r"Typo has neither stream\(\) nor invoke\(\)"):
        Runtime(Typo(), Health(lambda: True))


async def test_nothing_is_continued_over_http_1_0() -> None:
    async with serving() as (_, port):
        answer = await ask(
            port,
            b"POST /invocations HTTP/1.0\r\nHost: c\r\nContent-Length: 2\r\n"
            b"Expect: 100-continue\r\n\r\nhi",
        )
    assert b"100 Continue" not in answer
    assert answer.endswith(b"hi")


def request_line(line: str) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n".encode()


async def test_no_more_than_so_many_at_a_time() -> None:
    async with runtime(max_running=1) as port, raw_stream(port):
        for request in (POST, upgrade_request()):
            answer = await ask(port, request)
            assert status_of(answer) == 503
            assert b"1 streams and requests are under way, and that is the limit" in answer
        assert status_of(await ask(port, request_line("GET /ping"))) == 200
