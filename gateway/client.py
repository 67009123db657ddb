"""The public Python client.

::

    async with connect("http://127.0.0.1:8090", "echo") as stream:
        await stream.send_text("Hello ", partial=True)
        await stream.send_text("world")
        await stream.end_input()
        async for part in stream:
            print(part.payload, part.data_type, part.completion)

Reconnecting is the caller's: what to send again only the caller knows. Every exception says in
``reconnect`` whether it makes sense.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote, urlencode, urlsplit

from gateway.dialling import Address, Unreachable, dial
from gateway.streams.clock import LoopClock
from gateway.streams.watch import PingWatch
from protocol import limits
from protocol.closing import NORMAL, Close
from protocol.connection import FrameConnection, Side
from protocol.envelopes import EnvelopeError, MessageAssembler, MessageTooBig, MsgpackEnvelope
from protocol.frame_codec import FrameError
from protocol.frames import Frame, Opcode
from protocol.handshake import ClientHandshake, HandshakeRefused
from protocol.parts import (
    CompletionState,
    DataType,
    InputEnd,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
)

__all__ = [
    "CompletionState",
    "ConnectionLost",
    "DataType",
    "GatewayUnreachable",
    "ModelStreamFailed",
    "PartwayError",
    "PayloadPart",
    "PlatformStreamFailed",
    "Stream",
    "StreamEnded",
    "StreamRefused",
    "connect",
]

_SUBPROTOCOL = "payloadpart.v1.msgpack"

#: Close codes after which the same stream may well succeed: the server goes away, fails inside,
#: restarts, is busy, or its network broke. What an application says with its own codes
#: (3000–4999) only the application's author knows.
_PASSING_CODES = frozenset({"1001", "1006", "1011", "1012", "1013", "1014"})


class PartwayError(Exception):
    """Whatever ends a stream other than cleanly.

    Attributes:
        reconnect: whether opening the stream again makes sense.
    """

    reconnect = False


class GatewayUnreachable(PartwayError):
    """There is no gateway at the URL, or nothing that speaks like one."""

    reconnect = True


class StreamRefused(PartwayError):
    """The gateway answered with an HTTP error instead of a stream (section 4 of the contract).

    Attributes:
        status: of the response.
        error: the API's name for it, such as ``ModelError``.
        message: what was wrong.
        original_status: the container's own status, 0 if it gave none (``ModelError`` only).
        original_message: the beginning of the container's own body.
    """

    def __init__(
        self,
        status: int,
        error: str,
        message: str,
        original_status: int = 0,
        original_message: str = "",
    ) -> None:
        super().__init__(f"{error} ({status}): {message}")
        self.status = status
        self.error = error
        self.message = message
        self.original_status = original_status
        self.original_message = original_message
        passing = original_status in (0, 429) or original_status >= 500
        self.reconnect = status >= 500 or status == 429 or (status == 424 and passing)


class ModelStreamFailed(PartwayError):
    """The model's side ended the stream (``ModelStreamError``).

    Attributes:
        code: a WebSocket close code in decimal, or ``InputStreamError`` and the like.
        message: the container's reason.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.reconnect = code in _PASSING_CODES


class PlatformStreamFailed(PartwayError):
    """The gateway ended the stream (``InternalStreamFailure``): drain, lifetime, stall."""

    reconnect = True


class ConnectionLost(PartwayError):
    """The connection to the gateway ended without a word, or the gateway answers no ping."""

    reconnect = True


class StreamEnded(PartwayError):
    """Something was to be sent on a stream that has ended cleanly, or whose input has."""


