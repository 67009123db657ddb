"""An exchange: one request and its answer, in any HTTP version.

Operations use this class and never a server library's request.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import Final
from uuid import uuid4

from multidict import CIMultiDict, istr

from partway.gateway.http.body_quota import UNCOUNTED
from partway.gateway.http.connection_admission import Visitor, uncounted
from partway.gateway.http.duplex import Duplex
from partway.gateway.http.error_dialects import ErrorDialect, aws_rest_json
from partway.gateway.http.unauthenticated_clients import Visit
from partway.gateway.limits import REQUEST_BODY_PAUSE, REQUEST_BODY_TIMEOUT
from partway.protocol.connections.websocket import FrameConnection
from partway.protocol.errors import ApiError, RequestTimeout, RequestTooLarge
from partway.protocol.http1.response import BODILESS
from partway.protocol.signatures.signed_request import SignableRequest

NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_EXPECT: Final = istr("Expect")


class Exchange(ABC):
    """A request, and the means to answer it once.

    An answer is whole (:meth:`respond`, :meth:`fail`), in pieces (:meth:`begin`, then :meth:`write`
    and :meth:`end`), or opens both bodies at once (:meth:`open`).

    If the client leaves, a wait in :meth:`body`, :meth:`chunks`, :meth:`begin`, :meth:`write` or
    :meth:`end` raises :class:`ClientLeft`. An operation that waits for something else is cancelled.

    Attributes:
        path: the raw path, still percent-encoded, without the query.
        query: the raw query, without the question mark.
        version: HTTP's version: ``1.0``, ``1.1`` or ``2``.
        peer: address of the client, for logs.
        request_id: the exchange's id, sent back as ``x-amzn-requestid``.
        visitor: the client's connection in admission control; by default one that is not counted.
        encrypted: whether it has TLS, here and not only at a proxy's.
        head_size: bytes of its head, counted as in RFC 9113 §6.5.2; None if the limits of the head
            have not been checked.
        is_recognised: whether its sender is known, and may make the request.
        noted: findings of the operation for the operator's log, in case the request is refused or
            left; clients never see them.
        holding: the quota for its gathered body; unlimited unless another one is set before the
            body is read.
    """

    __slots__ = (
        *("_bodiless", "_continued", "_gathered", "_headers", "_raw_headers", "_undrawn"),
        *("_unended", "_visit"),
        *("encrypted", "head_size", "holding", "is_recognised", "method", "noted", "path", "peer"),
        *("query", "request_id", "version", "visitor"),
    )

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        raw_headers: Sequence[tuple[str, str]],
        version: str,
        peer: str,
        *,
        visitor: Visitor | None = None,
        encrypted: bool = False,
        head_size: int | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self._raw_headers = raw_headers
        self._headers: Mapping[str, str] | None = None
        self.head_size = head_size
        self.version = version
        self.peer = peer
        self.request_id = str(uuid4())
        self.visitor = visitor or uncounted()
        self.encrypted = encrypted
        account = self.visitor.account
        self._visit = None if account.known else account.asked()
        self.noted: dict[str, str] = {}
        self.is_recognised = False
        self.holding = UNCOUNTED
        #: The request's whole body, once it has been gathered.
        self._gathered: bytes | None = None
        #: The whole body, taken from the client, as long as the quota has no room for it.
        self._undrawn: bytes | None = None
        self._continued = False
        #: Whether a response in pieces has begun and not ended.
        self._unended = False
        self._bodiless = False

    # --- The request's head ----------------------------------------------------------------------

    @property
    def raw_headers(self) -> Sequence[tuple[str, str]]:
        """Headers as they came, in their order; HTTP/2's ``:authority`` among them."""
        return self._raw_headers

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by case-insensitive name; those of one name are joined by commas.

        RFC 9110 §5.3.
        """
        headers = self._headers
        if headers is None:
            headers = self._headers = _joined(self.raw_headers)
        return headers

    @property
    def stated_length(self) -> int | None:
        """The length that the head states for the body; None if it states none."""
        return stated_length(self.headers)

    @property
    def signable(self) -> SignableRequest:
        """The head as a signature covers it."""
        return SignableRequest(self.method, self.path, self.query, tuple(self.raw_headers))

    @property
    def visit(self) -> Visit:
        visit = self._visit
        if visit is None:
            visit = self._visit = self.visitor.account.asked()
        return visit

    def recognised(self) -> None:
        self.is_recognised = True
        visit, account = self._visit, self.visitor.account
        if visit is not None:
            visit.recognised()
        elif account.measured or not account.known:  # otherwise it changes nothing
            account.recognised()

    # --- The request's body ----------------------------------------------------------------------

    async def body(self, limit: int, within: float = REQUEST_BODY_TIMEOUT) -> bytes:
        """Return the whole body of the request; a second call returns the same bytes.

        Args:
            limit: most bytes that the body may have.
            within: seconds in which the whole body must come.

        Raises:
            RequestTooLarge: the body has more bytes, or its head says so.
            RequestTimeout: the body has not come in time.
            ServiceUnavailable: the gateway has no room for it.
            InputValidationError: the body is not valid HTTP.
            ClientLeft: the client left in the middle of the body.
        """
        at_hand = self.body_at_hand(limit)
        if at_hand is not None:
            return at_hand
        self._check_length(limit)
        self._continue_once()
        # A list of tiny chunks would take a multiple of their bytes, and a bytearray would be
        # copied once more.
        whole = BytesIO()
        if not self._gather_at_hand(whole, limit):
            try:
                async with asyncio.timeout(within):
                    while chunk := await self._read():
                        self._gather(whole, chunk, limit)
            except TimeoutError:
                raise _late(f"was not complete within {within:g} s") from None
        self._gathered = whole.getvalue()
        return self._gathered

    def body_at_hand(self, limit: int) -> bytes | None:
        """Return the whole body of the request if it has come, as most do; else None.

        Args:
            limit: most bytes that the body may have.

        Raises:
            RequestTooLarge: the body has more bytes.
            ServiceUnavailable: the gateway has no room for it.
        """
        body = self._gathered
        if body is None:
            if self.headers.get(_EXPECT):  # it may wait for 100 Continue
                return None
            # A body that was taken and refused is refused again on the next call.
            body = self._undrawn
            if body is None:
                body = self._undrawn = self._whole_at_hand()
                if body is None:
                    return None
            if len(body) > limit:
                raise _too_large(limit)
            self.holding.draw(len(body))
            self._gathered, self._undrawn = body, None
        elif len(body) > limit:
            raise _too_large(limit)
        return body

    @property
    def gathered(self) -> bool:
        return self._gathered is not None

    async def chunks(
        self, limit: int, pause: float = REQUEST_BODY_PAUSE
    ) -> AsyncGenerator[bytes, None]:
        """Yield the body of the request as it comes, cut anywhere; whole if gathered before.

        The client is held back while the caller does not ask for the next chunk: HTTP/2 gives no
        credit for the stream, and HTTP/1.1's socket is not read.

        Args:
            limit: most bytes that the body may have.
            pause: seconds in which the next chunk must come, once it is asked for.

        Raises:
            RequestTooLarge: the body has more bytes, or its head says so.
            RequestTimeout: the next chunk has not come in time.
            InputValidationError: the body is not valid HTTP.
            ClientLeft: the client left in the middle of the body.
        """
        if self._gathered is None:
            async for chunk in self._incoming(limit, pause):
                yield chunk
        elif len(self._gathered) > limit:
            raise _too_large(limit)
        elif self._gathered:
            yield self._gathered

    def _check_length(self, limit: int) -> None:
        if (stated := self.stated_length) is not None and stated > limit:
            raise _too_large(limit)

    def _gather_at_hand(self, whole: BytesIO, limit: int) -> bool:
        """Gather the part of a body that has come; return whether that is all.

        Most bodies come with their heads: no timer is set for them.
        """
        while chunk := self._at_hand():
            self._gather(whole, chunk, limit)
        return chunk is not None

    def _gather(self, whole: BytesIO, chunk: bytes, limit: int) -> None:
        if whole.tell() + len(chunk) > limit:
            raise _too_large(limit)
        self.holding.draw(len(chunk))
        whole.write(chunk)

    async def _incoming(self, limit: int, pause: float) -> AsyncIterator[bytes]:
        self._check_length(limit)
        size = 0
        while True:
            try:
                async with asyncio.timeout(pause):
                    chunk = await self._next_chunk()
            except TimeoutError:
                raise _late(f"paused for {pause:g} s") from None
            if not chunk:
                return
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            yield chunk

    async def _next_chunk(self) -> bytes:
        self._continue_once()
        return await self._read()

    def _continue_once(self) -> None:
        """Answer ``Expect: 100-continue``, now that the body is wanted (RFC 9110 §10.1.1)."""
        if self._body_is_held_back():
            self._continued = True
            self._say_continue()

    def _body_is_held_back(self) -> bool:
        """Say whether the client waits for 100 Continue, and may send no body without it."""
        expects = self.headers.get(_EXPECT, "")  # RFC 9110 §10.1.1
        return expects.lower() == "100-continue" and not self._continued

    @abstractmethod
    async def _read(self) -> bytes:
        """Return the next bytes of the request's body; empty after its end.

        Raises:
            InputValidationError: the body is not valid HTTP.
            ClientLeft: the client left in the middle of the body.
        """

    def _whole_at_hand(self) -> bytes | None:
        """Take and return the body if all of it has come; else take nothing, return None."""
        return None

    def _at_hand(self) -> bytes | None:
        """Return what :meth:`_read` would without waiting; None if it might have to wait.

        Raises:
            InputValidationError: the body is not valid HTTP.
        """
        return None

    @abstractmethod
    def _say_continue(self) -> None:
        """Send 100 Continue: the client waits for it before it sends the body."""

    # --- The response ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def answered(self) -> bool:
        """Whether a response has begun, so that it is too late for another."""

    @abstractmethod
    def respond(
        self, status: int, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        """Answer with a whole response."""

    def fail(self, error: ApiError, dialect: ErrorDialect = aws_rest_json) -> None:
        """Answer with an API error (clause 4-1)."""
        answer = dialect(error)
        self.respond(answer.status, answer.body, answer.headers_for(self.request_id))

    async def begin(
        self, status: int, headers: Mapping[str, str] = NO_HEADERS, first: bytes = b""
    ) -> None:
        """Send the head of a response in pieces; :meth:`write` and :meth:`end` follow.

        Args:
            status: the response's.
            headers: the response's.
            first: the first piece of the body, if it is there already. Unlike :meth:`write`, this
                does not wait until the client has room for another.

        Raises:
            ClientLeft: the client has left.
        """
        self._bodiless = not self._may_have_body(status)
        self._unended = True
        await self._begin(status, headers, b"" if self._bodiless else first)

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body at once; return when the client has room for another.

        If the response has no body (to HEAD, and with 204 and 304), the piece is dropped.

        Raises:
            ClientLeft: the client has left, or takes nothing for RESPONSE_TAKEN_TIMEOUT.
        """
        if piece and not self._bodiless:
            await self._write(piece)

    async def end(self, last: bytes = b"", otherwise: bytes = b"") -> None:
        """End a response in pieces, which is then complete.

        Args:
            last: the last piece, after everything that was written.
            otherwise: over HTTP/2, it replaces everything that a stalled client does not take
                (clause 2.3-6). HTTP/1.1 cannot take bytes back, so such a response stays without
                its end.

        Raises:
            ClientLeft: the client has left.
        """
        await self._end(b"" if self._bodiless else last, b"" if self._bodiless else otherwise)
        self._unended = False

    @property
    @abstractmethod
    def unsent_bytes(self) -> int:
        """Bytes of a response in pieces that are held here, since the client has not taken them."""

    @abstractmethod
    async def _begin(self, status: int, headers: Mapping[str, str], first: bytes) -> None:
        """See :meth:`begin`; ``first`` is empty if the response has no body."""

    @abstractmethod
    async def _write(self, piece: bytes) -> None:
        """See :meth:`write`; ``piece`` is not empty, and the response has a body."""

    @abstractmethod
    async def _end(self, last: bytes, otherwise: bytes) -> None:
        """See :meth:`end`; both are empty if the response has no body."""

    def _may_have_body(self, status: int) -> bool:
        return self.method != "HEAD" and status not in BODILESS

    @abstractmethod
    async def open(self, status: int, headers: Mapping[str, str]) -> Duplex:
        """Begin a response whose body goes on beside the request's.

        Raises:
            ConnectionError: the client has left.
        """

    # --- The end ---------------------------------------------------------------------------------

    @abstractmethod
    def abort(self) -> None:
        """Break off an answer that cannot be finished; the client sees that it is incomplete."""

    def operation_over(self) -> None:
        """Release the body, and break off a response in pieces that has not been ended."""
        if self._gathered or self._undrawn or self.holding.size:
            self.let_go_of_body()
        if self._unended:
            self.abort()

    def let_go_of_body(self) -> None:
        self._undrawn = None
        if self._gathered:
            self._gathered = b""
        self.holding.give_back()


