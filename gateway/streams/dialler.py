"""The one way by which a stream comes to its container."""

from __future__ import annotations

from typing import Protocol

from partway.gateway.fleet.endpoint import Place
from partway.gateway.network.dialling import Upgraded
from partway.gateway.streams.container_leg import dial


class Dialler(Protocol):
    """Opens a stream's connection with its container; asked once for each stream.

    The place is the one that has just been found for the stream, so a dialler needs no list of
    endpoints and holds for those too that appear while the gateway runs.
    """

    async def __call__(self, place: Place, target: str, request_id: str) -> Upgraded:
        """Connect to the container, and upgrade the connection to a WebSocket.

        Args:
            place: where the container is.
            target: path and query asked of the container.
            request_id: the stream's id, which the container is told.

        Raises:
            ContainerError: the container refused the stream, or there is no connection with it.
            ServiceUnavailable: the gateway has no file descriptor left to dial with.
        """


async def dial_container(place: Place, target: str, request_id: str) -> Upgraded:
    """Connect to the container itself; see :class:`Dialler`."""
    tls = None if place.tls is None else place.tls.context()
    return await dial(place.container, target, request_id, place.policy, tls)
