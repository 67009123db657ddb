"""Values from outside of an endpoint's tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from partway.gateway.fleet.endpoint import InstanceTimes, Program
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.tls.trust import Trust

#: Times of an instance: their names in a table, and in :class:`InstanceTimes`.
_TIMES: Final[Mapping[str, str]] = {
    "startup_timeout": "startup_timeout",
    "health_ping_interval": "ping_interval",
    "health_ping_timeout": "ping_timeout",
    "health_pings_missed": "pings_missed",
    "instance_drain_timeout": "drain_timeout",
    "stop_timeout": "stop_timeout",
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Values that an endpoint has from outside of its table.

    Attributes:
        policy: default of its streams.
        times: default of its instances.
        trust: roots to trust for containers with TLS.
        images: commands that replace images.
        folder: base of its relative paths; None for the gateway's own.
    """

    policy: StreamPolicy
    times: InstanceTimes
    trust: Trust
    images: Mapping[str, Program] = field(default_factory=dict)
    folder: Path | None = None


def times_of(base: InstanceTimes, values: Mapping[str, Any]) -> InstanceTimes:
    """Return times of instances, changed by settings.

    Args:
        base: the times without these settings.
        values: settings by name; others than times are ignored.
    """
    changed = {_TIMES[key]: value for key, value in values.items() if key in _TIMES}
    return dataclasses.replace(base, **changed)
