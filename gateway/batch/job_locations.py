"""Where jobs of the API read and write, by what names it: a path of this machine, or ``s3://``."""

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
    """Where jobs of the API's read and write.

    Args:
        clock: measures the times.
        roots: below which input of this machine must be, by the settings of the moment.
        results: below which output on this machine must be.
        quota: of outputs that are on disk on their way there.
        gathered: on whose file system that is; None for the system's temporary files'.
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
        """The files that a caller names.

        Args:
            location: ``s3://BUCKET/PREFIX``, or a path of this machine.
            may: whether the caller may do something: an action, and a resource's ARN.
            manifest: whether the file there is a manifest, which names the files.

        Raises:
            StorageFailed: it names no place.
        """
        inputs = PlaceInputs(location, *self._sources.at(location), may)
        return ManifestInputs(location, inputs, self._sources.at, may) if manifest else inputs

    def outputs(self, location: str, content_type: str, sender: str = "") -> OutputPlace:
        """Where a caller has answers put.

        Args:
            location: ``s3://BUCKET/PREFIX``, or a path of this machine.
            content_type: of the output; empty if it is not known.
            sender: the caller's name; empty where nobody is asked for it.

        Raises:
            StorageFailed: it names no place.
        """
        gathering = Gathering(self._threads, self._gathered, self._quota, sender)
        return GatheredOutputs(*self._targets.at(location), content_type, gathering)
