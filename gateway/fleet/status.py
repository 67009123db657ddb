"""What a fleet says of itself: endpoints, variants and instances as they are now, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from partway.gateway.fleet.container_ids import container_id
from partway.gateway.fleet.limits import SLOW_START_TOLD_AFTER
from partway.gateway.fleet.states import InstanceState


class EndpointState(StrEnum):
    """How an endpoint is: SageMaker's words of ``EndpointStatus``, and ``Stopping``."""

    CREATING = "Creating"
    IN_SERVICE = "InService"
    UPDATING = "Updating"
    DELETING = "Deleting"
    FAILED = "Failed"
    #: The gateway stops; the endpoint is there again when the gateway is.
    STOPPING = "Stopping"

    @property
    def service_word(self) -> str:
        """The word of ``EndpointStatus``, which has none for a service that stops."""
        return str(EndpointState.DELETING if self is EndpointState.STOPPING else self)


class InstanceHealth(StrEnum):
    """What an instance's last pings said."""

    UNKNOWN = "unknown"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """One instance.

    Attributes:
        id: by which logs name it.
        version: of its endpoint, counted from 1; two are there while an endpoint changes.
        state: where it is in its life.
        health: what its last pings said.
        reason: why it is not ready yet, is unhealthy, drains or has failed; empty otherwise.
        since: when it came into its state, in epoch seconds.
        container: its URL; empty as long as it has none.
        streams: open on it.
        requests: under way on it.
        served: streams and requests that it has taken in all.
        containers: of one that has several the URL of each, by their host names; empty as
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
        """By which the logs name its containers; of an only one, as they name it."""
        return tuple(container_id(self.id, each) for each in self.containers) or (self.id,)


@dataclass(frozen=True, slots=True)
class VariantStatus:
    """One variant.

    Attributes:
        name: the variant's.
        weight: as it is to be.
        desired: how many instances the version in force is to have: the one that serves, or the
            one that is coming up where none serves yet.
        serving: how many instances of that version take requests.
        restarts: instances that were started in the place of one that failed.
        trouble: why its instances do not start; empty while there is none.
        instances: those that are there, and the last that failed where none is.
    """

    name: str
    weight: float
    desired: int
    serving: int
    restarts: int
    trouble: str
    instances: tuple[InstanceStatus, ...]

    def slow_start_reason(self, now: float) -> str:
        """Why an instance that has been starting for seconds is not ready; empty if none is so.

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
    """One endpoint.

    Attributes:
        name: the endpoint's.
        state: how it is.
        reason: why it has failed, or why its last change has; empty otherwise.
        since: when it came into its state, in epoch seconds.
        variants: its variants.
        is_latest: whether what serves is what was asked for last, and not what was before.
        note: which change was given up, and what serves on; empty where none was.
    """

    name: str
    state: EndpointState
    reason: str
    since: float
    variants: tuple[VariantStatus, ...]
    is_latest: bool = True
    note: str = ""
