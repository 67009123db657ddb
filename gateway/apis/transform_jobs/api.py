"""The API of transform jobs in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.control.api import ControlApi
from partway.gateway.apis.transform_jobs.job_runner import TransformKeeper
from partway.gateway.apis.transform_jobs.operations import TransformOperations
from partway.gateway.batch.job_locations import CallersPlaces
from partway.gateway.batch.output_spool import outputs_quota
from partway.gateway.service import Service

if TYPE_CHECKING:
    from partway.gateway.gateway import Gateway


class TransformJobsApi(Service):
    """The runner of jobs; their operations belong to the control plane."""

    def __init__(self, gateway: Gateway) -> None:
        control = gateway.service(ControlApi)
        settings, clock, wall_clock = gateway.settings, gateway.clock, gateway.wall_clock
        planning = control.endpoint_keeper.planning
        folder = None if gateway.data is None else gateway.data.transforms
        self._keeper = TransformKeeper(
            control.resources,
            planning,
            gateway.means,
            CallersPlaces(
                clock,
                lambda: planning.local_roots,
                control.results,
                outputs_quota(settings.transform_quota),
                folder,
            ),
            gateway.authenticator.may,
            folder,
            settings.max_transform_jobs,
            settings.inclusive_slices,
            clock,
            wall_clock,
        )
        operations = TransformOperations(
            *(control.resources, control.catalogue, self._keeper, planning),
            *(control.endpoint_keeper.room, control.async_rules, control.model_data_leave),
            wall_clock,
        )
        control.plane.add(operations.operations)
        control.at_run.append(self._keeper.start)
        gateway.printing.append(self._keeper.describe)

    def hasten(self) -> None:
        self._keeper.hasten()

    async def close_to_new(self) -> None:
        self._keeper.take_no_jobs()

    async def stop(self) -> None:
        """Stop running jobs; the next gateway continues them."""
        await self._keeper.aclose()


def install(gateway: Gateway) -> None:
    gateway.service(TransformJobsApi)
