"""A connection of HTTP/1.1: requests are answered in their order, and how it ends."""

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
    """Answers the requests of a connection, by what that has for who answers."""

    def answer(self, connection: RequestConnection, request: Http1Request) -> Awaitable[bool]:
        """Answer a request; returns whether the connection may have another one."""

    def refuse(self, connection: RequestConnection, broken: RequestBroken) -> None:
        """Answer what is no request; nothing of it is repeated."""

    def note_broken(self, connection: RequestConnection, broken: RequestBroken) -> None:
        """Note that a client has sent what is no valid HTTP."""


class OpenBothWays(Protocol):
    """A response whose body goes on beside the request's: the transport's end is its business."""

    def writing_paused(self) -> None:
        """The client takes less than it is sent."""

    def writing_resumed(self) -> None:
        """The client has room for more again."""

    def half_closed(self) -> bool:
        """The client sends nothing more; returns whether it may still be sent to."""

    def request_broken(self) -> None:
        """The rest of the request's body is not valid HTTP."""

    def connection_lost(self) -> None:
        """The transport is gone."""


class RequestConnection(asyncio.Protocol):
    """One connection, from its first byte to its end.

    Its reader makes requests of what comes. One task, which the first of them begins, answers them.

    ============== ================================================= ============================
    state          what holds then                                   what ends it
    ============== ================================================= ============================
    waiting        no request has come; the head wait runs           rules 1, 2
    answering      the reader's ``current`` is answered              rules 3, 4, 5
    both ways      a response goes on beside its request             rule 6
    handed over    the transport is another protocol's               :meth:`release`
    lingering      FIN is sent, what still comes is dropped          rule 7
    closing        the transport sends what is unsent                rule 8
    over           there is no transport
    ============== ================================================= ============================

    Rules:
        1. A client has ``head_timeout`` for a whole head. Then the connection closes.
        2. A request that has come is answered, the first one first. The next is begun behind the
           response.
        3. The rest of a body that nobody wants is dropped, for LINGER_TIMEOUT at most.
        4. The connection ends behind a response that says so, behind what is no request, which is
           refused in its place, and as the server ends.
        5. A task that waits for a client here is told when the client leaves. A task that waits for
           something else is cancelled. With ``cancels_waiting`` the task that answers is cancelled
           in any case. While it waits for the next request, it never is.
        6. Both ways are open until the transport is gone, or let go of. The response is told of the
           transport's back-pressure and end, and no task is cancelled.
        7. The client's further bytes must not erase the last response. Left unread, they would
           make TCP send RST. So they are dropped for LINGER_TIMEOUT at most.
        8. A client may take as long as it likes over what is unsent if it takes some of that in
           ``taken_within``, over and over (:class:`StalledWrites`).

    Args:
        server: the connection's.
        handler: answers its requests.
        admission: says when it may be read; None where it always may.
        new_request: makes a request of its head.

    Attributes:
        server: the connection's.
        reader: makes requests of what the client sends, and has their bodies.
        transport: the connection's; None once that is gone, or another's.
        peer: the client's address; empty where it has none.
        encrypted: whether it has TLS.
        writing_paused: whether the client takes less than it is sent.
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
        #: The task that answers waits by this for room for more of a response.
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
        if self._stalled is not None and not is_closing:  # else the rest is to be taken too
            self._stalled.cancel()
            self._stalled = None
            if self._admission is not None:
                self._admission.stalls(stalls=False)
        self._give_room()
        if self._both_ways is not None:
            self._both_ways.writing_resumed()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let go of the transport, which is gone, or somebody else's."""
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
        """Begin the task that answers requests, if none runs."""
        if self._task is None:
            self._task = self._loop.create_task(self._serve(), name="requests of HTTP/1.1")
            self.server.tasks.add(self._task)
            self._task.add_done_callback(self.server.tasks.discard)

    def request_broken(self, broken: RequestBroken) -> None:
        """Note that nothing more is read: the reader has what follows from it."""
        self._handler.note_broken(self, broken)
        if self._both_ways is not None and self.reader.broken is None:
            self._both_ways.request_broken()

    def input_over(self) -> None:
        """Close behind all that the client has sent, unless it may still be sent to."""
        if not self._may_be_sent_to():
            self._close()

    def _may_be_sent_to(self) -> bool:
        """Whether the client, which sends nothing more, may still be sent to."""
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
                    request.drop()  # else it would stay until the next has come
                if not request.complete and not await reader.skip(request):
                    break
                reader.current = None
                if reader.paused:  # a body that nobody has read may have held it back
                    reader.go_on()
        except ClientLeft:
            pass
        finally:
            reader.current = self._task = None
        self._end()

    def _tell_left(self) -> None:
        """Tell whoever waits for the client, or cancel who works for it (rule 5)."""
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
        """Send bytes; dropped once the transport is gone, or about to be."""
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
        """Hand over what came behind the head of an upgrade; what follows is not read here."""
        if behind := self.reader.hand_over():
            cast("_Collector", parser).feed_data(behind)

    def release(self) -> None:
        """Let go of a transport that is somebody else's by now, or gone."""
        self._both_ways = None
        self._task = None
        self.connection_lost(None)

    # --- The end ---------------------------------------------------------------------------------

    def close_if_idle(self) -> None:
        """Close, unless a response is under way."""
        if self._lingering is not None:
            self.abort()
        elif self.reader.idle:
            self.reader.wake()  # the task sees that the server ends
        elif self._task is None:
            self._close()

    def abort(self) -> None:
        """End the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def _no_head_came(self) -> None:
        if self.reader.current is None and self.transport is not None:
            self._close()

    def _end(self) -> None:
        """Close behind the last response (rule 7)."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if self.reader.all_read or not half_close(transport):
            self._close()
            return
        self.reader.drain()
        self._lingering = self._loop.call_later(limits.LINGER_TIMEOUT, transport.abort)

    def _close(self) -> None:
        """Close behind what is sent, for as long as the client takes some of that (rule 8)."""
        transport = self.transport
        if transport is None:
            return
        if self.encrypted and self.reader.paused:  # asyncio's TLS does not end while it is paused
            self.reader.drain()
        if not transport.is_closing():  # it breaks when that is closed again
            transport.close()
        if self._stalled is None and transport.get_write_buffer_size():
            self._watch(transport)

    def _watch(self, transport: asyncio.Transport) -> None:
        """Give the client up if it takes nothing of what is unsent (rule 8)."""
        call_later, interval = self._loop.call_later, self.server.taken_within
        self._stalled = StalledWrites(transport, call_later, interval)
        if self._admission is not None:
            self._admission.stalls(stalls=True)


class _Collector(Protocol):
    """Takes what was read behind the head of an upgrade."""

    def feed_data(self, data: bytes) -> object:
        """Take bytes."""
