"""Where jobs of the API read and write, by what names it: a path of this machine, or ``s3://``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from partway.gateway.clock import Clock
from partway.gateway.control.local_paths import LocalRoots, is_local
from partway.gateway.object_files import SCHEME, ObjectFile
from partway.gateway.quota import Quota
from partway.gateway.transform.callers_inputs import (
    AllowedInputs,
    CallersLocalInputs,
    CallersManifest,
)
from partway.gateway.transform.callers_outputs import CallersLocalOutputs
from partway.gateway.transform.gathering import Gathering
from partway.gateway.transform.local_storage import FileThreads
from partway.gateway.transform.object_storage import ObjectInputs, ObjectOutputs, bucket_and_key
from partway.gateway.transform.storage import (
    InputPlace,
    LocalInput,
    OutputPlace,
    TransformInput,
)


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
        self._clock = clock
        self._roots = roots
        self._results = results
        self._quota = quota
        self._gathered = gathered
        # Of each folder of the settings its own: a mount that is dead takes no other's threads.
        self._threads: dict[Path | None, FileThreads] = {}

    def inputs(
        self, location: str, may: Callable[[str, str], bool], *, manifest: bool = False
    ) -> InputPlace:
        """The files that a caller names.

        Args:
            location: ``s3://BUCKET/PREFIX``, or a path of this machine.
            may: whether the caller may do something: an action, and a resource's ARN.
            manifest: whether what is there names the files.

        Raises:
            StorageFailed: it names no place.
        """
        there = self._there(location, may)
        if not manifest:
            return there
        threads = self._threads_of(self._roots().root_as_written(location))
        return CallersManifest(location, there, self._roots(), may, threads, self._clock)

    def _there(self, location: str, may: Callable[[str, str], bool]) -> InputPlace:
        """What is at a location itself."""
        if is_local(location):
            roots = self._roots()
            threads = self._threads_of(roots.root_as_written(location))
            local = CallersLocalInputs(location, roots, threads)
            return AllowedInputs(local, _path_of, may)
        bucket, _ = bucket_and_key(location)
        inputs = ObjectInputs(location, self._clock)
        return AllowedInputs(inputs, lambda file: f"{SCHEME}{bucket}/{_key_of(file)}", may)

    def outputs(self, location: str, content_type: str, sender: str = "") -> OutputPlace:
        """Where a caller has answers put.

        Args:
            location: ``s3://BUCKET/PREFIX``, or a path of this machine.
            content_type: of the output; empty if it is not known.
            sender: the caller's name; empty where nobody is asked for it.

        Raises:
            StorageFailed: it names no place.
        """
        gathering = Gathering(self._threads_of(None), self._gathered, self._quota, sender)
        if not is_local(location):
            return ObjectOutputs(location, content_type, gathering, self._clock)
        threads = self._threads_of(self._results.root_as_written(location))
        return CallersLocalOutputs(location, self._results, threads, gathering)

    def _threads_of(self, folder: Path | None) -> FileThreads:
        return self._threads.setdefault(folder, FileThreads(self._clock))


def _path_of(file: TransformInput) -> str:
    assert isinstance(file.file, LocalInput), "it was listed here"
    return file.file.path


def _key_of(file: TransformInput) -> str:
    assert isinstance(file.file, ObjectFile), "it was listed in its bucket"
    return file.file.key
