"""The quota of containers that a gateway launches for its callers (``max_containers``)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from partway.gateway.apis.control.endpoint_plans import Members
from partway.gateway.apis.control.endpoint_records import EndpointRecord
from partway.gateway.apis.control.errors import ResourceLimitExceeded
from partway.gateway.apis.control.planner import Planning
from partway.gateway.apis.control.resources import Resources
from partway.gateway.apis.transform_jobs.job_records import UNDER_WAY, TransformRecord, plan_of
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.status import EndpointState

#: States of an endpoint for which no container is launched.
_OVER = frozenset({EndpointState.DELETING, EndpointState.FAILED})


class ContainerRoom:
    """Checks whether more containers may be launched.

    1. An endpoint counts its living containers and those of its plan. During a change it counts
    both versions, and draining containers count until they are gone. 2. A stored endpoint that does
    not run yet, as after a restart, counts the containers of its plan. 3. Transform jobs count the
    largest jobs that may run at a time. 4. Endpoints of the settings belong to the operator and are
    never refused here. They count at least the containers of the settings, whether these run or
    not.

    Args:
        jobs_at_once: the number of transform jobs that run at a time. It is set at the gateway's
            start, whatever the current settings are.
    """

    def __init__(
        self, resources: Resources, fleet: Fleet, planning: Planning, jobs_at_once: int
    ) -> None:
        self._resources = resources
        self._fleet = fleet
        self._planning = planning
        self._jobs_at_once = jobs_at_once

    def check_endpoint(self, endpoint: Endpoint, *, anew: bool) -> None:
        """Return if there is room for an endpoint's change.

        Call this inside ``Resources.changing()``.

        Args:
            anew: whether all instances must be new ones.

        Raises:
            ResourceLimitExceeded: there is no room.
        """
        self._check(self._fleet.further_containers(endpoint, anew=anew))

    def check_job(self, members: Members, record: TransformRecord) -> None:
        """Return if there is room for one more transform job.

        Call this inside ``Resources.changing()``.

        Args:
            members: the input of CreateTransformJob.

        Raises:
            ResourceLimitExceeded: there is no room.
        """
        there = list(self._of_jobs())
        further = self._at_once([*there, plan_of(members, record).containers])
        self._check(further - self._at_once(there))

    def _check(self, further: int) -> None:
        most = self._planning.settings.max_containers
        there = self._there() if further else 0
        if further and there + further > most:
            raise ResourceLimitExceeded(
                f"The service limit 'Number of containers' is {most}, with current utilization "
                f"of {there} and a request delta of {further}; delete unneeded endpoints, or "
                "have the gateway's operator raise max_containers."
            )

    def _there(self) -> int:
        """Return the number of containers that exist, or are planned."""
        counted = dict(self._fleet.containers())
        for each in self._planning.settings.endpoints:
            counted[each.name] = max(counted.get(each.name, 0), each.launched)
        names = {name.lower() for name in counted}
        for resource in self._resources.all("endpoint"):
            if resource.name.lower() not in names:
                record = EndpointRecord.of(resource)
                if record.state not in _OVER:
                    counted[resource.name] = record.plan.containers
        return sum(counted.values()) + self._at_once(list(self._of_jobs()))

    def _of_jobs(self) -> Iterator[int]:
        for job in self._resources.all("transform-job"):
            record = TransformRecord.of(job)
            if record.status in UNDER_WAY:
                yield plan_of(job.members, record).containers

    def _at_once(self, of_jobs: list[int]) -> int:
        return sum(heapq.nlargest(self._jobs_at_once, of_jobs))
