"""Sources of model data: lookup of the current content, and download (clause 1.1-7).

======================  ==========================================================
a local folder          used in place
a local ``*.tar.gz``    unpacked from its place
``s3://…/KEY.tar.gz``   downloaded, then unpacked
``s3://…/PREFIX/``      its files, downloaded one by one (``S3DataSource``, ``S3Prefix``)
======================  ==========================================================
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from partway.gateway.storage.file_threads import Wanted, WritingThreads, make_read_only, on_thread
from partway.gateway.storage.limits import (
    MODEL_DATA_DEPTH,
    MODEL_DATA_FILES,
    OBJECTS_AT_ONCE,
)
from partway.gateway.storage.model_data.disk_room import RoomShare
from partway.gateway.storage.places.locations import SCHEME, split_url
from partway.gateway.storage.places.pinned_path import OpenFolder, PinnedPath
from partway.gateway.storage.places.place import FoundFile, StorageFailed
from partway.gateway.storage.places.s3_place import S3Place
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import side_by_side

_SUFFIX: Final = ".tar.gz"
_WHAT: Final = (
    "model data must be a folder, a file that ends in .tar.gz, s3://BUCKET/KEY.tar.gz, or "
    "s3://BUCKET/PREFIX/ with a slash at its end"
)
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_KINDS: Final = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: Bytes of a download that are written at once.
_WRITTEN: Final = 1 << 20


class SourceError(Exception):
    """A text names no model data; the message says why and what it must be."""


@dataclass(frozen=True, slots=True)
class FolderInPlace:
    """A folder of this machine.

    Attributes:
        path: the absolute path.
        opened: the open folder, if a caller of the API has named it.
    """

    path: Path
    opened: OpenFolder | None = None


@dataclass(frozen=True, slots=True)
class ArchiveInPlace:
    """An archive of this machine.

    Attributes:
        path: the absolute path.
        identity: changes with the content, or with the file.
        pinned: the path to open, if a caller of the API has named it.
    """

    path: Path
    identity: str
    pinned: PinnedPath | None = None


@dataclass(frozen=True, slots=True)
class ArchiveAfar:
    """An archive in a bucket.

    Attributes:
        identity: changes with the content.
    """

    files: S3Place
    file: FoundFile
    identity: str


@dataclass(frozen=True, slots=True)
class FolderAfar:
    """The files of a bucket below one prefix.

    Attributes:
        listing: the files, each with its path in the folder.
        folders: the paths of the folders; outer folders come first.
        identity: 64 hexadecimal digits that change with the content of any file.
    """

    files: S3Place
    listing: tuple[tuple[str, FoundFile], ...]
    folders: tuple[str, ...]
    identity: str


Found = FolderInPlace | ArchiveInPlace | ArchiveAfar | FolderAfar


def location_of(source: str) -> str:
    """Return the location of a source, with a slash at the end of a folder.

    No file is looked at: on this machine, everything but a ``*.tar.gz`` counts as a folder.
    """
    if source.startswith(SCHEME) or source.endswith(("/", _SUFFIX)):
        return source
    return f"{source}/"


def locations_read(source: str, found: Found) -> Iterator[str]:
    """Yield the locations of all files that are read for a source; see :func:`location_of`."""
    match found:
        case FolderInPlace(path=path):
            yield f"{str(path).removesuffix('/')}/"
        case ArchiveInPlace(path=path):
            yield str(path)
        case ArchiveAfar(file=file):
            yield _object_location(source, file)
        case FolderAfar(listing=listing):
            yield from (_object_location(source, file) for _, file in listing)


def _object_location(source: str, file: FoundFile) -> str:
    """Return an object's location, by the key that S3 reports."""
    bucket, _ = split_url(source)
    return f"{SCHEME}{bucket}/{file.key}"


async def find(source: str, clock: Clock, pinned: PinnedPath | None = None) -> Found:
    """Look up the current content of a source.

    Args:
        clock: measures the pauses of S3.
        pinned: the path on this machine that a caller of the API has named. Without a pinned path,
            links are followed.

    Raises:
        PathChanged: something else is now at the pinned path.
        StorageFailed: the source is in a bucket, and is not available.
        OSError: the source is on this machine, and cannot be read.
        SourceError: the source cannot be model data.
    """
    if not source.startswith(SCHEME):
        if _URL.match(source):
            raise SourceError(_WHAT)
        if pinned is not None:
            return await on_thread(clock, lambda _: _of_caller(pinned))
        return await on_thread(clock, lambda _: _on_this_machine(source))
    bucket, key = split_url(source)
    files = S3Place(bucket, clock)
    if key.endswith("/"):
        return await _under(files, source, key)
    if not key.endswith(_SUFFIX):
        raise SourceError(_WHAT)
    file = await files.look(key)
    return ArchiveAfar(files, file, f"{source}\0{file.size}\0{file.tag}")


