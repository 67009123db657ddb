"""Tests of clients: a gateway beside a test, its container's script, and faults.

The fixture ``partway_gateway`` runs a gateway; this module has the other names for tests.

A model's own test uses :func:`partway.container.testing.serving`.
"""

from __future__ import annotations

from partway.gateway.workbench.testing.running_gateway import (
    CloseEarly,
    CloseWith,
    Cut,
    Delay,
    DropPongs,
    Empty,
    FailWith,
    Fragmented,
    GatewayDidNotRun,
    Refuse,
    RunningGateway,
    Split,
    Stall,
    Throttle,
)

__all__ = [
    "CloseEarly",
    "CloseWith",
    "Cut",
    "Delay",
    "DropPongs",
    "Empty",
    "FailWith",
    "Fragmented",
    "GatewayDidNotRun",
    "Refuse",
    "RunningGateway",
    "Split",
    "Stall",
    "Throttle",
]
