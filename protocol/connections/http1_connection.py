"""HTTP/1.1 server connection: its requests in order, its states and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from partway.protocol import limits
from partway.protocol.connections.http1_reading import Admission, RequestReader
from partway.protocol.connections.http1_server import RequestServer
from partway.protocol.connections.slow_clients import HeadWait, StalledWrites
from partway.protocol.connections.tcp import half_close
from partway.protocol.errors import ClientLeft
from partway.protocol.http1.parser import RequestBroken
from partway.protocol.http1.request import Http1Head, Http1Request


class RequestHandler(Protocol):
    def answer(self, connection: RequestConnection, request: Http1Request) -> Awaitable[bool]:
        """Return whether another request may follow."""

    def refuse(self, connection: RequestConnection, broken: RequestBroken) -> None:
        """Answer invalid input; none of it is repeated to the client."""

    def note_broken(self, connection: RequestConnection, broken: RequestBroken) -> None: ...


class OpenBothWays(Protocol):
    """A response that streams beside its request's body; it handles the transport's end."""

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def half_closed(self) -> bool:
        """Note that the client sends nothing more; return whether it may still be sent to."""

    def request_broken(self) -> None: ...

    def connection_lost(self) -> None: ...


class RequestConnection(asyncio.Protocol):
    """One connection, from its first byte to its end.

    Its reader parses requests. One task, started by the first request, answers them.

    ============== ================================================= ============================
    state          meaning                                           ended by
    ============== ================================================= ============================
    waiting        no request has come; the head wait runs           rules 1, 2
    answering      the reader's ``current`` is answered              rules 3, 4, 5
    both ways      a response streams while its request still comes  rule 6
    handed over    the transport belongs to another protocol         :meth:`release`
    lingering      FIN is sent, further input is dropped             rule 7
    closing        the transport sends the unsent bytes              rule 8
    over           there is no transport
    ============== ================================================= ============================

    Rules:
        1. A client has ``head_timeout`` for a whole head. Then the connection closes.
        2. Requests are answered in order. The next one begins after the response to the last.
        3. The rest of an unwanted body is dropped, for LINGER_TIMEOUT at most.
        4. The connection ends after a response that says so, after invalid input, which is refused
           in its turn, and when the server ends.
        5. A task that waits for a client here is told when the client leaves. A task that waits for
           something else is cancelled. With ``cancels_waiting`` the task that answers is cancelled
           in any case. While it waits for the next request, it is never cancelled.
        6. Both ways are open until the transport is gone or released. The response is told of the
           transport's back-pressure and end, and no task is cancelled.
        7. The client's further bytes must not erase the last response. Left unread, they would
           make TCP send RST. So they are dropped for LINGER_TIMEOUT at most.
        8. A client may take as long as it likes over the unsent bytes, as long as it takes some of
           them in every ``taken_within`` seconds (:class:`StalledWrites`).

    Args:
        admission: says when the connection may be read; None if it always may.

    Attributes:
        transport: the connection's; None once it is gone or belongs to another protocol.
        peer: the client's address; empty if it has none.
        encrypted: whether the connection has TLS.
    """

    __slots__ = (
        *("_admission", "_both_ways", "_handler", "_head_wait", "_lingering", "_loop", "_room"),
        *("_stalled", "_task", "encrypted", "peer", "reader", "server", "transport"),
        "writing_paused",
    )

    def __init__(
        self,
        server: RequestServer,
        handler: RequestHandler,
        admission: Admission | None = None,
        new_request: Callable[[Http1Head], Http1Request] = Http1Request,
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.encrypted = False
        self.writing_paused = False
        self.reader = RequestReader(self, admission, new_request)
        self.server = server
        self._handler = handler
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        #: Resolved when the client has room for more of the response; the answering task waits for
        #: it.
        self._room: asyncio.Future[None] | None = None
        self._both_ways: OpenBothWays | None = None
        call_later, now = self._loop.call_later, self._loop.time
        self._head_wait = HeadWait(server.head_timeout, self._no_head_came, call_later, now)
        self._stalled: StalledWrites | None = None
        self._lingering: asyncio.TimerHandle | None = None

    # --- What the loop says ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: uvloop's transports derive from no class of asyncio's.
        self.transport = cast("asyncio.Transport", transport)
        self.encrypted = transport.get_extra_info("sslcontext") is not None
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self.reader.begin(self.transport, encrypted=self.encrypted)
        self.server.begun(self)
        self._head_wait.begin()

    def data_received(self, data: bytes) -> None:
        self.reader.received(data)

    def eof_received(self) -> bool:
        return self.reader.client_ended() or self._may_be_sent_to()

    def pause_writing(self) -> None:
        self.writing_paused = True
        if self._both_ways is not None:
            self._both_ways.writing_paused()
        elif self.transport is not None:
            self._watch(self.transport)

    def resume_writing(self) -> None:
        self.writing_paused = False
        is_closing = self.transport is not None and self.transport.is_closing()
        if self._stalled is not None and not is_closing:  # else the rest must be taken in time too
            self._stalled.cancel()
            self._stalled = None
            if self._admission is not None:
                self._admission.stalls(stalls=False)
        self._give_room()
        if self._both_ways is not None:
            self._both_ways.writing_resumed()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let go of the transport, which is gone or belongs to another protocol."""
        if self.transport is None:
            return
        self.transport = None
        for each in (self._head_wait, self._stalled, self._lingering):
            if each is not None:
                each.cancel()
        self._stalled = None
        self.reader.close()
        self.server.over(self)
        if self._admission is not None:
            self._admission.left(encrypted=self.encrypted)
        if self._both_ways is not None:  # its operation sees the stream to its end
            self._both_ways.connection_lost()
        else:
            self._tell_left()

    # --- What the reader says --------------------------------------------------------------------

    def request_came(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._serve(), name="requests of HTTP/1.1")
            self.server.tasks.add(self._task)
            self._task.add_done_callback(self.server.tasks.discard)

    def request_broken(self, broken: RequestBroken) -> None:
        """Note invalid input; the reader acts on it."""
        self._handler.note_broken(self, broken)
        if self._both_ways is not None and self.reader.broken is None:
            self._both_ways.request_broken()

    def input_over(self) -> None:
        """Close after all input, unless the client may still be sent to."""
        if not self._may_be_sent_to():
            self._close()

    def _may_be_sent_to(self) -> bool:
        return self._both_ways is not None and self._both_ways.half_closed()

    # --- Requests, one after the other -----------------------------------------------------------

    async def _serve(self) -> None:
        reader, handler = self.reader, self._handler
        requests = reader.requests
        try:
            while self.transport is not None and not self.transport.is_closing():
                if not requests:
                    if reader.broken is not None:
                        handler.refuse(self, reader.broken)
                        break
                    if self.server.ending:
                        break
                    self._head_wait.begin()
                    await reader.wait()
                    continue
                request = reader.current = requests.popleft()
                if reader.paused:
                    reader.go_on()
                if not await handler.answer(self, request):
                    break
                if self.writing_paused:
                    await self.room()
                if request.held:
                    request.drop()  # otherwise it would stay until the next request
                if not request.complete and not await reader.skip(request):
                    break
                reader.current = None
                if reader.paused:  # the unread body may have held the connection back
                    reader.go_on()
        except ClientLeft:
            pass
        finally:
            reader.current = self._task = None
        self._end()

    def _tell_left(self) -> None:
        """Tell the task that waits for the client, or cancel the task that answers (rule 5)."""
        reader = self.reader
        was_idle, was_awaited = reader.idle, reader.has_readers or self._room is not None
        reader.wake()
        self._give_room()
        if reader.current is not None:
            reader.current.tell()
        cancels = not was_idle and (self.server.cancels_waiting or not was_awaited)
        if cancels and self._task is not None:
            self._task.cancel()

    # --- For who answers -------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes; they are dropped once the transport is gone or closing."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    async def room(self) -> None:
        """Wait until the client has room for more.

        Raises:
            ClientLeft: the client has left.
        """
        if self.writing_paused and self.transport is not None:
            self._room = self._loop.create_future()
            try:
                await self._room
            finally:
                self._room = None
        if self.transport is None:
            raise ClientLeft

    def _give_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def open_both_ways(self, response: OpenBothWays) -> None:
        """Let a response go on beside its request, until :meth:`release` (rule 6)."""
        self._both_ways = response
        self.reader.end_is_leaving = False

    def set_parser(self, parser: object) -> None:
        """Hand over the bytes after the head of an upgrade; this reader reads nothing further."""
        if behind := self.reader.hand_over():
            cast("_Collector", parser).feed_data(behind)

    def release(self) -> None:
        """Let go of a transport that is gone or belongs to another protocol."""
        self._both_ways = None
        self._task = None
        self.connection_lost(None)

    # --- The end ---------------------------------------------------------------------------------

    def close_if_idle(self) -> None:
        if self._lingering is not None:
            self.abort()
        elif self.reader.idle:
            self.reader.wake()  # the task sees that the server is ending
        elif self._task is None:
            self._close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _no_head_came(self) -> None:
        if self.reader.current is None and self.transport is not None:
            self._close()

    def _end(self) -> None:
        """Close after the last response (rule 7)."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if self.reader.all_read or not half_close(transport):
            self._close()
            return
        self.reader.drain()
        self._lingering = self._loop.call_later(limits.LINGER_TIMEOUT, transport.abort)

    def _close(self) -> None:
        """Close after the unsent bytes, as long as the client takes some of them (rule 8)."""
        transport = self.transport
        if transport is None:
            return
        if self.encrypted and self.reader.paused:  # asyncio's TLS does not end while it is paused
            self.reader.drain()
        if not transport.is_closing():  # closing it a second time breaks it
            transport.close()
        if self._stalled is None and transport.get_write_buffer_size():
            self._watch(transport)

    def _watch(self, transport: asyncio.Transport) -> None:
        """Abort if the client takes none of the unsent bytes (rule 8)."""
        call_later, interval = self._loop.call_later, self.server.taken_within
        self._stalled = StalledWrites(transport, call_later, interval)
        if self._admission is not None:
            self._admission.stalls(stalls=True)


class _Collector(Protocol):
    """Takes the bytes that follow the head of an upgrade."""

    def feed_data(self, data: bytes) -> object: ...
