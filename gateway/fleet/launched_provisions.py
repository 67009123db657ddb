"""Provisions for launched containers: launchers, model data, logs."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from partway.gateway.fleet.endpoint import Containers, Image, Program, Source
from partway.gateway.fleet.gpus import GpuShares
from partway.gateway.fleet.launchers.containers import ContainersLauncher
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.launcher import Launcher, LaunchError
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from partway.gateway.fleet.limits import LEFTOVERS_LOOK_TIMEOUT, LEFTOVERS_TIMEOUT
from partway.gateway.fleet.output.capture import OutputFolder
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.files import temporary_folder
from partway.gateway.storage.model_data.model_data import HeldData, ModelData, ModelDataError
from partway.gateway.storage.places.pinned_path import PinnedPath
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")


class LaunchedProvisions:
    """The needs of launched containers; made with the first of them, released with the fleet.

    Args:
        data: as in :class:`~.provisions.Provisions`.
        quota: as in :class:`~.provisions.Provisions`.
        refusal: as in :class:`~.provisions.Provisions`.
    """

    def __init__(
        self,
        clock: Clock,
        data: DataDirectory | None,
        quota: int,
        refusal: Callable[[str, str], str],
        launcher: Callable[[Source], Launcher],
    ) -> None:
        self.output = OutputFolder(None if data is None else data.logs, clock)
        self._clock = clock
        self._data = data
        self._quota = quota
        self._refusal = refusal
        self._launcher_of_any = launcher
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._model_data: ModelData | None = None
        self._taking_over = asyncio.Lock()
        self._has_taken_over = False
        self._in_use: list[HeldData] = []  # used by a killed gateway's containers
        self._gpus = GpuShares()
        self._launchers: dict[type[Source], Launcher] = {}

    def launcher(self, kind: type[Source]) -> Launcher:
        """Return the launcher for a kind of source other than an attached one."""
        if kind not in self._launchers:
            self._launchers[kind] = self._made(kind)
        return self._launchers[kind]

    async def remove_leftovers(self, but: Callable[[str, str], bool] | None = None) -> None:
        """Remove leftover containers; see :meth:`.provisions.Provisions.remove_leftovers`."""
        engine = self._engine_that_was_used()
        if engine is None:
            return
        try:
            async with time_limit(self._clock, LEFTOVERS_TIMEOUT):
                await engine.remove_leftovers(but)
        except LaunchError as error:
            reason = str(error)
        except TimeoutError:
            reason = f"the engine did not remove all of them within {LEFTOVERS_TIMEOUT:g} s"
        else:
            reason = ""
        if reason:
            log.warning(LogLine("leftover containers may still run", reason=reason))
        elif but is None:
            self._release_leftovers_data()

    async def acquire(
        self, source: str, maker: str | None = None, pinned: PinnedPath | None = None
    ) -> HeldData:
        """Acquire model data; see :attr:`.instance_context.Means.model_data`."""
        async with self._taking_over:
            if self._model_data is None:
                if self._data is not None:
                    folder = self._data.models
                else:
                    self._temporary = _temporary_models()
                    folder = Path(self._temporary.name)
                self._model_data = ModelData(folder, quota=self._quota, clock=self._clock)
            if not self._has_taken_over:
                # If this is cancelled, the next caller does it: until then nothing is removed.
                await self._keep_leftovers_data(self._model_data)
                self._has_taken_over = True
        if maker is None:
            return await self._model_data.acquire(source, pinned=pinned)
        return await self._model_data.acquire(source, partial(self._refusal, maker), pinned)

    async def aclose(self) -> None:
        """Release everything; all instances must have ended."""
        async with AsyncExitStack() as held:  # an error of one leaves none of the others open
            held.push_async_callback(self.output.aclose)
            if self._temporary is not None:
                held.callback(self._temporary.cleanup)
            if self._model_data is not None:
                held.push_async_callback(self._model_data.aclose)
            held.callback(self._release_leftovers_data)
            for launcher in self._launchers.values():
                held.push_async_callback(launcher.aclose)

    def _made(self, kind: type[Source]) -> Launcher:
        if kind is Containers:
            return ContainersLauncher(self._launcher_of_any)
        if kind is Program:
            return ProgramLauncher(self._gpus)
        if self._data is None:  # no later gateway finds these containers
            return EngineLauncher(uuid4().hex, gpus=self._gpus)
        # The key is on disk before the first container that a later gateway may find.
        return EngineLauncher(self._data.id, key=self._data.engine_key(), gpus=self._gpus)

    def _engine_that_was_used(self) -> EngineLauncher | None:
        if self._data is None or not self._data.has_used_engine:
            return None
        launcher = self.launcher(Image)
        assert isinstance(launcher, EngineLauncher), "images are for it"
        return launcher

    async def _keep_leftovers_data(self, model_data: ModelData) -> None:
        """Keep model data that a killed gateway's containers use, so that they can go on.

        If the engine does not answer in time, nothing is kept, and the containers are not taken
        over.
        """
        engine = self._engine_that_was_used()
        if engine is None:
            return
        with suppress(LaunchError, ModelDataError, TimeoutError):  # the launch itself reports it
            async with time_limit(self._clock, LEFTOVERS_LOOK_TIMEOUT):
                models = await engine.models_in_use()
            if models:
                self._in_use += (await model_data.take_over(models)).values()

    def _release_leftovers_data(self) -> None:
        for each in self._in_use:
            each.release()
        self._in_use.clear()


def _temporary_models() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for model data that are not kept.

    Raises:
        ModelDataError: there is no room for one.
    """
    try:
        return tempfile.TemporaryDirectory(prefix="partway-models-", dir=temporary_folder())
    except OSError as error:
        raise ModelDataError(
            f"cannot make a temporary folder for model data: {error.strerror}",
            passing=True,
            waits=True,
        ) from None
