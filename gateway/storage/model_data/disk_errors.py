"""Errors of the operating system about model data, in words."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from partway.gateway.storage.disk_refusals import FULL

#: Wrong names or missing permissions: these errors stay until somebody changes something.
_NAMED_WRONGLY: Final = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)

#: The file system does not support the operation.
_UNFIT: Final = (errno.EROFS, errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

#: The process or the machine is short of resources; others may release theirs.
_SCARCE: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


def disk_error_in_words(source: str, folder: Path, error: OSError) -> tuple[str, bool]:
    """Return the reason why model data is not available.

    Returns:
        The words, and whether a retry may help. A retry does not help if somebody has to change
        something first.
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
        return f"{said}; it must exist, and the gateway's user must be allowed to read it", False
    if number in _UNFIT:
        return (
            f"{said}; the file system of {folder} must be writable and support locks: move it "
            "with --data-dir"
        ), False
    if number in _SCARCE:
        return (
            f"{said}; try again once programs of this machine need less, or raise the limit "
            "(ulimit -n, TasksMax, memory)"
        ), True
    return f"{said}; check the disk, or the server of its file system, and try again", True
