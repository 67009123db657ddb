"""The model directory of a container without model data: empty and read-only (clause 1.1-6)."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path
from typing import Final

from partway.gateway.storage.disk_refusals import is_disk_refusal
from partway.gateway.storage.files import temporary_folder

#: Linux's file system in memory that every user may write to (shm_overview(7)).
_MEMORY: Final = Path("/dev/shm")  # noqa: S108


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
