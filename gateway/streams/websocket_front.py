"""Opening a stream for a WebSocket client: checks of the request, and the response (section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import parse_qsl

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.exchange import Exchange, UpgradableExchange
from partway.gateway.streams.client_leg import LEGS, RAW
from partway.gateway.streams.invocation_target import InvocationTarget
from partway.gateway.streams.legs import ClientLeg
from partway.gateway.timing.clock import Clock
from partway.protocol.errors import InputValidationError, UpgradeRefused
from partway.protocol.websocket.handshake import (
    UpgradeError,
    check_upgrade,
    is_upgrade,
    tokens,
    upgrade_headers,
)

#: Parameters of the upgrade's query that are read (clause 3-3).
_TARGET = ("path", "query", "variant", "container")


class WebSocketFront:
    """One client's upgrade request.

    Raises:
        ApiError: the request is invalid.
    """

    def __init__(self, exchange: Exchange) -> None:
        if not isinstance(exchange, UpgradableExchange) or not is_upgrade(exchange.headers):
            raise _no_upgrade()
        if exchange.version != "1.1":
            raise _no_upgrade()
        try:
            self._key = check_upgrade(exchange.method, exchange.headers)
        except UpgradeError as error:
            raise UpgradeRefused(error.reason, error.status, error.headers) from None
        self._exchange = exchange
        offered = tokens(exchange.headers.get("Sec-WebSocket-Protocol", ""))
        self._subprotocol = self._chosen(offered)

    @property
    def target(self) -> InvocationTarget:
        """The target of the stream in the endpoint.

        It comes from headers, or from the query, since browsers set no headers (clause 3-3).
        """
        by_headers = InvocationTarget.of_headers(self._exchange.headers)
        query = _once_each(parse_qsl(self._exchange.query))
        return InvocationTarget(
            path=by_headers.path or query.get("path", ""),
            query=by_headers.query or query.get("query", ""),
            variant=by_headers.variant or query.get("variant", ""),
            container=by_headers.container or query.get("container", ""),
        )

    async def open(self, headers: Mapping[str, str]) -> None:
        """Write the 101 response, once the container's has come."""
        await self._exchange.upgrade({**upgrade_headers(self._key, self._subprotocol), **headers})

    def leg(self, policy: StreamPolicy, clock: Clock) -> ClientLeg:
        return LEGS[self._subprotocol or RAW](self._exchange.hand_over, policy, clock)

    def _chosen(self, offered: Sequence[str]) -> str | None:
        """Return the first offered subprotocol that is known; None if the client offers nothing."""
        known = next((name for name in offered if name in LEGS), None)
        if offered and known is None:
            raise unknown_subprotocol(LEGS)
        return known


def unknown_subprotocol(known: Iterable[str]) -> InputValidationError:
    return InputValidationError(
        f"Sec-WebSocket-Protocol must offer one of {', '.join(known)}, or not be sent",
        "UnknownSubprotocol",
    )


def _once_each(parameters: list[tuple[str, str]]) -> dict[str, str]:
    """Return parameters by name.

    SigV4 signs the values of one name sorted. An attacker who swaps two of them would change the
    request and not the signature, so a repeated name is refused.

    Raises:
        InputValidationError: a parameter of a target is there twice.
    """
    names = [name for name, _ in parameters]
    for name in _TARGET:
        if names.count(name) > 1:
            raise InputValidationError(
                f"the query repeats {name!r}; it must have {name!r} once at most",
                "RepeatedParameter",
            )
    return dict(parameters)


def _no_upgrade() -> InputValidationError:
    return InputValidationError(
        "a request for this operation must be a POST of an event stream, "
        "or a WebSocket upgrade: GET over HTTP/1.1 with Upgrade: websocket",
        "UpgradeRequired",
    )
