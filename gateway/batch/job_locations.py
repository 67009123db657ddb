"""Input and output locations of the API's jobs: a path of this machine, or ``s3://``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from partway.gateway.batch.input_output import InputPlace, OutputPlace
from partway.gateway.batch.inputs import May, PlaceInputs
from partway.gateway.batch.limits import FILE_THREADS, FILE_TIMEOUT
from partway.gateway.batch.manifests import ManifestInputs
from partway.gateway.batch.output_spool import Gathering
from partway.gateway.batch.outputs import GatheredOutputs
from partway.gateway.quota import Quota
from partway.gateway.storage.places.folder_threads import FolderThreads
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.places import Places
from partway.gateway.timing.clock import Clock


class CallersPlaces:
    """Finds the places where jobs of the API read and write.

    Args:
        roots: returns the folders that may hold input on this machine, from the current settings.
        results: the folders that may hold output on this machine.
        gathered: a folder on the file system where outputs are gathered; None for the system's
            temporary folder.
    """

    def __init__(
        self,
        clock: Clock,
        roots: Callable[[], LocalRoots],
        results: LocalRoots,
        quota: Quota,
        gathered: Path | None = None,
    ) -> None:
        self._sources = Places(clock, roots, FILE_THREADS, FILE_TIMEOUT)
        self._targets = Places(clock, lambda: results, FILE_THREADS, FILE_TIMEOUT)
        self._threads = FolderThreads(clock, FILE_THREADS, FILE_TIMEOUT)
        self._quota = quota
        self._gathered = gathered

    def inputs(self, location: str, may: May, *, manifest: bool = False) -> InputPlace:
        """Return the input that a caller names.

        Args:
            location: ``s3://BUCKET/PREFIX``, or a path of this machine.
            may: whether the caller has permission for an action on a resource's ARN.
            manifest: whether the file there is a manifest, which names the files.

        Raises:
            StorageFailed: the location names no place.
        """
        inputs = PlaceInputs(location, *self._sources.at(location), may)
        return ManifestInputs(location, inputs, self._sources.at, may) if manifest else inputs

    def outputs(self, location: str, content_type: str, sender: str = "") -> OutputPlace:
        """Return the output place that a caller names.

        Args:
            location: ``s3://BUCKET/PREFIX``, or a path of this machine.
            content_type: the type of the output; empty if unknown.
            sender: the caller's name; empty if callers have no names.

        Raises:
            StorageFailed: the location names no place.
        """
        gathering = Gathering(self._threads, self._gathered, self._quota, sender)
        return GatheredOutputs(*self._targets.at(location), content_type, gathering)
