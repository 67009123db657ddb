"""RFC 9113 and RFC 7541 section by section: each frame that may or may not come, in exact bytes.

A case is a connection's state, the bytes that a client says in it, and what becomes of them: the
connection goes on, a stream is reset, or the connection ends. Floods are in ``test_http2_floods``,
requests that are malformed in their headers' text too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import pytest
from hyperframe.frame import RstStreamFrame

from tests.wire.event_messages import part_event
from tests.wire.http2_peers import PREFACE, RawHttp2Client
from tests.wire.http2_streams import RawHttp2Stream, bidirectional_request
from tests.wire.peers import RunningGateway
from tests.wire.test_http2_floods import one_loop

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE = range(6)
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(6, 10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITIZED = 0x4, 0x8, 0x20
WHOLE = END_HEADERS | END_STREAM

GOES_ON = "the connection goes on"
PROTOCOL = "GOAWAY(PROTOCOL_ERROR)"
SIZE = "GOAWAY(FRAME_SIZE_ERROR)"
FLOW = "GOAWAY(FLOW_CONTROL_ERROR)"
CLOSED = "GOAWAY(STREAM_CLOSED)"
RESET_CLOSED = "RST_STREAM(STREAM_CLOSED)"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame (RFC 9113 §4.1), whatever it is."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream.to_bytes(4, "big") + payload


def block(*more: bytes, method: bytes = b"\x82", path: bytes = b"/healthz") -> bytes:
    """A request's header block (RFC 7541 §6): only of the static table and of literals."""
    pseudo = method + b"\x86" + b"\x04" + bytes((len(path),)) + path + b"\x01\x01a"
    return pseudo + b"".join(more)


def literal(name: bytes, value: bytes) -> bytes:
    """A header that goes into no table (RFC 7541 §6.2.2)."""
    return b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "big")


def settings(*pairs: tuple[int, int], flags: int = 0, stream: int = 0) -> bytes:
    return frame(SETTINGS, flags, stream, b"".join(number(k, 2) + number(v) for k, v in pairs))


# --- States of a connection, in which stream 1 has come as far as the name says ------------------

State = Callable[[RunningGateway, RawHttp2Client], Awaitable[object]]


async def is_idle(gateway: RunningGateway, client: RawHttp2Client) -> None:
    await client.ready()


async def is_open(gateway: RunningGateway, client: RawHttp2Client) -> RawHttp2Stream:
    stream = client.request(bidirectional_request())
    await gateway.container.stream()
    assert (await stream.head())[0] == 200
    return stream


async def is_half_closed(gateway: RunningGateway, client: RawHttp2Client) -> None:
    (await is_open(gateway, client)).end()


async def was_reset(gateway: RunningGateway, client: RawHttp2Client) -> None:
    (await is_open(gateway, client)).reset()


async def has_ended(gateway: RunningGateway, client: RawHttp2Client) -> None:
    stream = client.request(bidirectional_request(method="GET", path="/healthz"), end_stream=True)
    assert await stream.ended() == ("END_STREAM",)


async def was_told_to_stop(gateway: RunningGateway, client: RawHttp2Client) -> None:
    stream = client.request(bidirectional_request(method="GET", path="/healthz"))
    assert await stream.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")


class Case(NamedTuple):
    """Bytes in a state, and what becomes of them: see the module's docstring."""

    state: State
    said: bytes
    outcome: str


#: The beginning of an event that is longer than a frame.
BEGUN = part_event(bytes(20_000))[:16_384]
REST = 2**31 - 1 - 65_535  # of the largest window, beyond what it begins with

