"""What a client sends over HTTP/1.1: parsed in turns with other connections, and held back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from partway.protocol import limits
from partway.protocol.connections.fair_turns import Cancellable, rounds
from partway.protocol.connections.prompt_acks import acknowledge, prompt_acks
from partway.protocol.connections.tcp import has_ended
from partway.protocol.errors import ClientLeft
from partway.protocol.http1.parser import RequestBroken, RequestParser
from partway.protocol.http1.request import BodyBroken, Http1Head, Http1Request
from partway.protocol.limits import HTTP1_HELD_BYTES, LONG_READ


class Admission(Protocol):
    """Says whether a connection may be read, and is told what is held for it."""

    @property
    def known(self) -> bool:
        """Whether it is known who asks: then nothing below makes the connection wait."""

    def wait(self, go_on: Callable[[], None]) -> Cancellable | None:
        """Whether nothing more of the connection may be parsed now.

        Args:
            go_on: called once it may be; it asks again, and then need not wait.

        Returns:
            Takes ``go_on`` back; None if there is nothing to wait for.
        """

    def holds(self, size: int, tls_read: int) -> None:
        """Note what is held of what the client has sent.

        Args:
            size: bytes of memory.
            tls_read: bytes of the longest read behind TLS; 0 without TLS.
        """

    def stalls(self, *, stalls: bool) -> None:
        """Note whether the client takes less than it is sent."""

    def left(self, *, encrypted: bool) -> None:
        """Note that the connection is over."""


class ReadingOwner(Protocol):
    """What a reader tells the connection that it reads for."""

    def request_came(self) -> None:
        """There is a request, or what is none, and no task waits for it."""

    def request_broken(self, broken: RequestBroken) -> None:
        """The client has sent what is no valid HTTP: nothing more is read."""

    def input_over(self) -> None:
        """The client sends nothing more, and all that it has sent is parsed."""


class RequestReader:
    """Makes requests of what a client sends, and holds the client back.

    The socket is read; or paused; or drained, so that what still comes is dropped.

    Rules:
        1. A read is parsed at once. It waits for its turn with connections that have a backlog if
           it is over LONG_READ and others wait, or if the admission does not know the client.
        2. A turn is as long as the parser says. The rest waits for another turn, and the socket is
           paused meanwhile. The admission may put a turn off.
        3. The socket is paused as long as there is enough to do: a request that nobody has begun
           to answer, or over HTTP1_HELD_BYTES of the current body, or of what follows an upgrade.
           As long as a task waits for the next request, nothing holds the client back.
        4. No event loop tells the end of a connection whose socket is paused. So every
           LEAVING_INTERVAL it is looked whether the client has ended it. If so, the socket is
           drained up to that end. This is not done where a turn is awaited, since what waits may be
           answered at once, nor where the client's end is not a leaving.
        5. Behind what is not HTTP/1.1 the socket is drained. The body in which it comes is broken;
           between requests it is refused behind the last of them.
        6. The client's end comes behind what waits for its turn.
        7. A read is acknowledged soon, unless it has ended a request, which an answer follows.

    Args:
        owner: is told of what has come.
        admission: says whether the connection may be read; None where it always may.
        new_request: makes a request of its head.

    Attributes:
        requests: whose heads have come, and that nobody has begun to answer.
        broken: what has come behind the last request, and is none.
        current: the request that is answered, or whose rest is dropped; None between two. The
            connection sets it, and then calls :meth:`go_on`.
        idle: whether a task waits for the next request.
        paused: whether the socket is not read.
        drains: whether what still comes is dropped.
        end_is_leaving: whether a client that sends nothing more wants no more of what it has asked
            for.
    """

    __slots__ = (
        *("_acknowledges_soon", "_admission", "_client_ended", "_encrypted", "_leaving", "_loop"),
        *("_next", "_owner", "_parser", "_readers", "_tls_read", "_transport", "_turn"),
        *("_unparsed", "broken", "current", "drains", "end_is_leaving", "paused", "requests"),
    )

    def __init__(
        self,
        owner: ReadingOwner,
        admission: Admission | None,
        new_request: Callable[[Http1Head], Http1Request],
    ) -> None:
        self.broken: RequestBroken | None = None
        self.current: Http1Request | None = None
        self.paused = False
        self.drains = False
        self.end_is_leaving = True
        self._owner = owner
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._parser = RequestParser(new_request)
        self.requests = self._parser.requests
        self._transport: asyncio.Transport | None = None
        self._encrypted = False
        self._unparsed = b""
        self._tls_read = 0
        self._client_ended = False
        self._turn: Cancellable | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._acknowledges_soon = False
        #: The connection's task waits by this for the next request.
        self._next: asyncio.Future[None] | None = None
        #: How many tasks wait for more of a body.
        self._readers = 0

    # --- What the transport brings ---------------------------------------------------------------

    def begin(self, transport: asyncio.Transport, *, encrypted: bool) -> None:
        """Read a transport."""
        self._transport = transport
        self._encrypted = encrypted

    def received(self, data: bytes) -> None:
        """Take in a read (rules 1 and 7)."""
        if not self._acknowledges_soon:
            self._acknowledges_soon = True
            prompt_acks.soon(self)
        if self.drains:
            return
        admission = self._admission
        if self._encrypted and len(data) > self._tls_read:
            self._tls_read = len(data)
            self._weigh()
        self._unparsed = self._unparsed + data if self._unparsed else data
        if self._turn is not None or (self._next is None and self._has_enough()):
            self._pause()
            self._weigh()
        elif (admission is not None and not admission.known) or (
            len(data) > LONG_READ and rounds.busy()
        ):
            self._yield_turn()
        else:
            self._parse_turn()

    def client_ended(self) -> bool:
        """Note that the client sends nothing more; returns whether something of it waits (rule 6).

        Where a turn is awaited, the rest may hold the last chunk. TLS cannot be kept open for it:
        there the end is a cut.
        """
        self._client_ended = True
        return bool(self._unparsed) and self._transport is not None and not self._encrypted

    def acknowledge(self) -> None:
        """Acknowledge the last read (rule 7)."""
        self._acknowledges_soon = False
        if self._transport is not None and self._parser.awaits_more:
            acknowledge(self._transport)

    def close(self) -> None:
        """Read nothing more, and hold nothing of the connection, which is over."""
        self._transport = None
        self.drains = True
        self._unparsed = b""
        for each in (self._turn, self._leaving):
            if each is not None:
                each.cancel()
        self._turn = None
        self._parser.close()
        del self._owner  # which has this object, and so both of them go at once

    # --- Turns -----------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        """Take the turn that was awaited, unless the admission puts it off."""
        admission = self._admission
        if admission is not None and (waits := admission.wait(self._take_turn)) is not None:
            self._pause()
            self._turn = waits
            self._weigh()
        else:
            self._parse_turn()

    def _parse_turn(self) -> None:
        """Parse some of what has come; the rest waits for another turn (rule 2)."""
        waited = self._turn is not None
        self._turn = None
        self._parse()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        current = self.current
        if self._unparsed:
            if self._has_enough():
                self._pause()
            else:
                self._yield_turn()
        elif self._client_ended:
            self._owner.input_over()
        elif current is not None and not current.complete and self._has_enough():
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
            self.drains = True
            self._unparsed = b""
            self._break(broken)
        if self._admission is not None:  # for each request: a call of _weigh would cost
            self._admission.holds(len(self._unparsed) + parser.held, self._tls_read)
        current = self.current
        if current is not None and current.news is not None and current.enough:
            current.tell()
        if parser.requests or self.broken is not None:
            if self._next is None:
                self._owner.request_came()
            else:
                self.wake()

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
        """Break the body in which it comes, or have it refused in its place (rule 5)."""
        last = self._parser.last
        if last is None or last.complete:
            self.broken = broken
        else:
            last.broken = True
        self._owner.request_broken(broken)

    def _weigh(self) -> None:
        """Say what is held here of what the client has sent."""
        if self._admission is not None:
            held = len(self._unparsed) + self._parser.held
            self._admission.holds(held, self._tls_read)

    # --- Holding the client back -----------------------------------------------------------------

    def _has_enough(self) -> bool:
        """Whether there is enough to do, so that nothing more is parsed (rule 3)."""
        parser = self._parser
        if parser.requests or len(parser.tail) > HTTP1_HELD_BYTES:
            return True
        current = self.current
        return current is not None and current.held > HTTP1_HELD_BYTES and current.enough

    def go_on(self) -> None:
        """Read on, if that was put off: something has been taken of what there was to do."""
        if self.paused and self._turn is None and not self._has_enough():
            if self._unparsed:
                self._turn = rounds.soon(self._take_turn)
            else:
                self._resume()

    def _pause(self) -> None:
        if not self.paused and self._transport is not None and not self._transport.is_closing():
            self.paused = True
            self._transport.pause_reading()
            if self._leaving is None:  # else it runs since an earlier pause
                self._look_later()

    def _resume(self) -> None:
        if self.paused and self._transport is not None and not self._transport.is_closing():
            self.paused = False
            self._transport.resume_reading()

    def drain(self) -> None:
        """Read on, and drop all that comes: left unread, it would make TCP send RST."""
        self.drains = True
        self._unparsed = b""
        self._resume()

    def _look_later(self) -> None:
        self._leaving = self._loop.call_later(limits.LEAVING_INTERVAL, self._look_who_left)

    def _look_who_left(self) -> None:
        """Drain the socket if the client has ended the connection (rule 4)."""
        self._leaving = None
        transport = self._transport
        if not self.paused or transport is None or transport.is_closing():
            return
        if self._turn is None and self.end_is_leaving and has_ended(transport):
            self.drain()
        else:
            self._look_later()

    def hand_over(self) -> bytes:
        """Return what came behind the head of an upgrade; what follows is not read here.

        The transport's next protocol resumes it, and sees its end.
        """
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self.paused = False
        self.drains = True
        behind, self._unparsed = self._parser.tail + self._unparsed, b""
        return behind

    # --- The next request, for the task that answers ---------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether a task waits for the next request."""
        return self._next is not None

    @property
    def all_read(self) -> bool:
        """Whether all that the client has sent was the last request, and is parsed."""
        last = self._parser.last
        ended = last is not None and last.complete and not last.head.upgrades
        return ended and not (self.drains or self._unparsed)

    async def wait(self) -> None:
        """Wait for the next request, or for :meth:`wake`."""
        self._next = self._loop.create_future()
        try:
            await self._next
        finally:
            self._next = None

    def wake(self) -> None:
        """Wake the task that waits for the next request."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    async def skip(self, request: Http1Request) -> bool:
        """Drop the rest of a body that nobody wants; whether that has come to its end in time."""
        request.drop()
        request.tell()  # whoever waits for it still
        self.go_on()
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.LINGER_TIMEOUT):
                while not (request.complete or request.broken):
                    await self._news(request)
        return request.complete

    # --- A request's body, for who answers it ----------------------------------------------------

    def taken(self, request: Http1Request) -> bytes | None:
        """What has come of a request's body; empty behind its end, None where that is not known."""
        if request.broken or self._transport is None:
            return None
        if request.held:
            data = request.take()
            if self.paused:
                self.go_on()
            return data
        return b"" if request.complete else None

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
        if self.paused:
            self.go_on()
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

    @property
    def has_readers(self) -> bool:
        """Whether a task waits for more of a body."""
        return self._readers > 0

    async def _news(self, request: Http1Request) -> None:
        if self._transport is None:
            raise ClientLeft
        news = request.news = self._loop.create_future()
        self._readers += 1
        try:
            await news
        finally:
            self._readers -= 1
            if request.news is news:
                request.news = None
        if self._transport is None:
            raise ClientLeft