def _on_this_machine(source: str) -> FolderInPlace | ArchiveInPlace:
    if not source or "\0" in source:
        raise SourceError(_WHAT)
    path = Path(source).absolute()
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        # Otherwise the container would report that it cannot read the folder.
        os.scandir(path).close()
        return FolderInPlace(path)
    return ArchiveInPlace(path, _identity(path, found))


def _of_caller(pinned: PinnedPath) -> FolderInPlace | ArchiveInPlace:
    """Look up a path that a caller of the API has named; a folder stays open."""
    path, descriptor = pinned.path, pinned.open()
    found = os.fstat(descriptor)
    if stat.S_ISDIR(found.st_mode):
        return FolderInPlace(path, OpenFolder(path, descriptor))
    os.close(descriptor)
    return ArchiveInPlace(path, _identity(path, found), pinned)


def _identity(path: Path, found: os.stat_result) -> str:
    """Return a text that changes with an archive's content, or with its file.

    Raises:
        SourceError: the path cannot be an archive.
    """
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise SourceError(f"this is {_KINDS.get(kind, 'not a file')}; {_WHAT}")
    if not path.name.endswith(_SUFFIX):
        raise SourceError(_WHAT)
    changes = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return "\0".join(map(str, (path, *changes)))


async def _under(files: S3Place, source: str, prefix: str) -> FolderAfar:
    """Return the files of a prefix, without the empty objects that consoles make for folders."""
    found = await files.listing(prefix, MODEL_DATA_FILES)
    listing = [(file.name, file) for file in found if file.key + "/" != prefix]
    folders: set[str] = set()
    for name, _ in listing:
        if name.count("/") > MODEL_DATA_DEPTH:
            raise SourceError(f"{name[:100]!r}… has more than {MODEL_DATA_DEPTH} folders")
        if name.rpartition("/")[0] not in folders:  # otherwise the folders above it are known too
            folders.update(_parents(name))
        if len(folders) > MODEL_DATA_FILES:
            raise SourceError(f"it has more than {MODEL_DATA_FILES} folders; use fewer")
    listing = [(name, file) for name, file in listing if file.size or name not in folders]
    if not listing:
        raise StorageFailed(f"{source}: no key in the bucket begins with this prefix")
    for name, _ in listing:
        if name in folders:
            raise SourceError(f"{name!r} is both a file and a folder of files; move one of them")
    said = "\0".join(f"{file.key}\0{file.size}\0{file.tag}" for _, file in listing)
    digest = hashlib.sha256(f"{source}\0{said}".encode()).hexdigest()
    return FolderAfar(files, tuple(listing), tuple(sorted(folders)), digest)


def _parents(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


async def download(
    files: S3Place, file: FoundFile, into: Path, share: RoomShare, threads: WritingThreads
) -> None:
    """Download a file, read-only.

    Args:
        into: the path of the new file; its folder must exist.

    Raises:
        NoRoom: there is not enough space.
        StorageFailed: the download failed.
        OSError: the file cannot be written.
    """
    share.take_file(file.size)
    await threads.work(lambda _: into.touch(0o600, exist_ok=False))
    async with aclosing(files.pieces(file)) as pieces:
        waiting: list[bytes] = []
        async for piece in pieces:
            waiting.append(piece)
            if sum(map(len, waiting)) >= _WRITTEN:
                await _append(into, waiting, threads)
                waiting = []
    await _append(into, waiting, threads)
    await threads.work(lambda _: into.chmod(0o444))


async def _append(path: Path, pieces: list[bytes], threads: WritingThreads) -> None:
    def append(_: Wanted) -> None:
        with path.open("ab") as file:
            file.writelines(pieces)

    await threads.work(append)


async def download_folder(
    found: FolderAfar, into: Path, share: RoomShare, threads: WritingThreads
) -> None:
    """Download the files of a prefix into a new folder, read-only except for the folder itself.

    Args:
        into: the new folder; its parent must exist. After an error it holds the files up to there.

    Raises:
        NoRoom: there is not enough space.
        StorageFailed: the download of a file failed.
        OSError: something cannot be written.
    """
    folders = [into / name for name in found.folders]

    def make(wanted: Wanted) -> None:
        into.mkdir(0o700)
        for folder in folders:
            wanted.check()
            share.take_file(0)
            folder.mkdir(0o700)

    await threads.work(make)
    left = iter(found.listing)

    async def one_after_the_other() -> None:
        for name, file in left:
            await download(found.files, file, into / name, share, threads)

    await side_by_side(OBJECTS_AT_ONCE, one_after_the_other)
    await threads.work(lambda wanted: make_read_only(reversed(folders), wanted))
