"""``partway serve --upgrade``: have the running gateway go on with new code."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from partway.gateway.cli.admin_client import GatewayNotAsked, find_gateway, say_why
from partway.gateway.storage.data_directory import announced
from partway.gateway.workers.upgrade_notes import UpgradeNote, noted

_NAME: Final = "partway serve --upgrade"

#: Seconds for the check, the handover and the new start.
_PATIENCE: Final = 120.0

#: Seconds between two looks.
_PAUSE: Final = 0.1


def upgrade(named: Path | None) -> int:
    """Upgrade the gateway that runs, wait for the outcome, and print it.

    Args:
        named: the gateway's data directory; None to find it as other commands do.

    Returns:
        The exit status.
    """
    try:
        directory = find_gateway(named, os.environ)
        after = _upgraded(directory)
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    print(f"upgraded: version {after.version} takes connections now")
    return 0


def _upgraded(directory: Path) -> UpgradeNote:
    """Upgrade the gateway of a data directory, and return its new state.

    Raises:
        GatewayNotAsked: it cannot be upgraded, or refuses.
    """
    before, running = noted(directory), announced(directory)
    if before is None or running is None or running.pid != before.pid:
        raise GatewayNotAsked(
            "the gateway runs as one process, which cannot be upgraded in place: restart it, or "
            "start it with --workers 2 or more"
        )
    if _user_of(before.pid) != directory.stat().st_uid:
        raise GatewayNotAsked(
            f"{directory}: process {before.pid}, which files there name as the gateway, does not "
            "run as the owner of this folder; send SIGUSR2 to the supervisor instead"
        )
    try:
        os.kill(before.pid, signal.SIGUSR2)
    except OSError as error:
        raise GatewayNotAsked(
            f"process {before.pid} takes no signal: {error.strerror}; run this as the gateway's "
            "user"
        ) from None
    deadline = time.monotonic() + _PATIENCE
    while (after := noted(directory)) is None or after == before:
        if _user_of(before.pid) is None:
            raise GatewayNotAsked(
                f"process {before.pid} has ended, and with it the gateway; see the gateway's log"
            )
        if time.monotonic() > deadline:
            raise GatewayNotAsked(
                f"the upgrade has no outcome after {_PATIENCE:.0f} s; see the gateway's log"
            )
        time.sleep(_PAUSE)
    if after.pid != before.pid:
        raise GatewayNotAsked(
            "the gateway has been started anew instead, which cuts streams; see the gateway's log"
        )
    if after.generation == before.generation:
        raise GatewayNotAsked(f"no upgrade: the same code serves on: {after.reason}")
    return after


def _user_of(pid: int) -> int | None:
    """Return the number of a process's user; None if there is no such process."""
    with suppress(OSError):
        for line in Path("/proc", str(pid), "status").read_text().splitlines():
            if line.startswith("Uid:"):
                return int(line.split()[1])
    return None
