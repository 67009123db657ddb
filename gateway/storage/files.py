"""Safe access to files that others write or read at the same time."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from typing import BinaryIO, Final

from partway.gateway.limits import DISK_RESERVE, DISK_RESERVE_BYTES
from partway.gateway.storage.disk_refusals import is_disk_refusal

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_regular(path: Path, *, follows: bool = True, opened: int | None = None) -> BinaryIO:
    """Open a file for reading, which must be a regular file.

    A pipe whose writer never comes would block for ever, and a device has no end.

    Args:
        follows: whether the path may be a link to a regular file.
        opened: a descriptor of the file, which the returned file takes over; None to open the path.

    Raises:
        OSError: the file cannot be opened, or is a pipe, a device or a socket.
    """
    opener = _without_waiting if follows else _the_file_itself
    descriptor = opener(str(path), os.O_RDONLY | os.O_CLOEXEC) if opened is None else opened
    file = open(path, "rb", opener=lambda *_: descriptor)  # noqa: SIM115 (the caller's to close)
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file
    file.close()
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise OSError(errno.EINVAL, f"this is {kind}; it must be a regular file", str(path))


def _without_waiting(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe; regular files are not affected."""
    return os.open(path, flags | os.O_NONBLOCK)


def _the_file_itself(path: str, flags: int) -> int:
    """Open a file likewise, without following a link."""
    return _without_waiting(path, flags | os.O_NOFOLLOW)


def read_bounded(path: Path, most: int) -> bytes:
    """Read a whole regular file of at most ``most`` bytes.

    Raises:
        OSError: the file cannot be read, or is a pipe or a device.
        ValueError: the file has more bytes.
    """
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most} bytes")
    return data


def others_may(mode: int) -> str:
    """Return what other users than the owner may do with a file, as verbs; empty for nothing.

    Args:
        mode: the mode of the file, as in ``stat``.
    """
    verbs = {
        "read": mode & (stat.S_IRGRP | stat.S_IROTH),
        "write": mode & (stat.S_IWGRP | stat.S_IWOTH),
    }
    return " and ".join(verb for verb, allowed in verbs.items() if allowed)


def is_file_or_folder(path: Path) -> bool:
    """Whether a path exists; False if its name is too long for the system."""
    try:
        return path.exists()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; False if its name is too long for the system."""
    try:
        return path.is_dir()
    except OSError:
        return False


def locked(path: Path, mode: int = 0o600) -> int:
    """Lock other processes out by a file, which is made if it is missing.

    A dead process's lock is free. An existing file is locked even if it is not writable, as on a
    read-only disk.

    Args:
        mode: the mode of a new file, less the process's umask.

    Returns:
        The descriptor that holds the lock.

    Raises:
        BlockingIOError: another process, or another descriptor of this process, holds the lock.
        OSError: the file cannot be opened, or its file system has no locks; the error names the
            file.
    """
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode)
    except OSError as error:
        if not is_disk_refusal(error) or not path.exists():
            raise
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        error.filename = str(path)
        raise
    return lock


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically: a reader sees the old bytes or the new ones.

    Args:
        path: the file, which need not exist.

    Raises:
        OSError: the file cannot be written; the old one is unchanged.
    """
    with replacing(path, mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, mode: int, folder: int | None = None) -> Iterator[BinaryIO]:
    """Write a file atomically in pieces; it gets its name if the block ends without an error.

    A link of that name is replaced, and not followed.

    Args:
        path: the file, which need not exist.
        folder: a descriptor of the file's folder. The file is then written by the descriptor, even
            if the folder's path changes.

    Yields:
        The open file, with a temporary ``name``.

    Raises:
        OSError: the file cannot be written; the old one is unchanged. The error names the file, or
            no file.
    """
    hidden = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        descriptor = os.open(hidden if folder is None else hidden.name, _NEW, 0o600, dir_fd=folder)
    except OSError as error:
        error.filename = str(path)
        raise
    with _appearing(path, hidden, descriptor, folder) as file:
        yield file
        os.fchmod(file.fileno(), mode)


@contextmanager
def replacing_alone(path: Path) -> Iterator[BinaryIO]:
    """Write a file likewise, and lock out other processes that write it by this function.

    The file begins empty. A killed process's part of it is taken over, since its lock is free. The
    file has the mode of the process's umask; its missing folders are made.

    Args:
        path: the file, which need not exist.

    Yields:
        The open file, with a temporary ``name``.

    Raises:
        BlockingIOError: another process writes the file.
        OSError: as :func:`replacing`.
    """
    hidden = path.with_name(f".{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked_where_it_is(hidden)
    os.ftruncate(descriptor, 0)
    with _appearing(path, hidden, descriptor) as file:
        yield file


def _locked_where_it_is(hidden: Path) -> int:
    """Open and lock a file that still has its name, and has not just been renamed.

    Raises:
        OSError: another process writes the file, or it cannot be opened.
    """
    while True:
        try:
            descriptor = locked(hidden, 0o666)
        except BlockingIOError as error:
            error.strerror = "another process writes this output; wait until that process has ended"
            raise
        with suppress(FileNotFoundError):
            found, opened = hidden.lstat(), os.fstat(descriptor)
            if (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino):
                return descriptor
        os.close(descriptor)


@contextmanager
def _appearing(
    path: Path, hidden: Path, descriptor: int, folder: int | None = None
) -> Iterator[BinaryIO]:
    """Rename a hidden file if the block ends without an error; otherwise remove it.

    Both happen while the file is open, so that its lock is held as long as it has its hidden name.
    """
    # Both files are found by their paths, or by their names in the folder if there is one.
    new, old = (hidden, path) if folder is None else (hidden.name, path.name)
    with open(hidden, "wb", opener=lambda *_: descriptor) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(new, old, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException as error:
            with suppress(OSError):
                os.unlink(new, dir_fd=folder)
            if isinstance(error, OSError) and error.filename in (str(new), str(hidden)):
                error.filename = str(path)
            raise


def temporary_folder() -> Path:
    """Return the folder for temporary files.

    Raises:
        OSError: no folder for temporary files accepts a file.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # raised by tempfile, whatever the reason of each folder
        raise OSError(
            errno.ENOSPC, f"no folder for temporary files can be written to ({error.strerror})"
        ) from None


def free_and_reserved(place: Path | int) -> tuple[int, int]:
    """Return a file system's free bytes, and the bytes that must stay free for other data.

    Args:
        place: a path on the file system, or the descriptor of a file there.

    Raises:
        OSError: the file system gives no answer.
    """
    disk = disk_usage(place)
    return disk.free, int(min(disk.total * DISK_RESERVE, DISK_RESERVE_BYTES))


def user_data_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of this user's gateways, by the XDG Base Directory Specification.

    Returns:
        The folder, which need not exist; None if the user has no home directory.
    """
    data = Path(environment.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():  # the specification ignores relative paths
        home = environment.get("HOME")
        if not home:
            return None
        data = Path(home) / ".local" / "share"
    return data / "partway"
