"""Reloading settings while the gateway runs: it applies what it can, and names the rest."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection
from pathlib import Path

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.fleet import Fleet, FleetStopping
from partway.gateway.limits import SETTINGS_CHECK_INTERVAL
from partway.gateway.service import Service, call_each
from partway.gateway.settings.changes import compare
from partway.gateway.settings.settings import Settings
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine

log = logging.getLogger("partway.serve")

#: The identity of a file's content: modification time, size and inode.
_Identity = tuple[int, int, int] | None


class Reloading:
    """Has a fleet follow its settings: on a signal, and when their file has changed.

    New endpoints are started, changed ones change beside their serving version, removed ones drain
    and stop. Settings that cannot be read change nothing.

    Args:
        load: reads them anew; raises SettingsError.
        clock: measures the time between two looks at the file.
        path: the path of the file; None if there is none.
    """

    def __init__(
        self,
        settings: Settings,
        load: Callable[[], Settings],
        fleet: Fleet,
        clock: Clock,
        path: Path | None,
        services: Collection[Service] = (),
    ) -> None:
        self._settings = settings
        self._load = load
        self._fleet = fleet
        self._clock = clock
        self._path = path
        self._services = services
        self._known = self._seen = _identity(path)
        self._timer: Timer | None = None
        self._taking: asyncio.Task[None] | None = None
        self._again = False
        self._stopped = False

    def start(self) -> None:
        if self._path is not None:
            self._timer = self._clock.call_later(SETTINGS_CHECK_INTERVAL, self._look)

    async def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._taking is not None:
            self._taking.cancel()
            await asyncio.wait((self._taking,))

    def reload(self) -> None:
        """Read and apply the settings, in the background; calls are handled one after the other."""
        if self._stopped:
            return
        if self._taking is not None:
            self._again = True
            return
        self._known = _identity(self._path)
        self._taking = asyncio.create_task(self._take(), name="settings")

    def _look(self) -> None:
        """Reload if the file has changed, and is the same as at the last look.

        This avoids reading a half-written file: without its last lines it would be a valid file
        with fewer endpoints.
        """
        self.start()
        before, self._seen = self._seen, _identity(self._path)
        if self._seen != self._known and self._seen == before:
            self.reload()

    async def _take(self) -> None:
        try:
            # A file of a megabyte takes a second.
            new = await asyncio.to_thread(self._load)
            call_each(self._services, lambda each: each.take_settings(new))
            self._follow(new)
            for service in self._services:
                await service.settings_taken()
        except SettingsError as error:
            log.warning(LogLine("changed settings were not applied", reason=str(error)))
        except FleetStopping:
            log.warning("changed settings were not applied: the gateway is stopping")
        finally:
            self._taking = None
        if self._again:
            self._again = False
            self.reload()

    def _follow(self, new: Settings) -> None:
        changes = compare(self._settings, new)
        for endpoint in new.endpoints:  # unchanged ones too: a failed endpoint is tried anew
            self._fleet.apply(endpoint)
        for name in changes.removed:
            self._fleet.remove(name)
        self._settings = followed(self._settings, new)
        log.info(
            LogLine(
                "settings reloaded",
                added=" ".join(each.name for each in changes.added) or None,
                changed=" ".join(each.name for each in changes.changed) or None,
                removed=" ".join(changes.removed) or None,
            )
        )
        if changes.restart:
            log.warning(
                LogLine(
                    "some changed settings apply only after a restart: restart the gateway",
                    settings=" ".join(changes.restart),
                )
            )


def followed(settings: Settings, new: Settings) -> Settings:
    """Return settings with those of the new ones that a running gateway follows."""
    return dataclasses.replace(
        settings,
        endpoints=new.endpoints,
        images=new.images,
        container_ca=new.container_ca,
        local_roots=new.local_roots,
        api_environment=new.api_environment,
        max_containers=new.max_containers,
        policy=new.policy,
        times=new.times,
    )


def _identity(path: Path | None) -> _Identity:
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
