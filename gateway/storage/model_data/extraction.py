"""Model data archives: a gzipped tar becomes a read-only folder (clause 1.1-7).

An archive's author is not trusted. :mod:`partway.gateway.storage.archives` reads the headers within
bounds. Paths that Python's data filter refuses are refused by name alone (PEP 706). Members are
written in an order in which nothing can be written through a link. Python's filter had its holes
there (CVE-2025-4517 and similar).

1. Files come first, and each is a new file.
2. Hard links follow. Each leads to a file of the archive.
3. Symbolic links come last. Each must lead to something inside, on a path that never leaves the
   folder. A path that returns by the folder's name would lead outside after a rename.

Tar stores a symbolic link with two names as a hard link to a symbolic link. The hard link is
unpacked as a symbolic link.
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from partway.gateway.storage.archives.gzip_reader import GzipReader, Readable
from partway.gateway.storage.archives.heads import (
    FOLDER,
    HARD_LINK,
    REGULAR,
    SYMBOLIC_LINK,
    ArchiveError,
    HeadBounds,
    Member,
    Tape,
    members,
    padded,
)
from partway.gateway.storage.archives.links import LinkedWays, leads_nowhere, leads_out
from partway.gateway.storage.file_threads import Wanted, make_read_only
from partway.gateway.storage.files import open_regular
from partway.gateway.storage.limits import (
    MODEL_DATA_DEPTH,
    MODEL_DATA_FILES,
    MODEL_DATA_NAMES_IN_ALL,
    MODEL_DATA_PATH,
    MODEL_DATA_RATIO,
    MODEL_DATA_RATIO_FROM,
    MODEL_DATA_RECORDS,
    MODEL_DATA_RECORDS_IN_ALL,
)
from partway.gateway.storage.model_data.disk_room import RoomShare
from partway.gateway.storage.places.pinned_path import PinnedPath
from partway.protocol.http.content_codings import PackedTooMuch

_PIECE: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
#: First bytes of other formats that are often given instead of a gzipped tar.
_OTHERS: Final = {
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "a zip archive",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
}
_USTAR_AT: Final = 257
#: Kinds of members that are unpacked.
_TAKEN: Final = REGULAR | {HARD_LINK, SYMBOLIC_LINK, FOLDER}
#: Headers of one member: its own, GNU tar's for a long name and a long link, and pax's.
_HEADS: Final = 4
#: Bytes of a file's name on Linux's and other file systems.
_NAME_MAX: Final = 255
_HOW: Final = "pack it with: tar -czf MODEL.tar.gz -C FOLDER ."
_BOMB: Final = f"and that is more than {MODEL_DATA_RATIO} times its own size; name a folder instead"

_T = TypeVar("_T")


def digest_of(archive: Path | PinnedPath, wanted: Wanted) -> str:
    """Return the SHA-256 digest of a file.

    Raises:
        PathChanged: another file is at its pinned path.
        OSError: the file cannot be read, or is not a regular file.
        WorkStopped: the work was stopped.
    """
    with _opened(archive) as file:
        hashed = _Hashed(file, wanted)
        while hashed.read(_PIECE):
            pass
    return hashed.digest()


def unpack(archive: Path | PinnedPath, folder: Path, share: RoomShare, wanted: Wanted) -> str:
    """Unpack an archive into a new folder.

    Folders get the mode 0555. Files get 0444, or 0555 if their owner could execute them. The caller
    sets the mode of the new folder itself. Owners and times in the archive are ignored.

    Args:
        archive: a gzipped tar, at a path whose links are followed, or at a pinned path.
        folder: the new folder; its parent must exist. After an error it holds the members up to
            there.
        wanted: checked at each step.

    Returns:
        The archive's SHA-256.

    Raises:
        ArchiveError: the file is no gzipped tar, is damaged, exceeds a bound, or would write
            outside the folder.
        NoRoom: there is not enough space.
        PathChanged: another file is at its pinned path.
        OSError: a file cannot be read or written.
        WorkStopped: the work was stopped.
    """
    with _opened(archive) as file:
        _check_beginning(file.read(_USTAR_AT + 5))
        file.seek(0)
        size = os.fstat(file.fileno()).st_size
        hashed = _Hashed(file, wanted)
        inflating = _WhileWanted(GzipReader(hashed, most=size), wanted)
        most = max(MODEL_DATA_RATIO_FROM, MODEL_DATA_RATIO * size)
        tape = Tape(inflating, most, f"the archive has more than {most} bytes unpacked, {_BOMB}")
        try:
            _Unpacking(folder, share, wanted).all_of(tape)
            _pass_end(inflating)
        except PackedTooMuch as error:
            raise ArchiveError(f"the archive has {error}: {_HOW}") from error
        except EOFError as error:
            raise ArchiveError(f"the archive is cut: {error}; copy it again") from error
        except zlib.error as error:
            raise ArchiveError(f"the archive is damaged ({error}); copy it again") from error
    return hashed.digest()


def _opened(archive: Path | PinnedPath) -> BinaryIO:
    if isinstance(archive, Path):
        return open_regular(archive)
    return open_regular(archive.path, opened=archive.open())


class _Hashed:
    """A file that is read once, with its SHA-256 digest."""

    def __init__(self, file: BinaryIO, wanted: Wanted) -> None:
        self._file = file
        self._wanted = wanted
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        self._wanted.check()
        piece = self._file.read(size)
        self._hash.update(piece)
        return piece

    def digest(self) -> str:
        return self._hash.hexdigest()


class _WhileWanted:
    """Decompressed bytes that are read only while wanted.

    Without a check at each read, 64 KiB of the file could hold 100,000 headers.

    Args:
        wanted: checked before each read.
    """

    def __init__(self, source: Readable, wanted: Wanted) -> None:
        self._source = source
        self._wanted = wanted

    def read(self, size: int) -> bytes:
        self._wanted.check()
        return self._source.read(size)


def _check_beginning(begins: bytes) -> None:
    """Refuse a file that is not gzip, and name its format."""
    if begins.startswith(_GZIP):
        return
    what = next(
        (what for magic, what in _OTHERS.items() if begins.startswith(magic)), "not a gzip file"
    )
    if not begins:
        what = "empty"
    elif begins[_USTAR_AT:] == b"ustar":
        what = "an uncompressed tar archive"
    raise ArchiveError(f"the file is {what}; model data must be a gzipped tar: {_HOW}")


def _path_of(name: bytes) -> str:
    """Return a member's path in the archive; empty for the archive's own folder.

    Raises:
        ArchiveError: the path is absolute, goes up, or is too long.
    """
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if name.startswith(b"/") or b".." in parts:
        raise leads_out(os.fsdecode(name), "")
    too_long = len(name) > MODEL_DATA_PATH or any(len(part) > _NAME_MAX for part in parts)
    if too_long or b"\0" in name:
        raise _no_path(os.fsdecode(name))
    return os.fsdecode(b"/".join(parts))


def _no_path(name: str) -> ArchiveError:
    return ArchiveError(
        f"the archive has a path {name[:100]!r}…; it must have at most {MODEL_DATA_PATH} bytes, "
        f"{MODEL_DATA_DEPTH} folders and {_NAME_MAX} bytes of a name"
    )


def _target_of(name: str, link: bytes) -> str:
    """Return a symbolic link's target, as the archive has it.

    Raises:
        ArchiveError: the target is too long.
    """
    too_many = link.count(b"/") > 2 * MODEL_DATA_DEPTH  # all the way up, and down again
    if len(link) > MODEL_DATA_PATH or too_many or b"\0" in link:
        raise ArchiveError(f"the archive's {name!r} links to a path that is too long")
    return os.fsdecode(link)


def _check_target(name: str, target: str) -> None:
    """Refuse a symbolic link by its target's text alone.

    Raises:
        ArchiveError: the target is empty, absolute, or leads up out of the archive.
    """
    if not target:
        raise leads_nowhere(name, target)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if path.startswith("/") or path.split("/", 1)[0] == "..":
        raise leads_out(name, target)


def _new(name: str, make: Callable[[], _T]) -> _T:
    """Make a file or folder that must not exist yet.

    Raises:
        ArchiveError: it exists, or its parent is a file.
    """
    try:
        return make()
    except (FileExistsError, NotADirectoryError):
        raise _twice(name) from None


def _twice(name: str) -> ArchiveError:
    return ArchiveError(f"the archive has {name!r} twice; pack it again")


def _pass_end(inflating: Readable) -> None:
    """Read the rest of the file: zeros as tape padding, and gzip's checksum."""
    passed = 0
    while piece := inflating.read(_PIECE):
        passed += len(piece)
        if piece.strip(b"\0") or passed > MODEL_DATA_RATIO_FROM:
            raise ArchiveError(f"the archive continues after its end; {_HOW}")


