"""Provisions for launched containers: launchers, model data, logs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from partway.gateway.fleet.container_ids import instance_of
from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Image,
    Program,
    Source,
    Variant,
)
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.launchers.containers import ContainersLauncher
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.gpus import GpuShares
from partway.gateway.fleet.launchers.launcher import Launcher, LaunchError, RunningContainer
from partway.gateway.fleet.launchers.local_models import LocalModels, ModelDataFirst
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from partway.gateway.fleet.limits import LEFTOVERS_LOOK_TIMEOUT, LEFTOVERS_TIMEOUT
from partway.gateway.fleet.output.capture import OutputFolder
from partway.gateway.fleet.unclaimed_instances import UnclaimedContainer
from partway.gateway.kept_state import NOTHING_KEPT, KeptState
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.file_threads import remove_tree
from partway.gateway.storage.files import temporary_folder
from partway.gateway.storage.model_data.model_data import HeldData, ModelData, ModelDataError
from partway.gateway.storage.places.pinned_path import PinnedPath
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: The name of the kept entry with the path of a temporary folder.
_MODELS: Final = "models"
#: The name of the kept entry with the id and the key of a gateway without a data directory.
_ENGINE: Final = "engine"


class LaunchedProvisions:
    """The needs of launched containers; made with the first of them, released with the fleet.

    Args:
        data: as in :class:`~.provisions.Provisions`.
        quota: as in :class:`~.provisions.Provisions`.
        refusal: as in :class:`~.provisions.Provisions`.
        kept: as in :class:`~.provisions.Provisions`.
        is_kept: whether an instance of an earlier process is kept.
    """

    def __init__(
        self,
        clock: Clock,
        data: DataDirectory | None,
        quota: int,
        refusal: Callable[[str, str], str],
        launcher: Callable[[Variant], Launcher],
        kept: KeptState | None = None,
        is_kept: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.output = OutputFolder(None if data is None else data.logs, clock)
        self._clock = clock
        self._data = data
        self._quota = quota
        self._refusal = refusal
        self._launcher_of_any = launcher
        self._kept = NOTHING_KEPT if kept is None else kept
        self._is_kept = is_kept
        self._earlier_engine = self._kept.take(_ENGINE).get(_ENGINE)
        self._temporary = _earlier_temporary(self._kept)
        self._model_data: ModelData | None = None
        self._taking_over = asyncio.Lock()
        self._has_taken_over = False
        self._in_use: list[HeldData] = []  # used by a killed gateway's containers
        self._may_still_run = False
        self._gpus = GpuShares()
        self.models = LocalModels(self._acquire, clock)
        # It is made first of all: an earlier process's programs have GPUs.
        self._programs = ProgramLauncher(self._gpus, kept=self._kept, models=self.models)
        self._launchers: dict[type[Source], Launcher] = {Program: self._programs}

    def launcher(self, kind: type[Source]) -> Launcher:
        """Return the launcher for a kind of source; for an attached one it fetches model data."""
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
            self._may_still_run = True
        elif but is None and self._kept is NOTHING_KEPT:
            self.release_leftovers_data()

    async def unclaimed(self, is_awaited: Callable[[str], bool]) -> list[UnclaimedContainer]:
        """Adopt an earlier process's containers that no order has taken, for the caller to end.

        Args:
            is_awaited: whether an order for an instance's containers may still come.
        """

        def awaited(container: str) -> bool:
            return is_awaited(instance_of(container))

        found: dict[str, tuple[str, RunningContainer]] = {**await self._programs.unclaimed(awaited)}
        if (engine := self._engine_that_was_used()) is not None:
            try:
                async with time_limit(self._clock, LEFTOVERS_TIMEOUT):
                    found.update(await engine.unclaimed(awaited))
            except (LaunchError, TimeoutError) as error:
                reason = str(error) or "the engine does not answer"
                log.warning(LogLine("leftover containers may still run", reason=reason))
                self._may_still_run = True
        return [
            UnclaimedContainer(container, endpoint, running, self.output.open(container, endpoint))
            for container, (endpoint, running) in found.items()
        ]

    @property
    def has_unclaimed(self) -> bool:
        """Whether there are containers of an earlier process that no order has taken."""
        engine = self._engine_that_was_used()
        return self._programs.has_unclaimed or (engine is not None and engine.has_unclaimed)

    def release_leftovers_data(self) -> None:
        """Release model data that an earlier gateway's containers have used, if they are gone."""
        if not self._may_still_run:
            self._release()

    def _release(self) -> None:
        for each in self._in_use:
            each.release()
        self._in_use.clear()

    async def _acquire(
        self, source: str, maker: str | None = None, pinned: PinnedPath | None = None
    ) -> HeldData:
        """Acquire model data; see :data:`.launchers.local_models.Acquire`."""
        async with self._taking_over:
            if self._model_data is None:
                if self._data is not None:
                    folder = self._data.models
                else:
                    if self._temporary is None:
                        self._temporary = _make_temporary(self._kept)
                    folder = self._temporary
                self._model_data = ModelData(
                    folder, quota=self._quota, clock=self._clock, kept=self._kept
                )
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
                held.callback(_remove_temporary, self._temporary, self._kept)
            if self._model_data is not None:
                held.push_async_callback(self._model_data.aclose)
            held.callback(self._release)
            for launcher in self._launchers.values():
                held.push_async_callback(launcher.aclose)

    def _made(self, kind: type[Source]) -> Launcher:
        if kind is Attached:
            return ModelDataFirst(AttachLauncher(), self.models)
        if kind is Containers:
            return ContainersLauncher(self._launcher_of_any, self.models)
        gateway, key = self._id_and_key()
        return EngineLauncher(
            gateway, key=key, gpus=self._gpus, is_kept=self._is_kept, models=self.models
        )

    def _id_and_key(self) -> tuple[str, bytes]:
        """Return what later gateways must know, to find and to recognise containers."""
        if self._data is not None:
            # The key is on disk before the first container that a later gateway may find.
            return self._data.id, self._data.engine_key()
        if self._earlier_engine is not None:
            gateway, key = json.loads(self._earlier_engine.record)
        else:
            gateway, key = uuid4().hex, secrets.token_hex()
            self._kept.keep(_ENGINE, json.dumps([gateway, key]).encode())
        return gateway, bytes.fromhex(key)

    def _engine_that_was_used(self) -> EngineLauncher | None:
        if self._data is None:
            if self._earlier_engine is None:
                return None
        elif not self._data.has_used_engine:
            return None
        launcher = self.launcher(Image)
        assert isinstance(launcher, EngineLauncher), "images are for it"
        return launcher

    async def _keep_leftovers_data(self, model_data: ModelData) -> None:
        """Keep model data that a killed gateway's containers use, so that they can go on.

        If the engine does not answer in time, nothing is kept, and the containers are not taken
        over.
        """
        models = self._programs.models
        engine = self._engine_that_was_used()
        with suppress(LaunchError, TimeoutError):  # the launch itself reports it
            async with time_limit(self._clock, LEFTOVERS_LOOK_TIMEOUT):
                models |= set() if engine is None else await engine.models_in_use()
        with suppress(ModelDataError):
            if models:
                self._in_use += (await model_data.take_over(models)).values()


def _earlier_temporary(kept: KeptState) -> Path | None:
    """Return an earlier process's folder for model data; None if it has made none."""
    earlier = kept.take(_MODELS).get(_MODELS)
    return None if earlier is None else Path(os.fsdecode(earlier.record))


def _make_temporary(kept: KeptState) -> Path:
    """Make a folder for model data that no later gateway finds.

    Raises:
        ModelDataError: there is no room for one.
    """
    try:
        made = tempfile.mkdtemp(prefix="partway-models-", dir=temporary_folder())
    except OSError as error:
        raise ModelDataError(
            f"cannot make a temporary folder for model data: {error.strerror}",
            passing=True,
            waits=True,
        ) from None
    kept.keep(_MODELS, os.fsencode(made))
    return Path(made)


def _remove_temporary(folder: Path, kept: KeptState) -> None:
    kept.forget(_MODELS)
    try:
        remove_tree(folder)
    except OSError as error:
        line = "a temporary folder with model data is not removed"
        log.warning(LogLine(line, folder=str(folder), reason=str(error)))
