"""A Kubernetes API server in memory, and its client."""

from tests.gateway.cluster.conftest import client, clock, server

__all__ = ["client", "clock", "server"]
