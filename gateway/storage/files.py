"""Files that somebody else has written, or may read while they are written; and where they lie."""

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
    """Open a file to be read: a regular one, for nothing says when another one has its next byte.

    A pipe whose writer never comes would hold the process for ever, and a device has no end.

    Args:
        path: the file.
        follows: whether it may be a link, to a regular file.
        opened: a descriptor of the file, which becomes the returned file's; it is opened by its
            path if there is none.

    Raises:
        OSError: it cannot be opened, or is a pipe, a device or a socket.
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
    """Open a file, not waiting for the writer of a pipe; for a regular one it is the same."""
    return os.open(path, flags | os.O_NONBLOCK)


def _the_file_itself(path: str, flags: int) -> int:
    """Open a file likewise, not where a link leads to."""
    return _without_waiting(path, flags | os.O_NOFOLLOW)


def read_bounded(path: Path, most: int) -> bytes:
    """All of a regular file; more than ``most`` bytes are not read.

    Raises:
        OSError: it cannot be read, or is a pipe or a device.
        ValueError: it has more.
    """
    with open_regular(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most} bytes")
    return data


def others_may(mode: int) -> str:
    """What others than a file's owner may do with it, as a verb; empty for nothing.

    Args:
        mode: the file's mode, as ``stat`` has it.
    """
    verbs = {
        "read": mode & (stat.S_IRGRP | stat.S_IROTH),
        "write": mode & (stat.S_IWGRP | stat.S_IWOTH),
    }
    return " and ".join(verb for verb, allowed in verbs.items() if allowed)


def is_file_or_folder(path: Path) -> bool:
    """Whether a path leads to something; not so if its name is longer than the system takes."""
    try:
        return path.exists()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; not so if its name is longer than the system takes."""
    try:
        return path.is_dir()
    except OSError:
        return False


def locked(path: Path, mode: int = 0o600) -> int:
    """Lock other processes out by a file, made if it is missing; a dead process's lock is free.

    A file that is there is locked also where it cannot be written to, as on a read-only disk.

    Args:
        path: the file.
        mode: of one that is made, less what the process's umask takes from it.

    Returns:
        The descriptor with which the lock goes.

    Raises:
        BlockingIOError: another process holds the lock, or this one by another descriptor.
        OSError: the file cannot be opened, or its file system has no locks; names the file.
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
    """Write a file at once: whoever reads sees the old bytes or the new ones.

    Args:
        path: the file, whether it is there or not.
        data: all that it is to hold.
        mode: what owner, group and others may do with it.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    with replacing(path, mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, mode: int, folder: int | None = None) -> Iterator[BinaryIO]:
    """Write a file at once, in pieces: it takes its name when the block ends without an error.

    A link of that name is replaced, and not followed.

    Args:
        path: the file, whether it is there or not.
        mode: what owner, group and others may do with it.
        folder: a descriptor of the folder that it is in, by which it is written then, whatever is
            at the folder's path meanwhile.

    Yields:
        A file with a ``name`` of its own until then.

    Raises:
        OSError: it cannot be written; the old one is as it was. Names the file, if it names any.
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
    """Write a file likewise, and lock other processes out that write it in this way.

    The file begins empty: what a process that was killed has left is taken over, since its lock is
    free. Its mode is the process's umask's; the folders are made that it is in.

    Args:
        path: the file, whether it is there or not.

    Yields:
        A file with a ``name`` of its own until then.

    Raises:
        BlockingIOError: another process writes it.
        OSError: as :func:`replacing`.
    """
    hidden = path.with_name(f".{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked_where_it_is(hidden)
    os.ftruncate(descriptor, 0)
    with _appearing(path, hidden, descriptor) as file:
        yield file


def _locked_where_it_is(hidden: Path) -> int:
    """Open and lock a file that is where its name says: not one that has just been renamed.

    Raises:
        OSError: another process writes it, or it cannot be opened.
    """
    while True:
        try:
            descriptor = locked(hidden, 0o666)
        except BlockingIOError as error:
            error.strerror = "another process writes this output; wait for its end"
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
    """Have a hidden file take its name when the block ends without an error, and else go.

    Either happens while the file is open: a lock on it is held as long as its hidden name is its.
    """
    # Without a folder both are found by their paths, with one by their names in it.
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
    """The folder for temporary files.

    Raises:
        OSError: no such folder takes a file.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:  # tempfile's, whichever reason each folder has given
        raise OSError(
            errno.ENOSPC, f"no folder for temporary files takes one ({error.strerror})"
        ) from None


def free_and_reserved(place: Path | int) -> tuple[int, int]:
    """Bytes that a file system has free, and how many of them others' data must leave free.

    Args:
        place: a path of the file system, or the descriptor of a file there.

    Raises:
        OSError: it does not say.
    """
    disk = disk_usage(place)
    return disk.free, int(min(disk.total * DISK_RESERVE, DISK_RESERVE_BYTES))


def user_data_folder(environment: Mapping[str, str]) -> Path | None:
    """Where what this user's gateways keep is, by the XDG Base Directory Specification.

    Args:
        environment: ``os.environ``, as a rule.

    Returns:
        The folder, whether it is there or not; None if the user has no home directory.
    """
    data = Path(environment.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():  # the specification has a relative one ignored
        home = environment.get("HOME")
        if not home:
            return None
        data = Path(home) / ".local" / "share"
    return data / "partway"
