"""Errors of a cluster in the form that the controller knows."""

from __future__ import annotations

from partway.gateway.cluster.answers import ClusterError
from partway.protocol.errors import ServiceUnavailable


class ClusterUnavailable(ServiceUnavailable):
    """A request to the API server has failed; another try may succeed."""


def unavailable(error: ClusterError) -> ClusterUnavailable:
    return ClusterUnavailable(str(error))
