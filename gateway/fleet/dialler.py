"""The one way by which a stream comes to its container."""

from __future__ import annotations

from typing import Protocol

from partway.gateway.dialling import Upgraded
from partway.gateway.fleet.endpoints import Endpoint
from partway.gateway.streams.container_leg import dial


class Dialler(Protocol):
    """Opens a stream's connection with its endpoint's container; asked once for each stream.

    The endpoint is the one that has just been found for the stream, so a dialler needs no list of
    endpoints and holds for those too that appear while the gateway runs.
    """

    async def __call__(self, endpoint: Endpoint, target: str, request_id: str) -> Upgraded:
        """Connect to the endpoint's container, and upgrade the connection to a WebSocket.

        Args:
            endpoint: whose container is wanted.
            target: path and query asked of the container.
            request_id: the stream's id, which the container is told.

        Raises:
            ContainerError: the container refused the stream, or there is no connection with it.
            ServiceUnavailable: the gateway has no file descriptor left to dial with.
        """


async def dial_container(endpoint: Endpoint, target: str, request_id: str) -> Upgraded:
    """Connect to the endpoint's container itself; see :class:`Dialler`."""
    tls = None if endpoint.tls is None else endpoint.tls.context()
    return await dial(endpoint.container, target, request_id, endpoint.policy, tls)
