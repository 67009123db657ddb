"""Where a job's input and output are, by what names them: a path of this machine, or ``s3://``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from partway.gateway.clock import Clock
from partway.gateway.storage.places.s3_place import SCHEME
from partway.gateway.transform.gathering import Gathering
from partway.gateway.transform.local_storage import FileThreads, LocalInputs, LocalOutputs
from partway.gateway.transform.manifests import ManifestInputs
from partway.gateway.transform.object_storage import ObjectInputs, ObjectOutputs
from partway.gateway.transform.storage import InputPlace, OutputPlace, StorageFailed

#: What the name of a manifest ends in, where nothing else says that it is one.
MANIFEST: Final = ".manifest"


def places(
    source: str, target: str, content_type: str, clock: Clock, *, manifest: bool
) -> tuple[InputPlace, OutputPlace]:
    """Where a job reads and writes.

    Args:
        source: a file, a folder, what paths begin with, or ``s3://BUCKET/PREFIX``.
        target: a folder, or ``s3://BUCKET/PREFIX``.
        content_type: of the output; empty if it is not known.
        clock: measures the times.
        manifest: whether what is at ``source`` names the files.

    Raises:
        StorageFailed: output would be input of the next run, or a path cannot be looked up.
    """
    threads = FileThreads(clock)
    inputs: InputPlace
    outputs: OutputPlace
    inside = None
    if manifest:
        pass  # its entries alone are input
    elif source.startswith(SCHEME) and target.startswith(SCHEME):
        if f"{target.rstrip('/')}/".startswith(source):
            raise _inside(source, target)
    elif not source.startswith(SCHEME) and not target.startswith(SCHEME):
        path = Path(source)
        try:
            folder = path if path.is_dir() else path.parent
            inside = _within(folder, Path(target))
            is_taken = inside == folder and not path.is_file()
        except (OSError, RuntimeError) as error:  # the latter: links in a circle, until Python 3.13
            why = (isinstance(error, OSError) and error.strerror) or str(error)
            raise StorageFailed(f"{source}, {target}: {why}") from None
        if is_taken:
            raise _inside(source, target)
    if source.startswith(SCHEME):
        inputs = ObjectInputs(source, clock)
    else:
        inputs = LocalInputs(Path(source), threads, inside)
    if manifest:
        inputs = ManifestInputs(source, inputs, threads, clock)
    if target.startswith(SCHEME):
        outputs = ObjectOutputs(target, content_type, Gathering(threads), clock)
    else:
        outputs = LocalOutputs(Path(target), threads)
    return inputs, outputs


def _within(folder: Path, target: Path) -> Path | None:
    """Where in a folder of input the output's is, written as the input's; None if outside."""
    try:
        return folder / target.resolve().relative_to(folder.resolve())
    except ValueError:
        return None


def _inside(source: str, target: str) -> StorageFailed:
    return StorageFailed(
        f"{target}: output there would be input the next time; it must be another folder than "
        f"{source}"
    )
