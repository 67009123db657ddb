"""Recovery from a disk that refuses parts of the start: the gateway serves without them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from partway.gateway.limits import DISK_RETRY_INTERVAL
from partway.gateway.storage.disk_refusals import DiskRefusal, free_room
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.disk")


#: Refused while the files of asynchronous requests are not usable.
ASYNCHRONOUS: Final = ("asynchronous requests",)

#: Refused while the store cannot be read.
CREATED: Final = ("endpoints that were created through the API",)

#: Refused while the store cannot be written to.
CHANGES: Final = ("changes through the API, kubectl and partway deploy", *ASYNCHRONOUS)

#: Refused while the data directory is not usable.
NEEDS_DISK: Final = (*CHANGES, "model data that must be unpacked", "logs of instances")

#: Refused while there is no admin socket.
ASKING: Final = ("partway endpoints, logs, deploy and delete",)

#: Refused while the local CA's certificate cannot be made.
TLS_PORT: Final = ("connections with the TLS port",)


@dataclass(frozen=True, slots=True)
class DiskStep:
    """A part of the start that needs the disk.

    Attributes:
        refused: the features that callers are refused until the step is done.
        attempt: does the step; raises DiskRefusal while the disk refuses.
        then: the step that follows this one; its failure does not repeat this one.
    """

    refused: tuple[str, ...]
    attempt: Callable[[], Awaitable[None]]
    then: DiskStep | None = None


class DiskRecovery:
    """Repeats the steps that the disk has refused, in order, until each is done.

    Args:
        place: the folder that warnings name.
        clock: measures the time between two tries.
    """

    def __init__(self, place: Path, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._left: dict[DiskStep, str] = {}
        self._retrying: asyncio.Task[None] | None = None

    async def attempt(self, step: DiskStep) -> bool:
        """Do a step now; if the disk refuses, :meth:`start` repeats the step later.

        Returns:
            Whether the step and the steps after it are done.

        Raises:
            Exception: any error of a step other than DiskRefusal.
        """
        try:
            await step.attempt()
        except DiskRefusal as error:
            self._left[step] = str(error)
            return False
        return step.then is None or await self.attempt(step.then)

    def start(self) -> None:
        """Warn of the refused steps, and repeat them from now on."""
        if not self._left:
            return
        room = free_room(self._place)
        log.warning(
            LogLine(
                "the disk refuses the gateway's data; endpoints of the settings are served",
                folder=str(self._place),
                bytes_free=None if room is None else room.bytes,
                files_free=None if room is None else room.files,
                refused=self._refused(),
                reason="; ".join(dict.fromkeys(self._left.values())),
                next_try_s=DISK_RETRY_INTERVAL,
            )
        )
        self._retrying = asyncio.create_task(self._retry(), name="recovery of the disk")

    async def aclose(self) -> None:
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.wait((self._retrying,))

    async def _retry(self) -> None:
        while self._left:
            await pause(self._clock, DISK_RETRY_INTERVAL)
            before = list(self._left)
            for step in before:
                if step in self._left:  # otherwise it followed another step, and is done
                    await self._try_again(step)
            if any(step not in self._left for step in before):
                still = self._refused() or None
                line = "the disk accepts the gateway's data again"
                log.info(LogLine(line, folder=str(self._place), still_refused=still))

    async def _try_again(self, step: DiskStep) -> None:
        refused = "; ".join(step.refused)
        try:
            await step.attempt()
        except DiskRefusal as error:
            if self._is_news(step, str(error)):
                line = "the disk still refuses the gateway's data"
                log.warning(LogLine(line, refused=refused, reason=str(error)))
        # A failure that would end a start must not end a serving gateway.
        except Exception as error:
            if self._is_news(step, f"{type(error).__name__}: {error}"):
                line = "a part of the start failed and will be retried"
                log.exception(LogLine(line, refused=refused))
        else:
            del self._left[step]
            if step.then is not None:
                self._left.setdefault(step.then, "")
                await self._try_again(step.then)

    def _is_news(self, step: DiskStep, reason: str) -> bool:
        """Note why a step failed; return whether the reason is new."""
        before, self._left[step] = self._left[step], reason
        return reason != before

    def _refused(self) -> str:
        return "; ".join(dict.fromkeys(each for step in self._left for each in step.refused))
