"""How many containers a gateway launches for its callers: as many as ``max_containers``."""

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

#: States of an endpoint for which nothing is launched any more.
_OVER = frozenset({EndpointState.DELETING, EndpointState.FAILED})


class ContainerRoom:
    """Says whether there is room for more containers.

    1. An endpoint has those that live and those that it is to have. While it changes beside what
       serves, there are both; what drains counts until it is gone.
    2. One that is written down and does not run yet, as behind a restart, has those of its plan.
    3. Transform jobs have those of as many of the largest as run at a time.
    4. Endpoints of the settings are the operator's, and are never refused here: they have at least
       what the settings say, whether it runs or not.

    Args:
        resources: endpoints and transform jobs that are written down.
        fleet: says what runs.
        planning: has the settings of now.
        jobs_at_once: transform jobs that run at a time, whatever the settings of now say: that is
            taken at a start only.
    """

    def __init__(
        self, resources: Resources, fleet: Fleet, planning: Planning, jobs_at_once: int
    ) -> None:
        self._resources = resources
        self._fleet = fleet
        self._planning = planning
        self._jobs_at_once = jobs_at_once

    def check_endpoint(self, endpoint: Endpoint, *, anew: bool) -> None:
        """Go on if there is room for what an endpoint is to be, beside what it is.

        Called inside ``Resources.changing()``.

        Args:
            endpoint: as the fleet is about to run it.
            anew: whether its instances are all to be new ones.

        Raises:
            ResourceLimitExceeded: there is none.
        """
        self._check(self._fleet.further_containers(endpoint, anew=anew))

    def check_job(self, members: Members, record: TransformRecord) -> None:
        """Go on if there is room for one more transform job.

        Called inside ``Resources.changing()``.

        Args:
            members: of CreateTransformJob's input.
            record: with the job's model.

        Raises:
            ResourceLimitExceeded: there is none.
        """
        there = list(self._of_jobs())
        further = self._at_once([*there, plan_of(members, record).containers])
        self._check(further - self._at_once(there))

    def _check(self, further: int) -> None:
        most = self._planning.settings.max_containers
        there = self._there() if further else 0
        if further and there + further > most:
            raise ResourceLimitExceeded(
                f"The service limit 'Number of containers' is {most}, with current utilization of "
                f"{there} and a request delta of {further}; delete what is not needed any more, or "
                "have the gateway's operator raise max_containers."
            )

    def _there(self) -> int:
        """How many there are, or are to be."""
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
        """How many containers each transform job has that waits or runs."""
        for job in self._resources.all("transform-job"):
            record = TransformRecord.of(job)
            if record.status in UNDER_WAY:
                yield plan_of(job.members, record).containers

    def _at_once(self, of_jobs: list[int]) -> int:
        return sum(heapq.nlargest(self._jobs_at_once, of_jobs))
