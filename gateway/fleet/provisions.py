"""Means of a gateway's fleet: launchers, pings, model data, and where output of instances goes.

An attached endpoint needs a launcher and pings alone. The rest is imported with the first container
that the gateway launches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from partway.gateway.fleet.endpoint import Attached, Source
from partway.gateway.fleet.health.ping_scheduler import Pinging
from partway.gateway.fleet.instance_context import CapturedOutput, InstanceContext, Means
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.launchers.launcher import Launcher
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.limits import MODEL_DATA_QUOTA
from partway.gateway.timing.clock import Clock

if TYPE_CHECKING:
    from partway.gateway.fleet.launched_provisions import LaunchedProvisions
    from partway.gateway.storage.model_data.model_data import HeldData
    from partway.gateway.storage.places.pinned_path import PinnedPath


class Provisions:
    """Made with a gateway, and given back once its fleet has stopped.

    Args:
        clock: measures all times.
        data: where logs and model data are kept; None to keep no logs, and model data in a
            temporary folder.
        quota: bytes of model data that may lie there.
        launched: told endpoint, variant and the seconds that a start took.
        refusal: says why a principal may not read a location, by its name and the location; empty
            if it may. By default no principal may: there are none.

    Attributes:
        means: by what the fleet has its instances.
    """

    def __init__(
        self,
        clock: Clock,
        data: DataDirectory | None = None,
        quota: int = MODEL_DATA_QUOTA,
        launched: Callable[[str, str, float], object] = lambda *_: None,
        refusal: Callable[[str, str], str] = lambda *_: "there are no principals here",
    ) -> None:
        self._clock = clock
        self._data = data
        self._quota = quota
        self._refusal = refusal
        self._attached = AttachLauncher()
        self._of_launched: LaunchedProvisions | None = None
        around = InstanceContext(Pinging(clock), clock, time.time, launched)
        self.means = Means(self._launcher, self._output, self._acquire, around)

    async def remove_leftovers(self, but: Callable[[str, str], bool] | None = None) -> None:
        """Remove the containers that a gateway of the same data has left to an engine.

        No failure is more than a warning.

        Args:
            but: says of an endpoint and a variant whether its instances, which are to come, may
                take theirs over. Without it nothing is taken over any more.
        """
        if self._data is not None and self._data.has_used_engine:
            await self._launched().remove_leftovers(but)

    async def aclose(self) -> None:
        """Give all of it back; no instance lives any more."""
        async with AsyncExitStack() as held:  # what one of them raises keeps none of the others
            if self._of_launched is not None:
                held.push_async_callback(self._of_launched.aclose)
            held.push_async_callback(self._attached.aclose)

    def _launched(self) -> LaunchedProvisions:
        """Import and make, once, the means of containers that are launched."""
        if self._of_launched is None:
            from partway.gateway.fleet.launched_provisions import LaunchedProvisions

            self._of_launched = LaunchedProvisions(
                self._clock, self._data, self._quota, self._refusal, self._launcher
            )
        return self._of_launched

    def _launcher(self, source: Source) -> Launcher:
        if isinstance(source, Attached):
            return self._attached
        return self._launched().launcher(type(source))

    def _output(self, container: str, endpoint: str) -> CapturedOutput:
        return self._launched().output.open(container, endpoint)

    async def _acquire(
        self, source: str, maker: str | None = None, pinned: PinnedPath | None = None
    ) -> HeldData:
        return await self._launched().acquire(source, maker, pinned)
