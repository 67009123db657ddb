"""The means of a gateway's workers, and the orders of its supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from msgspec.structs import replace

from partway import __version__
from partway.gateway.admin.kept_data import data_directory
from partway.gateway.gateway import Gateway
from partway.gateway.ports import Listening
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import DataDirectory, DataDirectoryError
from partway.gateway.storage.store.store import StoreError
from partway.gateway.timing.deadlines import before, set_or_call
from partway.gateway.workers.front import WorkersFront
from partway.gateway.workers.shared_counts import SharedCounts, kept_rows
from partway.gateway.workers.supervision import Supervision, WorkersError
from partway.gateway.workers.upgrade import GatewayUpgrade
from partway.gateway.workers.upgrade_notes import UpgradeNote, note, noted
from partway.log_lines import LogLine, say_failure, say_listening

log = logging.getLogger("partway.workers")

#: The name of the kept entry with the path of a temporary data directory.
_TEMPORARY: Final = "temporary-data"


class WorkersSetup:
    """The means of a gateway's workers, from before the gateway is made.

    Args:
        number: how many workers there are.
        supervision: starts them.

    Attributes:
        supervision: the supervisor, as this process sees it.
        counts: the parent's row of the shared counts, for the gateway.
    """

    def __init__(self, number: int, supervision: Supervision) -> None:
        self.supervision: Final = supervision
        line = "the supervisor is stuck: another gateway process starts once it goes on"
        supervision.on_stuck = partial(_leave_to_next, line)
        # While an upgrade retires workers, there are twice as many.
        self._rows = kept_rows(supervision, 2 * number + 1)
        self.counts: Final[SharedCounts] = self._rows.own
        self._upgrading: GatewayUpgrade | None = None
        #: Whether this process hands over, and leaves every end to the next one.
        self._leaves = False
        #: Set when the start is to end, although workers of an earlier process may have streams.
        self._hastens = asyncio.Event()
        self._data: DataDirectory | None = None

    def stop_on_orders(
        self, hasten: Callable[[], None], reload: Callable[[], None]
    ) -> asyncio.Event:
        """Obey the supervisor from now on.

        Args:
            hasten: called for each SIGTERM and SIGINT after the first.
            reload: called for each SIGHUP.

        SIGUSR2 begins an upgrade.

        Returns:
            An event that the first SIGTERM or SIGINT sets. The supervisor's end sets it too, and
            hastens.
        """
        stop = asyncio.Event()

        def hastened() -> None:
            self._hastens.set()
            hasten()

        def stopped() -> None:
            if not self._leaves:
                set_or_call(stop, hastened)

        def gone() -> None:
            log.error("the supervisor has ended, and everything ends with it")
            stop.set()
            hastened()

        def upgrade() -> None:
            if self._upgrading is None:
                reason = "the gateway has not started yet; try again"
                log.warning(LogLine("the upgrade is refused", reason=reason))
                self._note(reason)
            else:
                self._upgrading.begin()

        self.supervision.follow(stopped, reload, upgrade, gone)
        return stop

    def data_directory(self, loaded: Settings, warnings: list[LogLine]) -> DataDirectory | None:
        """Own the data directory, which a temporary one is for all gateway processes in turn.

        Args:
            warnings: as for :func:`partway.gateway.admin.kept_data.data_directory`.

        Raises:
            DataDirectoryError: as that function.
        """
        supervisor = os.getppid()
        for entry in self.supervision.take(_TEMPORARY).values():
            path = Path(os.fsdecode(entry.record))
            self._data = DataDirectory.opened(path, supervisor, keep=False)
            return self._data
        data = self._data = data_directory(loaded, warnings, supervisor)
        if data is not None and not data.keeps:
            self.supervision.keep(_TEMPORARY, os.fsencode(data.path))
        return data

    def opened(self) -> None:
        """Note that this gateway process takes requests, and its admin socket orders."""
        self._note(self.supervision.upgrade_failure)

    def _note(self, refusal: str = "") -> None:
        """Note the state of upgrades for ``partway serve --upgrade``.

        Args:
            refusal: why an upgrade was refused, or has failed; empty if none was.
        """
        if self._data is None:
            return
        path, generation = self._data.path, self.supervision.generation
        now = UpgradeNote(os.getppid(), __version__, generation, int(bool(refusal)), refusal)
        earlier = noted(path)
        if earlier is not None and (earlier.pid, earlier.generation) == (now.pid, generation):
            now = replace(
                now,
                refusals=earlier.refusals + now.refusals,
                reason=refusal or earlier.reason,
            )
        try:
            note(path, now)
        except OSError as error:  # an upgrade by SIGUSR2 works all the same
            log.warning(LogLine("the upgrade's state cannot be noted", reason=error.strerror))

    def say_listening(self, url: str, authority: str) -> None:
        """Print a ready line, or log one if an earlier gateway process has printed it."""
        if self.supervision.is_first:
            say_listening(url, authority)
        else:
            log.info(LogLine("the gateway takes changes again", url=url))

    async def start(self, gateway: Gateway, stop: asyncio.Event) -> Listening | None:
        """Start a gateway behind the workers.

        Args:
            stop: ends the start of the first gateway process. A later one starts all the same, for
                the drain of the workers that it finds; the second signal alone ends its start.

        Returns:
            The addresses; None if the start was ended, or if the workers cannot be started, which
            is said on standard error.

        A later gateway process that cannot start ends at once, and leaves the running workers and
        programs to the next one.

        Raises:
            Exception: as :meth:`.WorkersFront.open`, and as :meth:`.Gateway.start_behind`.
        """
        front = WorkersFront(gateway, self.supervision, self._rows)

        async def started() -> Listening:
            is_first = self.supervision.is_first
            await gateway.start_behind(front, undoes_failure=is_first)
            return front.listening

        try:
            ends = stop if self.supervision.is_first else self._hastens
            listening = await before(ends, started())
        except Exception as error:
            if not self.supervision.is_first:
                line = "this gateway process cannot start; workers serve on until another one can"
                _leave_to_next(line, error)
            if not isinstance(error, WorkersError):
                raise
            say_failure("partway serve", str(error))
            return None
        if listening is not None:
            self.supervision.is_up()
            front.release_absent()
            self._upgrading = GatewayUpgrade(
                lambda: "the gateway is stopping" if stop.is_set() else front.upgrade_refusal,
                partial(self._hand_over, front),
                self._note,
            )
        return listening

    async def _hand_over(self, front: WorkersFront) -> None:
        self._leaves = True
        try:
            await front.hand_over()
        except Exception as error:  # it takes neither requests nor signals any more
            self._note(f"the handover has failed: {error}; see the gateway's log")
            _leave_to_next("the handover has failed; another gateway process starts", error)


def _leave_to_next(line: str, error: Exception) -> NoReturn:
    """End this process as suddenly as by SIGKILL; ``line`` says why."""
    is_fault = not isinstance(error, DataDirectoryError | OSError | StoreError | WorkersError)
    log.error(LogLine(line, reason=str(error)), exc_info=is_fault)
    for each in (sys.stdout, sys.stderr):
        each.flush()
    os._exit(1)
