"""A request that a worker has forwarded, as an exchange of the parent's dispatcher."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from partway.gateway.http.connection_admission import uncounted
from partway.gateway.http.duplex import Duplex
from partway.gateway.http.exchange import NO_HEADERS, Exchange
from partway.gateway.http.unauthenticated_clients import Account
from partway.gateway.workers.link import LinkBroken, MessageTooLong, WorkerLink
from partway.gateway.workers.messages import (
    AnswerAtOnce,
    AnswerBegin,
    AnswerEnd,
    AnswerPart,
    ForwardedBody,
    ForwardedHead,
    ToOperation,
    WantBody,
    as_bytes,
    as_text,
)
from partway.log_lines import LogLine
from partway.protocol.errors import (
    ApiError,
    ClientLeft,
    InputValidationError,
    InternalServerError,
    RequestTimeout,
    RequestTooLarge,
)

log = logging.getLogger("partway.workers")

#: Errors of a body beside InputValidationError.
_BODY_ERRORS: Final[Mapping[str, type[ApiError]]] = {
    each.name: each for each in (RequestTimeout, RequestTooLarge)
}


class _Meter(Account):
    """An account that draws nothing: the worker charges its client."""

    __slots__ = ("cost",)

    def __init__(self) -> None:
        super().__init__()
        self.known = True  # the connection between the processes is
        self.cost = 0.0

    def draw(self, seconds: float) -> None:
        self.cost += seconds


class ForwardedExchange(Exchange):
    """An exchange whose client is connected with a worker.

    Args:
        link: the connection with the worker, for this request alone.
    """

    __slots__ = (
        *("_answered", "_has_ended", "_is_left", "_is_wanted", "_link", "_meter", "_pieces"),
        *("_waiting", "_whole"),
    )

    def __init__(self, head: ForwardedHead, link: WorkerLink[ToOperation]) -> None:
        self._meter = _Meter()
        super().__init__(
            head.method,
            as_text(head.path),
            as_text(head.query),
            tuple((as_text(name), as_text(value)) for name, value in head.headers),
            head.version,
            head.peer,
            visitor=uncounted(self._meter),
            encrypted=head.encrypted,
        )
        self.request_id = head.request_id
        self._link = link
        self._answered = False
        self._whole: tuple[int, bytes, Mapping[str, str]] | None = None
        #: Waits that the client's end ends.
        self._waiting = 0
        #: The piece that was wanted, behind which None stands for a client that has left.
        self._pieces: asyncio.Queue[ForwardedBody | None] = asyncio.Queue()
        self._is_wanted = False
        self._has_ended = False
        self._is_left = False

    # --- The link --------------------------------------------------------------------------------

    async def take_body(self, cancel: Callable[[], object]) -> None:
        """Take the body from the link until the worker ends it, which means the client left.

        Args:
            cancel: cancels the operation, which may wait for something else than its client.
        """
        with suppress(LinkBroken):
            async for message in self._link.messages():
                if isinstance(message, ForwardedBody):
                    self._pieces.put_nowait(message)
        self._is_left = True
        self._pieces.put_nowait(None)
        if self._waiting:
            self._link.abort()  # which ends a wait for room
        else:
            cancel()

    @contextmanager
    def _waits(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        except (LinkBroken, OSError):
            raise ClientLeft from None
        finally:
            self._waiting -= 1

    # --- The request's body ----------------------------------------------------------------------

    async def _read(self) -> bytes:
        if self._has_ended:
            return b""
        if self._is_left:
            raise ClientLeft
        if not self._is_wanted:  # else the wait for the last one was broken off
            self._is_wanted = True
            self._link.send(WantBody())
        with self._waits():
            piece = await self._pieces.get()
        if piece is None:
            raise ClientLeft
        self._is_wanted = False
        if piece.error:
            if (error := _BODY_ERRORS.get(piece.error)) is not None:
                raise error(piece.message)
            raise InputValidationError(piece.message, "MalformedBody")
        self._has_ended = not piece.data
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
        self._whole = status, body, headers

    def send_whole(self) -> None:
        """Send a whole answer, once the dispatcher has returned.

        Until then a fault may replace the answer, and the cost grows.
        """
        if self._answered:
            return
        self._answered = True
        try:
            self._send_whole()
        except MessageTooLong:
            line = "an answer is too long for a worker"
            log.exception(LogLine(line, request_id=self.request_id))
            self.fail(InternalServerError())
            self._send_whole()

    def _send_whole(self) -> None:
        status, body, headers = self._whole or (500, b"", NO_HEADERS)
        self._link.send(
            AnswerAtOnce(status, _plain(headers), body, self.is_recognised, self._meter.cost)
        )

    @property
    def unsent_bytes(self) -> int:
        return self._link.unsent_bytes

    async def _begin(self, status: int, headers: Mapping[str, str], first: bytes) -> None:
        self._answered = True
        with self._waits():
            self._link.send(AnswerBegin(status, _plain(headers), first, self.is_recognised))

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

    # --- The end ---------------------------------------------------------------------------------

    def abort(self) -> None:
        self._answered = True
        self._link.abort()


def _plain(headers: Mapping[str, str]) -> dict[str, bytes]:
    return {name: as_bytes(value) for name, value in headers.items()}
