"""The leg toward the container: one WebSocket connection, dialled and upgraded by us."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Protocol

from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.limits import CONTAINER_TLS_TIMEOUT
from partway.gateway.network import dialling
from partway.gateway.network.dialling import HTTPS_PORT, Address
from partway.gateway.network.silent_hosts import silent_hosts
from partway.gateway.streams.ends import Ending
from partway.gateway.streams.legs import ContainerLeg
from partway.gateway.streams.websocket_leg import WebSocketLeg
from partway.gateway.timing.clock import Clock
from partway.protocol.connections.peer_watch import PingWatch
from partway.protocol.connections.upgrading import Upgraded
from partway.protocol.connections.websocket import Side
from partway.protocol.errors import ContainerError, ContainerUnreachable, ServiceUnavailable
from partway.protocol.parts import PayloadPart
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frame_decoder import FrameError
from partway.protocol.websocket.frames import Frame, FramesToParts, PartsToFrames
from partway.protocol.websocket.handshake import ClientHandshake, HandshakeRefused

#: Where a container takes streams, unless the client names another path (clause 1.6-1).
DEFAULT_PATH = "/invocations-bidirectional-stream"

#: The only header of a request that a container gets (clause 1.6-1).
REQUEST_ID = "X-Amzn-SageMaker-Request-Id"


async def dial(
    address: Address,
    target: str,
    request_id: str,
    policy: StreamPolicy,
    tls: ssl.SSLContext | None = None,
) -> Upgraded:
    """Connect to a container and upgrade (clause 4-6).

    Args:
        address: the container's address, which no client can influence.
        target: path and query.
        request_id: sent as ``X-Amzn-SageMaker-Request-Id``, the only such header (1.6-1).
        policy: settings of the endpoint's streams.
        tls: the client's side of TLS; None for cleartext.

    Raises:
        ContainerError: the container did not grant the stream. The error has the container's own
            status and body, or status 0 without a valid answer.
        ContainerUnreachable: there is no connection, so the container has heard nothing.
        ServiceUnavailable: the gateway has no file descriptor left.
    """
    authority = str(address)
    if tls is not None:
        authority = authority.removesuffix(f":{HTTPS_PORT}")  # clients leave it out, and proxies
        # that route by Host expect that (RFC 9110 §4.2.3)
    handshake = ClientHandshake(authority, target, [(REQUEST_ID, request_id)])
    try:
        return await dialling.dial(
            address,
            handshake,
            connect_timeout=policy.connect_timeout,
            handshake_timeout=policy.handshake_timeout,
            tls=tls,
            tls_timeout=CONTAINER_TLS_TIMEOUT,
        )
    except HandshakeRefused as refusal:
        raise _refused(refusal) from None
    except dialling.OutOfDescriptors:
        raise ServiceUnavailable(
            "this gateway has no file descriptor left for a stream; another one may take it"
        ) from None
    except dialling.Unreachable as error:
        failed = "cannot open a stream to the container"
        kind = ContainerError if error.asked else ContainerUnreachable
        raise kind(
            f"{failed}: {error.unnamed}", for_operator=f"{failed}: {error}", passing=error.passing
        ) from None


def _refused(refusal: HandshakeRefused) -> ContainerError:
    """Return a container's refusal as its client sees it (clause 4-6).

    The body of a 2xx answer is not shown. It is a page that the container serves to a GET at that
    path, and clients may choose paths to stream with, but not to read.
    """
    status = refusal.status
    if 200 <= status < 300:
        return ContainerError(
            f"the container takes no stream at this path: it answered {status}, not 101", status
        )
    body = refusal.body.decode("utf-8", "replace")
    message = f"the container refused the stream with status {status}"
    said = " ".join(body.split())
    return ContainerError(message, status, body, f"{message}: {said}" if said else message)


class WebSocketContainerLeg(WebSocketLeg, ContainerLeg):
    """The leg that turns parts into frames and frames into parts, one for one (1.2, 1.3)."""

    def __init__(self, upgraded: Upgraded, policy: StreamPolicy, clock: Clock) -> None:
        super().__init__(Side.CLIENT, policy, clock, policy.max_part)
        self._upgraded = upgraded
        self._to_frames = PartsToFrames()
        self._to_parts = FramesToParts()
        self._told_the_end = False
        self._forget_host: Callable[[], None]

    # --- Leg -------------------------------------------------------------------------------------

    def _watch(self) -> PingWatch:
        return PingWatch(
            self._connection,
            self._clock,
            interval=self._policy.ping_interval,
            unanswered_limit=self._policy.pings_unanswered,
            on_lost=self._session.container_unresponsive,
            stall=self._session.container_stall,
        )

    def _take_over(self) -> None:
        self._forget_host = silent_hosts.opened(self._upgraded.transport)
        self._connection.take_over(self._upgraded.transport, self._upgraded.accepted.trailing)

    def send(self, part: PayloadPart) -> None:
        self._connection.send(self._to_frames.frame(part))

    def close(self, close: Close) -> None:
        self._pings.stop()  # no frame follows a Close; its own timeout watches from here on
        self._told_the_end = True
        self._connection.close(close)

    def finish(self, ending: Ending) -> None:
        self._pings.stop()
        if self._told_the_end and ending.container_close is not None:
            # Clause 1.5-13: a Close has gone out already, and another one cannot. The model would
            # work on for no client.
            self._connection.abort()
        else:
            self._connection.finish(ending.container_close)

    @property
    def mid_message(self) -> bool:
        return self._to_frames.mid_message

    @property
    def finishes_before_close(self) -> bool:
        return self._upgraded.accepted.finishes_before_close

    def unsent_bytes(self) -> int:
        return self._connection.unsent_bytes

    # --- FrameHandler ----------------------------------------------------------------------------

    def _receive(self, frame: Frame) -> None:
        self._session.part_from_container(self._to_parts.part(frame))

    def close_received(self, close: Close) -> None:
        self._session.container_closed(close)

    def peer_failed(self, error: FrameError) -> None:
        self._session.container_failed(error)

    def _lost(self) -> None:
        self._forget_host()
        self._session.container_lost()

    def writing_paused(self) -> None:
        self._session.container_blocked()

    def writing_resumed(self) -> None:
        self._session.container_drained()


class Dialler(Protocol):
    """Opens a stream's connection to its container; called once for each stream.

    The place is the one just found for the stream. So a dialler needs no list of endpoints, and
    works for endpoints that appear while the gateway runs.
    """

    async def __call__(self, place: Place, target: str, request_id: str) -> Upgraded:
        """Connect to the container, and upgrade the connection to a WebSocket.

        ``target`` is the path and query to request.

        Raises:
            ContainerError: the container refused the stream, or there is no connection to it.
            ServiceUnavailable: the gateway has no file descriptor left to dial with.
        """


async def dial_container(place: Place, target: str, request_id: str) -> Upgraded:
    """Connect to the container itself; see :class:`Dialler`."""
    tls = None if place.tls is None else place.tls.context()
    return await dial(place.container, target, request_id, place.policy, tls)
