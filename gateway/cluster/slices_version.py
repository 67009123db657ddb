"""The API version of EndpointSlices that a server has and that is understood here."""

from __future__ import annotations

from typing import Final

from partway.gateway.cluster.answers import ClusterAway
from partway.gateway.cluster.api_server import ApiServer

_GROUP: Final = "discovery.k8s.io"

#: The newest first.
_VERSIONS: Final = ("v1", "v1beta1")


async def slices_version(server: ApiServer) -> str:
    """Return the newest version, with its group.

    Raises:
        ClusterError: the server cannot be asked, or has no version that is understood.
    """
    served = await server.versions(_GROUP)
    for version in _VERSIONS:
        if version in served:
            return f"{_GROUP}/{version}"
    has = ", ".join(served) or "none"
    raise ClusterAway(
        f"the API server has these versions of {_GROUP}: {has}; it must have one of "
        f"{', '.join(_VERSIONS)}"
    )
