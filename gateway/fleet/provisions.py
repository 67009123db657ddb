"""What a gateway's fleet lives by: launchers, pings, and where its instances' output goes."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from partway.gateway.clock import Clock
from partway.gateway.files import temporary_folder
from partway.gateway.fleet.data_directory import DataDirectory
from partway.gateway.fleet.endpoints import Attached, Containers, Image, Program, Source
from partway.gateway.fleet.gpus import GpuShares
from partway.gateway.fleet.instance_maker import Means
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.launchers.containers import ContainersLauncher
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.launcher import Launcher, LaunchError
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from partway.gateway.fleet.limits import (
    LEFTOVERS_LOOK_TIMEOUT,
    LEFTOVERS_TIMEOUT,
    MODEL_DATA_QUOTA,
)
from partway.gateway.fleet.making import InstanceContext
from partway.gateway.fleet.model_data import HeldData, ModelData, ModelDataError
from partway.gateway.fleet.output import OutputFolder
from partway.gateway.fleet.pinging import Pinging
from partway.gateway.waiting import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")


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
        self._output = OutputFolder(None if data is None else data.logs, clock)
        self._data = data
        self._quota = quota
        self._refusal = refusal
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._model_data: ModelData | None = None
        self._taking_over = asyncio.Lock()
        self._has_taken_over = False
        self._in_use: list[HeldData] = []  # by what a gateway that was killed has left
        self._gpus = GpuShares()
        self._launchers: dict[type[Source], Launcher] = {}
        around = InstanceContext(Pinging(clock), clock, time.time, launched)
        self.means = Means(self._launcher, self._output.open, self._acquire, around)

    async def remove_leftovers(self, but: Callable[[str, str], bool] | None = None) -> None:
        """Remove the containers that a gateway of the same data has left to an engine.

        No failure is more than a warning.

        Args:
            but: says of an endpoint and a variant whether its instances, which are to come, may
                take theirs over. Without it nothing is taken over any more.
        """
        engine = self._engine_that_was_used()
        if engine is None:
            return
        try:
            async with time_limit(self._clock, LEFTOVERS_TIMEOUT):
                await engine.remove_leftovers(but)
        except LaunchError as error:
            reason = str(error)
        except TimeoutError:
            reason = f"the engine has not removed all of them within {LEFTOVERS_TIMEOUT:g} s"
        else:
            reason = ""
        if reason:
            log.warning(LogLine("leftover containers may run on", reason=reason))
        elif but is None:
            self._release_leftovers_data()

    async def aclose(self) -> None:
        """Give all of it back; no instance lives any more."""
        async with AsyncExitStack() as held:  # what one of them raises keeps none of the others
            held.push_async_callback(self._output.aclose)
            if self._temporary is not None:
                held.callback(self._temporary.cleanup)
            if self._model_data is not None:
                held.push_async_callback(self._model_data.aclose)
            held.callback(self._release_leftovers_data)
            for launcher in self._launchers.values():
                held.push_async_callback(launcher.aclose)

    def _launcher(self, source: Source) -> Launcher:
        return self._launcher_for(type(source))

    def _launcher_for(self, kind: type[Source]) -> Launcher:
        if kind not in self._launchers:
            self._launchers[kind] = self._made(kind)
        return self._launchers[kind]

    def _made(self, kind: type[Source]) -> Launcher:
        if kind is Attached:
            return AttachLauncher()
        if kind is Containers:
            return ContainersLauncher(self._launcher)
        if kind is Program:
            return ProgramLauncher(self._gpus)
        if self._data is None:  # nothing of this gateway is found again
            return EngineLauncher(uuid4().hex, gpus=self._gpus)
        # The key is kept before there is anything to be found again.
        return EngineLauncher(self._data.id, key=self._data.engine_key(), gpus=self._gpus)

    def _engine_that_was_used(self) -> EngineLauncher | None:
        if self._data is None or not self._data.has_used_engine:
            return None
        launcher = self._launcher_for(Image)
        assert isinstance(launcher, EngineLauncher), "images are for it"
        return launcher

    async def _acquire(self, source: str, maker: str | None = None) -> HeldData:
        async with self._taking_over:
            if self._model_data is None:
                if self._data is not None:
                    folder = self._data.models
                else:
                    self._temporary = _temporary_models()
                    folder = Path(self._temporary.name)
                self._model_data = ModelData(folder, quota=self._quota, clock=self._clock)
            if not self._has_taken_over:
                # Whoever is cancelled here leaves it to the next: nothing is removed before it.
                await self._keep_leftovers_data(self._model_data)
                self._has_taken_over = True
        if maker is None:
            return await self._model_data.acquire(source)
        return await self._model_data.acquire(source, partial(self._refusal, maker))

    async def _keep_leftovers_data(self, model_data: ModelData) -> None:
        """Keep what containers use that a gateway which was killed has left, for them to go on.

        Where the engine does not say it in time nothing is kept: they are not taken over then.
        """
        engine = self._engine_that_was_used()
        if engine is None:
            return
        with suppress(LaunchError, ModelDataError, TimeoutError):  # whoever acquires hears of it
            async with time_limit(self._clock, LEFTOVERS_LOOK_TIMEOUT):
                models = await engine.models_in_use()
            if models:
                self._in_use += (await model_data.take_over(models)).values()

    def _release_leftovers_data(self) -> None:
        for each in self._in_use:
            each.release()
        self._in_use.clear()


def _temporary_models() -> tempfile.TemporaryDirectory[str]:
    """A folder for model data that are not kept.

    Raises:
        ModelDataError: there is no room for one.
    """
    try:
        return tempfile.TemporaryDirectory(prefix="partway-models-", dir=temporary_folder())
    except OSError as error:
        raise ModelDataError(
            f"no temporary folder for model data: {error.strerror}", passing=True, waits=True
        ) from None