class UpgradableExchange(Exchange):
    """An exchange whose transport can become a WebSocket: HTTP/1.1's."""

    __slots__ = ()

    @abstractmethod
    async def upgrade(self, headers: Mapping[str, str]) -> None:
        """Write the 101 response; :meth:`hand_over` follows."""

    @abstractmethod
    def hand_over(self, connection: FrameConnection) -> None:
        """Give the upgraded transport to ``connection``, with any bytes read after the head."""


class TrailingExchange(Exchange):
    """An exchange whose response may end in trailers (RFC 9113 §8.1): HTTP/2's."""

    @abstractmethod
    def respond_with_trailers(
        self, body: bytes, headers: Mapping[str, str], trailers: Mapping[str, str]
    ) -> None:
        """Answer 200 with a whole body and trailers."""

    async def end_with_trailers(self, trailers: Mapping[str, str]) -> None:
        """End a response in pieces by trailers, after everything that was written.

        Raises:
            ClientLeft: the client has left.
        """
        await self._end_with_trailers(trailers)
        self._unended = False

    @abstractmethod
    async def _end_with_trailers(self, trailers: Mapping[str, str]) -> None:
        """See :meth:`end_with_trailers`."""


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(f"the request's body is over {limit} bytes; it must have at most that")


def _late(how: str) -> RequestTimeout:
    return RequestTimeout(f"the request's body {how}; send it again, faster")


_LENGTH: Final = istr("Content-Length")
_LENGTH_DIGITS: Final = len(str(2**64))


def stated_length(headers: Mapping[str, str], name: str = _LENGTH) -> int | None:
    """Return the body's length that a head states; None if it states none.

    A number of more than 64 bits counts as none, because Python's ``int()`` raises an error for
    5,000 digits.

    Args:
        headers: a mapping that ignores the case of names.
    """
    stated = headers.get(name, "")
    is_length = stated.isascii() and stated.isdecimal() and len(stated) <= _LENGTH_DIGITS
    return int(stated) if is_length else None


def _joined(raw_headers: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    together = CIMultiDict(raw_headers)
    if len({name.lower() for name in together}) == len(raw_headers):
        return together  # the usual case: all names differ
    together.clear()
    for name, value in raw_headers:
        before = together.get(name)
        together[name] = value if before is None else f"{before}, {value}"
    return together
