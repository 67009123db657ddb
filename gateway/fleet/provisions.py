"""Provisions for a gateway's fleet: launchers, pings, model data, and output of instances.

An attached endpoint needs only a launcher and pings. The rest is imported with the first launched
container.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from partway.gateway.fleet.endpoint import Attached, Variant
from partway.gateway.fleet.health.ping_scheduler import Pinging
from partway.gateway.fleet.instance_context import CapturedOutput, InstanceContext, Means
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.launchers.launcher import Launcher
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.limits import MODEL_DATA_QUOTA
from partway.gateway.timing.clock import Clock

if TYPE_CHECKING:
    from partway.gateway.fleet.kept_instances import KeptInstances
    from partway.gateway.fleet.launched_provisions import LaunchedProvisions
    from partway.gateway.fleet.routing.router import InstanceLoad
    from partway.gateway.fleet.unclaimed_instances import UnclaimedInstances
    from partway.gateway.kept_state import KeptState


class Provisions:
    """The needs of a fleet's instances; made with a gateway, released after its fleet.

    Args:
        data: where logs and model data are kept. If None, no logs are kept, and model data lie in a
            temporary folder.
        quota: the limit of model data there, in bytes.
        launched: called after each start with endpoint, variant and the seconds it took.
        refusal: says why a principal may not read a location, by name and location; empty if it
            may. By default every principal is refused.
        kept: the state that outlives this process; None if everything ends with it.

    Attributes:
        kept_instances: the ids of the instances that outlive it; None without ``kept``.
    """

    def __init__(
        self,
        clock: Clock,
        data: DataDirectory | None = None,
        quota: int = MODEL_DATA_QUOTA,
        launched: Callable[[str, str, float], object] = lambda *_: None,
        refusal: Callable[[str, str], str] = lambda *_: "there are no principals here",
        kept: KeptState | None = None,
    ) -> None:
        self._clock = clock
        self._data = data
        self._quota = quota
        self._refusal = refusal
        self._kept = kept
        self.kept_instances: KeptInstances | None = None
        self._unclaimed: UnclaimedInstances | None = None
        if kept is not None:
            from partway.gateway.fleet.kept_instances import KeptInstances

            self.kept_instances = KeptInstances(kept)
        self._attached = AttachLauncher()
        self._of_launched: LaunchedProvisions | None = None
        around = InstanceContext(Pinging(clock), clock, time.time, launched)
        self.means = Means(self._launcher, self._output, around)

    async def remove_leftovers(self, but: Callable[[str, str], bool] | None = None) -> None:
        """Remove containers that a killed gateway with the same data has left to an engine.

        A failure is only logged.

        Args:
            but: says whether coming instances of an endpoint and a variant may take containers
                over. Without it, nothing is taken over any more.
        """
        if self._data is not None and self._data.has_used_engine:
            await self._launched().remove_leftovers(but)

    def take_over(self) -> None:
        """Begin to read the output of an earlier process's programs, so that none has to wait."""
        if self.kept_instances is not None and self.kept_instances.has_predecessor:
            self._launched()

    async def end_unclaimed(self, load: Callable[[str], InstanceLoad]) -> None:
        """End an earlier process's instances with which none goes on; return when they are gone.

        Args:
            load: returns the load of an instance.
        """
        if (kept := self.kept_instances) is not None and kept.has_predecessor:
            from partway.gateway.fleet.unclaimed_instances import UnclaimedInstances

            launched, around = self._launched(), self.means.around
            self._unclaimed = UnclaimedInstances(kept, load, around, launched)
            await self._unclaimed.end()

    def hasten(self) -> None:
        """Cut what still drains."""
        if self._unclaimed is not None:
            self._unclaimed.hasten()

    async def aclose(self) -> None:
        """Release everything; all instances must have ended."""
        async with AsyncExitStack() as held:  # an error of one leaves none of the others open
            if self._of_launched is not None:
                held.push_async_callback(self._of_launched.aclose)
            if self._unclaimed is not None:
                held.push_async_callback(self._unclaimed.gone)
            held.push_async_callback(self._attached.aclose)

    def _launched(self) -> LaunchedProvisions:
        """Import and make, once, what launched containers need."""
        if self._of_launched is None:
            from partway.gateway.fleet.launched_provisions import LaunchedProvisions

            kept = self.kept_instances
            is_kept = (lambda _: False) if kept is None else kept.of_predecessor.__contains__
            self._of_launched = LaunchedProvisions(
                *(self._clock, self._data, self._quota, self._refusal, self._launcher),
                *(self._kept, is_kept),
            )
        return self._of_launched

    def _launcher(self, variant: Variant) -> Launcher:
        if isinstance(variant.source, Attached) and variant.model_data is None:
            return self._attached
        return self._launched().launcher(type(variant.source))

    def _output(self, container: str, endpoint: str) -> CapturedOutput:
        return self._launched().output.open(container, endpoint)
