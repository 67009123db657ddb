"""The place of each location: a folder of this machine, or a bucket."""

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
        roots: returns the folders that may hold files of this machine, from the current settings.
        threads: how many threads read and write below each root.
        seconds: the time limit of a file system.
    """

    def __init__(
        self, clock: Clock, roots: Callable[[], LocalRoots], threads: int, seconds: float
    ) -> None:
        self._clock = clock
        self._roots = roots
        self._most = threads
        self._seconds = seconds
        # The folders come from the settings, so their number is bounded by the operator.
        self._threads: dict[Path | None, FolderThreads] = {}
        self._buckets: dict[str, S3Place] = {}

    def at(self, location: str) -> tuple[FilePlace, str]:
        """Return the place of a location, and the location's key there.

        Raises:
            StorageFailed: the location names no bucket.
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
        self._buckets[name] = found  # the bucket that was used last is removed last
        if len(self._buckets) > KNOWN_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return found
