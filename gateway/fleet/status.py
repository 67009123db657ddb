"""The status of the fleet as values: endpoints, variants and instances."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from partway.gateway.fleet.container_ids import container_id
from partway.gateway.fleet.limits import SLOW_START_TOLD_AFTER
from partway.gateway.fleet.states import InstanceState


class EndpointState(StrEnum):
    """The state of an endpoint: SageMaker's words of ``EndpointStatus``, and ``Stopping``."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    DELETING = "Deleting"
    FAILED = "Failed"
    #: The gateway stops; the endpoint comes back with the gateway.
    STOPPING = "Stopping"

    @property
    def service_word(self) -> str:
        """The word of ``EndpointStatus``, which has none for a service that stops."""
        return str(EndpointState.DELETING if self is EndpointState.STOPPING else self)


class InstanceHealth(StrEnum):
    """The health of an instance according to its last pings."""

    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The status of one instance.

    Attributes:
        id: the id used in logs.
        version: the version of its endpoint, counted from 1; two exist while an endpoint changes.
        health: the result of its last pings.
        reason: why it is not ready yet, is unhealthy, drains or has failed; empty otherwise.
        since: when it came into its state, in epoch seconds.
        container: its URL; empty as long as it has none.
        served: streams and requests that it has taken in all.
        containers: the URL of each container by host name, if it has several; empty as
            ``container``.
    """

    id: str
    version: int
    state: InstanceState
    health: InstanceHealth
    reason: str
    since: float
    container: str
    streams: int
    requests: int
    served: int
    containers: dict[str, str] = field(default_factory=dict)

    @property
    def container_ids(self) -> tuple[str, ...]:
        """The ids of its containers in the logs; an only container has the instance's id."""
        return tuple(container_id(self.id, each) for each in self.containers) or (self.id,)


@dataclass(frozen=True, slots=True)
class VariantStatus:
    """The status of one variant.

    Attributes:
        weight: the desired weight.
        desired: the desired number of instances in the version that serves; while none serves, in
            the one that is coming up.
        serving: how many instances of that version take requests.
        restarts: how many instances have replaced one that failed.
        trouble: why its instances do not start; empty if they do.
        instances: its instances; without any, the last one that failed.
    """

    name: str
    weight: float
    desired: int
    serving: int
    restarts: int
    trouble: str
    instances: tuple[InstanceStatus, ...]

    def slow_start_reason(self, now: float) -> str:
        """Return why an instance has been starting for a while; empty if none has.

        Args:
            now: epoch seconds.
        """
        for each in self.instances:
            is_slow = now - each.since >= SLOW_START_TOLD_AFTER
            if each.state is InstanceState.STARTING and is_slow and each.reason:
                return each.reason
        return ""


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """The status of one endpoint.

    Attributes:
        reason: why it has failed, or why its last change has; empty otherwise.
        since: when it came into its state, in epoch seconds.
        is_latest: whether the serving version is the one that was asked for last.
        note: which change was given up, and what serves on; empty if none was.
    """

    name: str
    state: EndpointState
    reason: str
    since: float
    variants: tuple[VariantStatus, ...]
    is_latest: bool = True
    note: str = ""
