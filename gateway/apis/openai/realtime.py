"""WebSocket upgrades of OpenAI's API, such as ``/v1/realtime``: frames pass one for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from partway.gateway.apis.openai.errors import REQUEST_ID
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.exchange import Exchange
from partway.gateway.streams.client_leg import RawClientLeg
from partway.gateway.streams.invocation_target import InvocationTarget
from partway.gateway.streams.legs import ClientLeg
from partway.gateway.streams.websocket_front import WebSocketFront, unknown_subprotocol
from partway.gateway.timing.clock import Clock
from partway.protocol.signatures.api_keys import SUBPROTOCOL_PREFIX

#: The subprotocol that the gateway grants; OpenAI's client offers it in browsers.
SUBPROTOCOL: Final = "realtime"


@dataclass(frozen=True, slots=True)
class _PathAsSent(InvocationTarget):
    """A target whose path and query have been checked by another rule.

    Attributes:
        path_as_sent: path and query.
    """

    path_as_sent: str = ""

    def path_and_query(self) -> str:
        return self.path_as_sent


class RealtimeFront(WebSocketFront):
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

    async def open(self, headers: Mapping[str, str]) -> None:
        await super().open({**headers, REQUEST_ID: self._exchange.request_id})

    def leg(self, policy: StreamPolicy, clock: Clock) -> ClientLeg:
        return RawClientLeg(self._exchange.hand_over, policy, clock)

    def _chosen(self, offered: Sequence[str]) -> str | None:
        """Return ``realtime`` if it is offered; a token among the offers is never granted."""
        if SUBPROTOCOL in offered:
            return SUBPROTOCOL
        if any(not name.startswith(SUBPROTOCOL_PREFIX) for name in offered):
            raise unknown_subprotocol((SUBPROTOCOL,))
        return None
