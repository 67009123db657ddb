"""The listening port, as bytes: what connections open with, how many there are, for how long."""

from __future__ import annotations

import gc
import logging
import socket
import ssl
import struct
from types import SimpleNamespace

import pytest

from partway.gateway.http import listener as listener_module
from partway.gateway.http.listener import Listener
from partway.gateway.http.tls_port import TlsPort
from partway.gateway.limits import OPENING_TIMEOUT
from partway.protocol.limits import REQUEST_HEAD_TIMEOUT
from tests.frame_factory import TEXT
from tests.wire.peers import RAW, eventually, soon, upgrade_request

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


def http2_frames(data):
    """Type, flags, stream and payload of each frame (RFC 9113 §4.1)."""
    frames = []
    while data:
        length = int.from_bytes(data[:3], "big")
        kind, flags, stream = struct.unpack("!BBI", data[3:9])
        frames.append((kind, flags, stream, data[9 : 9 + length]))
        data = data[9 + length :]
    return frames


#: What a server says first: SETTINGS, and more credit for the connection.
SAYS_FIRST = [(4, 0, 0), (8, 0, 0)]


# --- HTTP/2 --------------------------------------------------------------------------------------


async def greeted(client):
    """The kinds of the first frames; whatever the rest is."""
    data = await soon(client.reader.readexactly(9))
    data += await soon(client.reader.readexactly(int.from_bytes(data[:3], "big") + 13))
    return [frame[:3] for frame in http2_frames(data)]


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize(
    "behind", [b"", b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"], ids=["", "SETTINGS"]
)
async def test_a_preface_opens_http2(gateway_for, behind):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(PREFACE + behind)
    assert await greeted(client) == SAYS_FIRST


@pytest.mark.parametrize("at", range(1, len(PREFACE)))
async def test_a_preface_in_two_pieces(gateway_for, at):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(PREFACE[:at])
    await eventually(lambda: len(gateway.gateway.ports.listener.opening) == 1)
    client.send(PREFACE[at:])
    assert await greeted(client) == SAYS_FIRST


async def test_a_preface_byte_by_byte(gateway_for):
    gateway = await gateway_for()
    client = await gateway.connect()
    for byte in PREFACE:
        client.send(bytes([byte]))
        await client.flush()
    assert await greeted(client) == SAYS_FIRST


# --- HTTP/1.1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [b"", b"P", b"PRI", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"])
async def test_what_only_begins_like_the_preface_is_http_1(gateway_for, start):
    gateway = await gateway_for()
    client = await gateway.connect()
    for byte in start:
        client.send(bytes([byte]))
        await client.flush()
    client.send(b"X" if start else HEALTHZ)
    if not start:
        assert (await client.response()).status == 200
    else:
        client.send(b"\r\n\r\n")
        assert (await client.response()).status == 400


@pytest.mark.parametrize("method", [b"GET", b"POST", b"PUT", b"PATCH", b"PRIVATE"])
async def test_a_request_byte_by_byte(gateway_for, method):
    gateway = await gateway_for()
    client = await gateway.connect()
    for byte in HEALTHZ.replace(b"GET", method):
        client.send(bytes([byte]))
        await client.flush()
    response = await client.response()
    assert response.status == {b"GET": 200, b"PRIVATE": 400}.get(method, 404)


async def test_an_upgrade_byte_by_byte(gateway_for):
    gateway = await gateway_for()
    client = await gateway.connect()
    *most, last = upgrade_request(subprotocols=RAW)
    for byte in most:
        client.send(bytes([byte]))
        await client.flush()
    await client.upgrade(bytes([last]))
    client.send_frame(TEXT, b"through")
    model = await gateway.container.stream()
    assert (await model.frame()).payload == b"through"


# --- Garbage -------------------------------------------------------------------------------------

GARBAGE = {
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "zeros": bytes(64),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "line breaks": b"\r\n\r\n\r\n\r\n",
    "a WebSocket frame": b"\x81\x85abcdhello",
    "no line ever": b"A" * 100_000,
    "no end of headers": b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000,
    "high bytes": bytes(range(128, 256)),
    "SOCKS": b"\x05\x01\x00",
    "a proxy's request": b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "PROXY": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
}


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_refused_without_an_error_of_ours(gateway_for, caplog, sent):
    caplog.set_level(logging.DEBUG)
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(sent, b"\r\n\r\n")
    client.end()
    answer = await client.eof()
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"404", b"431"), answer
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert gateway.container.connections == []
    assert (await gateway.request(HEALTHZ)).status == 200


@pytest.mark.parametrize("sent", [b"", b"PRI", b"GET /heal", HEALTHZ[:-2]])
@pytest.mark.parametrize("how", ["end", "reset"])
async def test_a_connection_that_ends_early_leaves_nothing(gateway_for, caplog, sent, how):
    caplog.set_level(logging.DEBUG)
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(sent)
    await client.flush()
    getattr(client, how)()
    if how == "end":
        assert await client.eof() == b""
    await eventually(lambda: not gateway.gateway.ports.listener.opening)
    await eventually(lambda: not gateway.gateway.ports.http1.open_connections)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


# --- Limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [b"", b"P", PREFACE[:-1]], ids=["nothing", "P", "most of a preface"]
)
async def test_a_connection_that_does_not_say_what_it_speaks_is_closed(
    gateway_for, monkeypatch, sent
):
    monkeypatch.setattr(listener_module, "OPENING_TIMEOUT", 0.05)
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(sent)
    assert await client.eof() == b""
    assert gateway.gateway.ports.listener.opening == set()


def test_the_first_bytes_have_far_less_time_than_a_head():
    """Both deadlines follow each other."""
    assert OPENING_TIMEOUT <= REQUEST_HEAD_TIMEOUT / 6


async def test_one_that_has_said_nothing_goes_for_one_that_comes(gateway_for, caplog):
    gateway = await gateway_for(max_connections=2, max_connections_per_address=2)
    client, _ = await gateway.open(RAW)  # an upgraded one counts
    silent = await gateway.connect()  # and one that has said nothing yet
    await eventually(lambda: len(gateway.gateway.ports.listener.crowd) == 2)
    assert (await gateway.request(HEALTHZ)).status == 200
    assert await silent.eof() == b""
    assert "connections are closed to make room" in caplog.text
    assert client.reader.at_eof() is False


async def test_stopping_drops_who_has_said_nothing(gateway_for):
    gateway = await gateway_for()
    silent = await gateway.connect()
    await eventually(lambda: bool(gateway.gateway.ports.listener.opening))
    await soon(gateway.gateway.drain(), "the drain")
    assert await silent.eof() == b""
    with pytest.raises(OSError):
        await gateway.connect()


async def test_an_address_that_is_taken_is_an_os_error(gateway_for):
    first = await gateway_for()
    with pytest.raises(OSError):
        await gateway_for(port=first.port)


async def test_a_tls_port_that_cannot_be_opened_is_not_kept():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listener = Listener(None, None, SimpleNamespace(enter=None))
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="in use"),
    ):
        await listener.start(*taken.getsockname(), context)
    gc.collect()
    ports = [each for each in gc.get_objects() if isinstance(each, TlsPort)]
    assert [each for each in ports if each._context is context] == []
