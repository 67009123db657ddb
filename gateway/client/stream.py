"""A client's stream, carried by a WebSocket or by HTTP/2."""

from __future__ import annotations

import asyncio
import functools
from collections import deque

from partway.gateway.client.errors import (
    ConnectionLost,
    ModelStreamFailed,
    PartwayError,
    PlatformStreamFailed,
    StreamEnded,
)
from partway.gateway.client.messages import MessageIterator, MessageReader
from partway.gateway.client.wire import Wire
from partway.gateway.limits import (
    CLIENT_MAX_MESSAGE,
    CLIENT_RECEIVE_HIGH_WATER,
    GATEWAY_PING_INTERVAL,
    GATEWAY_PINGS_UNANSWERED,
)
from partway.gateway.timing.clock import LoopClock
from partway.protocol import limits
from partway.protocol.connections.peer_watch import PingWatch
from partway.protocol.parts import (
    CompletionState,
    DataType,
    InputEnd,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
    StreamEvent,
)


class ClientStream:
    """An open stream; made by :func:`~partway.gateway.client.connect`.

    The stream holds about 1 MiB of parts that the caller has not taken, then lets the gateway send
    no more. So a caller that only sends to a model that answers must wait in :meth:`send` in the
    end.

    Attributes:
        request_id: the gateway's id of the stream, as in its log.
        input_end: how the gateway handles the end of the input: ``close``, ``drain`` or ``auto``
            (clause 1.5-12). It is also ``close`` for a container that says it finishes first, and
            empty if the server does not say.
    """

    def __init__(self, wire: Wire) -> None:
        self.request_id = wire.request_id
        self.input_end = wire.input_end
        self._wire = wire
        unanswered = GATEWAY_PINGS_UNANSWERED
        self._pings = PingWatch(
            wire,
            LoopClock(),
            interval=GATEWAY_PING_INTERVAL,
            unanswered_limit=unanswered,
            on_lost=lambda: self.broken(f"the gateway answered none of {unanswered} pings"),
        )
        self._parts: deque[PayloadPart] = deque()
        self._held = 0
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()
        self._messages = MessageReader(self.receive)
        self._input_ended = False
        self._ended = False
        self._error: PartwayError | None = None

    # --- Sending ---------------------------------------------------------------------------------

    async def send(self, part: PayloadPart) -> None:
        """Send one part: one frame at the container (clause 1.2-1).

        The call first waits while the gateway is behind. If it is cancelled then, it has sent
        nothing.

        Raises:
            PartwayError: the stream has ended; the error says how.
            TypeError: ``part`` is no PayloadPart, or one of its members has a wrong type.
            ValueError: the part is over 16 MiB (clause 1.3-3).
        """
        _check_part(part)
        if len(part.payload) > limits.MAX_PART_BYTES:
            raise ValueError(
                f"part: {len(part.payload)} bytes were given; "
                f"there must be at most {limits.MAX_PART_BYTES}"
            )
        await self._wait_writable()
        self._wire.send(part)

    async def send_text(self, text: str, *, partial: bool = False) -> None:
        """Send text; ``partial`` if more of the same message follows.

        Raises:
            TypeError: ``text`` is no str.
        """
        if not isinstance(text, str):
            raise _wrong_type("text", text, "a str", "send_bytes()")
        await self.send(PayloadPart(text.encode(), DataType.UTF8, _completion(partial)))

    async def send_bytes(self, data: bytes, *, partial: bool = False) -> None:
        """Send bytes; ``partial`` if more of the same message follows.

        Raises:
            TypeError: ``data`` is neither bytes nor a bytearray or memoryview.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise _wrong_type("data", data, "bytes", "send_text()")
        # A copy, since a buffer may change before it is written.
        await self.send(PayloadPart(bytes(data), DataType.BINARY, _completion(partial)))

    async def end_input(self) -> None:
        """End the input: nothing more will be sent. The model's further parts still arrive.

        The call waits as :meth:`send` does.
        """
        await self._wait_writable()
        self._input_ended = True
        self._wire.end_input()

    async def _wait_writable(self) -> None:
        """Wait until sending is possible; the caller must send without a further await."""
        while True:
            if self._error is not None:
                raise self._error
            if self._ended or self._input_ended:
                what = "the stream" if self._ended else "the stream's input"
                raise StreamEnded(f"{what} has ended")
            if self._writable.is_set():
                return
            await self._writable.wait()  # another sender may go on first

    # --- Receiving -------------------------------------------------------------------------------

    def __aiter__(self) -> ClientStream:
        return self

    async def __anext__(self) -> PayloadPart:
        part = await self.receive()
        if part is None:
            raise StopAsyncIteration
        return part

    async def receive(self) -> PayloadPart | None:
        """Return the next part, or None once the stream has ended cleanly.

        Raises:
            ModelStreamFailed: the model's side ended the stream.
            PlatformStreamFailed: the gateway ended the stream.
            ConnectionLost: the connection ended before the stream, or pings stayed unanswered.
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
        if not self._wire.reading and self._held <= CLIENT_RECEIVE_HIGH_WATER // 2:
            if self._wire.pongs_wait:
                self._pings.reading_resumed()
            self._wire.resume_reading()
        return part

    def messages(self, *, max_message: int = CLIENT_MAX_MESSAGE) -> MessageIterator:
        """Return an iterator of whole messages: text as ``str``, binary ones as ``bytes``.

        The iterator takes parts by :meth:`receive`; another caller of that method takes parts out
        of messages. A new iterator goes on where an earlier one was left.

        Args:
            max_message: most bytes of a message. A message that is larger, or is no UTF-8, raises
                :class:`~partway.gateway.client.errors.BadMessage`; the next one can be read then.
        """
        return MessageIterator(self._messages, max_message)

    async def ask(
        self, message: str | bytes, *, max_message: int = CLIENT_MAX_MESSAGE
    ) -> str | bytes:
        """Send one whole message, and return the next one that comes.

        That is its answer, if the model answers each message with one. Simultaneous callers take
        turns: each message is sent when the answer to the one before it has come.

        Args:
            message: the message, sent as ``UTF8`` or as ``BINARY``.
            max_message: as in :meth:`messages`.

        Raises:
            StreamEnded: the stream has ended cleanly before an answer came.
            PartwayError: as :meth:`send`, :meth:`receive` and :meth:`messages`.
            RuntimeError: another task waits in :meth:`messages`, or the answer to an abandoned
                question is still to come.
            TypeError: ``message`` is neither text nor bytes.
        """
        if isinstance(message, str):
            send = functools.partial(self.send_text, message)
        elif isinstance(message, bytes | bytearray | memoryview):
            send = functools.partial(self.send_bytes, message)
        else:
            raise _wrong_type("message", message, "a str or bytes", "ask()")
        return await self._messages.ask(send, max_message)

    async def close(self, *, cancel: bool = False) -> None:
        """Leave the stream, and close the connection; drop everything that has not come yet.

        In both cases the gateway tells the container that no client is left.

        Args:
            cancel: whether the gateway counts an unfinished stream as ``client_cancelled``, in
                place of ``client_finished``.
        """
        self.ended(None)
        self._wire.finish(cancel=cancel)
        await self._lost.wait()  # bounded by the connection's lingering

    # --- WireOwner -------------------------------------------------------------------------------

    def event_received(self, event: StreamEvent) -> None:
        """Keep a part for the caller, or note that the stream has ended."""
        match event:
            case PayloadPart(payload):
                self._parts.append(event)
                self._held += len(payload) + limits.PART_OVERHEAD
                if self._held > CLIENT_RECEIVE_HIGH_WATER:
                    self._wire.pause_reading()
                    if self._wire.pongs_wait:
                        self._pings.reading_paused()
                self._news.set()
            case ModelStreamError(code, text):
                self.ended(ModelStreamFailed(code, text))
            case InternalStreamFailure(text):
                self.ended(PlatformStreamFailed(text))
            case InputEnd():
                pass  # a client's event; it means nothing from a gateway

    def ended(self, error: PartwayError | None) -> None:
        """Note that nothing more comes; only the first call says how the stream ended."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._pings.stop()
            self._news.set()
            self._writable.set()

    def broken(self, why: str) -> None:
        """End the stream and its connection, whose bytes cannot be used."""
        self.ended(ConnectionLost(why))
        self._wire.abort()

    def pong_received(self, payload: bytes) -> None:
        self._pings.pong_received(payload)

    def writing_paused(self) -> None:
        self._writable.clear()

    def writing_resumed(self) -> None:
        self._writable.set()

    def lost(self) -> None:
        self._lost.set()


def _completion(partial: bool) -> CompletionState:
    return CompletionState.PARTIAL if partial else CompletionState.COMPLETE


# --- Arguments of the wrong type -----------------------------------------------------------------


def _wrong_type(name: str, value: object, wanted: str, other: str) -> TypeError:
    """Make the error for an argument of the wrong type.

    Args:
        wanted: the right type, with its article.
        other: the method that takes the other kind, text or bytes.
    """
    hint = f"; {other} takes it" if isinstance(value, str | bytes | bytearray | memoryview) else ""
    return TypeError(f"{name}: {_kind(value)} was given; it must be {wanted}{hint}")


def _check_part(part: object) -> None:
    """Refuse an invalid part, before any of its bytes are sent.

    Raises:
        TypeError: ``part`` is no PayloadPart, or one of its members has a wrong type.
    """
    if not isinstance(part, PayloadPart):
        other = "send_text()" if isinstance(part, str) else "send_bytes()"
        raise _wrong_type("part", part, "a PayloadPart", other)
    if not isinstance(part.payload, bytes):
        raise TypeError(f"part.payload: {_kind(part.payload)} was given; it must be bytes")
    if not isinstance(part.data_type, DataType):
        raise TypeError(
            f"part.data_type: {_kind(part.data_type)} was given; it must be a DataType, "
            "as in DataType.UTF8"
        )
    if not isinstance(part.completion, CompletionState):
        raise TypeError(
            f"part.completion: {_kind(part.completion)} was given; it must be a "
            "CompletionState, as in CompletionState.PARTIAL"
        )


def _kind(value: object) -> str:
    """Return the type of a value, with its article."""
    if value is None:
        return "None"
    name = type(value).__name__
    if isinstance(value, bytes):
        return name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
