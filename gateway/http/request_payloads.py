"""Payload rules: how a route takes a request's body, and how a signature covers the body."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

from multidict import istr

from partway.gateway.http.exchange import Exchange
from partway.gateway.limits import REQUEST_BODY_TIMEOUT
from partway.protocol.signatures.canonical_form import CONTENT_SHA256_HEADER
from partway.protocol.signatures.payload_hashes import (
    payload_hash_of_body,
    payload_hash_of_stream,
    stated_payload_hash,
)

_STATED_HASH: Final = istr(CONTENT_SHA256_HEADER)


class PayloadRule(ABC):
    """A route's rule for the bodies of its requests.

    Attributes:
        prepares: whether :meth:`prepare` has anything to do.
    """

    prepares: ClassVar[bool] = False

    @abstractmethod
    def hash_beforehand(self, exchange: Exchange) -> str | None:
        """Return the payload hash that a request states, or that needs no body; else None.

        Raises:
            ApiError: the stated hash cannot be read, or cannot be right.
        """

    @abstractmethod
    def hash_at_hand(self, exchange: Exchange) -> str | None:
        """Return the payload hash that a signature must cover (clause 2.4-1).

        None if the body has not come yet. Called only for signed requests, once the owner of the
        key is known.

        Raises:
            ApiError: the body is not as its header states, or cannot be read.
        """

    async def signed_hash(self, exchange: Exchange) -> str:
        """Wait for the body, and return the hash of :meth:`hash_at_hand`.

        Raises:
            ApiError: as there.
        """
        known = self.hash_at_hand(exchange)
        assert known is not None, "a rule whose body has to come overrides this method"
        return known

    async def prepare(self, exchange: Exchange) -> None:  # noqa: B027 most have nothing to do
        """Prepare the body before the operation runs.

        Raises:
            ApiError: the body is too large, too late, or not valid HTTP.
            ClientLeft: the client left in the middle of the body.
        """


class NoPayload(PayloadRule):
    """The operation reads no body; a body is skipped."""

    def hash_beforehand(self, exchange: Exchange) -> str:
        return payload_hash_of_body(_with_stated_hash(exchange), b"")

    hash_at_hand = hash_beforehand


@dataclass(frozen=True, slots=True)
class _Limited(PayloadRule):
    """A body in one direction; a signed one is gathered, since only a whole can be verified.

    Attributes:
        limit: most bytes that the body may have.
        within: seconds in which a gathered body must come.
    """

    limit: int
    within: float = REQUEST_BODY_TIMEOUT

    def hash_beforehand(self, exchange: Exchange) -> str | None:
        headers = _with_stated_hash(exchange)
        return stated_payload_hash(headers) if headers else None

    def hash_at_hand(self, exchange: Exchange) -> str | None:
        body = exchange.body_at_hand(self.limit)
        return None if body is None else payload_hash_of_body(_with_stated_hash(exchange), body)

    async def signed_hash(self, exchange: Exchange) -> str:
        body = await exchange.body(self.limit, self.within)
        return payload_hash_of_body(_with_stated_hash(exchange), body)


class GatheredPayload(_Limited):
    """The whole body is there before the operation runs: ``await exchange.body(limit)``."""

    __slots__ = ()

    prepares: ClassVar[bool] = True

    async def prepare(self, exchange: Exchange) -> None:
        await exchange.body(self.limit, self.within)


class StreamedPayload(_Limited):
    """The operation takes the body as it comes: ``exchange.chunks(limit)``.

    A signed body comes whole, once it has been verified.
    """

    __slots__ = ()


class DuplexPayload(PayloadRule):
    """Both bodies are open at once, by an upgrade or by :meth:`Exchange.open`.

    A signed request signs each event by itself, and says so.
    """

    def hash_beforehand(self, exchange: Exchange) -> str:
        return payload_hash_of_stream(_with_stated_hash(exchange))

    hash_at_hand = hash_beforehand


def _with_stated_hash(exchange: Exchange) -> tuple[tuple[str, str], ...]:
    """Return the headers that may state a payload's hash; few requests state one."""
    return tuple(exchange.raw_headers) if _STATED_HASH in exchange.headers else ()


NO_PAYLOAD = NoPayload()
DUPLEX_PAYLOAD = DuplexPayload()
