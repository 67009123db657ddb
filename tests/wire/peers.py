"""The two ends of the wire: a container and a client that speak bytes, nothing of ours between.

Frames are made and read by :mod:`tests.frame_factory`. Either end reads only when a test asks it
to, so back-pressure is real, and every wait is bounded, so a broken gateway fails a test at once.

::

    async def test_a_part_is_a_frame(gateway_for):
        gateway = await gateway_for(policy=StreamPolicy(input_end="drain"))
        client, model = await gateway.open(RAW)
        client.send_frame(TEXT, b"hi")
        assert await model.frame() == (True, TEXT, True, ANY, b"hi")
        model.send(frame(TEXT, b"ho"), close(1000))
        assert (await client.frame()).payload == b"ho"
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from partway.gateway.gateway import Gateway
from partway.protocol.limits import KIB
from tests.frame_factory import CLOSE, KEY, PING, RawFrame, close, frame, read_frame

RAW = "payloadpart.v1.raw"
MSGPACK = "payloadpart.v1.msgpack"
JSON = "payloadpart.v1.json"

ENDPOINT = "model"
STREAM_PATH = f"/endpoints/{ENDPOINT}/invocations-bidirectional-stream"

#: What nothing in these tests should ever need, in seconds: it ends a wait for what never comes.
#: Nothing is measured with it, and a machine that is busy with others needs more than an idle one.
PATIENCE = 30.0

#: Most bytes one socket read brings: asyncio reads up to 256 KiB at once, uvloop 64 KiB.
MAX_SOCKET_READ = 256 * KIB

#: RFC 6455 §1.3's example.
CLIENT_KEY = "dGhlIHNhbXBsZSBub25jZQ=="

_T = TypeVar("_T")


async def soon(awaitable: Awaitable[_T], what: str | Callable[[], str] = "this") -> _T:
    """Wait for something that is due at once; it is called by what costs much to say."""
    try:
        return await asyncio.wait_for(awaitable, PATIENCE)
    except TimeoutError:
        missed = what if isinstance(what, str) else what()
        raise AssertionError(f"waited {PATIENCE:g} s for {missed}") from None


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a state that no byte on the wire tells of."""

    async def look() -> None:
        while not condition():  # noqa: ASYNC110 (nobody sets an event)
            await asyncio.sleep(0.002)

    await soon(look(), "a state that did not come")


class Response(NamedTuple):
    """A whole HTTP response; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        """The body of an API error."""
        return json.loads(self.body)


class Wire:
    """One end of a TCP connection: bytes out, heads and frames in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        #: Every frame read so far.
        self.seen: list[RawFrame] = []

    # --- Out -------------------------------------------------------------------------------------

    def send(self, *pieces: bytes) -> None:
        """Write bytes, whatever they are."""
        self.writer.write(b"".join(pieces))

    async def flush(self) -> None:
        """Wait until the socket has nearly everything."""
        await self.writer.drain()

    def end(self) -> None:
        """Half-close: FIN, and go on reading."""
        self.writer.write_eof()

    def abort(self) -> None:
        """Drop the connection; unsent bytes are lost."""
        self.writer.transport.abort()

    def reset(self) -> None:
        """Drop the connection with RST."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    # --- In --------------------------------------------------------------------------------------

    async def read_head(self) -> bytes:
        """An HTTP head, with the empty line that ends it."""
        return await soon(self.reader.readuntil(b"\r\n\r\n"), "an HTTP head")

    async def response(self) -> Response:
        """A whole HTTP response with Content-Length."""
        status_line, *lines = (await self.read_head()).decode("latin-1").split("\r\n")[:-2]
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        size = int(headers.get("content-length", 0))
        body = await soon(self.reader.readexactly(size), "a response's body")
        return Response(int(status_line.split(" ")[1]), headers, body)

    async def frame(self) -> RawFrame:
        """The next frame.

        Raises:
            EOFError: the connection ended first, or in the middle of one.
        """
        whole = await soon(self._read_frame(), lambda: f"a frame; seen so far: {self.seen[-3:]}")
        self.seen.append(whole)
        return whole

    async def frames(self, count: int) -> list[RawFrame]:
        """The next frames, control frames included."""
        return [await self.frame() for _ in range(count)]

    async def until_close(self) -> list[RawFrame]:
        """All frames up to the next Close, which is the last of them."""
        frames = [await self.frame()]
        while frames[-1].opcode != CLOSE:
            frames.append(await self.frame())
        return frames

    async def eof(self) -> bytes:
        """Wait for the end of the connection, FIN or RST; what still came before it."""
        try:
            return await soon(self.reader.read(), "the connection's end")
        except ConnectionError:
            return b""

    async def _read_frame(self) -> RawFrame:
        try:
            data = await self.reader.readexactly(2)
            form = {126: 2, 127: 8}.get(data[1] & 0x7F, 0)
            data += await self.reader.readexactly(form)
            length = int.from_bytes(data[2:], "big") if form else data[1] & 0x7F
            key = 4 if data[1] & 0x80 else 0
            data += await self.reader.readexactly(key + length)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise EOFError(f"no frame: {error}") from None
        found = read_frame(data)
        assert found is not None, "one whole frame was read"
        return found[0]


# --- The container -------------------------------------------------------------------------------


def accept_key(key: str) -> str:
    """RFC 6455 §4.2.2."""
    digest = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
    return base64.b64encode(digest).decode()


def header(request: bytes, name: str) -> str | None:
    """A header's value in a raw head."""
    found = re.search(rb"(?im)^" + re.escape(name.encode()) + rb": *([^\r]*)\r$", request)
    return found and found[1].decode("latin-1")