@asynccontextmanager
async def connect(
    url: str,
    endpoint: str,
    *,
    path: str | None = None,
    query: str | None = None,
    variant: str | None = None,
    connect_timeout: float = 10.0,
    open_timeout: float = limits.CONTAINER_HANDSHAKE_TIMEOUT + 10.0,
) -> AsyncIterator[Stream]:
    """Open a stream; leaving the block closes it, and gives up what has not come yet.

    Args:
        url: the gateway's, ``http://HOST:PORT``.
        endpoint: whose model to talk to.
        path: the model's path in place of the default one, without a leading slash.
        query: ``key=value`` pairs for the model, percent-encoded.
        variant: the production variant to ask for.
        connect_timeout: seconds to reach the gateway.
        open_timeout: seconds for the model to answer; the gateway gives it 60.

    Raises:
        GatewayUnreachable: no gateway there.
        StreamRefused: the gateway, or through it the container, said no.
        ValueError: the URL is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "ws") or not parts.hostname:
        raise ValueError(f"{url!r} is not a gateway's URL, as in http://127.0.0.1:8090")
    address = Address(parts.hostname, parts.port or 80)
    base = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
    target = f"{base}/endpoints/{quote(endpoint, safe='')}"
    target += "/invocations-bidirectional-stream"
    asked = {"path": path, "query": query, "variant": variant}
    given = {name: value for name, value in asked.items() if value}
    if given:
        target += f"?{urlencode(given)}"
    handshake = ClientHandshake(
        parts.netloc.rpartition("@")[2],
        target,
        subprotocols=[_SUBPROTOCOL],
        refusal_bytes=limits.ERROR_BODY_BYTES,
    )
    try:
        upgraded = await dial(
            address, handshake, connect_timeout=connect_timeout, handshake_timeout=open_timeout
        )
    except HandshakeRefused as refusal:
        raise _refused(refusal) from None
    except Unreachable as error:
        raise GatewayUnreachable(f"no stream with {url}: {error}") from None
    if upgraded.accepted.subprotocol != _SUBPROTOCOL:
        upgraded.transport.abort()
        raise GatewayUnreachable(
            f"no stream with {url}: it takes WebSockets, but not {_SUBPROTOCOL}"
        )
    headers = upgraded.accepted.headers
    stream = Stream(headers.get("x-amzn-requestid", ""))
    stream._connection.take_over(upgraded.transport, upgraded.accepted.trailing)  # noqa: SLF001
    try:
        yield stream
    finally:
        await stream.close()


class Stream:
    """An open stream; made by :func:`connect`.

    It holds about 1 MiB of parts for who does not iterate, and then stops reading: a caller that
    only sends, to a model that answers, is held up in :meth:`send` sooner or later.

    Attributes:
        request_id: the gateway's id of the stream, as in its log.
    """

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self._connection = FrameConnection(self, Side.CLIENT, max_payload=limits.MAX_ENVELOPE_BYTES)
        unanswered = limits.GATEWAY_PINGS_UNANSWERED
        self._pings = PingWatch(
            self._connection,
            LoopClock(),
            interval=limits.GATEWAY_PING_INTERVAL,
            unanswered_limit=unanswered,
            on_lost=lambda: self._give_up(f"the gateway answered none of {unanswered} pings"),
        )
        self._parts: deque[PayloadPart] = deque()
        self._held = 0
        self._assembler = MessageAssembler(limits.MAX_ENVELOPE_BYTES)
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._input_ended = False
        self._ended = False
        self._error: PartwayError | None = None

    # --- Sending ---------------------------------------------------------------------------------

    async def send(self, part: PayloadPart) -> None:
        """Send one part: one frame at the container (clause 1.2-1).

        It waits first, while the gateway is behind: cancelled then, nothing has been sent.

        Raises:
            PartwayError: the stream has ended; the error says how.
            ValueError: the part is over 16 MiB (clause 1.3-3).
        """
        if len(part.payload) > limits.MAX_PART_BYTES:
            raise ValueError(f"a part is at most {limits.MAX_PART_BYTES} bytes")
        await self._wait_writable()
        self._connection.send(Frame(Opcode.BINARY, MsgpackEnvelope.encode(part)))

    async def send_text(self, text: str, *, partial: bool = False) -> None:
        """Send text; ``partial`` if more of the same message follows."""
        await self.send(PayloadPart(text.encode(), DataType.UTF8, _completion(partial)))

    async def send_bytes(self, data: bytes, *, partial: bool = False) -> None:
        """Send bytes; ``partial`` if more of the same message follows."""
        await self.send(PayloadPart(data, DataType.BINARY, _completion(partial)))

    async def end_input(self) -> None:
        """Say that nothing more will be sent; what the model still says goes on arriving.

        It waits as :meth:`send` does.
        """
        await self._wait_writable()
        self._input_ended = True
        self._connection.send(Frame(Opcode.BINARY, MsgpackEnvelope.encode(InputEnd())))

    async def _wait_writable(self) -> None:
        """Return once something may be sent, with nothing awaited since that was seen."""
        while True:
            if self._error is not None:
                raise self._error
            if self._ended or self._input_ended:
                raise StreamEnded("the stream has ended" if self._ended else "its input has ended")
            if self._writable.is_set():
                return
            await self._writable.wait()  # another sender may be the first to go on

    # --- Receiving -------------------------------------------------------------------------------

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> PayloadPart:
        part = await self.receive()
        if part is None:
            raise StopAsyncIteration
        return part

    async def receive(self) -> PayloadPart | None:
        """The next part, or None once the stream has ended cleanly.

        Raises:
            ModelStreamFailed: the model's side ended it.
            PlatformStreamFailed: the gateway did.
            ConnectionLost: nobody said anything, or answered our pings.
        """
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        part = self._parts.popleft()
        self._held -= len(part.payload) + limits.PART_OVERHEAD
        if not self._connection.reading and self._held <= limits.CLIENT_RECEIVE_HIGH_WATER // 2:
            self._pings.reading_resumed()
            self._connection.resume_reading()
        return part

    async def close(self) -> None:
        """Close the connection; the gateway ends the stream if it has not ended."""
        self._end(None)
        self._connection.finish(Close(NORMAL))
        await self._lost.wait()  # bounded by the connection's lingering

    # --- FrameHandler ----------------------------------------------------------------------------

    def frame_received(self, frame: Frame) -> None:
        """Gather an event's message."""
        try:
            message = self._assembler.add(frame.payload, frame.fin)
        except MessageTooBig as error:
            self._give_up(f"from the gateway: {error}")
            return
        if message is not None:
            self._event(message)

    def _event(self, message: bytes) -> None:
        try:
            event = MsgpackEnvelope.decode(message)
        except EnvelopeError as error:
            self._give_up(f"the gateway sent what is no event: {error}")
            return
        match event:
            case PayloadPart(payload):
                self._parts.append(event)
                self._held += len(payload) + limits.PART_OVERHEAD
                if self._held > limits.CLIENT_RECEIVE_HIGH_WATER:
                    self._connection.pause_reading()
                    self._pings.reading_paused()
                self._news.set()
            case ModelStreamError(code, text):
                self._end(ModelStreamFailed(code, text))
            case InternalStreamFailure(text):
                self._end(PlatformStreamFailed(text))
            case InputEnd():
                pass  # a client's event; nothing follows from the gateway saying it

    def pong_received(self, payload: bytes) -> None:
        """The gateway is there."""
        self._pings.pong_received(payload)

    def close_received(self, close: Close) -> None:
        """The stream is over; an error, if any, came as an event before."""
        if close.code == NORMAL:
            self._end(None)
        else:
            self._end(ConnectionLost(f"the gateway closed with {close.code} {close.reason}"))

    def peer_failed(self, error: FrameError) -> None:
        """The gateway, or a proxy before it, broke RFC 6455."""
        self._end(ConnectionLost(f"bad frames from the gateway: {error.reason}"))

    def connection_lost(self, error: Exception | None) -> None:
        """The transport is gone."""
        self._end(ConnectionLost("the connection to the gateway ended without a Close"))
        self._lost.set()

    def writing_paused(self) -> None:
        """Hold senders up."""
        self._writable.clear()

    def writing_resumed(self) -> None:
        """Let senders go on."""
        self._writable.set()

    def _end(self, error: PartwayError | None) -> None:
        if not self._ended:
            self._ended = True
            self._error = error
            self._pings.stop()
            self._news.set()
            self._writable.set()

    def _give_up(self, why: str) -> None:
        self._end(ConnectionLost(why))
        self._connection.abort()


def _completion(partial: bool) -> CompletionState:
    return CompletionState.PARTIAL if partial else CompletionState.COMPLETE


def _refused(refusal: HandshakeRefused) -> StreamRefused:
    error = refusal.headers.get("x-amzn-errortype", "")
    try:
        body = json.loads(refusal.body)
        return StreamRefused(
            refusal.status,
            error,
            str(body["Message"]),
            int(body.get("OriginalStatusCode", 0)),
            str(body.get("OriginalMessage", "")),
        )
    except (ValueError, TypeError, KeyError):  # no gateway's answer: a proxy's, or cut short
        text = refusal.body.decode("utf-8", "replace")
        return StreamRefused(refusal.status, error or "HTTP error", text)
