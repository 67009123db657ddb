"""Callers' files on this machine: read below some folders, written below others, on threads.

A path is followed once, and held to its folders then; it is opened a folder at a time, and never by
a link, so that nothing that is put in its place meanwhile leads elsewhere.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from partway.gateway.storage.file_threads import Wanted
from partway.gateway.storage.limits import READ_BYTES
from partway.gateway.storage.places.local_roots import LocalRoots, plain_path

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file as it was when it was looked up.

    Attributes:
        path: absolute, with every link on the way followed.
        size: its bytes.
        identity: device, inode, and when it was last changed.
    """

    path: Path
    size: int
    identity: tuple[int, int, int]


def looked_up(roots: LocalRoots, location: str, _: Wanted) -> LocalFile:
    """Look a file up.

    Raises:
        OSError: it is not there, or no regular file.
        ValueError: it is not below one of the folders, or not written as leave is asked for it.
    """
    path = roots.path_of(plain_path(location))
    with _opened(path) as descriptor:
        return _as_it_is(path, descriptor)


def piece(file: LocalFile, at: int, _: Wanted) -> bytes:
    """Some bytes of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is another one than was looked up.
    """
    with _opened(file.path) as descriptor:
        read = os.pread(descriptor, READ_BYTES, at)
        if _as_it_is(file.path, descriptor) != file or not read:
            raise ValueError(f"{file.path}: it has changed while it was read; send it again")
    return read


def put(
    results: LocalRoots, location: str, content: bytes | Path | Iterable[bytes], wanted: Wanted
) -> None:
    """Put a file in its place at once, and make the folders that it is in.

    Args:
        results: below which it must be.
        location: where.
        content: all that it is to hold, at once or block by block, or a file that holds it.
        wanted: whether it is still to be put there.

    Raises:
        OSError: it cannot be written; what was there is as it was.
        ValueError: it is not below one of the folders, or not written as leave is asked for it.
    """
    path = results.path_of(plain_path(location))
    with _folder(path.parent, results.root_of(path)) as folder:
        temporary = f".{secrets.token_hex(8)}.part"
        descriptor = os.open(temporary, _NEW, 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                for each in _blocks(content):
                    wanted.check()
                    file.write(each)
                file.flush()
                os.fsync(file.fileno())
            wanted.check()
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)


def _blocks(content: bytes | Path | Iterable[bytes]) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    if not isinstance(content, Path):
        yield from content
        return
    with content.open("rb") as file:
        while block := file.read(READ_BYTES):
            yield block


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    with _folder(path.parent) as folder:
        descriptor = os.open(path.name, _READ, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _folder(path: Path, below: Path | None = None) -> Iterator[int]:
    """A folder, opened from the root on without following a link.

    Args:
        path: absolute.
        below: the folder below which those are made that are not there. It must be there itself: a
            mount that is away is not written beside.
    """
    descriptor = os.open("/", _FOLDER)
    try:
        for number, name in enumerate(path.parts[1:], 1):
            try:
                inner = os.open(name, _FOLDER, dir_fd=descriptor)
            except FileNotFoundError:
                if below is None or number < len(below.parts):
                    raise
                with suppress(FileExistsError):  # of another answer
                    os.mkdir(name, 0o700, dir_fd=descriptor)
                inner = os.open(name, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _as_it_is(path: Path, descriptor: int) -> LocalFile:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "this must be a regular file", str(path))
    return LocalFile(path, found.st_size, (found.st_dev, found.st_ino, found.st_mtime_ns))
