"""Other people's clients, from the handshake to the end."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    Request,
    TextMessage,
)
from wsproto.extensions import PerMessageDeflate

from tests.container.rfc6455.subjects import PATIENCE, FragmentEcho, Subject
from tests.container.wire import STREAM, raw_client

TEXT = "Ünïcödé 日本 🙂 " * 50
LONG = bytes(range(256)) * 400  # a length in 64 bits


def url(subject: Subject, scheme: str = "ws") -> str:
    return f"{scheme}://127.0.0.1:{subject.port}{STREAM}"


# --- websockets ----------------------------------------------------------------------------------


def websockets_client(subject: Subject, **options: object) -> connect:
    """It offers compression, as it does unless told not to."""
    return connect(url(subject), max_size=None, open_timeout=PATIENCE, **options)


async def test_websockets(subject: Subject) -> None:
    async with asyncio.timeout(PATIENCE), websockets_client(subject) as client:
        assert client.protocol.extensions == []
        for message in ("", b"", "text", TEXT, b"bytes", LONG):
            await client.send(message)
            assert await client.recv() == message
        await (await client.ping(b"ping"))
        await client.close(4000, "enough")
    assert (client.close_code, client.close_reason) == (4000, "enough")


async def test_websockets_sends_fragments(subject: Subject) -> None:
    pieces = ["Ünï", "", "cödé", "🙂"]
    async with asyncio.timeout(PATIENCE), websockets_client(subject) as client:
        await client.send(pieces)
        if isinstance(subject.model, FragmentEcho):
            assert [piece async for piece in client.recv_streaming()] == [*pieces, ""]
        else:
            assert await client.recv() == "".join(pieces)


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (lambda client: client.protocol.send_text(b"\xff"), 1007),
        (lambda client: client.protocol.send_text(b"\xe2\x82", fin=True), 1007),
    ],
)
async def test_websockets_is_told_what_it_did_wrong(subject: Subject, write, code: int) -> None:
    async with asyncio.timeout(PATIENCE), websockets_client(subject) as client:
        await misbehave(client, write)
        with pytest.raises(ConnectionClosedError) as closed:
            await client.recv()
    assert closed.value.rcvd.code == code
    assert "UTF-8" in closed.value.rcvd.reason


async def misbehave(client: ClientConnection, write) -> None:
    """Send what its own interface would not: it checks text before it does."""
    async with client.send_context():
        write(client)


async def test_websockets_leaves_without_a_word(subject: Subject) -> None:
    async with websockets_client(subject) as client:
        await client.send("x")
        await client.recv()
        client.transport.abort()
        with pytest.raises((ConnectionClosedError, ConnectionClosedOK)):
            await client.recv()


# --- aiohttp -------------------------------------------------------------------------------------


async def test_aiohttp(subject: Subject) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as session,
        session.ws_connect(url(subject, "http"), compress=15, autoping=False, max_msg_size=0) as ws,
    ):
        assert ws.compress == 0
        for text in ("", "text", TEXT):
            await ws.send_str(text)
            assert await ws.receive_str() == text
        for data in (b"", b"bytes", LONG):
            await ws.send_bytes(data)
            assert await ws.receive_bytes() == data
        await ws.ping(b"ping")
        pong = await ws.receive()
        assert (pong.type, bytes(pong.data)) == (aiohttp.WSMsgType.PONG, b"ping")
        assert await ws.close(code=1001, message=b"leaving")
    assert ws.close_code == 1001


async def test_aiohttp_sends_frames_of_its_own(subject: Subject) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        aiohttp.ClientSession() as session,
        session.ws_connect(url(subject, "http")) as ws,
    ):
        await ws.send_frame(b"\xff", aiohttp.WSMsgType.TEXT)
        closed = await ws.receive()
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1007)


# --- wsproto -------------------------------------------------------------------------------------


class WsprotoClient:
    """wsproto with a socket; its events in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._connection = WSConnection(ConnectionType.CLIENT)

    def send(self, event: Event) -> None:
        self._writer.write(self._connection.send(event))

    async def next(self) -> Event:
        """The next event. A message in pieces is several."""
        while True:
            for event in self._connection.events():
                return event
            data = await self._reader.read(1 << 16)
            assert data, "the connection ended"
            self._connection.receive_data(data)

    async def message(self) -> str | bytes:
        event = await self.next()
        assert isinstance(event, TextMessage | BytesMessage), event
        whole = event.data
        while not event.message_finished:
            event = await self.next()
            whole += event.data
        return whole


async def test_wsproto(subject: Subject) -> None:
    async with asyncio.timeout(PATIENCE), raw_client(subject.port) as raw:
        client = WsprotoClient(raw.reader, raw.writer)
        client.send(
            Request(
                host="container",
                target=STREAM,
                extensions=[PerMessageDeflate()],
                subprotocols=["chat"],
            )
        )
        accepted = await client.next()
        assert isinstance(accepted, AcceptConnection), accepted
        assert (accepted.extensions, accepted.subprotocol) == ([], None)
        for text in ("", "text", TEXT):
            client.send(TextMessage(data=text))
            assert await client.message() == text
        client.send(BytesMessage(data=LONG))
        assert await client.message() == LONG
        for piece, last in (("Ünï", False), ("cödé", False), ("", True)):
            client.send(TextMessage(data=piece, message_finished=last))
        assert await client.message() == "Ünïcödé"
        client.send(Ping(payload=b"ping"))
        assert await client.next() == Pong(payload=bytearray(b"ping"))
        client.send(CloseConnection(code=1000, reason="done"))
        assert await client.next() == CloseConnection(code=1000, reason="done")
        assert await raw.eof() == b""
