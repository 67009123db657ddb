"""Model data on this machine's disk, for the launchers whose instances run here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from partway.gateway.fleet.container_ids import hostname_of
from partway.gateway.fleet.endpoint import Variant
from partway.gateway.fleet.launchers.launcher import (
    Launcher,
    LaunchError,
    Order,
    RunningContainer,
)
from partway.gateway.storage.model_data.model_data import HeldData, ModelDataError
from partway.gateway.storage.places.pinned_path import PinnedPath
from partway.gateway.timing.clock import Clock, LoopClock
from partway.gateway.timing.deadlines import time_limit

#: Brings model data onto disk. Arguments: their name, the principal who must be allowed to read
#: them, and the pinned path (see :class:`~partway.gateway.fleet.endpoint.Variant`). Raises
#: ModelDataError.
Acquire: TypeAlias = Callable[[str, str | None, PinnedPath | None], Awaitable[HeldData]]


async def used_in_place(source: str, _maker: str | None, _pinned: PinnedPath | None) -> HeldData:
    """Use a folder of this machine where it is."""
    return HeldData(Path(source), lambda: None)


@dataclass(eq=False)
class _OfVersion:
    """The model data of one version of an endpoint.

    Attributes:
        held: by the containers' host names.
    """

    acquiring: asyncio.Lock = field(default_factory=asyncio.Lock)
    held: dict[str, HeldData] = field(default_factory=dict)
    released: bool = False


class LocalModels:
    """Model data that the instances of a version share; one object for all local launchers.

    The first instance fetches the data, which stay until :meth:`release`. A replacement therefore
    needs no network and has the same data.
    """

    def __init__(self, acquire: Acquire = used_in_place, clock: Clock | None = None) -> None:
        self._acquire = acquire
        self._clock = LoopClock() if clock is None else clock
        self._versions: dict[str, _OfVersion] = {}

    async def of(self, order: Order) -> HeldData | None:
        """Fetch the model data of a container, once for all instances; None without any.

        Raises:
            LaunchError: the model data are not available.
        """
        variant = order.variant
        if variant.model_data is None:
            return None
        version = self._versions.setdefault(order.version, _OfVersion())
        hostname = hostname_of(order.instance)
        async with version.acquiring:
            data = version.held.get(hostname)
            if data is None:
                data = await self._fetched(variant, variant.model_data)
                if version.released:
                    data.release()
                    raise LaunchError(
                        "the instance was stopped while its model data were fetched", passing=False
                    )
                version.held[hostname] = data
            return data

    def release(self, version: str) -> None:
        """Release the data of a version; all its instances must have ended."""
        found = self._versions.pop(version, None)
        if found is not None:
            found.released = True
            for data in found.held.values():
                data.release()

    async def _fetched(self, variant: Variant, model_data: str) -> HeldData:
        seconds = variant.times.download_timeout
        limit = nullcontext() if seconds is None else time_limit(self._clock, seconds)
        try:
            async with limit:
                return await self._acquire(model_data, variant.model_maker, variant.pinned)
        except ModelDataError as error:
            why = f"model data: {error}"
            raise LaunchError(why, passing=error.passing, waits=error.waits) from None
        except TimeoutError:
            why = f"model data: they did not arrive within {seconds:g} s"
            raise LaunchError(why, passing=True) from None


class ModelDataFirst:
    """Fetches the model data of a container that does not need them, as of an attached one.

    On the platform too, an endpoint fails whose model data are missing.
    """

    address_timeout = None

    def __init__(self, launcher: Launcher, models: LocalModels) -> None:
        self._launcher = launcher
        self._models = models

    async def launch(self, order: Order) -> RunningContainer:
        """Fetch the data, then launch; see :class:`~.launcher.Launcher`."""
        await self._models.of(order)
        return await self._launcher.launch(order)

    def release(self, version: str) -> None:
        self._models.release(version)

    async def aclose(self) -> None:
        await self._launcher.aclose()
