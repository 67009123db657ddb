"""Files of this machine, read and written only below certain folders.

The links of a path are resolved once, and the result must be below one of the folders. The path is
then opened folder by folder without following a link. A link that is put there meanwhile has no
effect.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from partway.gateway.storage.file_threads import Wanted
from partway.gateway.storage.files import replacing
from partway.gateway.storage.limits import LISTED_FILES_PER_SECOND, PUT_BYTES_PER_SECOND, READ_BYTES
from partway.gateway.storage.places.folder_threads import FolderThreads
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.locations import plain_path
from partway.gateway.storage.places.nofollow import (
    folder_without_links,
    open_without_links,
    synchronise_folder,
)
from partway.gateway.storage.places.place import Content, FoundFile, StorageFailed


class LocalPlace:
    """The files of this machine below some folders; a key is a path, or ``file://`` and a path.

    Args:
        passed_over: a folder whose files are not listed.
    """

    def __init__(
        self, roots: LocalRoots, threads: FolderThreads, passed_over: Path | None = None
    ) -> None:
        self._roots = roots
        self._threads = threads
        self._passed_over = passed_over

    async def look(self, key: str) -> FoundFile:
        return await self._threads.run(key, lambda _: self._looked_up(key, ""))

    async def listing(self, prefix: str, most: int) -> list[FoundFile]:
        """Return all files whose paths begin with a prefix, or the files of a folder at that path.

        A file is skipped if a part of its name begins with a dot, as in a shell. Pipes, devices and
        linked folders are skipped too.

        Raises:
            StorageFailed: there are more than ``most`` files, or one may not be read.
        """
        seconds = most / LISTED_FILES_PER_SECOND
        return await self._threads.run(prefix, partial(self._listed, prefix, most), seconds)

    async def pieces(self, file: FoundFile) -> AsyncGenerator[bytes, None]:
        at = 0
        while at < file.size:
            piece = await self._threads.run(file.key, partial(_piece, file, at))
            at += len(piece)
            yield piece

    async def put(
        self, key: str, content: Content, size: int, content_type: str = "", coding: str = ""
    ) -> None:
        """Store a file, and make its missing folders; see :class:`~.place.FilePlace`.

        Raises:
            StorageFailed: the file is not stored; an existing file is unchanged.
        """
        seconds = size / PUT_BYTES_PER_SECOND
        await self._threads.run(key, partial(self._write, key, content), seconds)

    def location(self, key: str) -> str:
        """Return the key itself."""
        return key

    # --- On threads ------------------------------------------------------------------------------

    def _looked_up(self, key: str, name: str) -> FoundFile:
        named = plain_path(key)
        path = self._roots.path_of(named)
        with _opened(path) as descriptor:
            return _as_it_is(str(path), name or Path(named).name, descriptor)

    def _listed(self, prefix: str, most: int, wanted: Wanted) -> list[FoundFile]:
        path = Path(plain_path(prefix.rstrip("/") or "/"))
        is_folder = prefix.endswith("/") or path.is_dir()
        folder, begins = (path, "") if is_folder else (path.parent, path.name)
        found = []
        for each, name in self._below(folder, wanted):
            if name.startswith(begins):
                found.append(self._looked_up(str(each), name))
            if len(found) > most:
                raise StorageFailed(f"{path} has more than {most} files; name a folder with fewer")
        return sorted(found, key=lambda each: each.name)

    def _below(self, folder: Path, wanted: Wanted) -> Iterator[tuple[Path, str]]:
        """Yield the files of a folder and its subfolders, with their relative names."""

        def fails(error: OSError) -> None:
            raise error

        for parent, folders, names in os.walk(folder, onerror=fails):
            wanted.check()
            here = Path(parent)
            folders[:] = [
                each
                for each in folders
                if not each.startswith(".") and here / each != self._passed_over
            ]
            for each in names:
                path = here / each
                if not each.startswith(".") and path.is_file():
                    yield path, path.relative_to(folder).as_posix()

    def _write(self, key: str, content: Content, wanted: Wanted) -> None:
        path = self._roots.path_of(plain_path(key))
        with folder_without_links(path.parent, self._roots.root_of(path)) as folder:
            with replacing(path, 0o600, folder) as file:
                for each in _blocks(content):
                    wanted.check()
                    file.write(each)
                file.flush()
                os.fsync(file.fileno())
                wanted.check()
            synchronise_folder(folder)


def _piece(file: FoundFile, at: int, _: Wanted) -> bytes:
    with _opened(Path(file.key)) as descriptor:
        read = os.pread(descriptor, READ_BYTES, at)
        if _as_it_is(file.key, file.name, descriptor) != file or not read:
            raise ValueError(f"{file.key}: it has changed while it was read; try again")
    return read


def _blocks(content: Content) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
    elif isinstance(content, Path):
        with content.open("rb") as file:
            yield from _blocks(file)
    else:
        at = 0
        # Read by descriptor: a hanging thread then holds no lock that close() would wait for.
        while block := os.pread(content.fileno(), READ_BYTES, at):
            at += len(block)
            yield block


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = open_without_links(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _as_it_is(path: str, name: str, descriptor: int) -> FoundFile:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "this must be a regular file")
    tag = f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}"
    return FoundFile(path, name, found.st_size, tag)
