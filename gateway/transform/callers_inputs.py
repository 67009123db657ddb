"""What jobs of the API read: what their callers may name, looked at file by file.

A path is held to its folders whenever it is touched, and opened by no link: who may put files below
a root must not have the gateway read another. What is at ``s3://`` the gateway reads with its own
credentials, so of each object it is asked whether the caller may have it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from functools import partial
from pathlib import Path

from partway.gateway.asynchronous.locations import in_iams_words
from partway.gateway.clock import Clock
from partway.gateway.storage.file_threads import Wanted
from partway.gateway.storage.places import local_place
from partway.gateway.storage.places.local_place import LocalFile
from partway.gateway.storage.places.local_roots import LocalRoots, is_local, plain_path
from partway.gateway.storage.places.s3_place import SCHEME
from partway.gateway.transform.limits import FILES_PER_TURN
from partway.gateway.transform.local_storage import FileThreads, listed
from partway.gateway.transform.manifests import ManifestInputs
from partway.gateway.transform.storage import (
    InputPlace,
    LocalInput,
    StorageFailed,
    TransformInput,
    checked_name,
)
from partway.gateway.waiting import in_turns


class CallersLocalInputs:
    """A file below a root, the files of a folder and of those in it, or those that begin alike.

    Args:
        location: which: a path, or ``file://`` and one.
        roots: below which it must be.
        threads: by which they are read.
    """

    def __init__(self, location: str, roots: LocalRoots, threads: FileThreads) -> None:
        self._location = location
        self._roots = roots
        self._threads = threads

    async def files(self) -> list[TransformInput]:
        """All of them; see :class:`~.storage.InputPlace`."""
        try:
            path = Path(plain_path(self._location.rstrip("/") or "/"))
            return await self._threads.run(path, partial(self._listed, path))
        except ValueError as error:
            raise StorageFailed(str(error)) from None

    async def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        """The bytes of one; see :class:`~.storage.InputPlace`."""
        async with aclosing(_callers_pieces(file, self._threads)) as pieces:
            async for piece in pieces:
                yield piece

    def _listed(self, path: Path, wanted: Wanted) -> list[TransformInput]:
        def looked_up(each: Path, name: str) -> TransformInput:
            known = local_place.looked_up(self._roots, str(each), wanted)
            place = LocalInput(str(known.path), known.identity)
            return TransformInput(checked_name(name, str(each)), known.size, place)

        is_folder = self._location.endswith("/") or path.is_dir()
        return listed(path, looked_up, wanted, is_folder=is_folder)


async def _callers_pieces(
    file: TransformInput, threads: FileThreads
) -> AsyncGenerator[bytes, None]:
    """The bytes of a file of this machine, as it was looked up.

    Raises:
        StorageFailed: it cannot be read, or is another one now.
    """
    assert isinstance(file.file, LocalInput), "it was looked up on this machine"
    known = LocalFile(Path(file.file.path), file.size, file.file.identity)
    at = 0
    while at < known.size:
        try:
            piece = await threads.run(known.path, partial(local_place.piece, known, at))
        except ValueError as error:
            raise StorageFailed(str(error)) from None
        at += len(piece)
        yield piece


class AllowedInputs:
    """The files of a place, each of which its caller may have.

    Args:
        inputs: the place.
        location: of a file, by its name.
        may: whether somebody may do something: an action, and a resource's ARN.
    """

    def __init__(
        self,
        inputs: InputPlace,
        location: Callable[[TransformInput], str],
        may: Callable[[str, str], bool],
    ) -> None:
        self._inputs = inputs
        self._location = location
        self._may = may
        self.pieces = inputs.pieces

    async def files(self) -> list[TransformInput]:
        """All of them; see :class:`~.storage.InputPlace`."""
        found = await self._inputs.files()
        async for each in in_turns(found, FILES_PER_TURN):
            _check_leave(self._location(each), self._may)
        return found


def _check_leave(location: str, may: Callable[[str, str], bool]) -> None:
    """Go on if somebody may read what is at a location.

    Raises:
        StorageFailed: they may not, or it is written in another way than leave is asked for.
    """
    try:
        resource = in_iams_words(location)
    except ValueError as error:
        raise StorageFailed(str(error)) from None
    if not may("s3:GetObject", resource):
        raise StorageFailed(f"who has made the job has no leave for s3:GetObject on {resource}")


class CallersManifest(ManifestInputs):
    """The files that a manifest of a caller's names.

    Args:
        location: of the manifest, for messages.
        manifest: has the manifest as its one file.
        roots: below which files of this machine must be.
        may: whether the caller may do something: an action, and a resource's ARN.
        threads: by which files of this machine are read.
        clock: measures the times.
    """

    def __init__(
        self,
        location: str,
        manifest: InputPlace,
        roots: LocalRoots,
        may: Callable[[str, str], bool],
        threads: FileThreads,
        clock: Clock,
    ) -> None:
        super().__init__(location, manifest, threads, clock)
        self._roots = roots
        self._may = may

    async def check(self, locations: Iterable[str]) -> None:
        """Go on if the caller may read all of them."""
        async for each in in_turns(locations, FILES_PER_TURN):
            if not is_local(each) and not each.startswith(SCHEME):
                raise StorageFailed(f"{each}: a manifest must name s3://BUCKET/PREFIX, or a path")
            _check_leave(each, self._may)

    def looked_up(self, path: str, name: str, wanted: Wanted) -> TransformInput:
        """Look a file of this machine up."""
        try:
            known = local_place.looked_up(self._roots, path, wanted)
        except ValueError as error:
            raise StorageFailed(str(error)) from None
        return TransformInput(name, known.size, LocalInput(str(known.path), known.identity))

    async def pieces(self, file: TransformInput) -> AsyncGenerator[bytes, None]:
        """The bytes of one; see :class:`~.storage.InputPlace`."""
        local = isinstance(file.file, LocalInput)
        found = _callers_pieces(file, self._threads) if local else super().pieces(file)
        async with aclosing(found) as pieces:
            async for piece in pieces:
                yield piece
