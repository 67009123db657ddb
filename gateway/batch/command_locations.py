"""Input and output locations of the command's job: a path of this machine, or ``s3://``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from partway.gateway.batch.input_output import InputPlace, OutputPlace
from partway.gateway.batch.inputs import PlaceInputs
from partway.gateway.batch.limits import FILE_THREADS, FILE_TIMEOUT
from partway.gateway.batch.local_outputs import LocalOutputs
from partway.gateway.batch.manifests import ManifestInputs
from partway.gateway.batch.output_spool import Gathering
from partway.gateway.batch.outputs import GatheredOutputs
from partway.gateway.storage.places.folder_threads import FolderThreads
from partway.gateway.storage.places.local_place import LocalPlace
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.locations import SCHEME
from partway.gateway.storage.places.place import FilePlace, StorageFailed
from partway.gateway.storage.places.places import Places
from partway.gateway.timing.clock import Clock

#: A location with this ending is a manifest, unless the command says otherwise.
MANIFEST: Final = ".manifest"

#: The command reads every file that its user may read.
_EVERYWHERE: Final = LocalRoots((Path("/"),))


def places(
    source: str, target: str, content_type: str, clock: Clock, *, manifest: bool
) -> tuple[InputPlace, OutputPlace]:
    """Return the places where a job reads and writes.

    Args:
        source: a file, a folder, a prefix of paths, or ``s3://BUCKET/PREFIX``.
        target: a folder, or ``s3://BUCKET/PREFIX``.
        content_type: the type of the output; empty if unknown.
        manifest: whether the file at ``source`` is a manifest, which names the input files.

    Raises:
        StorageFailed: output would be input of the next run, or a path cannot be looked up.
    """
    found = Places(clock, lambda: _EVERYWHERE, FILE_THREADS, FILE_TIMEOUT)
    threads = FolderThreads(clock, FILE_THREADS, FILE_TIMEOUT)

    def at(location: str) -> tuple[FilePlace, str]:
        return found.at(location if location.startswith(SCHEME) else _absolute(location))

    inputs: InputPlace
    outputs: OutputPlace
    try:
        # Only the entries of a manifest are input.
        inside = None if manifest else _output_inside(source, target)
        if source.startswith(SCHEME):
            inputs = PlaceInputs(source, *at(source))
        else:
            place = LocalPlace(_EVERYWHERE, threads, inside)
            is_file = Path(source).is_file()
            inputs = PlaceInputs(source, place, _absolute(source), is_file=is_file)
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle, until Python 3.13
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        raise StorageFailed(f"{source}, {target}: {why}") from None
    if manifest:
        inputs = ManifestInputs(source, inputs, at)
    if target.startswith(SCHEME):
        outputs = GatheredOutputs(*at(target), content_type, Gathering(threads))
    else:
        outputs = LocalOutputs(Path(target), threads)
    return inputs, outputs


def _absolute(path: str) -> str:
    """Return a path from the root, with the links of its folders followed.

    The last part stays as given, since it may be only a prefix of names.
    """
    if Path(path).is_dir():
        return f"{os.path.realpath(path).rstrip('/')}/"
    folder, _, name = path.rpartition("/")
    start = "/" if path.startswith("/") else "."
    return f"{os.path.realpath(folder or start).rstrip('/')}/{name}"


def _output_inside(source: str, target: str) -> Path | None:
    """Return the output folder if it lies inside the input folder; None if it lies outside.

    Raises:
        OSError: a path cannot be looked up.
        StorageFailed: output would be input of the next run.
    """
    if source.startswith(SCHEME) != target.startswith(SCHEME):
        return None
    if source.startswith(SCHEME):
        is_input = f"{target.rstrip('/')}/".startswith(source)
        inside = None
    else:
        path = Path(source)
        folder = (path if path.is_dir() else path.parent).resolve()
        output = Path(target).resolve()
        inside = output if output.is_relative_to(folder) else None
        is_input = inside == folder and not path.is_file()
    if is_input:
        raise StorageFailed(
            f"{target}: the next run would read its output as input; it must be another folder "
            f"than {source}"
        )
    return inside
