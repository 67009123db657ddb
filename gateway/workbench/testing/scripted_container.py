"""The scripted container: it follows a test's script, and remembers what it received.

The container lives on an event loop; tests on any thread may use its script and its memory.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from multidict import CIMultiDict, CIMultiDictProxy

from partway.gateway.http.exchange import Exchange, UpgradableExchange
from partway.gateway.http.http1.server import Http1Server
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.testing.requests import ReceivedRequest, answer_request
from partway.gateway.workbench.testing.script import (
    CloseWith,
    ContainerScript,
    FailWith,
    Lines,
    Message,
    ScriptedReply,
    frames_of,
)
from partway.protocol.connections.websocket import FrameConnection, Side
from partway.protocol.errors import NotFound, ServiceUnavailable, UpgradeRefused
from partway.protocol.limits import MIB, PART_OVERHEAD
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import TOO_BIG, Close
from partway.protocol.websocket.frame_decoder import FrameError
from partway.protocol.websocket.frames import Frame, FramesToParts, PartsToFrames
from partway.protocol.websocket.handshake import (
    AFTER_ANSWER,
    CLOSE_HEADER,
    UpgradeError,
    check_upgrade,
    is_upgrade,
    upgrade_headers,
)

log = logging.getLogger("partway.testing")

#: Most bytes that one container remembers; tests send far less.
MEMORY_BYTES = 64 * MIB

#: Bytes of that memory for a stream beside its path, query and headers.
_STREAM_OVERHEAD = 1024

#: Seconds that connections have to end when the container does.
_SHUTDOWN = 1.0


@dataclass(slots=True, repr=False)
class ReceivedStream:
    """The messages that one stream received. Any thread may look at them while the stream goes on.

    Attributes:
        path: without its first slash, as in ``connect(path=…)``.
        query: as it came, percent-encoded.
        headers: the headers of the upgrade.
        parts: the frames so far, each as a part.
        close: the gateway's Close, where the gateway closed first: 1000 after the input's end,
            1001 after a cancel. None until then, and where the container closed first or the
            connection broke.
        ended: whether the stream's connection is gone.
    """

    path: str
    query: str
    headers: CIMultiDictProxy[str]
    parts: list[PayloadPart] = field(default_factory=list)
    close: Close | None = None
    ended: bool = False

    def __repr__(self) -> str:
        state = "ended" if self.ended else "open"
        return f"<stream on {self.path}: {len(self.parts)} parts, {state}>"

    @property
    def messages(self) -> list[Message]:
        """Every whole message so far; an unfinished message is seen in ``parts`` alone."""
        messages = []
        begun = 0
        parts = list(self.parts)
        for index, part in enumerate(parts, 1):
            if part.completion is CompletionState.COMPLETE:
                messages.append(message_of(parts[begun:index]))
                begun = index
        return messages


class ScriptedContainer(ContainerScript):
    """A container that takes streams and requests on every path, and answers ``/ping``."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._streams: list[ReceivedStream] = []
        self._requests: list[ReceivedRequest] = []
        self._remembered = 0
        self._conversations: set[_Conversation] = set()
        self._http: Http1Server | None = None
        self._server: asyncio.Server | None = None

    # --- For tests, on any thread -----------------------------------------------------------------

    @property
    def streams(self) -> list[ReceivedStream]:
        """Every stream that reached the container, in the order of their upgrades."""
        return list(self._streams)

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Every request that reached the container with its whole body, in this order."""
        return list(self._requests)

    @property
    def received(self) -> list[Message]:
        """The whole messages of all streams, one stream after the other."""
        return [message for stream in self.streams for message in stream.messages]

    def wait_for(self, condition: Callable[[], object], timeout: float = 5.0) -> None:
        """Wait until a condition is true; it is tried whenever the container receives something.

        The call blocks: from an event loop, ``await asyncio.to_thread(container.wait_for, …)``.

        Raises:
            TimeoutError: the condition has not come true; the message lists the streams.
        """
        with self._changed:
            if not self._changed.wait_for(condition, timeout):
                seen = f"there are {self._streams}" if self._streams else "no stream has come"
                raise TimeoutError(f"the condition is not true after {timeout:g} s; {seen}")

    # --- Start and end, on the container's loop ---------------------------------------------------

    async def start(self) -> Address:
        """Listen on a free port of this machine; return the address.

        Raises:
            OSError: no port can be listened on.
        """
        self._http = Http1Server(self._dispatch)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._http.protocol, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return Address(host, port)

    async def aclose(self) -> None:
        """Stop listening, and cut the open streams."""
        if self._server is not None and self._http is not None:
            self._server.close()
            for conversation in self._conversations:
                conversation.abort()
            await self._http.shutdown(_SHUTDOWN)

    # --- Requests ---------------------------------------------------------------------------------

    async def _dispatch(self, exchange: Exchange) -> None:
        if exchange.path == "/ping":
            exchange.respond(200)
            return
        if exchange.method == "POST":
            await self._answer_request(exchange)
            return
        if not isinstance(exchange, UpgradableExchange) or not is_upgrade(exchange.headers):
            exchange.fail(
                NotFound("this container answers /ping, and takes POST and streams on every path")
            )
            return
        try:
            key = check_upgrade(exchange.method, exchange.headers)
        except UpgradeError as error:
            exchange.fail(UpgradeRefused(error.reason, error.status, error.headers))
            return
        headers = CIMultiDictProxy(CIMultiDict(exchange.headers))
        stream = ReceivedStream(exchange.path.removeprefix("/"), exchange.query, headers)
        if not self._remember(_STREAM_OVERHEAD + sum(map(len, headers.values()))):
            exchange.fail(ServiceUnavailable("the scripted container's memory is full"))
            return
        with self._changed:
            self._streams.append(stream)
            self._changed.notify_all()
        conversation = _Conversation(self._lines, stream, self._changed, self._remember)
        self._conversations.add(conversation)
        try:
            # The promise holds: every reply is sent before the answer to a Close.
            await exchange.upgrade({**upgrade_headers(key), CLOSE_HEADER: AFTER_ANSWER})
            conversation.begin(exchange)
            await conversation.over.wait()
        finally:
            conversation.abort()
            self._conversations.discard(conversation)

    async def _answer_request(self, exchange: Exchange) -> None:
        lines = self._lines
        body = await exchange.body(MEMORY_BYTES - self._remembered)
        headers = CIMultiDictProxy(CIMultiDict(exchange.headers))
        path = exchange.path.removeprefix("/")
        request = ReceivedRequest(path, exchange.query, headers, body)
        if not self._remember(_STREAM_OVERHEAD + len(body) + sum(map(len, headers.values()))):
            exchange.fail(ServiceUnavailable("the scripted container's memory is full"))
            return
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()
        answers = lines.answers(request.message)
        await answer_request(exchange, [body] if answers is None else answers)

    def _remember(self, size: int) -> bool:
        """Whether there is room for ``size`` more bytes; if so, they are counted."""
        if self._remembered + size > MEMORY_BYTES:
            log.error("the scripted container remembers %d bytes at most", MEMORY_BYTES)
            return False
        self._remembered += size
        return True


class _Conversation:
    """One stream: a ``FrameHandler`` that follows the script.

    Every reply is sent within the callback that calls for it, so that there is no task to own.
    """

    def __init__(
        self,
        lines: Lines,
        stream: ReceivedStream,
        changed: threading.Condition,
        remember: Callable[[int], bool],
    ) -> None:
        self._lines = lines
        self._stream = stream
        self._changed = changed
        self._remember = remember
        self._connection = FrameConnection(self, Side.SERVER, check_text=True, answer_close=False)
        self._parts_of = FramesToParts()
        self._message: list[PayloadPart] = []
        self._closing = False
        self.over = asyncio.Event()

    def begin(self, exchange: UpgradableExchange) -> None:
        exchange.hand_over(self._connection)
        self._say(self._lines.first)

    def abort(self) -> None:
        self._connection.abort()

    # --- FrameHandler -----------------------------------------------------------------------------

    def frame_received(self, frame: Frame) -> None:
        if not self._remember(len(frame.payload) + PART_OVERHEAD):
            self._finish(Close(TOO_BIG, "the scripted container's memory is full"))
            return
        part = self._parts_of.part(frame)
        with self._changed:
            self._stream.parts.append(part)
            self._changed.notify_all()
        if self._lines.echoes_frames:
            self._connection.send(frame)
            return
        self._message.append(part)
        if frame.fin:
            self._answer()

    def pong_received(self, payload: bytes) -> None:
        """Ignore it: this container sends no Pings; the gateway does (clause 1.4-1)."""

    def close_received(self, close: Close) -> None:
        with self._changed:
            self._stream.close = close
            self._changed.notify_all()
        self._say(self._lines.last)
        self._finish(close)

    def peer_failed(self, error: FrameError) -> None:
        log.error(
            "the gateway sent the scripted container a frame that RFC 6455 forbids: %s", error
        )
        self._closing = True
        self._connection.finish()

    def connection_lost(self, error: Exception | None) -> None:
        with self._changed:
            self._stream.ended = True
            self._changed.notify_all()
        self.over.set()

    def writing_paused(self) -> None:
        self._connection.pause_reading()

    def writing_resumed(self) -> None:
        self._connection.resume_reading()

    # --- Replies ----------------------------------------------------------------------------------

    def _answer(self) -> None:
        """Answer the whole message that has come; an echo has the fragments of its message."""
        parts, self._message = self._message, []
        answers = self._lines.answers(message_of(parts))
        if answers is not None:
            self._say(answers)
            return
        frames_of_parts = PartsToFrames()
        for part in parts:
            self._connection.send(frames_of_parts.frame(part))

    def _say(self, replies: Iterable[ScriptedReply]) -> None:
        for reply in replies:
            if isinstance(reply, CloseWith | FailWith):
                self._finish(reply.close)
                return
            for frame in frames_of(reply):
                self._connection.send(frame)

    def _finish(self, close: Close) -> None:
        if not self._closing:
            self._closing = True
            self._connection.finish(close)


def message_of(parts: Sequence[PayloadPart]) -> Message:
    """Join parts to a message; the connection has checked that text is UTF-8."""
    payload = b"".join(part.payload for part in parts)
    return payload.decode() if parts[0].data_type is DataType.UTF8 else payload
