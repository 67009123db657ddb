"""Opening a stream for a client that speaks event streams (sections 2.1, 2.2 and 2.7)."""

from __future__ import annotations

from collections.abc import Mapping

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.content_codings import check_uncoded
from partway.gateway.http.duplex import Duplex
from partway.gateway.http.exchange import Exchange
from partway.gateway.streams.event_stream_leg import EventStreamClientLeg
from partway.gateway.streams.invocation_target import InvocationTarget
from partway.gateway.streams.legs import ClientLeg
from partway.gateway.timing.clock import Clock
from partway.protocol.errors import InputValidationError
from partway.protocol.event_stream.reader import Check
from partway.protocol.event_stream.writer import CONTENT_TYPE


class EventStreamFront:
    """One client's POST of an event stream.

    Args:
        check: says whether a signed event is genuine; None if the client does not sign.

    Raises:
        ApiError: the request is invalid.
    """

    def __init__(self, exchange: Exchange, check: Check | None) -> None:
        content_type = exchange.headers.get("content-type", "").partition(";")[0].strip()
        if content_type.lower() != CONTENT_TYPE:
            raise InputValidationError(
                f"a POST on this path must have the content type {CONTENT_TYPE}; "
                "this one has another, or none",
                "InvalidContentType",
            )
        if exchange.version == "1.0":
            raise InputValidationError(
                "HTTP/1.0 cannot carry both directions at once: use HTTP/2, or HTTP/1.1 with "
                "chunks",
                "InvalidHttpVersion",
            )
        check_uncoded(exchange)
        self._exchange = exchange
        self._check = check
        self._duplex: Duplex

    @property
    def target(self) -> InvocationTarget:
        return InvocationTarget.of_headers(self._exchange.headers)

    async def open(self, headers: Mapping[str, str]) -> None:
        """Send the head, once the container's 101 has come: clients wait for it (clause 2.2-2)."""
        self._duplex = await self._exchange.open(200, {"content-type": CONTENT_TYPE, **headers})

    def leg(self, policy: StreamPolicy, clock: Clock) -> ClientLeg:
        must_say_end = self._check is not None and _must_say_end(self._exchange, policy)
        return EventStreamClientLeg(
            self._duplex, self._check, policy, clock, must_say_end=must_say_end
        )


def _must_say_end(exchange: Exchange, policy: StreamPolicy) -> bool:
    """Say whether only a signed event ends a signed input (clause 2.3-2).

    A last chunk or END_STREAM is not signed. But version 0.4 of AWS's SDK for Python sends nothing
    else; it uses HTTP/2 with TLS, where no third party can cut a stream.
    """
    if policy.signed_end == "auto":
        return exchange.version != "2" or not exchange.encrypted
    return policy.signed_end == "required"
