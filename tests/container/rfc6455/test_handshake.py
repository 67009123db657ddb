"""The opening handshake, the server's side (RFC 6455 §4.2)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os

import h11
import pytest

from tests.container.rfc6455.subjects import PATIENCE, Subject, sent, sent_close
from tests.container.wire import STREAM, RawClient, raw_client, upgrade_request
from tests.frame_factory import PING, TEXT, read_frames

KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # RFC 6455 §1.3's example

#: What a client might send behind a request that it thinks is granted.
EAGER = sent(TEXT, b"eager") + sent(PING, b"eager") + sent_close(1000)


def accept_of(key: str) -> str:
    """RFC 6455 §4.2.2, step 5.4."""
    digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
    return base64.b64encode(digest).decode()


def changed(old: str, new: str) -> bytes:
    """An upgrade's bytes with one part of them in another's place."""
    request = upgrade_request().decode()
    assert request.count(old) == 1
    return request.replace(old, new).encode()


async def answer(client: RawClient, request: bytes) -> tuple[h11.Event, bytes, bytes]:
    """A request's answer as h11 reads it: its head, its body, and all that comes behind it.

    What is behind a 101 is what comes up to the end of the connection.
    """
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "c"), ("Upgrade", "x")]))
    http.send(h11.EndOfMessage())
    client.send(request)
    async with asyncio.timeout(PATIENCE):
        received = await client.eof()
    assert received, "no answer"
    http.receive_data(received)
    head = http.next_event()
    if isinstance(head, h11.InformationalResponse):
        return head, b"", received.partition(b"\r\n\r\n")[2]
    body = b""
    while isinstance(event := http.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage), event
    return head, body, received.partition(b"\r\n\r\n")[2][len(body) :]


def fields(head: h11.Event) -> dict[str, str]:
    pairs = [(name.decode(), value.decode()) for name, value in head.headers]
    assert len(dict(pairs)) == len(pairs), f"one of them twice: {pairs}"
    return dict(pairs)


# --- Granted -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_bytes",
    [
        upgrade_request(),
        upgrade_request(STREAM + "?model=x&model=y"),
        changed("Upgrade: websocket", "Upgrade: WebSocket"),
        changed("Upgrade: websocket", "UPGRADE:WEBSOCKET"),
        changed("Connection: Upgrade", "connection: upgrade"),
        changed("Connection: Upgrade", "Connection: keep-alive, Upgrade"),
        changed("Connection: Upgrade", "Connection: keep-alive , ,\tuPGRADE"),
        changed("Connection: Upgrade", "Connection: Upgrade\r\nConnection: keep-alive"),
        changed("Connection: Upgrade", "Connection: keep-alive\r\nConnection: Upgrade"),
        changed("Host: container", "Host: container\r\nContent-Length: 0"),
        changed("Host: container", "X-Unknown: 1\r\nHost: container\r\nCookie: a=b"),
    ],
    ids=[
        *("as in the RFC", "query", "case of the value", "case of the name", "case of the token"),
        *("a list", "a list with gaps", "first of two lines", "second of two lines"),
        *("an empty body", "unknown headers"),
    ],
)
async def test_it_is_granted(subject: Subject, request_bytes: bytes) -> None:
    async with raw_client(subject.port) as client:
        head, _, behind = await answer(client, request_bytes + EAGER)
    assert head.status_code == 101
    assert head.http_version == b"1.1"
    assert fields(head)["sec-websocket-accept"] == accept_of(KEY)
    frames, rest = read_frames(behind)
    assert sorted(frame.payload for frame in frames) == [b"\x03\xe8", b"eager", b"eager"]
    assert rest == b""


@pytest.mark.clause("1.5-12")
async def test_the_101_has_what_the_rfc_names_and_says_when_it_closes(subject: Subject) -> None:
    async with raw_client(subject.port) as client:
        head, _, _ = await answer(client, upgrade_request() + sent_close(1000))
    found = fields(head)
    assert found["upgrade"].lower() == "websocket"
    assert found["connection"].lower() == "upgrade"
    named = {"upgrade", "connection", "sec-websocket-accept", "date", "server"}
    assert set(found) == {*named, "x-partway-close"}
    assert found["x-partway-close"] == "after-answer"  # clause 1.5-12


def test_this_test_s_own_accept_key_is_the_rfc_s_example() -> None:
    assert accept_of(KEY) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


async def test_the_accept_key_answers_the_key(subject: Subject) -> None:
    for nonce in (bytes(16), b"\xff" * 16, *(os.urandom(16) for _ in range(5))):
        key = base64.b64encode(nonce).decode()
        async with raw_client(subject.port) as client:
            head, _, _ = await answer(
                client, upgrade_request(Sec_WebSocket_Key=key) + sent_close(1000)
            )
        assert fields(head)["sec-websocket-accept"] == accept_of(key)


@pytest.mark.clause("1.2-6")
@pytest.mark.parametrize(
    "offered",
    [
        {"Sec_WebSocket_Extensions": "permessage-deflate; client_max_window_bits"},
        {"Sec_WebSocket_Extensions": "x-webkit-deflate-frame, permessage-deflate"},
        {"Sec_WebSocket_Protocol": "chat, superchat"},
        {"Sec_WebSocket_Protocol": "partway.v1.json", "Sec_WebSocket_Extensions": "mux"},
    ],
    ids=["an extension", "two extensions", "subprotocols", "both"],
)
async def test_what_is_offered_is_not_agreed_on(subject: Subject, offered: dict[str, str]) -> None:
    """Nor is a compressed frame taken."""
    compressed = sent(TEXT, b"\xf2H\xcd\xc9\xc9\x07\x00", rsv=4)  # RFC 7692 §7.2.3.1's example
    async with raw_client(subject.port) as client:
        head, _, behind = await answer(client, upgrade_request(**offered) + compressed)
        assert not {"sec-websocket-extensions", "sec-websocket-protocol"} & set(fields(head))
    (closed,), _ = read_frames(behind)
    assert closed.close_code == 1002


# --- Refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (changed("GET", "POST"), 405),
        (changed("GET", "PUT"), 405),
        (changed("HTTP/1.1", "HTTP/1.0"), 400),
        (changed("Host: container\r\n", ""), 400),
        (changed("Host: container", "Host: container\r\nHost: another"), 400),
        (changed("Upgrade: websocket\r\n", "Upgrade: h2c\r\n"), 426),
        (changed("Upgrade: websocket", "Upgrade: websocket/13"), 426),
        (changed("Upgrade: websocket", "Upgrade: websockets"), 426),
        (changed("Connection: Upgrade\r\n", ""), 400),
        (changed("Connection: Upgrade", "Connection: close"), 400),
        (changed("Connection: Upgrade", "Connection: upgraded, no-upgrade"), 400),
        (changed(f"Sec-WebSocket-Key: {KEY}\r\n", ""), 400),
        (changed(KEY, ""), 400),
        (changed(KEY, base64.b64encode(bytes(15)).decode()), 400),
        (changed(KEY, base64.b64encode(bytes(17)).decode()), 400),
        (changed(KEY, KEY.rstrip("=")), 400),
        (changed(KEY, KEY + "="), 400),
        (changed(KEY, "dGhlIHNh bXBsZSBub25jZQ=="), 400),
        (changed(KEY, "_-hlIHNhbXBsZSBub25jZQ=="), 400),
        (changed(KEY, "sixteen bytes!!!"), 400),
        (changed(KEY, f"{KEY}\r\nSec-WebSocket-Key: {KEY}"), 400),
        (changed(KEY, f"{KEY}\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), 400),
        (changed("Host: container", "Origin: https://page.example\r\nHost: container"), 403),
        (changed("Host: container", "Origin: null\r\nHost: container"), 403),
        (changed("Host: container", "Origin:\r\nHost: container"), 403),
    ],
    ids=[
        *("POST", "PUT", "HTTP/1.0", "no Host", "two Hosts"),
        *("another upgrade", "a version with it", "more than the word"),
        *("no Connection", "another Connection", "near misses in Connection"),
        *("no key", "empty key", "15 bytes", "17 bytes", "no padding", "too much padding"),
        *("a space in it", "another alphabet", "no base64", "the key twice", "two keys"),
        *("an origin", "origin null", "an empty origin"),
    ],
)
async def test_it_is_refused(subject: Subject, request_bytes: bytes, status: int) -> None:
    """With one answer, which is the end of the connection: frames behind it are not HTTP."""
    seen = len(subject.model.seen)
    async with raw_client(subject.port) as client:
        head, body, behind = await answer(client, request_bytes + EAGER)
    assert head.status_code == status
    assert body, "no reason"
    assert behind == b""
    assert len(subject.model.seen) == seen, "a handler was run"


@pytest.mark.parametrize(
    "version",
    ["8", "12", "14", "130", "013", "1 3", "", "13, 8", "13\r\nSec-WebSocket-Version: 8"],
    ids=["8", "12", "14", "130", "013", "1 3", "empty", "a list", "two lines"],
)
async def test_another_version(subject: Subject, version: str) -> None:
    """RFC 6455 §4.4: the answer says which one is spoken."""
    seen = len(subject.model.seen)
    async with raw_client(subject.port) as client:
        head, _, behind = await answer(
            client, changed("Version: 13", f"Version: {version}") + EAGER
        )
    assert head.status_code == 426
    assert fields(head)["sec-websocket-version"] == "13"
    assert behind == b""
    assert len(subject.model.seen) == seen


async def test_no_version(subject: Subject) -> None:
    async with raw_client(subject.port) as client:
        head, _, _ = await answer(client, upgrade_request(Sec_WebSocket_Version=None) + EAGER)
    assert head.status_code == 426
    assert fields(head)["sec-websocket-version"] == "13"


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("Content-Length: 5", b"hello"),
        ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", b"0\r\n\r\n"),
    ],
    ids=["a body", "a chunked body", "an empty chunked body"],
)
async def test_an_upgrade_with_a_body(subject: Subject, header: str, body: bytes) -> None:
    seen = len(subject.model.seen)
    request = changed("Host: container", f"Host: container\r\n{header}")
    async with raw_client(subject.port) as client:
        head, _, behind = await answer(client, request + body)
    assert head.status_code == 400
    assert behind == b""
    assert len(subject.model.seen) == seen


async def test_a_request_that_asks_for_no_upgrade(subject: Subject) -> None:
    request = f"GET {STREAM} HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n".encode()
    async with raw_client(subject.port) as client:
        head, _, behind = await answer(client, request)
    assert head.status_code == 426
    assert fields(head)["upgrade"] == "websocket"
    assert behind == b""


@pytest.mark.parametrize("chop", [1, 3, 50])
async def test_a_request_in_chops(subject: Subject, chop: int) -> None:
    async with raw_client(subject.port) as client:
        request = upgrade_request() + sent(TEXT, b"eager") + sent_close(1000)
        for at in range(0, len(request) - chop, chop):
            client.send(request[at : at + chop])
            await asyncio.sleep(0)
        at = (len(request) - chop - 1) // chop * chop + chop
        head, _, behind = await answer(client, request[at:])
    assert head.status_code == 101
    frames, rest = read_frames(behind)
    assert [frame.payload for frame in frames] == [b"eager", b"\x03\xe8"]
    assert rest == b""
