"""Model data of endpoints, kept on this machine's disk while instances use it (clause 1.1-6).

A local folder is used in place. Anything else is unpacked once for each content, and shared. The
folder of unpacked data is named by the content. The first user has the data made, and the last has
it removed. Unfinished data has another name and is renamed when it is complete, so no instance sees
a part.

Unpacked data is read-only. The launcher decides about a folder that is used in place. An engine
mounts it read-only, and a process may write there if its user may.

No data is kept from one gateway to the next, except for containers that outlive a gateway.
:meth:`ModelData.take_over` is given the data that these containers use.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from partway.gateway.kept_state import NOTHING_KEPT, KeptState
from partway.gateway.storage.archives.heads import ArchiveError
from partway.gateway.storage.disk_refusals import FULL, is_disk_refusal
from partway.gateway.storage.file_threads import Wanted, WritingThreads, on_thread
from partway.gateway.storage.limits import (
    MODEL_DATA_AT_ONCE,
    MODEL_DATA_CLOSE_TIMEOUT,
    MODEL_DATA_LIST_TIMEOUT,
    MODEL_DATA_LOOK_TIMEOUT,
    MODEL_DATA_QUOTA,
    MODEL_DATA_TAKE_OVER_TIMEOUT,
    MODEL_DATA_TIMEOUT,
    WORK_STOP_TIMEOUT,
)
from partway.gateway.storage.model_data.disk_errors import disk_error_in_words
from partway.gateway.storage.model_data.disk_room import NoRoom, RoomShare
from partway.gateway.storage.model_data.extraction import digest_of, unpack
from partway.gateway.storage.model_data.folder import DataFolder, DataFolderInUse
from partway.gateway.storage.model_data.shared_work import SharedWork, WorkEnded
from partway.gateway.storage.model_data.sources import (
    ArchiveAfar,
    ArchiveInPlace,
    FolderAfar,
    FolderInPlace,
    Found,
    SourceError,
    download,
    download_folder,
    find,
    location_of,
    locations_read,
)
from partway.gateway.storage.places.locations import SCHEME
from partway.gateway.storage.places.pinned_path import OpenFolder, PathChanged, PinnedPath
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.timing.clock import Clock, LoopClock
from partway.gateway.timing.deadlines import in_turns, time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.model_data")

#: Files whose permission is checked in one turn of the event loop: a few hundred µs with 128
#: patterns.
_ASKED_PER_TURN: Final = 32

#: Begins the names of kept entries; the name of the data's folder follows.
_IDENTITIES: Final = "model-data/"

#: Returns the reason why a caller may not read a location; empty if the caller may. A location that
#: ends in a slash stands for everything below it.
Refusal = Callable[[str], str]

_Unpackable = ArchiveInPlace | ArchiveAfar | FolderAfar
#: Writes data into a new folder, and takes the disk space.
_Fill = Callable[[Path, RoomShare, WritingThreads], Awaitable[None]]


class ModelDataError(Exception):
    """Model data is not available; the message names the data, the fault and the remedy.

    Args:
        passing: whether a retry may help, as with the network or a full disk, but not with a bad
            archive.
        waits: whether the data only waits until the gateway's own disk accepts writes.
    """

    def __init__(self, reason: str, *, passing: bool = False, waits: bool = False) -> None:
        super().__init__(reason)
        self.passing = passing
        self.waits = waits


class HeldData:
    """Model data that stays in place until it is released.

    Args:
        path: the absolute path of the folder that a container sees as ``/opt/ml/model``.
        let_go: called once, at the release.
        opened: the same folder, kept open, if a caller of the API has named it.
    """

    def __init__(
        self, path: Path, let_go: Callable[[], None], opened: OpenFolder | None = None
    ) -> None:
        self.path = path
        self.opened = opened
        self._let_go: Callable[[], None] | None = let_go

    def release(self) -> None:
        """Note that no container uses the data any longer; further calls do nothing."""
        if self._let_go is not None:
            let_go, self._let_go = self._let_go, None
            let_go()


@dataclass(eq=False)
class _Unpacked:
    """Model data in a folder that the gateway has made.

    Attributes:
        share: the disk space of the data.
        identities: the identities of the sources that had this content.
    """

    path: Path
    share: RoomShare
    holders: int = 0
    identities: set[str] = field(default_factory=set)


class ModelData:
    """All model data of one gateway. The event loop must run when it is made.

    Args:
        folder: the folder of unpacked data; only this gateway uses it. It is made when it is
            needed.
        quota: the limit of its data in bytes.
        kept: tells the next gateway process which content is where, so that it need not read
            archives again.
    """

    def __init__(
        self,
        folder: Path,
        *,
        quota: int = MODEL_DATA_QUOTA,
        clock: Clock | None = None,
        kept: KeptState = NOTHING_KEPT,
    ) -> None:
        self._folder = DataFolder(folder, quota)
        self._clock = clock or LoopClock()
        self._taking_over = asyncio.Lock()
        self._taken_over = False
        #: Slots that are waited for without a limit. The work in each slot has a time limit, and so
        #: has its wait for the removal of unfinished data.
        self._at_once = asyncio.Semaphore(MODEL_DATA_AT_ONCE)
        #: One task at a time works on the data of a path.
        self._turns: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._by_path: dict[Path, _Unpacked] = {}
        self._by_identity: dict[str, _Unpacked] = {}
        self._kept = kept
        #: Identities by the names of folders.
        self._earlier: dict[str, list[str]] = {
            name.removeprefix(_IDENTITIES): json.loads(entry.record)
            for name, entry in kept.take(_IDENTITIES).items()
        }
        self._work = SharedWork(self._let_go)
        self._removals: set[asyncio.Task[object]] = set()
        #: The removals that wait for hanging threads.
        self._late_removals: set[asyncio.Task[object]] = set()
        self._closing = False

    @property
    def used(self) -> int:
        """Bytes of the quota that are in use."""
        return self._folder.room.used

    async def take_over(self, in_use: Iterable[Path] = ()) -> dict[Path, HeldData]:
        """Take the folder over from an earlier gateway, and remove that gateway's data.

        Call this once, before :meth:`acquire`; otherwise the first :meth:`acquire` does so.

        Args:
            in_use: the paths that the earlier gateway's containers still use.

        Returns:
            The data of those paths that lie in the folder, held.

        Raises:
            ModelDataError: the folder cannot be used, or another gateway uses it.
        """
        kept = set(in_use)
        limit = MODEL_DATA_TAKE_OVER_TIMEOUT
        path = self._folder.path
        hint = f"{path}: could not be locked and cleared within {limit:g} s; check its file system"
        hint += ", or move it with --data-dir"
        async with self._within(limit, hint), self._taking_over:
            if self._taken_over or self._closing:
                return {}
            try:
                found = await on_thread(
                    self._clock, lambda wanted: self._folder.take_over(kept, wanted)
                )
            except DataFolderInUse:
                raise ModelDataError(
                    f"{self._folder.path}: another gateway keeps its model data here; start this "
                    "one with another --data-dir"
                ) from None
            except OSError as error:
                raise self._in_words(str(self._folder.path), error) from error
            self._taken_over = True
            self._by_path = {path: _Unpacked(path, share) for path, share in found.items()}
            for name, identities in self._earlier.items():
                if (data := self._by_path.get(self._folder.path / name)) is None:
                    self._kept.forget(_IDENTITIES + name)
                else:
                    self._has(data, *identities)
            return {path: self._held(data) for path, data in self._by_path.items()}

    async def acquire(
        self, source: str, refusal: Refusal = lambda _: "", pinned: PinnedPath | None = None
    ) -> HeldData:
        """Put model data on disk, and keep it there.

        The source's current content is used. A version of an endpoint therefore holds its data as
        long as the version exists. Its instances can then start while S3 is out of reach, and all
        have the same data.

        Args:
            source: a folder, a ``*.tar.gz``, ``s3://BUCKET/KEY.tar.gz`` or ``s3://BUCKET/PREFIX/``.
            refusal: called with the source before anything is looked up, and with each file that
                was found. It is also called for data that is unpacked already.
            pinned: the path on this machine that a caller of the API has named. It is opened
                without following a link. Links of any other path are followed.

        Returns:
            The held data; the caller must release it.

        Raises:
            ModelDataError: the data is not available, or is refused.
        """
        _check(refusal(location_of(source)))
        try:
            found = await self._looked(source, pinned)
            async for each in in_turns(locations_read(source, found), _ASKED_PER_TURN):
                _check(refusal(each))
            if isinstance(found, FolderInPlace):
                return _used_in_place(found)
            await self.take_over()
            if self._closing:
                raise _stopping(source)
            if (data := self._by_identity.get(found.identity)) is not None:
                return self._held(data)
            return await self._work.done(
                found.identity, lambda: self._make(source, found), self._held
            )
        except WorkEnded:
            raise _stopping(source) from None
        except PathChanged as error:
            raise ModelDataError(str(error), passing=True) from error
        except (ArchiveError, SourceError) as error:
            raise ModelDataError(f"{source}: {error}") from error
        except NoRoom as error:
            raise ModelDataError(f"{source}: {error}", passing=error.passing) from error
        except StorageFailed as error:
            raise ModelDataError(str(error), passing=error.passing) from error
        except OSError as error:
            raise self._in_words(source, error) from error

    async def aclose(self) -> None:
        """Cancel unfinished work, and remove the data that nobody holds; held data stays.

        A removal that hangs longer than MODEL_DATA_CLOSE_TIMEOUT is left to the next gateway.
        """
        self._closing = True
        await self._work.aclose()
        with suppress(TimeoutError):
            async with time_limit(self._clock, MODEL_DATA_CLOSE_TIMEOUT):
                while self._removals:
                    await asyncio.wait(self._removals)
        if left := self._removals | self._late_removals:
            for removal in left:
                removal.cancel()
            await asyncio.wait(left)
        async with self._taking_over:
            self._taken_over = False
            self._folder.close()

    def _held(self, data: _Unpacked) -> HeldData:
        data.holders += 1
        return HeldData(data.path, lambda: self._let_go(data))

    def _let_go(self, data: _Unpacked) -> None:
        data.holders -= 1
        if not data.holders and self._taken_over:
            _begin(self._remove(data), self._removals)

    def _has(self, data: _Unpacked, *identities: str) -> None:
        data.identities.update(identities)
        self._by_identity.update(dict.fromkeys(identities, data))
        self._kept.keep(_IDENTITIES + data.path.name, json.dumps([*data.identities]).encode())

    async def _looked(self, source: str, pinned: PinnedPath | None) -> Found:
        if source.startswith(SCHEME):
            limit, hint = (
                MODEL_DATA_LIST_TIMEOUT,
                "check whether it has very many keys, or S3 is slow",
            )
        else:
            limit, hint = MODEL_DATA_LOOK_TIMEOUT, "mount its file system again, or name a copy"
        async with self._within(limit, f"{source}: not found within {limit:g} s; {hint}"):
            return await find(source, self._clock, pinned)

    @asynccontextmanager
    async def _within(self, seconds: float, reason: str) -> AsyncIterator[None]:
        """Raise a passing ModelDataError with the reason if the block takes too long."""
        try:
            async with time_limit(self._clock, seconds):
                yield
        except TimeoutError as error:
            if error.errno is not None:  # ETIMEDOUT of the file system, and not the limit
                raise
            raise ModelDataError(reason, passing=True) from None

    # --- Making and removing ------------------------------------------------------------------

    async def _make(self, source: str, found: _Unpackable) -> _Unpacked:
        """Have data unpacked, and hold it."""
        hint = (
            f"{source}: not downloaded and unpacked within {MODEL_DATA_TIMEOUT:g} s; check the "
            "speed of the network and the disk"
        )
        async with self._at_once, self._within(MODEL_DATA_TIMEOUT, hint):
            match found:
                case ArchiveInPlace():
                    archive = found.pinned or found.path
                    return await self._from_archive(source, archive, found.identity)
                case ArchiveAfar():
                    return await self._from_afar(source, found)
                case FolderAfar():
                    return await self._from_prefix(source, found)

    async def _from_afar(self, source: str, found: ArchiveAfar) -> _Unpacked:
        archive, threads = self._under_way(), WritingThreads(self._clock)
        data = None
        try:
            path, share = archive.path, archive.share
            await download(found.files, found.file, path, share, threads)
            data = await self._from_archive(source, path, found.identity, share)
            return data
        finally:
            try:
                await self._discard_unfinished(archive, threads)
            except asyncio.CancelledError:
                if data is not None:  # the caller that it is held for does not get it
                    self._let_go(data)
                raise

    async def _from_prefix(self, source: str, found: FolderAfar) -> _Unpacked:
        async def fill(into: Path, share: RoomShare, threads: WritingThreads) -> None:
            await download_folder(found, into, share, threads)

        return await self._unpacked(source, found.identity, found.identity, fill)

    async def _from_archive(
        self,
        source: str,
        archive: Path | PinnedPath,
        identity: str,
        beside: RoomShare | None = None,
    ) -> _Unpacked:
        digest = await on_thread(self._clock, lambda wanted: digest_of(archive, wanted))

        async def fill(into: Path, share: RoomShare, threads: WritingThreads) -> None:
            def work(wanted: Wanted) -> str:
                return unpack(archive, into, share, wanted)

            if await threads.work(work) != digest:
                raise ModelDataError(
                    f"{source}: it has changed while it was read; try again", passing=True
                )

        return await self._unpacked(source, digest, identity, fill, beside)

    async def _unpacked(
        self,
        source: str,
        name: str,
        identity: str,
        fill: _Fill,
        beside: RoomShare | None = None,
    ) -> _Unpacked:
        """Return the data of a name, made if it is missing; held."""
        path = self._folder.path / name
        async with self._turn(path):
            data = self._by_path.get(path)
            if data is None:
                began = self._clock.time()
                data = self._by_path[path] = await self._filled(path, fill, beside)
                seconds = round(self._clock.time() - began, 3)
                log.info(
                    LogLine(
                        "model data unpacked",
                        source=source,
                        path=str(path),
                        bytes=data.share.taken,
                        seconds=seconds,
                    )
                )
            self._has(data, identity)
            data.holders += 1
            return data

    async def _filled(self, path: Path, fill: _Fill, beside: RoomShare | None) -> _Unpacked:
        data, threads = self._under_way(beside), WritingThreads(self._clock)

        def publish(_: Wanted) -> None:
            data.path = data.path.rename(path)
            # Some systems cannot rename a read-only folder.
            data.path.chmod(0o555)

        whole = False
        try:
            data.share.take_file(0)
            await fill(data.path, data.share, threads)
            await threads.work(publish)
            whole = True
        finally:
            if not whole:
                await self._discard_unfinished(data, threads)
        return data

    def _under_way(self, beside: RoomShare | None = None) -> _Unpacked:
        return _Unpacked(self._folder.temporary(), self._folder.room.share(beside))

    async def _remove(self, data: _Unpacked) -> None:
        """Remove data that nobody holds, unless somebody holds it by then."""
        async with self._turn(data.path):
            if data.holders or self._by_path.get(data.path) is not data:
                return
            del self._by_path[data.path]
            for identity in data.identities:
                if self._by_identity.get(identity) is data:
                    del self._by_identity[identity]
            self._kept.forget(_IDENTITIES + data.path.name)
            if await self._discard(data.path, data.share):
                log.info(LogLine("model data removed", path=str(data.path)))

    async def _discard_unfinished(self, data: _Unpacked, threads: WritingThreads) -> None:
        """Remove unfinished data now, or once no thread writes there.

        The caller waits for at most WORK_STOP_TIMEOUT, since it has one of a few slots. The removal
        goes on afterwards, even if the caller is cancelled.
        """
        if threads.are_at_work:
            reason = "a hanging thread may still write there; removal follows once it has ended"
            log.warning(LogLine("model data not removed", path=str(data.path), reason=reason))
            _begin(self._discard_late(data, threads), self._late_removals)
            return
        removal = _begin(self._discard(data.path, data.share), self._removals)
        with suppress(TimeoutError):
            async with time_limit(self._clock, WORK_STOP_TIMEOUT):
                await asyncio.wait([removal])

    async def _discard_late(self, data: _Unpacked, threads: WritingThreads) -> None:
        await threads.ended()
        if await self._discard(data.path, data.share):
            log.info(LogLine("model data removed", path=str(data.path)))

    async def _discard(self, path: Path, share: RoomShare) -> bool:
        """Remove unwanted data; data that cannot be removed keeps its disk space."""
        try:
            await on_thread(self._clock, lambda _: self._folder.remove(path))
        except OSError as error:
            log.warning(LogLine("model data not removed", path=str(path), reason=str(error)))
            return False
        share.give_back()
        return True

    def _turn(self, path: Path) -> asyncio.Lock:
        return self._turns.setdefault(path, asyncio.Lock())

    def _in_words(self, source: str, error: OSError) -> ModelDataError:
        folder = self._folder.path
        reason, passing = disk_error_in_words(source, folder, error)
        waits = error.errno in FULL
        if error.filename is not None and Path(str(error.filename)).is_relative_to(folder):
            # The path is in the gateway's own folder, which is missing while the disk refuses the
            # data directory. The next try may find it.
            waits = waits or is_disk_refusal(error)
            if error.errno == errno.ENOENT:
                waits, reason = True, f"{source}: {folder} does not exist yet; the log says why"
        return ModelDataError(reason, passing=passing or waits, waits=waits)


def _used_in_place(found: FolderInPlace) -> HeldData:
    let_go = (lambda: None) if found.opened is None else found.opened.close
    return HeldData(found.path, let_go, found.opened)


def _begin(
    removal: Coroutine[Any, Any, object], among: set[asyncio.Task[object]]
) -> asyncio.Task[object]:
    """Start a removal, in a set of tasks that are waited for."""
    task = asyncio.create_task(removal)
    among.add(task)
    task.add_done_callback(among.discard)
    return task


def _check(refusal: str) -> None:
    """Raise ModelDataError if there is a reason to refuse; a retry does not help."""
    if refusal:
        raise ModelDataError(refusal)


def _stopping(source: str) -> ModelDataError:
    return ModelDataError(f"{source}: the gateway is stopping", passing=True)
