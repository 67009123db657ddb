"""InvokeEndpointWithBidirectionalStream: from a request to a running session (sections 3 and 4).

A front knows how one kind of client opens a stream; what comes after is the same for all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.dialling import Upgraded
from gateway.fleet.endpoints import Endpoint
from gateway.operations.asked import check_variant, container_target
from gateway.operations.websocket_front import WebSocketFront
from gateway.serving.exchange import Exchange
from gateway.streams.clock import LoopClock
from gateway.streams.container_leg import WebSocketContainerLeg, dial
from gateway.streams.session import Session
from protocol.errors import ModelError

if TYPE_CHECKING:
    from gateway.gateway import Gateway

log = logging.getLogger("partway.gateway")


class BidirectionalStream:
    """The operation.

    Args:
        gateway: whose endpoints, sessions and settings it works with.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, exchange: Exchange, named: Mapping[str, str]) -> None:
        """Answer one request; returns when its stream is over."""
        front = WebSocketFront(exchange, self._gateway.settings.allow_origins)
        endpoint = self._gateway.endpoints.find(named["endpoint"])
        asked = front.asked
        target = container_target(asked)
        check_variant(asked, endpoint.variant)

        with self._gateway.opening():
            upgraded = await self._dial(endpoint, target, exchange.request_id)
            try:
                # Clause 2.2-2: the client's 101 follows the container's.
                await front.open({"x-amzn-invoked-production-variant": endpoint.variant})
            except BaseException:
                upgraded.transport.abort()
                raise
            clock = LoopClock()
            session = Session(
                endpoint=endpoint.name,
                request_id=exchange.request_id,
                client=front.leg(endpoint.policy, clock),
                container=WebSocketContainerLeg(upgraded, endpoint.policy, clock),
                policy=endpoint.policy,
                clock=clock,
                on_end=self._gateway.session_ended,
            )
            self._gateway.session_started(session)
        session.start()
        await session.closed()

    async def _dial(self, endpoint: Endpoint, target: str, request_id: str) -> Upgraded:
        try:
            return await dial(endpoint.container, target, request_id, endpoint.policy)
        except ModelError as error:
            # Where the container runs is for the operator to see, not for the client.
            log.warning(
                "no stream endpoint=%s container=%s request_id=%s: %s",
                endpoint.name,
                endpoint.container,
                request_id,
                error.message,
            )
            raise
