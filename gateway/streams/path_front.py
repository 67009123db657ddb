"""Opening a stream for a WebSocket client whose URL has the container's path (clause 3-6)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.exchange import Exchange
from partway.gateway.streams.client_leg import RAW, RawClientLeg
from partway.gateway.streams.invocation_target import InvocationTarget
from partway.gateway.streams.legs import ClientLeg
from partway.gateway.streams.path_target import container_target, raw_part
from partway.gateway.streams.websocket_front import WebSocketFront, unknown_subprotocol
from partway.gateway.timing.clock import Clock
from partway.protocol.websocket.offered_subprotocols import BEFORE_TOKEN, OfferedSubprotocols

#: The subprotocols that are granted: OpenAI's Realtime API has the first. A browser ends a
#: connection that is granted none of its offers.
_GRANTED: Final = ("realtime", RAW, *BEFORE_TOKEN)


@dataclass(frozen=True, slots=True)
class _PathAsSent(InvocationTarget):
    """A target whose path and query have been checked by another rule.

    Attributes:
        path_as_sent: path and query.
    """

    path_as_sent: str = ""

    def path_and_query(self) -> str:
        return self.path_as_sent


class PathFront(WebSocketFront):
    """One client's upgrade request.

    Args:
        exchange: the request.
        target: the container's path and query.

    Raises:
        ApiError: the request is invalid.
    """

    def __init__(self, exchange: Exchange, target: str) -> None:
        super().__init__(exchange)
        named = InvocationTarget.of_headers(exchange.headers)
        self._target = _PathAsSent(
            variant=named.variant, container=named.container, path_as_sent=target
        )

    @property
    def target(self) -> InvocationTarget:
        return self._target

    def leg(self, policy: StreamPolicy, clock: Clock) -> ClientLeg:
        return RawClientLeg(self._exchange.hand_over, policy, clock)

    def _chosen(self, offered: Sequence[str]) -> str | None:
        """Return the first offer that is known; a token among the offers is never granted."""
        names = OfferedSubprotocols.of(offered).names
        known = next((name for name in names if name in _GRANTED), None)
        if names and known is None:
            raise unknown_subprotocol(_GRANTED)
        return known


def direct_front(exchange: Exchange, pattern: re.Pattern[str]) -> PathFront:
    """Return the front for the raw path that a pattern's group ``path`` finds in a URL.

    Raises:
        ApiError: the request is invalid.
    """
    path = raw_part(exchange.path, pattern, "path")
    return PathFront(exchange, container_target(path, exchange.query))
