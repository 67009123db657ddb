"""InvokeEndpointWithBidirectionalStream: from a request to a running session (sections 2 to 4).

A front handles how one kind of client opens a stream; the rest is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.arns import Arns
from partway.gateway.containers.multi_container import container_streamed
from partway.gateway.fleet.output.log_names import name_its_log
from partway.gateway.fleet.routing.router import Lease, Router
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import DUPLEX_PAYLOAD
from partway.gateway.http.routes import Route
from partway.gateway.streams.container_leg import Dialler, WebSocketContainerLeg
from partway.gateway.streams.registry import Streams
from partway.gateway.streams.session import Session
from partway.gateway.timing.clock import LoopClock
from partway.protocol.connections.upgrading import Upgraded
from partway.protocol.errors import ContainerError, ContainerUnreachable
from partway.protocol.websocket.handshake import INPUT_END_HEADER, is_upgrade

if TYPE_CHECKING:
    from partway.gateway.streams.event_stream_front import EventStreamFront
    from partway.gateway.streams.websocket_front import WebSocketFront
    from partway.protocol.signatures.event_chain import EventChain

    #: How one kind of client opens a stream.
    Front: TypeAlias = EventStreamFront | WebSocketFront

#: AWS's name of the operation, used in policies.
OPERATION = "InvokeEndpointWithBidirectionalStream"

#: Clause 2.1-4: a base path may come first, and a client may percent-encode the name. The first
#: ``/endpoints/`` names the endpoint, as rules of a proxy in front of the gateway would have it,
#: unless a base path ends in that word.
_ENDPOINT = r"(?:(?!/endpoints/(?!endpoints/))/[^/]*)*/endpoints/(?P<endpoint>[^/]+)"
PATH = re.compile(rf"{_ENDPOINT}/invocations-bidirectional-stream")
#: Clause 3-6: for clients that build their own URL.
DIRECT_PATH = re.compile(rf"{_ENDPOINT}/stream/(?P<path>.*)")


class BidirectionalStream:
    """The operation InvokeEndpointWithBidirectionalStream.

    Args:
        wall_clock: returns epoch seconds, for the signatures of events.
    """

    def __init__(
        self,
        router: Router,
        streams: Streams,
        wall_clock: Callable[[], float],
        dialler: Dialler,
        arns: Arns,
    ) -> None:
        self._router = router
        self._streams = streams
        self._wall_clock = wall_clock
        self._dialler = dialler
        self._arns = arns

    @property
    def routes(self) -> tuple[Route, ...]:
        """The operation's routes; a WebSocket's parts are unsigned, so a token may open it."""
        return (
            self._route("GET", PATH, Access.SIGNED_OR_BEARER),
            self._route("GET", DIRECT_PATH, Access.SIGNED_OR_BEARER),
            self._route("POST", PATH, Access.SIGNED),
        )

    def _route(self, method: str, path: re.Pattern[str], access: Access) -> Route:
        return Route(OPERATION, frozenset({method}), path, self, access, DUPLEX_PAYLOAD)

    async def __call__(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer one request; return when its stream is over."""
        chain = identity.event_chain() if _is_event_stream(exchange) else None
        front = self._front(exchange, chain, direct="path" in named)
        await self.serve(exchange, identity, named["endpoint"], front, chain)

    async def serve(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        front: Front,
        chain: EventChain | None = None,
    ) -> None:
        """Open a stream and relay it; return when it is over.

        Args:
            exchange: the client's request.
            identity: its sender.
            endpoint: the endpoint's name.
            front: opens the client's side.
            chain: checks the client's signed events; None for a client that signs none.

        Raises:
            ApiError: the stream cannot be opened.
        """
        wanted = front.target
        self._router.check(endpoint)
        exchange.noted["endpoint"] = endpoint
        target = wanted.path_and_query()
        wanted.check_names()
        with ExitStack() as held:
            with self._streams.opening(identity.principal):
                lease = held.enter_context(self._router.lease(endpoint, wanted.variant))
                session = await self._open(exchange, front, lease, target)
                self._streams.started(session, identity.principal, lambda: identity.stands(chain))
            session.start()
            lease.ends_by(session.drain, session.container_lost)
            await session.closed()

    async def _open(self, exchange: Exchange, front: Front, lease: Lease, target: str) -> Session:
        """Open the container's side, then the client's (clause 2.2-2); return the session."""
        upgraded = None
        while upgraded is None:
            try:
                upgraded = await self._dial(exchange, front, lease, target)
            except ContainerUnreachable:  # another instance may be reachable
                if not lease.move():
                    raise
        place = lease.place
        try:
            await front.open(
                {
                    "x-amzn-invoked-production-variant": place.variant,
                    INPUT_END_HEADER: _input_end(place.policy, upgraded),
                }
            )
        except BaseException:
            upgraded.transport.abort()
            raise
        clock = LoopClock()
        return Session(
            endpoint=place.endpoint,
            request_id=exchange.request_id,
            client=front.leg(place.policy, clock),
            container=WebSocketContainerLeg(upgraded, place.policy, clock),
            policy=place.policy,
            clock=clock,
            on_end=self._streams.ended,
        )

    async def _dial(self, exchange: Exchange, front: Front, lease: Lease, target: str) -> Upgraded:
        place = container_streamed(lease.place, front.target.container)
        # The operator may see where the container runs, but not the client.
        exchange.noted["container"] = place.url
        try:
            return await self._dialler(place, target, exchange.request_id)
        except ContainerError as error:
            name_its_log(error, self._arns, lease, place)
            raise

    def _front(self, exchange: Exchange, chain: EventChain | None, *, direct: bool) -> Front:
        # Each is imported with its first client: few gateways have clients of both kinds.
        if _is_event_stream(exchange):
            from partway.gateway.streams.event_stream_front import EventStreamFront

            check = None if chain is None else chain.checked_by(self._wall_clock)
            return EventStreamFront(exchange, check)
        if direct:
            from partway.gateway.streams.path_front import direct_front

            return direct_front(exchange, DIRECT_PATH)
        from partway.gateway.streams.websocket_front import WebSocketFront

        return WebSocketFront(exchange)


def _is_event_stream(exchange: Exchange) -> bool:
    return exchange.method == "POST" and not is_upgrade(exchange.headers)


def _input_end(policy: StreamPolicy, upgraded: Upgraded) -> str:
    at_once = policy.input_end == "auto" and upgraded.accepted.finishes_before_close
    return "close" if at_once else policy.input_end
