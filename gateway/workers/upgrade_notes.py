"""The outcome of upgrades, in a file of the data directory for ``partway serve --upgrade``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from partway.gateway.storage.files import read_bounded, replace_file

#: Bytes of the file.
_MAX_FILE: Final = 64 * 1024


class UpgradeNote(msgspec.Struct, frozen=True):
    """The state of upgrades.

    Attributes:
        pid: of the supervisor.
        version: of the code that runs.
        generation: how many upgrades there have been.
        refusals: how many were refused, or have failed, since the last one.
        reason: of the last of these; empty if there was none.
    """

    pid: int
    version: str
    generation: int
    refusals: int = 0
    reason: str = ""


def noted(directory: Path) -> UpgradeNote | None:
    """Return the note in a data directory; None if there is no readable one."""
    try:
        return msgspec.json.decode(read_bounded(_file(directory), _MAX_FILE), type=UpgradeNote)
    except (OSError, ValueError):
        return None


def note(directory: Path, found: UpgradeNote) -> None:
    """Write a note into a data directory.

    Raises:
        OSError: the disk refuses it.
    """
    replace_file(_file(directory), msgspec.json.encode(found) + b"\n", 0o600)


def _file(directory: Path) -> Path:
    return directory / "upgrade.json"
