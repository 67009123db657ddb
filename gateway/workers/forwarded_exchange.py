"""A request that a worker has forwarded, as an exchange of the parent's dispatcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

from partway.gateway.http.duplex import Duplex
from partway.gateway.http.exchange import NO_HEADERS, Exchange
from partway.gateway.workers.link import LinkBroken, WorkerLink
from partway.gateway.workers.messages import (
    AnswerAtOnce,
    AnswerBegin,
    AnswerEnd,
    AnswerPart,
    ForwardedBody,
    ForwardedHead,
    ToOperation,
    WantBody,
)
from partway.protocol.errors import ClientLeft, InputValidationError


class ForwardedExchange(Exchange):
    """An exchange whose client is connected with a worker.

    Args:
        link: the connection with the worker, for this request alone.
        has_names: whether senders are authenticated.
    """

    __slots__ = ("_answered", "_has_names", "_link", "_on_left", "_pieces", "_waiting", "_wants")

    def __init__(
        self, head: ForwardedHead, link: WorkerLink[ToOperation], *, has_names: bool
    ) -> None:
        super().__init__(
            head.method,
            head.path,
            head.query,
            head.headers,
            head.version,
            head.peer,
            encrypted=head.encrypted,
        )
        self.request_id = head.request_id
        self._link = link
        self._has_names = has_names
        self._answered = False
        self._wants = False
        self._waiting = 0
        #: Pieces of the body that have come; None behind the last for a client that has left.
        self._pieces: asyncio.Queue[ForwardedBody | None] = asyncio.Queue(1)
        self._on_left: Callable[[], object] = lambda: None

    # --- The link --------------------------------------------------------------------------------

    async def take_body(self, cancel: Callable[[], object]) -> None:
        """Take the body from the link until the worker ends it, which means the client left.

        Args:
            cancel: cancels the operation, which may wait for something else than its client.
        """
        try:
            async for message in self._link.messages():
                if isinstance(message, ForwardedBody):
                    await self._pieces.put(message)
        finally:
            if self._waiting:
                self._link.abort()
                while self._pieces.full():
                    self._pieces.get_nowait()
                self._pieces.put_nowait(None)
            else:
                cancel()

    @contextmanager
    def _waits(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        except (LinkBroken, ConnectionError):
            raise ClientLeft from None
        finally:
            self._waiting -= 1

    # --- The request's body ----------------------------------------------------------------------

    async def _read(self) -> bytes:
        if not self._wants:
            self._wants = True
            self._link.send(WantBody())
        with self._waits():
            piece = await self._pieces.get()
        if piece is None:
            raise ClientLeft
        if piece.fault:
            raise InputValidationError(piece.fault, "MalformedBody")
        return piece.data

    def _say_continue(self) -> None:
        """Do nothing: the worker says it, when the body is wanted."""

    # --- The response ----------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        return self._answered

    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        self._answered = True
        self._link.send(AnswerAtOnce(status, dict(headers), body, self._is_good(status)))

    @property
    def unsent_bytes(self) -> int:
        return self._link.unsent_bytes

    async def _begin(self, status: int, headers: Mapping[str, str], first: bytes) -> None:
        self._answered = True
        self._link.send(AnswerBegin(status, dict(headers), first, self._is_good(status)))

    async def _write(self, piece: bytes) -> None:
        with self._waits():
            self._link.send(AnswerPart(piece))
            await self._link.room()

    async def _end(self, last: bytes, otherwise: bytes) -> None:
        with self._waits():
            self._link.send(AnswerEnd(last, otherwise))
            await self._link.room()

    async def open(self, status: int, headers: Mapping[str, str]) -> Duplex:
        raise NotImplementedError("workers serve streams themselves")

    def _is_good(self, status: int) -> bool:
        """Return whether the worker need not count the request as an unknown sender's.

        Without authentication all senders are unknown, and their own faults count.
        """
        return self.is_recognised and (self._has_names or status < HTTPStatus.BAD_REQUEST)

    # --- The end ---------------------------------------------------------------------------------

    def abort(self) -> None:
        self._link.abort()
