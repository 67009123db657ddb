"""What the system says of files and folders, in words: what to do, and whether it may pass."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from partway.gateway.storage.disk_refusals import FULL

#: Names, or what the user may do: they stay as they are until somebody changes them.
_NAMED_WRONGLY: Final = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)

#: A file system that cannot do what is asked of it.
_UNFIT: Final = (errno.EROFS, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

#: Of the process or the machine, which has more once others have let go of theirs.
_SCARCE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


def disk_error_in_words(source: str, folder: Path, error: OSError) -> tuple[str, bool]:
    """Say why model data cannot be had.

    Args:
        source: what was asked for.
        folder: where what is unpacked lies.
        error: what the system says.

    Returns:
        The words, and whether trying again may help: so it is but for what somebody has to change.
    """
    number = error.errno
    if number in FULL:
        return (
            f"{source}: the disk of {folder} is full ({error.strerror}); make room there, or move "
            "it with --data-dir"
        ), True
    where = "" if error.filename in (None, source) else f"{error.filename}: "
    said = f"{source}: {where}{error.strerror or error}"
    if number in _NAMED_WRONGLY:
        return f"{said}; it must be there, and the gateway's user be allowed to read it", False
    if number in _UNFIT:
        return (
            f"{said}; the file system of {folder} must be one that can be written to and has "
            "locks: move it with --data-dir"
        ), False
    if number in _SCARCE:
        return (
            f"{said}; try again once the gateway or others on this machine need less, or raise "
            "the limit (ulimit -n, TasksMax, memory)"
        ), True
    return f"{said}; look at the disk, or at the server of its file system, and try again", True
