"""HTTP/1.1 request reading, in turns with other connections and with back-pressure."""

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
    """Decides whether a connection may be read, and is told how much is held for it."""

    @property
    def known(self) -> bool:
        """Whether the client is known: then the connection never waits."""

    def wait(self, go_on: Callable[[], None]) -> Cancellable | None:
        """Decide whether parsing for this connection must wait.

        Args:
            go_on: called once parsing may go on; it asks again, and then need not wait.

        Returns:
            A handle that cancels ``go_on``; None if there is nothing to wait for.
        """

    def holds(self, size: int, tls_read: int) -> None:
        """Note how much of the client's input is held.

        Args:
            size: bytes of memory.
            tls_read: bytes of the longest read through TLS; 0 without TLS.
        """

    def stalls(self, *, stalls: bool) -> None:
        """Note whether the client reads more slowly than it is sent to."""

    def left(self, *, encrypted: bool) -> None: ...


class ReadingOwner(Protocol):
    def request_came(self) -> None:
        """Note that a request or invalid input waits, and no task has been woken for it."""

    def request_broken(self, broken: RequestBroken) -> None:
        """Note that the client has sent invalid HTTP: nothing more is read."""

    def input_over(self) -> None:
        """Note that the client sends nothing more, and that all its input is parsed."""


class RequestReader:
    """Parses a client's requests, and holds the client back.

    The socket is read, or paused, or drained: then further input is dropped.

    Rules:
        1. A read is parsed at once. It waits for its turn with connections that have a backlog if
           it is over LONG_READ and others wait, or if the admission does not know the client.
        2. A turn is as long as the parser says. The rest waits for another turn, and the socket is
           paused meanwhile. The admission may put a turn off.
        3. The socket is paused as long as there is enough to do. Enough is a request that nobody
           has begun to answer, or over HTTP1_HELD_BYTES of the current body or after an upgrade.
           As long as a task waits for the next request, nothing holds the client back.
        4. No event loop tells the end of a connection whose socket is paused. So the reader checks
           every LEAVING_INTERVAL whether the client has ended it. If so, the socket is drained up
           to that end. The reader does not check while a turn is awaited, since the waiting bytes
           may be answered at once. It does not check where the client's end is no leaving.
        5. After invalid HTTP/1.1 the socket is drained. If it came inside a body, the body is
           broken. Between requests it is refused after the last of them.
        6. The client's end is told after the bytes that wait for their turn.
        7. A read is acknowledged soon, unless it has ended a request: the answer acknowledges it.

    Args:
        admission: says whether the connection may be read; None if it always may.

    Attributes:
        requests: requests with a whole head that nobody has begun to answer.
        broken: invalid input after the last request.
        current: the request that is answered, or whose rest is dropped; None between two. The
            connection sets it, and then calls :meth:`go_on`.
        idle: whether a task waits for the next request.
        paused: whether the socket is not read.
        drains: whether further input is dropped.
        end_is_leaving: whether a client that sends nothing more wants no more of its response.
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
        #: Resolved when the next request has come; the connection's task waits for it.
        self._next: asyncio.Future[None] | None = None
        #: Tasks that wait for more of a body.
        self._readers = 0

    # --- What the transport brings ---------------------------------------------------------------

    def begin(self, transport: asyncio.Transport, *, encrypted: bool) -> None:
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
        """Note that the client sends nothing more; return whether some of its input waits (rule 6).

        If a turn is awaited, the waiting input may hold the last chunk. TLS cannot be kept open for
        it: there the end is a cut.
        """
        self._client_ended = True
        return bool(self._unparsed) and self._transport is not None and not self._encrypted

    def acknowledge(self) -> None:
        """Acknowledge the last read (rule 7)."""
        self._acknowledges_soon = False
        if self._transport is not None and self._parser.awaits_more:
            acknowledge(self._transport)

    def close(self) -> None:
        """Read nothing more, and free what is held for the connection."""
        self._transport = None
        self.drains = True
        self._unparsed = b""
        for each in (self._turn, self._leaving):
            if each is not None:
                each.cancel()
        self._turn = None
        self._parser.close()
        del self._owner  # the two refer to each other: without the cycle both are freed at once

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
        parser, data = self._parser, self._unparsed
        self._unparsed = b""
        try:
            self._unparsed = self._rest_of(data)
        except RequestBroken as broken:
            self.drains = True
            self._unparsed = b""
            self._break(broken)
        if self._admission is not None:  # once per request, so not by a call of _weigh
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

        A body of a stated length that has come with its head is taken in the same turn, because it
        takes hardly any parsing. A body that may be too long to be held is not.

        Raises:
            RequestBroken: see :meth:`RequestParser.feed`.
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
        """Break the body that holds the invalid input, or have the input refused (rule 5)."""
        last = self._parser.last
        if last is None or last.complete:
            self.broken = broken
        else:
            last.broken = True
        self._owner.request_broken(broken)

    def _weigh(self) -> None:
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
        """Read on, if reading was put off and some of the work has been taken."""
        if self.paused and self._turn is None and not self._has_enough():
            if self._unparsed:
                self._turn = rounds.soon(self._take_turn)
            else:
                self._resume()

    def _pause(self) -> None:
        if not self.paused and self._transport is not None and not self._transport.is_closing():
            self.paused = True
            self._transport.pause_reading()
            if self._leaving is None:  # otherwise the timer of an earlier pause still runs
                self._look_later()

    def _resume(self) -> None:
        if self.paused and self._transport is not None and not self._transport.is_closing():
            self.paused = False
            self._transport.resume_reading()

    def drain(self) -> None:
        """Read on, and drop all input: left unread, it would make TCP send RST."""
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
        """Return the bytes after the head of an upgrade; this reader reads nothing further.

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
        return self._next is not None

    @property
    def all_read(self) -> bool:
        """Whether the client's input ended with the last request and is parsed."""
        last = self._parser.last
        ended = last is not None and last.complete and not last.head.upgrades
        return ended and not (self.drains or self._unparsed)

    async def wait(self) -> None:
        self._next = self._loop.create_future()
        try:
            await self._next
        finally:
            self._next = None

    def wake(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    async def skip(self, request: Http1Request) -> bool:
        """Drop the rest of an unwanted body; return whether its end has come in time."""
        request.drop()
        request.tell()  # wakes a task that still waits for the body
        self.go_on()
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.LINGER_TIMEOUT):
                while not (request.complete or request.broken):
                    await self._news(request)
        return request.complete

    # --- A request's body, for who answers it ----------------------------------------------------

    def taken(self, request: Http1Request) -> bytes | None:
        """Return the held bytes of a request's body; empty after its end, None if more is due."""
        if request.broken or self._transport is None:
            return None
        if request.held:
            data = request.take()
            if self.paused:
                self.go_on()
            return data
        return b"" if request.complete else None

    async def read(self, request: Http1Request) -> bytes:
        """Wait for more of a request's body; the result is empty after its end.

        Raises:
            BodyBroken: the rest is not valid HTTP, or the request has been answered.
            ClientLeft: the client has left.
        """
        while (data := self.taken(request)) is None:
            if request.broken or request.dropped:
                raise BodyBroken
            await self._news(request)
        return data

    async def read_whole(self, request: Http1Request) -> bytes:
        """Wait for all of a request's body; nothing of it has been taken yet.

        Args:
            request: a request with a body of a stated length, which is within the limits.

        Raises:
            BodyBroken: the body is incomplete, or the request has been answered.
            ClientLeft: the client has left.
        """
        assert request.head.length is not None, "the body must have a stated length"
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