CASES = {
    # --- Frames, §4 ---
    "4.1 a type that nobody knows": Case(is_idle, frame(0xFA, 0, 0, b"any"), GOES_ON),
    "4.1 flags that mean nothing": Case(is_idle, frame(PING, 0x16, 0, b"12345678"), GOES_ON),
    "4.1 a reserved bit": Case(is_idle, frame(PING, 0, 1 << 31, b"12345678"), GOES_ON),
    "4.2 the largest frame": Case(is_open, frame(DATA, 0, 1, BEGUN), GOES_ON),
    "4.2 one more byte": Case(is_open, frame(DATA, 0, 1, bytes(16_385)), SIZE),
    "4.2 the same of headers": Case(is_idle, frame(HEADERS, WHOLE, 1, bytes(16_385)), SIZE),
    "4.3 PRIORITY in a header block": Case(
        is_idle,
        frame(HEADERS, END_STREAM, 1, block()) + frame(PRIORITY, 0, 1, number(0) + b"\0"),
        PROTOCOL,
    ),
    "4.3 another stream's headers in it": Case(
        is_idle, frame(HEADERS, END_STREAM, 1, block()) + frame(HEADERS, WHOLE, 3, block()),
        PROTOCOL,
    ),
    # --- States of streams, §5.1 ---
    "5.1 DATA on an idle stream": Case(is_idle, frame(DATA, END_STREAM, 1, b"x"), PROTOCOL),
    "5.1 RST_STREAM on one": Case(is_idle, frame(RST_STREAM, 0, 1, number(8)), PROTOCOL),
    "5.1 WINDOW_UPDATE on one": Case(is_idle, frame(WINDOW_UPDATE, 0, 1, number(9)), PROTOCOL),
    "5.1 CONTINUATION on one": Case(
        is_idle, frame(CONTINUATION, END_HEADERS, 1, block()), PROTOCOL
    ),
    "5.1 PRIORITY on one": Case(is_idle, frame(PRIORITY, 0, 1, number(0) + b"\xff"), GOES_ON),
    "5.1 DATA on a half-closed one": Case(is_half_closed, frame(DATA, 0, 1, b"x"), RESET_CLOSED),
    "5.1 HEADERS on one": Case(is_half_closed, frame(HEADERS, WHOLE, 1, block()), RESET_CLOSED),
    "5.1 WINDOW_UPDATE on a half-closed one": Case(
        is_half_closed, frame(WINDOW_UPDATE, 0, 1, number(9)), GOES_ON
    ),
    "5.1 DATA on one that its client has reset": Case(
        was_reset, frame(DATA, END_STREAM, 1, b"test"), RESET_CLOSED
    ),
    "5.1 HEADERS on one that its client has reset": Case(
        was_reset, frame(HEADERS, WHOLE, 1, block()), RESET_CLOSED
    ),
    "5.1 DATA on one that has ended": Case(
        has_ended, frame(DATA, END_STREAM, 1, b"test"), RESET_CLOSED
    ),
    "5.1 an empty one": Case(has_ended, frame(DATA, 0, 1), RESET_CLOSED),
    "5.1 HEADERS on one that has ended": Case(
        has_ended, frame(HEADERS, WHOLE, 1, block()), CLOSED
    ),
    "5.1 CONTINUATION on one that has ended": Case(
        has_ended, frame(CONTINUATION, END_HEADERS, 1, block()), PROTOCOL
    ),
    "5.1 what may come late on one that has ended": Case(
        has_ended,
        frame(WINDOW_UPDATE, 0, 1, number(9))
        + frame(PRIORITY, 0, 1, number(0) + b"\0")
        + frame(RST_STREAM, 0, 1, number(8)),
        GOES_ON,
    ),
    "5.1 DATA that crosses our reset": Case(
        was_told_to_stop, frame(DATA, 0, 1, b"late") + frame(DATA, END_STREAM, 1), GOES_ON
    ),
    "5.1.1 an even stream": Case(is_idle, frame(HEADERS, WHOLE, 2, block()), PROTOCOL),
    "5.1.1 a stream below the last one": Case(
        is_idle, frame(HEADERS, WHOLE, 5, block()) + frame(HEADERS, WHOLE, 3, block()), PROTOCOL
    ),
    "5.5 a type that nobody knows in a header block": Case(
        is_idle, frame(HEADERS, END_STREAM, 1, block()) + frame(0xFA, 0, 0), PROTOCOL
    ),
    # --- Each type of frame, §6 ---
    "6.1 DATA on stream 0": Case(is_open, frame(DATA, 0, 0, b"x"), PROTOCOL),
    "6.1 more padding than DATA": Case(is_open, frame(DATA, PADDED, 1, b"\x06Test"), PROTOCOL),
    "6.2 HEADERS on stream 0": Case(is_idle, frame(HEADERS, WHOLE, 0, block()), PROTOCOL),
    "6.2 more padding than headers": Case(
        is_idle, frame(HEADERS, WHOLE | PADDED, 1, b"\xff" + block()), PROTOCOL
    ),
    "6.2 a priority with the headers": Case(
        is_idle, frame(HEADERS, WHOLE | PRIORITIZED, 1, number(0) + b"\xff" + block()), "200"
    ),
    "6.2 padding with them": Case(
        is_idle, frame(HEADERS, WHOLE | PADDED, 1, b"\x08" + block() + bytes(8)), "200"
    ),
    "6.3 PRIORITY on stream 0": Case(is_idle, frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    "6.3 PRIORITY of 4 bytes": Case(is_idle, frame(PRIORITY, 0, 1, bytes(4)), SIZE),
    "6.4 RST_STREAM on stream 0": Case(is_open, frame(RST_STREAM, 0, 0, number(8)), PROTOCOL),
    "6.4 RST_STREAM of 3 bytes": Case(is_open, frame(RST_STREAM, 0, 1, bytes(3)), SIZE),
    "6.5 SETTINGS on a stream": Case(is_open, settings(stream=1), PROTOCOL),
    "6.5 SETTINGS of 3 bytes": Case(is_idle, frame(SETTINGS, 0, 0, bytes(3)), SIZE),
    # §6.5 has FRAME_SIZE_ERROR; this is h2's word.
    "6.5 an acknowledgement with settings": Case(is_idle, settings((3, 9), flags=ACK), PROTOCOL),
    "6.5.2 neither push nor none": Case(is_idle, settings((2, 2)), PROTOCOL),
    "6.5.2 a window beyond the largest": Case(is_idle, settings((4, 2**31)), FLOW),
    "6.5.2 frames below the least": Case(is_idle, settings((5, 16_383)), PROTOCOL),
    "6.5.2 frames beyond the largest": Case(is_idle, settings((5, 2**24)), PROTOCOL),
    "6.5.2 a setting that nobody knows": Case(is_idle, settings((0xFF, 1)), GOES_ON),
    "6.5.3 a setting twice": Case(is_idle, settings((4, 100), (4, 1)), GOES_ON),
    "6.6 PUSH_PROMISE": Case(
        is_open, frame(PUSH_PROMISE, END_HEADERS, 1, number(2) + block()), PROTOCOL
    ),
    "6.7 PING on a stream": Case(is_open, frame(PING, 0, 1, b"12345678"), PROTOCOL),
    "6.7 PING of 6 bytes": Case(is_idle, frame(PING, 0, 0, b"123456"), SIZE),
    "6.7 an answer that nobody asked for": Case(
        is_idle, frame(PING, ACK, 0, b"12345678"), GOES_ON
    ),
    "6.8 GOAWAY": Case(is_open, frame(GOAWAY, 0, 0, bytes(8) + b"bye"), GOES_ON),
    "6.8 GOAWAY on a stream": Case(is_open, frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL),
    "6.8 GOAWAY of 3 bytes": Case(is_open, frame(GOAWAY, 0, 0, bytes(3)), SIZE),
    "6.8 GOAWAY of 7 bytes": Case(is_open, frame(GOAWAY, 0, 0, bytes(7)), SIZE),
    "6.9 WINDOW_UPDATE of nothing": Case(is_open, frame(WINDOW_UPDATE, 0, 0, number(0)), PROTOCOL),
    # An error of a stream may be treated as one of the connection (§5.4).
    "6.9 the same on a stream": Case(is_open, frame(WINDOW_UPDATE, 0, 1, number(0)), PROTOCOL),
    "6.9 WINDOW_UPDATE of 3 bytes": Case(is_open, frame(WINDOW_UPDATE, 0, 0, bytes(3)), SIZE),
    "6.9.1 the largest window": Case(is_open, frame(WINDOW_UPDATE, 0, 0, number(REST)), GOES_ON),
    "6.9.1 one more byte": Case(is_open, frame(WINDOW_UPDATE, 0, 0, number(REST + 1)), FLOW),
    "6.9.1 one more byte on a stream": Case(
        is_open, frame(WINDOW_UPDATE, 0, 1, number(REST + 1)), "RST_STREAM(FLOW_CONTROL_ERROR)"
    ),
    "6.9.2 a window that becomes negative": Case(
        is_open, settings((4, 0)) + frame(WINDOW_UPDATE, 0, 1, number(9)), GOES_ON
    ),
    "6.10 headers in three frames": Case(
        is_idle,
        frame(HEADERS, END_STREAM, 1, block()[:3])
        + frame(CONTINUATION, 0, 1, block()[3:5])
        + frame(CONTINUATION, END_HEADERS, 1, block()[5:]),
        "200",
    ),
    "6.10 DATA between them": Case(
        is_idle, frame(HEADERS, 0, 1, block()) + frame(DATA, 0, 1, b"x"), PROTOCOL
    ),
    "6.10 CONTINUATION on stream 0": Case(
        is_idle, frame(HEADERS, END_STREAM, 1, block()) + frame(CONTINUATION, END_HEADERS, 0),
        PROTOCOL,
    ),
    "6.10 CONTINUATION behind the last": Case(
        is_idle, frame(HEADERS, END_HEADERS, 1, block()) + frame(CONTINUATION, END_HEADERS, 1),
        PROTOCOL,
    ),
    # --- Codes that nobody knows, §7 ---
    "7 GOAWAY": Case(is_open, frame(GOAWAY, 0, 0, number(0) + number(0xFF)), GOES_ON),
    "7 RST_STREAM": Case(is_open, frame(RST_STREAM, 0, 1, number(0xFF)), GOES_ON),
    # --- Requests, §8 ---
    "8.1 trailers": Case(
        is_idle,
        frame(HEADERS, END_HEADERS, 1, block(method=b"\x83"))
        + frame(DATA, 0, 1, b"test")
        + frame(HEADERS, WHOLE, 1, literal(b"x-test", b"ok")),
        "404",
    ),
    "8.1 trailers that end nothing": Case(
        is_open, frame(HEADERS, END_HEADERS, 1, literal(b"x-test", b"ok")), PROTOCOL
    ),
    "8.1 a pseudo-header among trailers": Case(
        is_open, frame(HEADERS, WHOLE, 1, b"\x82"), PROTOCOL
    ),
    "8.1.1 less than the length": Case(
        is_idle,
        frame(HEADERS, END_HEADERS, 1, block(literal(b"content-length", b"9"), method=b"\x83"))
        + frame(DATA, END_STREAM, 1, b"test"),
        PROTOCOL,
    ),
    "8.1.1 more than the length": Case(
        is_idle,
        frame(HEADERS, END_HEADERS, 1, block(literal(b"content-length", b"3"), method=b"\x83"))
        + frame(DATA, END_STREAM, 1, b"test"),
        PROTOCOL,
    ),
    "8.3.1 no method": Case(is_idle, frame(HEADERS, WHOLE, 1, block(method=b"")), PROTOCOL),
    "8.3.1 two methods": Case(is_idle, frame(HEADERS, WHOLE, 1, b"\x82" + block()), PROTOCOL),
    # --- HPACK: RFC 7541 ---
    "HPACK 2.3.3 an entry that is not there": Case(
        is_idle, frame(HEADERS, WHOLE, 1, block(b"\xbe")), PROTOCOL
    ),
    "HPACK 2.3.3 a name that is not there": Case(
        is_idle, frame(HEADERS, WHOLE, 1, block(b"\x7e\x01a")), PROTOCOL
    ),
    "HPACK 4.2 a change of the table behind headers": Case(
        is_idle, frame(HEADERS, WHOLE, 1, block(b"\x20")), PROTOCOL
    ),
    "HPACK 4.2 changes of the table in front": Case(
        is_idle, frame(HEADERS, WHOLE, 1, b"\x20\x3f\x61" + block()), "200"
    ),
    "HPACK 5.2 padding of more than 7 bits": Case(
        is_idle,
        frame(HEADERS, WHOLE, 1, block(b"\x00\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff")),
        PROTOCOL,
    ),
    "HPACK 5.2 padding of zeros": Case(
        is_idle, frame(HEADERS, WHOLE, 1, block(b"\x00\x85\xf2\xb2\x4a\x84\xff\x83\x49\x50\x90")),
        PROTOCOL,
    ),
    "HPACK 5.2 the end of a string in it": Case(
        is_idle, frame(HEADERS, WHOLE, 1, block(b"\x00\x01a\x84\xff\xff\xff\xff")), PROTOCOL
    ),
    "HPACK 6.1 entry 0": Case(is_idle, frame(HEADERS, WHOLE, 1, block(b"\x80")), PROTOCOL),
    "HPACK 6.2 a literal of each kind": Case(
        is_idle,
        frame(
            HEADERS, WHOLE, 1,
            block(
                b"\x40\x01a\x01b", b"\x7e\x01c", b"\x0f\x2f\x01d",
                b"\x10\x01e\x01f", b"\x1f\x2f\x01g",
            ),
        ),
        "200",
    ),
    "HPACK 6.3 a table beyond the limit": Case(
        is_idle, frame(HEADERS, WHOLE, 1, b"\x3f\xe2\x1f" + block()), PROTOCOL
    ),
}  # fmt: skip


@one_loop
@pytest.mark.parametrize(("state", "said", "outcome"), CASES.values(), ids=CASES)
async def test_what_a_client_says(gateway_for, state, said, outcome):
    gateway = await gateway_for()
    client = await RawHttp2Client.connect(gateway.port)
    gateway.clients.append(client)
    client.start_reading()
    await state(gateway, client)
    stream = client.streams.get(1) or RawHttp2Stream(client, 1, 0, 65_535)
    client.streams[1] = stream
    before = len(client.seen)
    client.send_bytes(said)
    if outcome.startswith("GOAWAY"):
        assert await client.gone() == outcome
        assert await client.eof() in ("EOF", "ABORT")
        return
    if outcome.isdecimal():
        assert (await stream.head())[0] == int(outcome)
    elif outcome.startswith("RST_STREAM"):
        await client.until(lambda: resets(client, before) != [], "a reset")
        assert stream.ends[-1] == outcome
    await client.settled()
    expected = [1] if outcome.startswith("RST_STREAM") else []
    assert resets(client, before) == expected, client.seen[before:]
    assert client.goaway is None
    if state is is_open:  # a neighbour's answer needs a window
        client.send_bytes(settings((4, 65_535)))
    healthy = client.request(
        bidirectional_request(method="GET", path="/healthz"), end_stream=True, stream_id=99
    )
    assert (await healthy.head())[0] == 200


def resets(client: RawHttp2Client, since: int) -> list[int]:
    """Streams that were reset since so many frames."""
    return [each.stream_id for each in client.seen[since:] if isinstance(each, RstStreamFrame)]


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize(
    "said",
    [b"INVALID CONNECTION PREFACE\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
     PREFACE[:-1] + b"!"],
    ids=["no preface", "HTTP/1.1", "nearly"],
)  # fmt: skip
async def test_who_agreed_on_http2_is_told_nothing_in_http_1_1(gateway_for, said):
    """An HTTP/1.1 response would be read as a frame of four megabytes (§3.4)."""
    gateway = await gateway_for(tls=True)
    client = await RawHttp2Client.connect(
        gateway.tls_port, tls=gateway.client_context(), preface=False
    )
    gateway.clients.append(client)
    assert client.alpn == "h2"
    client.send_bytes(said)
    received = b""
    with suppress(ConnectionError):
        received = await client.wire.eof()
    assert b"HTTP/1.1" not in received
    assert received[3:9] == bytes((SETTINGS, 0, 0, 0, 0, 0))
