"""A connection of HTTP/1.1: what it reads in turns, answers in order, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from partway.protocol import limits
from partway.protocol.connections.answerer import Answerer
from partway.protocol.connections.fair_turns import Cancellable, rounds
from partway.protocol.connections.head_wait import HeadWait
from partway.protocol.connections.prompt_acks import acknowledge, prompt_acks
from partway.protocol.connections.stalled_writes import StalledWrites
from partway.protocol.connections.tcp import half_close, has_ended
from partway.protocol.errors import ClientLeft
from partway.protocol.http1.parser import RequestBroken, RequestParser
from partway.protocol.http1.request import BodyBroken, Http1Head, Http1Request
from partway.protocol.limits import HTTP1_HELD_BYTES, LONG_READ


class RequestConnection(asyncio.Protocol):
    """One connection. It parses in turns with others, and gives up a client that takes nothing.

    One task answers its requests, one after the other. While it is at one, as much is read of the
    next as one turn brings.

    Who is a connection of another kind adds to the callbacks of asyncio, to what is said of hooks
    below, and to how the connection is written to and ends.

    Args:
        server: has its requests answered.
        new_request: makes a request of its head.

    Attributes:
        transport: the connection's; None once that is gone, or another's.
        peer: the client's address; empty where it has none.
        encrypted: whether it has TLS.
        writing_paused: whether the client takes less than it is sent.
    """

    __slots__ = (
        *("_acknowledges_soon",),
        *("_broken", "_client_ended", "_current", "_deaf", "_head_wait", "_idle", "_leaving"),
        *("_lingering", "_loop", "_not_taken", "_parser", "_paused", "_room", "_server", "_task"),
        *("_turn", "_unparsed", "_waiting", "encrypted", "peer", "transport", "writing_paused"),
    )

    def __init__(
        self,
        server: Answerer,
        new_request: Callable[[Http1Head], Http1Request] = Http1Request,
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.encrypted = False
        self.writing_paused = False
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = RequestParser(new_request)
        self._unparsed = b""
        self._paused = False
        #: Whether what the client still sends is dropped.
        self._deaf = False
        #: What has come behind the last request, and is none.
        self._broken: RequestBroken | None = None
        self._client_ended = False
        self._turn: Cancellable | None = None
        self._current: Http1Request | None = None
        self._task: asyncio.Task[None] | None = None
        #: The task waits by these: for the next request, and for room for more of a response.
        self._idle: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        #: How many tasks wait for the client in one of the methods here.
        self._waiting = 0
        call_later, now = self._loop.call_later, self._loop.time
        self._head_wait = HeadWait(server.head_timeout, self._no_head_came, call_later, now)
        self._not_taken: StalledWrites | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._acknowledges_soon = False

    # --- What the loop says ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.encrypted = transport.get_extra_info("sslcontext") is not None
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self._server.begun(self)
        self._head_wait.begin()

    def data_received(self, data: bytes) -> None:
        if not self._acknowledges_soon:
            self._acknowledges_soon = True
            prompt_acks.soon(self)
        if self._deaf:
            return
        self._unparsed = self._unparsed + data if self._unparsed else data
        # While the next request is waited for, there is nothing to hold it back.
        if self._turn is not None or (self._idle is None and self._is_held_back()):
            self._pause()
            self._weigh()
        elif self._comes_in_turn() or (len(data) > LONG_READ and rounds.busy()):
            self._yield_turn()
        else:
            self._take_turn()

    def pause_writing(self) -> None:
        self.writing_paused = True
        if self.transport is not None:
            self._watch(self.transport)

    def resume_writing(self) -> None:
        self.writing_paused = False
        is_closing = self.transport is not None and self.transport.is_closing()
        if self._not_taken is not None and not is_closing:  # else the rest is to be taken too
            self._not_taken.cancel()
            self._not_taken = None
            self._weigh()
        self._give_room()

    def eof_received(self) -> bool:
        self._client_ended = True
        if not self._unparsed or self.transport is None or self.encrypted:
            return self._may_be_sent_to()
        return True  # what waits may hold the last chunk; TLS cannot be kept open: a cut

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let go of the transport, which is gone, or somebody else's."""
        if self.transport is not None:
            self._let_go()
            self._tell_lost()

    def acknowledge(self) -> None:
        """Acknowledge the last read, unless it has ended a request, which an answer follows."""
        self._acknowledges_soon = False
        if self.transport is not None and self._parser.awaits_more:
            acknowledge(self.transport)

    # --- Hooks -----------------------------------------------------------------------------------

    def _comes_in_turn(self) -> bool:
        """Whether what comes is not parsed at once, but in its turn, however short it is."""
        return False

    def _weigh(self) -> None:
        """Say what is held here of what the client has sent, or does not take."""

    def _may_be_sent_to(self) -> bool:
        """Whether the client, which sends nothing more, may still be sent to."""
        return False

    def _end_is_leaving(self) -> bool:
        """Whether a client that sends nothing more wants no more of what it has asked for."""
        return True

    def _let_go(self) -> None:
        """Hold nothing of the connection any more, which is over."""
        self.transport = None
        self._deaf = True
        self._unparsed = b""
        own = self._turn, self._head_wait, self._not_taken, self._leaving, self._lingering
        for each in own:
            if each is not None:
                each.cancel()
        self._turn = self._not_taken = None
        self._server.over(self)
        self._parser.close()

    def _tell_lost(self) -> None:
        """Tell whoever waits for the client, who has left, or cancel who works for it."""
        if self._idle is not None or self._waiting:
            self._wake()
            self._give_room()
            if self._current is not None:
                self._current.tell()
        elif self._task is not None:
            self._task.cancel()

    # --- Reading ---------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Parse some of a read; the rest of it waits while other connections have their turn."""
        waited = self._turn is not None
        self._turn = None
        self._parse()
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        current = self._current
        if self._unparsed:
            if self._is_held_back():
                self._pause()
            else:
                self._yield_turn()
        elif self._client_ended:
            if not self._may_be_sent_to():
                self._close()
        elif current is not None and not current.complete and self._is_held_back():
            self._pause()
        elif waited:
            self._resume()

    def _yield_turn(self) -> None:
        """Let others have the loop: a read may hold tens of thousands of tiny chunks."""
        self._pause()
        self._turn = rounds.soon(self._take_turn)

    def _parse(self) -> None:
        """Parse one turn's bytes, and tell who waits for what they bring."""
        parser, data = self._parser, self._unparsed
        self._unparsed = b""
        try:
            self._unparsed = self._rest_of(data)
        except RequestBroken as broken:
            self._deaf = True
            self._unparsed = b""
            self._break(broken)
        self._weigh()
        current = self._current
        if current is not None and current.news is not None and current.enough:
            current.tell()
        if parser.requests or self._broken is not None:
            if self._idle is not None:
                self._wake()
            elif self._task is None:
                self._task = self._loop.create_task(self._serve(), name="requests of HTTP/1.1")
                self._server.tasks.add(self._task)
                self._task.add_done_callback(self._server.tasks.discard)

    def _rest_of(self, data: bytes) -> bytes:
        """Parse one turn's bytes, and return the rest.

        A body of a stated length that has come with its head is taken in the same turn, unless it
        may be too long to be held: it takes hardly any parsing.

        Raises:
            RequestBroken: as of :meth:`RequestParser.feed`.
        """
        parser = self._parser
        size = parser.turn()
        parser.feed(data[:size])
        rest = data[size:]
        if rest and parser.in_stated_body and len(data) <= HTTP1_HELD_BYTES:
            size = parser.turn()
            parser.feed(rest[:size])
            rest = rest[size:]
        return rest

    def _break(self, broken: RequestBroken) -> None:
        """Nothing more is read: the body of the last request is broken, or there is no request."""
        last = self._parser.last
        if last is None or last.complete:
            self._broken = broken
        else:
            last.broken = True

    def _is_held_back(self) -> bool:
        """Whether there is enough to do, so that nothing more is parsed."""
        parser = self._parser
        if parser.requests or len(parser.tail) > HTTP1_HELD_BYTES:
            return True
        current = self._current
        return current is not None and current.held > HTTP1_HELD_BYTES and current.enough

    def _go_on(self) -> None:
        """Read on, if that was put off: something has been taken of what there was to do."""
        if self._paused and self._turn is None and not self._is_held_back():
            if self._unparsed:
                self._turn = rounds.soon(self._take_turn)
            else:
                self._resume()

    def _pause(self) -> None:
        if not self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()
            if self._leaving is None:  # else it runs since an earlier pause
                self._look_later()

    def _look_later(self) -> None:
        self._leaving = self._loop.call_later(limits.LEAVING_INTERVAL, self._look_who_left)

    def _look_who_left(self) -> None:
        """Read up to the end of a client that has left: while it is not read from, nobody is told.

        What only waits for its turn is parsed first: it may be answered at once.
        """
        self._leaving = None
        transport = self.transport
        if not self._paused or transport is None or transport.is_closing():
            return
        if self._turn is None and self._end_is_leaving() and has_ended(transport):
            self._drop_the_rest()
        else:
            self._look_later()

    def _drop_the_rest(self) -> None:
        """Read on, and pass over all that comes: left unread, it would make TCP send RST."""
        self._deaf = True
        self._unparsed = b""
        self._resume()

    def _resume(self) -> None:
        if self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    # --- Requests, one after the other -----------------------------------------------------------

    async def _serve(self) -> None:
        requests, server = self._parser.requests, self._server
        try:
            while self.transport is not None and not self.transport.is_closing():
                if not requests:
                    if self._broken is not None:
                        server.refuse(self, self._broken)
                        break
                    if server.ending:
                        break
                    self._current = None
                    self._head_wait.begin()
                    self._idle = self._loop.create_future()
                    try:
                        await self._idle
                    finally:
                        self._idle = None
                    continue
                request = self._current = requests.popleft()
                if self._paused:
                    self._go_on()
                if not await server.answer(self, request):
                    break
                if self.writing_paused:
                    await self.room()
                if request.held:
                    request.drop()  # else it would stay until the next has come
                if not request.complete and not await self._skipped(request):
                    break
                self._current = None
                self._go_on()  # a body that nobody has read may have held it back
        except ClientLeft:
            pass
        finally:
            self._current = self._task = None
        self._end()

    async def _skipped(self, request: Http1Request) -> bool:
        """Drop the rest of a body that nobody wants; whether that has come to its end in time."""
        request.drop()
        request.tell()  # whoever waits for it still
        self._go_on()
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.LINGER_TIMEOUT):
                while not (request.complete or request.broken):
                    await self._news(request)
        return request.complete

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    # --- For who answers -------------------------------------------------------------------------

    @property
    def has_next(self) -> bool:
        """Whether the next request has come."""
        return bool(self._parser.requests)

    async def read(self, request: Http1Request) -> bytes:
        """Wait for more of a request's body; empty behind its end.

        Raises:
            BodyBroken: there is no more that is valid HTTP, or the request has been answered.
            ClientLeft: the client has left.
        """
        while (data := self.taken(request)) is None:
            if request.broken or request.dropped:
                raise BodyBroken
            await self._news(request)
        return data

    async def read_whole(self, request: Http1Request) -> bytes:
        """Wait for all of a request's body, of which nothing has been taken.

        Args:
            request: the request, whose body has a stated length: that is held, and must be within
                what may be.

        Raises:
            BodyBroken: what has come is not all of it, or the request has been answered.
            ClientLeft: the client has left.
        """
        assert request.head.length is not None, "what has no length may have no end"
        request.wants = request.head.length
        if self._paused:
            self._go_on()
        try:
            while not request.complete:
                if request.broken or request.dropped:
                    raise BodyBroken
                await self._news(request)
        finally:
            request.wants = 0
        data = self.taken(request)
        if data is None:
            raise ClientLeft
        return data

    def taken(self, request: Http1Request) -> bytes | None:
        """What has come of a request's body; empty behind its end, None where that is not known."""
        if request.broken or self.transport is None:
            return None
        if request.held:
            data = request.take()
            if self._paused:
                self._go_on()
            return data
        return b"" if request.complete else None

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
            self._waiting += 1
            try:
                await self._room
            finally:
                self._waiting -= 1
                self._room = None
        if self.transport is None:
            raise ClientLeft

    async def _news(self, request: Http1Request) -> None:
        if self.transport is None:
            raise ClientLeft
        news = request.news = self._loop.create_future()
        self._waiting += 1
        try:
            await news
        finally:
            self._waiting -= 1
            if request.news is news:
                request.news = None
        if self.transport is None:
            raise ClientLeft

    def _give_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def set_parser(self, parser: object) -> None:
        """Hand over what came behind the head of an upgrade; what follows is not read here."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._paused = False  # whoever reads from here on resumes, and sees the end
        behind, self._unparsed = self._parser.tail + self._unparsed, b""
        self._deaf = True
        if behind:
            cast("_Collector", parser).feed_data(behind)

    # --- The end ---------------------------------------------------------------------------------

    def release(self) -> None:
        """Let go of a transport that is somebody else's by now, or gone."""
        self._task = None
        self.connection_lost(None)

    def close_if_idle(self) -> None:
        """Close, unless a response is under way."""
        if self._lingering is not None:
            self.abort()
        elif self._idle is not None:
            self._wake()  # the task sees that the server ends
        elif self._task is None:
            self._close()

    def _close(self) -> None:
        """Close behind what is sent, for as long as the client takes some of that."""
        transport = self.transport
        if transport is None:
            return
        if self.encrypted and self._paused:  # asyncio's TLS does not end while it is paused
            self._drop_the_rest()
        if not transport.is_closing():  # it breaks when that is closed again
            transport.close()
        if self._not_taken is None and transport.get_write_buffer_size():
            self._watch(transport)

    def _watch(self, transport: asyncio.Transport) -> None:
        """Give the client up if it takes nothing of what is unsent."""
        call_later, interval = self._loop.call_later, self._server.taken_within
        self._not_taken = StalledWrites(transport, call_later, interval)
        self._weigh()

    def abort(self) -> None:
        """End the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    def _no_head_came(self) -> None:
        if self._current is None and self.transport is not None:
            self._close()

    def _end(self) -> None:
        """Close behind the last response, which what the client still sends must not erase.

        Unread bytes would make TCP send RST. They are dropped for LINGER_TIMEOUT at most.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        last = self._parser.last
        all_read = last is not None and last.complete and not last.head.upgrades and not self._deaf
        if (all_read and not self._unparsed) or not half_close(transport):
            self._close()
            return
        self._drop_the_rest()
        self._lingering = self._loop.call_later(limits.LINGER_TIMEOUT, transport.abort)


class _Collector(Protocol):
    """Takes what was read behind the head of an upgrade."""

    def feed_data(self, data: bytes) -> object:
        """Take bytes."""
