"""What a gateway's fleet lives by: launchers, pings, and where its instances' output goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import aiohttp

from partway.gateway.clock import Clock
from partway.gateway.fleet.endpoints import Attached, Place, Program, Source
from partway.gateway.fleet.fleet import ArtifactsError, HeldArtifacts, Means
from partway.gateway.fleet.instance import Surroundings
from partway.gateway.fleet.launchers.attached import AttachLauncher
from partway.gateway.fleet.launchers.launcher import Launcher
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from partway.gateway.fleet.output import OutputFolder
from partway.gateway.fleet.ping import ping, ping_session


class Provisions:
    """Made with a gateway, and given back once its fleet has stopped.

    Args:
        clock: measures all times.
        folder: where logs and model data are kept; None to keep no logs.
        launched: told endpoint, variant and the seconds that a start took.

    Attributes:
        means: by what the fleet has its instances.
    """

    def __init__(
        self,
        clock: Clock,
        folder: Path | None = None,
        launched: Callable[[str, str, float], object] = lambda *_: None,
    ) -> None:
        self._clock = clock
        self._output = OutputFolder(None if folder is None else folder / "logs", clock)
        self._launchers: dict[type[Source], Launcher] = {}
        self._session: aiohttp.ClientSession | None = None
        around = Surroundings(self._ping, clock, time.time, launched)
        self.means = Means(self._launcher, self._output.open, _NoArtifacts(), around)

    async def aclose(self) -> None:
        """Give all of it back; no instance lives any more."""
        for launcher in self._launchers.values():
            await launcher.aclose()
        if self._session is not None:
            await self._session.close()
        await self._output.aclose()

    def _launcher(self, source: Source) -> Launcher:
        kind = type(source)
        if kind not in self._launchers:
            self._launchers[kind] = _LAUNCHERS[kind]()
        return self._launchers[kind]

    async def _ping(self, place: Place, seconds: float) -> str | None:
        if self._session is None:
            self._session = ping_session()
        tls = None if place.tls is None else place.tls.context()
        return await ping(self._session, place.url, self._clock, tls, seconds)


class _NoArtifacts:
    """Has no model data."""

    async def acquire(self, source: str) -> HeldArtifacts:
        raise ArtifactsError(f"{source}: there is no folder for model data", passing=False)


_LAUNCHERS: dict[type[Source], Callable[[], Launcher]] = {
    Attached: AttachLauncher,
    Program: ProgramLauncher,
}