class _Unpacking:
    """Unpacks files, folders and links into a folder.

    Args:
        wanted: checked at each step.
    """

    def __init__(self, folder: Path, share: RoomShare, wanted: Wanted) -> None:
        folder.mkdir(0o700)
        self._wanted = wanted
        self._top = folder.resolve(strict=True)
        self._share = share
        self._made = 0
        self._names_bytes = 0
        #: The folders that have been made, by their paths in the archive; outer folders come first.
        self._folders: dict[str, None] = {}
        self._files: set[str] = set()
        self._hard_links: list[tuple[str, str]] = []
        self._symbolic_links: dict[str, str] = {}

    def all_of(self, tape: Tape) -> None:
        """Unpack a whole archive.

        Raises:
            ArchiveError: the archive exceeds a bound, or would write outside the folder.
            EOFError: the archive ends too early.
            NoRoom: there is not enough space.
            OSError: something cannot be written.
        """
        bounds = HeadBounds(
            _HEADS * MODEL_DATA_FILES, MODEL_DATA_RECORDS, MODEL_DATA_RECORDS_IN_ALL
        )
        for member in members(tape, bounds):
            end = tape.at + padded(member.size)
            self._take(member, tape)
            tape.pass_to(end)
        for name, target in self._hard_links:
            if target in self._symbolic_links:
                self._take_symbolic_link(name, self._symbolic_links[target])
            else:
                self._link(name, target)
        for name, target in self._symbolic_links.items():
            self._link_symbolically(name, target)
        ways = LinkedWays(self._folders, self._files, self._symbolic_links)
        for name in self._symbolic_links:
            self._wanted.check()
            ways.check(name)
        if len(self._folders) == self._made:
            raise ArchiveError(f"the archive holds no files; {_HOW}")
        make_read_only(map(self._at, reversed(self._folders)), self._wanted)

    def _take(self, member: Member, tape: Tape) -> None:
        """Unpack one member; the tape is at its content."""
        name = _path_of(member.name)
        if member.kind not in _TAKEN:
            what = "is a device, a pipe or of an unknown kind"
            raise ArchiveError(f"the archive's {name!r} {what}; leave it out")
        parent, _, last = name.rpartition("/")
        if member.kind == FOLDER or (member.kind == 0 and member.name.endswith(b"/")):
            self._make_folder(name)
            return
        if not last:
            raise ArchiveError("the archive has a file without a name")
        self._make_folder(parent)
        self._count(member.size, len(member.name) + len(member.link))
        if member.kind == HARD_LINK:
            self._hard_links.append((name, _path_of(member.link)))
        elif member.kind == SYMBOLIC_LINK:
            self._take_symbolic_link(name, _target_of(name, member.link))
        else:
            self._write(name, member, tape)

    def _take_symbolic_link(self, name: str, target: str) -> None:
        self._wanted.check()
        if name in self._symbolic_links:
            raise _twice(name)
        _check_target(name, target)
        self._symbolic_links[name] = target

    def _make_folder(self, name: str) -> None:
        """Make a folder and its parents where they are missing."""
        if not name or name in self._folders:
            return
        if name.count("/") >= MODEL_DATA_DEPTH:
            raise _no_path(name)
        self._make_folder(name.rpartition("/")[0])
        self._count(0, len(os.fsencode(name)))
        _new(name, lambda: self._at(name).mkdir(0o700))
        self._folders[name] = None

    def _write(self, name: str, member: Member, tape: Tape) -> None:
        def opened(path: str, flags: int) -> int:
            return os.open(path, flags | os.O_NOFOLLOW, 0o600)

        with _new(name, lambda: open(self._at(name), "xb", opener=opened)) as file:
            for piece in tape.pieces(member.size):
                file.write(piece)
            file.flush()
            os.fchmod(file.fileno(), 0o555 if member.mode & 0o100 else 0o444)
        self._files.add(name)

    def _link(self, name: str, target: str) -> None:
        self._wanted.check()
        try:
            _new(name, lambda: self._at(name).hardlink_to(self._at(target)))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            raise ArchiveError(
                f"the archive's {name!r} links to {target!r}, which is not a file in it"
            ) from None
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            raise ArchiveError(
                f"the archive's {name!r} links to {target!r}, which has reached the file system's "
                "limit of links; pack copies of it"
            ) from None
        self._files.add(name)

    def _link_symbolically(self, name: str, target: str) -> None:
        self._wanted.check()
        _new(name, lambda: self._at(name).symlink_to(target))

    def _count(self, size: int, names_bytes: int) -> None:
        self._wanted.check()
        self._made += 1
        self._names_bytes += names_bytes
        if self._names_bytes > MODEL_DATA_NAMES_IN_ALL:
            raise ArchiveError(
                f"the archive's names have more than {MODEL_DATA_NAMES_IN_ALL} bytes in all; use "
                "fewer files, or shorter names"
            )
        if self._made > MODEL_DATA_FILES:
            raise ArchiveError(f"the archive has more than {MODEL_DATA_FILES} files and folders")
        self._share.take_file(size)

    def _at(self, name: str) -> Path:
        return self._top / name