def switching(
    request: bytes, *more: str, accept: str | None = None, finishes: bool = True
) -> bytes:
    """The 101 to an upgrade request, with further header lines.

    A container of these tests finishes before it answers a Close, and says so (clause 1.5-12).
    """
    if finishes:
        more = ("X-Partway-Close: after-answer", *more)
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept or accept_key(header(request, 'sec-websocket-key') or '')}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class ModelStream(Wire):
    """One stream at the container; ``request`` is the upgrade request, byte for byte."""

    request: bytes

    @property
    def target(self) -> str:
        """Path and query asked for."""
        return self.request.split(b" ", 2)[1].decode()

    def header(self, name: str) -> str | None:
        return header(self.request, name)


class RawContainer:
    """A server that answers each upgrade request with the bytes it is told.

    Args:
        answer: bytes for a request's head, or None to leave the answer to the test.
        receive_buffer: SO_RCVBUF of its connections, small to make it slow to take bytes.
        tls: the server's side of TLS; None for cleartext.
    """

    def __init__(
        self,
        answer: Callable[[bytes], bytes | None] = switching,
        *,
        receive_buffer: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer
        self._tls = tls
        self.port = 0
        #: All connections so far, those too that sent no request.
        self.connections: list[ModelStream] = []
        self._receive_buffer = receive_buffer
        self._asked: asyncio.Queue[ModelStream] = asyncio.Queue()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0))
        if self._receive_buffer is not None:  # inherited by what is accepted
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
        self.port = listening.getsockname()[1]
        self._server = await asyncio.start_server(self._serve, sock=listening, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop listening, and drop every connection."""
        if self._server is not None:
            self._server.close()
        for connection in self.connections:
            connection.abort()

    async def stream(self) -> ModelStream:
        """The next connection that has sent its request, and has been answered."""
        return await soon(self._asked.get(), "a connection at the container")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = ModelStream(reader, writer)
        self.connections.append(stream)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            stream.request = await reader.readuntil(b"\r\n\r\n")
            if self.answer is switching and stream.request.startswith(b"GET /ping "):
                # A gateway's start looks who is there.
                stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                return
            answer = self.answer(stream.request)
            if answer is not None:
                stream.send(answer)
            self._asked.put_nowait(stream)


# --- The client ----------------------------------------------------------------------------------


def upgrade_request(
    target: str = STREAM_PATH,
    subprotocols: str | None = None,
    headers: Iterable[str] = (),
    **changes: str | None,
) -> bytes:
    """An upgrade request.

    Args:
        target: path and query.
        subprotocols: the value of Sec-WebSocket-Protocol.
        headers: further header lines, as they are.
        changes: headers of the upgrade itself with another value, ``_`` standing for ``-``;
            None leaves one out.
    """
    fields: dict[str, str | None] = {
        "Host": "gateway.example",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": CLIENT_KEY,
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": subprotocols,
    }
    fields |= {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join([f"GET {target} HTTP/1.1", *lines, *headers, "", ""]).encode("latin-1")


class RawClient(Wire):
    #: The head of the response that granted the upgrade.
    head: bytes

    @classmethod
    async def connect(cls, port: int, *, receive_buffer: int | None = None) -> Self:
        """Connect to a local port; nothing is said yet."""
        sock = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio then sets TCP_NODELAY
        sock.setblocking(False)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return cls(*await asyncio.open_connection(sock=sock))

    async def upgrade(self, request: bytes) -> None:
        """Ask for a stream that will be granted."""
        self.send(request)
        self.head = await self.read_head()
        assert self.head.startswith(b"HTTP/1.1 101 "), self.head

    def send_frame(self, opcode: int, payload: bytes = b"", *, fin: bool = True) -> None:
        """Write one masked frame."""
        self.send(frame(opcode, payload, fin=fin, mask=KEY))

    def send_close(self, code: int | None = None, reason: bytes = b"") -> None:
        """Write a masked Close."""
        self.send(close(code, reason, mask=KEY))

    async def leave(self) -> None:
        """Finish the closing handshake; nothing more may come."""
        self.send_close(1000)
        assert await self.eof() == b""

    async def caught_up(self) -> None:
        """Wait until the gateway has seen what was sent so far: it answers a later Ping."""
        self.send(frame(PING, b"seen?", mask=KEY))
        assert (await self.frame()).payload == b"seen?"


# --- The gateway ---------------------------------------------------------------------------------


class RunningGateway:
    """A gateway in this process, its container, and the clients that a test makes.

    Args:
        gateway: started.
        port: its own.
        container: of its endpoint.
        event_clients: what :meth:`open` opens for names that are no subprotocol.
    """

    def __init__(
        self,
        gateway: Gateway,
        port: int,
        container: RawContainer | None,
        event_clients: Mapping[str, Callable[..., Awaitable[Any]]] | None = None,
    ) -> None:
        self.event_clients = event_clients or {}
        #: Its port for TLS, and the CA that its clients have to trust, where it has one.
        self.tls_port: int | None = None
        self.ca: Path | None = None
        self.gateway = gateway
        self.port = port
        self.container = container
        self.clients: list[Any] = []

    async def connect(self, *, receive_buffer: int | None = None) -> RawClient:
        """A client that has said nothing yet."""
        client = await RawClient.connect(self.port, receive_buffer=receive_buffer)
        self.clients.append(client)
        return client

    async def request(self, request: bytes) -> Response:
        """Send a request on a connection of its own, read the response."""
        client = await self.connect()
        client.send(request)
        try:
            return await client.response()
        finally:
            client.abort()

    async def open(
        self,
        subprotocols: str | None = RAW,
        target: str = STREAM_PATH,
        headers: Iterable[str] = (),
        *,
        receive_buffer: int | None = None,
    ) -> tuple[RawClient, ModelStream]:
        """A stream: its client's end, and its container's."""
        assert self.container is not None, "this gateway has no raw container"
        if subprotocols in self.event_clients:
            open_stream = self.event_clients[subprotocols]
            self.clients.append(await open_stream(self.port, target, receive_buffer=receive_buffer))
            return self.clients[-1], await self.container.stream()
        client = await self.connect(receive_buffer=receive_buffer)
        await client.upgrade(upgrade_request(target, subprotocols, headers))
        return client, await self.container.stream()

    def causes(self) -> dict[str, int]:
        """How streams have ended: ``partway_stream_ends_total`` by cause."""
        return {
            sample.labels["cause"]: int(sample.value)
            for metric in self.gateway.streams.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "partway_stream_ends_total"
        }

    def client_context(self) -> ssl.SSLContext:
        """What a client that trusts the gateway's CA does TLS with; a new one for each client."""
        return ssl.create_default_context(cafile=self.ca)

    async def stop(self) -> None:
        """Drop the peers, then stop the gateway."""
        for client in self.clients:
            client.abort()
        if self.container is not None:
            for connection in self.container.connections:
                connection.abort()
        self.gateway.hasten()  # some have a grace that no test waits for
        await self.gateway.drain()
