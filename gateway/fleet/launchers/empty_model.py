"""The model directory of a container without model data: empty and read-only (clause 1.1-6)."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from partway.gateway.kept_state import KeptState
from partway.gateway.storage.disk_refusals import is_disk_refusal
from partway.gateway.storage.file_threads import remove_tree
from partway.gateway.storage.files import temporary_folder

#: Linux's file system in memory that every user may write to (shm_overview(7)).
_MEMORY: Final = Path("/dev/shm")  # noqa: S108

#: The name of the kept entry with the path of the folder.
_ENTRY: Final = "empty-model"


class KeptEmptyModelDir:
    """The folder of all programs of a gateway, made for the first of them.

    Adopted programs go on with it, so a later gateway process takes it over.
    """

    def __init__(self, kept: KeptState) -> None:
        self._kept = kept
        self._made: tempfile.TemporaryDirectory[str] | None = None
        entry = kept.take(_ENTRY).get(_ENTRY)
        self._earlier = None if entry is None else Path(os.fsdecode(entry.record))

    def path(self) -> str:
        """Return its path.

        Raises:
            OSError: there is no room for it.
        """
        if self._made is not None:
            return self._made.name
        if self._earlier is not None and self._earlier.is_dir():
            return str(self._earlier)
        self._made = empty_model_dir()
        self._kept.keep(_ENTRY, os.fsencode(self._made.name))
        return self._made.name

    def remove(self) -> None:
        """Remove the folder, if there is one."""
        self._kept.forget(_ENTRY)
        if self._made is not None:
            self._made.cleanup()
            self._made = None
        if self._earlier is not None:
            with suppress(OSError):  # a container may have used it
                remove_tree(self._earlier)
            self._earlier = None


def empty_model_dir() -> tempfile.TemporaryDirectory[str]:
    """Make an empty, read-only folder; the caller must remove it.

    Raises:
        OSError: there is no room for it, neither in the temporary folder nor in memory.
    """
    try:
        made = _temporary(temporary_folder())
    except OSError as error:
        # A full disk must not prevent a start: an empty folder in memory is as good.
        if not (is_disk_refusal(error) and _MEMORY.is_dir()):
            raise
        made = _temporary(_MEMORY)
    Path(made.name).chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP)
    return made


def _temporary(below: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(
        prefix="partway-model-",
        dir=below,
        ignore_cleanup_errors=True,  # a container may have used it
    )
