"""The planner, which combines plans with the gateway's settings, GPUs and file systems."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from partway.gateway.apis.control.endpoint_plans import ApiSurroundings, DeploymentPlan, planned
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.launchers.gpus import gpus_of_this_machine
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.protocol.errors import ServiceUnavailable


class Planning:
    """Makes the fleet's endpoints for the API's endpoints.

    Args:
        kept_out: files and folders that no caller may name, even below a root.
    """

    def __init__(self, settings: Settings, clock: Clock, kept_out: Iterable[Path] = ()) -> None:
        self.settings = settings
        self._clock = clock
        self._kept_out = tuple(kept_out)
        self._gpus: int | None = None
        self._counting = asyncio.Lock()

    async def endpoint_of(self, name: str, plan: DeploymentPlan) -> Endpoint:
        """Return the endpoint that the fleet is to run.

        Raises:
            ValidationException: a part of the plan cannot be honoured.
            ServiceUnavailable: no thread is free to look at file systems.
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
        except TimeoutError:  # local model data, on a file system that does not answer
            raise ValidationException(
                "The file system of the model data has not answered within "
                f"{MODEL_DATA_LOOK_TIMEOUT:g} s; mount it again, or copy the model data "
                "elsewhere."
            ) from None
        except OSError as error:  # no thread is free
            raise ServiceUnavailable(
                f"The model data cannot be looked up now: {error}; try again later."
            ) from error

    def allows_path(self, location: str) -> bool:
        return self.local_roots.allow(location)

    @property
    def local_roots(self) -> LocalRoots:
        """The folders that callers may name for reading, from the current settings."""
        return LocalRoots(self.settings.local_roots, self._kept_out)
