"""Planning with what a gateway has: its settings, its GPUs, and its file systems on threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from partway.gateway.apis.control.endpoint_plans import ApiSurroundings, DeploymentPlan, planned
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.gpus import gpus_of_this_machine
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.protocol.errors import ServiceUnavailable


class Planning:
    """Says what the fleet is to run for endpoints of the API.

    Attributes:
        settings: by which that is said from now on.

    Args:
        settings: of the gateway.
        clock: measures how long a file system has for its answer.
        kept_out: files and folders that no caller may name, below a root or not.
    """

    def __init__(self, settings: Settings, clock: Clock, kept_out: Iterable[Path] = ()) -> None:
        self.settings = settings
        self._clock = clock
        self._kept_out = tuple(kept_out)
        self._gpus: int | None = None
        self._counting = asyncio.Lock()

    async def endpoint_of(self, name: str, plan: DeploymentPlan) -> Endpoint:
        """What the fleet is to run.

        Raises:
            ValidationException: something of the plan cannot be honoured.
            ServiceUnavailable: as many file systems as may be are looked at already.
        """
        if plan.asks_for_gpus:
            async with self._counting:
                if self._gpus is None:
                    self._gpus = len(await gpus_of_this_machine())
        settings = self.settings
        around = ApiSurroundings(
            settings.policy,
            settings.times,
            settings.images,
            self.local_roots,
            self._gpus or 0,
            settings.api_environment,
        )
        if not plan.names_files:
            return planned(name, plan, around)
        try:
            async with time_limit(self._clock, MODEL_DATA_LOOK_TIMEOUT):
                return await on_thread(self._clock, lambda _: planned(name, plan, around))
        except TimeoutError:  # model data of this machine, on a file system that is away
            raise ValidationException(
                f"Where the model data are is not known after {MODEL_DATA_LOOK_TIMEOUT:g} s; their "
                "file system must be mounted anew, or they copied elsewhere."
            ) from None
        except OSError as error:  # no thread for it
            raise ServiceUnavailable(
                f"Where the model data are cannot be looked at: {error}; try again later."
            ) from error

    def allows_path(self, location: str) -> bool:
        """Whether callers may name a path of this machine, by what is written."""
        return self.local_roots.allow(location)

    @property
    def local_roots(self) -> LocalRoots:
        """Below which callers may name what is read, by the settings of now."""
        return LocalRoots(self.settings.local_roots, self._kept_out)
