"""The place of each location: a folder of this machine below its root, or a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from partway.gateway.storage.limits import KNOWN_BUCKETS
from partway.gateway.storage.places.folder_threads import FolderThreads
from partway.gateway.storage.places.local_place import LocalPlace
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.locations import is_local, split_url
from partway.gateway.storage.places.place import FilePlace
from partway.gateway.timing.clock import Clock

if TYPE_CHECKING:
    from partway.gateway.storage.places.s3_place import S3Place


class Places:
    """Finds the place of a location.

    Args:
        clock: measures the times.
        roots: below which files of this machine must be, by the settings of the moment.
        threads: of each root, how many read and write at a time.
        seconds: for a file system to answer.
    """

    def __init__(
        self, clock: Clock, roots: Callable[[], LocalRoots], threads: int, seconds: float
    ) -> None:
        self._clock = clock
        self._roots = roots
        self._most = threads
        self._seconds = seconds
        # Of the folders in the settings, whose number is the operator's.
        self._threads: dict[Path | None, FolderThreads] = {}
        self._buckets: dict[str, S3Place] = {}

    def at(self, location: str) -> tuple[FilePlace, str]:
        """The place of a location, and the key that the location has there.

        Raises:
            StorageFailed: it names no bucket.
        """
        if is_local(location):
            roots = self._roots()
            root = roots.root_as_written(location)
            if root not in self._threads:
                self._threads[root] = FolderThreads(self._clock, self._most, self._seconds)
            return LocalPlace(roots, self._threads[root]), location
        bucket, key = split_url(location)
        return self._bucket(bucket), key

    def _bucket(self, name: str) -> S3Place:
        from partway.gateway.storage.places.s3_place import S3Place

        found = self._buckets.pop(name, None) or S3Place(name, self._clock)
        self._buckets[name] = found  # the last that was asked for is the last to go
        if len(self._buckets) > KNOWN_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return found
