"""Files of this machine as a job's input and output, read and written on threads."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from partway.gateway.clock import Clock
from partway.gateway.storage.file_threads import Wanted
from partway.gateway.storage.file_turns import FileTurns
from partway.gateway.storage.files import locked, open_regular
from partway.gateway.transform.limits import (
    FILE_THREADS,
    FILE_TIMEOUT,
    MAX_FILES,
    READ_BYTES,
)
from partway.gateway.transform.storage import (
    LocalInput,
    StorageFailed,
    TransformInput,
    checked_name,
    output_name,
)

_T = TypeVar("_T")


class FileThreads:
    """Works on files of this machine, each on a thread and with an end.

    Args:
        clock: measures the times.
    """

    def __init__(self, clock: Clock) -> None:
        self._turns = FileTurns(clock, FILE_THREADS)

    async def run(
        self, path: Path, work: Callable[[Wanted], _T], seconds: float = FILE_TIMEOUT
    ) -> _T:
        """Work on a file.

        Args:
            path: whose error it is, where the system names none.
            work: what is to be done.
            seconds: for that.

        Raises:
            StorageFailed: the system does not do it.
        """
        try:
            return await self._turns.run(seconds, work)
        except OSError as error:
            why = error.strerror or str(error)
            raise StorageFailed(f"{error.filename or path}: {why}") from error


# --- Input ----------------------------------------------------------------------------------------


class LocalInputs:
    """A file, the files of a folder and of those in it, or those whose paths begin alike.

    What begins with a dot is passed over, as a shell does.

    Args:
        location: which.
        threads: by which they are read.
        but: a folder that is passed over: the output's, where that is inside.
    """

    def __init__(self, location: Path, threads: FileThreads, but: Path | None = None) -> None:
        self._location = location
        self._threads = threads
        self._but = but

    async def files(self) -> list[TransformInput]:
        """All of them; see :class:`~.storage.InputPlace`."""
        return await self._threads.run(self._location, self._listed)

    async def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        """The bytes of one; see :class:`~.storage.InputPlace`."""
        assert isinstance(file.file, LocalInput), "it was listed here"
        async with aclosing(local_pieces(file.file, self._threads)) as pieces:
            async for piece in pieces:
                yield piece

    def _listed(self, wanted: Wanted) -> list[TransformInput]:
        location = self._location
        if location.is_file():
            return [local_input(location, location.name)]

        def looked_up(path: Path, name: str) -> TransformInput:
            return local_input(path, checked_name(name, str(path)))

        return listed(location, looked_up, wanted, is_folder=location.is_dir(), but=self._but)


def listed(
    location: Path,
    looked_up: Callable[[Path, str], TransformInput],
    wanted: Wanted,
    *,
    is_folder: bool,
    but: Path | None = None,
) -> list[TransformInput]:
    """The files of a folder and of those in it, or those whose paths begin alike, by their names.

    What begins with a dot is passed over.

    Args:
        location: the folder, or how the paths begin.
        looked_up: makes an input of a path and of the name that it has there.
        wanted: says whether the list still is.
        is_folder: whether all in the folder is meant, and not what only begins so.
        but: a folder that is passed over.

    Raises:
        OSError: a folder cannot be read.
        StorageFailed: there is no file, or there are too many.
    """
    # What only begins so is looked for where it would be.
    folder, begins = (location, "") if is_folder else (location.parent, location.name)
    found = []
    for path, name in _below(folder, wanted, but):
        if name.startswith(begins):
            found.append(looked_up(path, name))
        if len(found) > MAX_FILES:
            raise StorageFailed(
                f"{location} has more than {MAX_FILES} files; name a folder with fewer"
            )
    if not found:
        raise StorageFailed(f"{location}: there must be a file, or a folder with files")
    return sorted(found, key=lambda each: each.name)


def _below(folder: Path, wanted: Wanted, but: Path | None) -> Iterator[tuple[Path, str]]:
    """The files of a folder and of those in it, with their names; hidden ones are passed over."""

    def fails(error: OSError) -> None:
        raise error

    for parent, folders, names in os.walk(folder, onerror=fails):
        wanted.check()
        here = Path(parent)
        folders[:] = [each for each in folders if not each.startswith(".") and here / each != but]
        for each in names:
            path = here / each
            if not each.startswith(".") and path.is_file():
                yield path, path.relative_to(folder).as_posix()


def local_input(path: Path, name: str) -> TransformInput:
    """Look one file up.

    Raises:
        OSError: it is not there.
    """
    found = path.stat()
    return TransformInput(name, found.st_size, LocalInput(str(path), _identity(found)))


def _identity(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_dev, found.st_ino, found.st_mtime_ns


async def local_pieces(file: LocalInput, threads: FileThreads) -> AsyncGenerator[bytes, None]:
    """The bytes of a file, as it was looked up.

    Raises:
        StorageFailed: it cannot be read, or is another one now.
    """
    path = Path(file.path)
    opened = await threads.run(path, lambda _: open_regular(path))
    try:
        _check_same(file, opened)
        # By its descriptor: a thread that hangs holds no lock that close() would wait for.
        while piece := await threads.run(path, lambda _: os.read(opened.fileno(), READ_BYTES)):
            yield piece
        _check_same(file, opened)
    finally:
        opened.close()


def _check_same(file: LocalInput, opened: BinaryIO) -> None:
    if _identity(os.fstat(opened.fileno())) != file.identity:
        raise StorageFailed(f"{file.path}: it has changed since it was looked up; begin again")


# --- Output ---------------------------------------------------------------------------------------


class LocalOutputs:
    """A folder, made if it is missing.

    Args:
        folder: which.
        threads: by which it is written.
    """

    def __init__(self, folder: Path, threads: FileThreads) -> None:
        self._folder = folder
        self._threads = threads

    async def present(self, names: Collection[str]) -> set[str]:
        """Which outputs are there; see :class:`~.storage.OutputPlace`."""

        def look(wanted: Wanted) -> set[str]:
            found = set()
            for name in names:
                wanted.check()
                if os.path.lexists(self._folder / output_name(name)):
                    found.add(name)
            return found

        return await self._threads.run(self._folder, look)

    @asynccontextmanager
    async def output(self, name: str) -> AsyncIterator[PartFile]:
        """One output; see :class:`~.storage.OutputPlace`."""
        path = self._folder / output_name(name)
        part = await self._threads.run(path, lambda _: PartFile(path, self._threads))
        try:
            yield part
        finally:
            part.leave()


class PartFile:
    """A file on its way: beside its place, hidden, and locked against others that write it.

    What a process that was killed has left is taken over, since its lock is free.

    Args:
        path: where it is to appear; the folders are made that it is in.
        threads: by which it is written.

    Raises:
        OSError: it cannot be begun, or another process writes it.
    """

    def __init__(self, path: Path, threads: FileThreads) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.part")
        self._threads = threads
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = _locked_part(self._part)
        os.ftruncate(self._descriptor, 0)

    async def write(self, data: bytes) -> None:
        """Add bytes; see :class:`~.storage.OutputFile`."""
        await self._threads.run(self._path, partial(write_all, self._descriptor, data))

    async def restart(self) -> None:
        """Drop what was written; see :class:`~.storage.OutputFile`."""

        def drop(_: Wanted) -> None:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.ftruncate(self._descriptor, 0)

        await self._threads.run(self._path, drop)

    async def finish(self) -> None:
        """Have it appear; see :class:`~.storage.OutputFile`."""

        def appear(wanted: Wanted) -> None:
            os.fsync(self._descriptor)
            wanted.check()
            self._part.rename(self._path)

        await self._threads.run(self._path, appear)

    def leave(self) -> None:
        """Leave nothing but what has appeared."""
        with suppress(OSError):
            if self._part.lstat().st_ino == os.fstat(self._descriptor).st_ino:
                self._part.unlink()
        os.close(self._descriptor)


def _locked_part(part: Path) -> int:
    """Open and lock a file that is where its name says: not one that has just been renamed.

    Raises:
        OSError: another process writes it, or it cannot be opened.
    """
    while True:
        try:
            descriptor = locked(part, 0o666)
        except BlockingIOError as error:
            error.strerror = "another process writes this output; wait for its end"
            raise
        with suppress(FileNotFoundError):
            found, opened = part.lstat(), os.fstat(descriptor)
            if (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino):
                return descriptor
        os.close(descriptor)


def write_all(descriptor: int, data: bytes, wanted: Wanted) -> None:
    """Write all of some bytes behind what is written, on a thread.

    Raises:
        OSError: the file system does not take them.
    """
    left = memoryview(data)
    while left:
        wanted.check()
        left = left[os.write(descriptor, left) :]
