"""The centroids of a model directory: a 2-D array in ``.npy`` or ``.npz``."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from partway.protocol.limits import MIB

#: Largest array that is read. What k-means has is far smaller: a million centroids of 128 floats
#: are half of it.
MAX_ARRAY_BYTES: Final = 1024 * MIB

#: Most centroids: the distances from one record to all of them are held at a time (8 MiB).
MAX_CENTROIDS: Final = 1 << 20

#: Largest absolute value of any number, here and in records. The sum of the squares of a million
#: times that is still far from the end of float64, so that every distance is finite.
LARGEST: Final = 1e140

_NAME = "centroids"
_HINT = f"numpy.save('{_NAME}.npy', centroids) writes such a file"
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_DEFLATED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})  # what numpy writes


class CentroidsError(Exception):
    """The centroids are missing or cannot be used; the text says where, and what to do."""


def load_centroids(model_dir: Path) -> NDArray[np.float64]:
    """Read the centroids of a model.

    Args:
        model_dir: has ``centroids.npy`` or ``centroids.npz``, or one file of these kinds.

    Returns:
        One centroid a row.

    Raises:
        CentroidsError: there is no such file, or its array is not one of finite numbers in two
            dimensions.
    """
    path = _find(model_dir)
    with _reading(path), path.open("rb") as file:
        return _from_npz(file, path) if path.suffix == ".npz" else _from_npy(file, str(path))


def _find(model_dir: Path) -> Path:
    if not model_dir.is_dir():
        raise CentroidsError(f"there is no directory {model_dir}: name another with --model-dir")
    found = sorted(
        path for path in model_dir.iterdir() if path.suffix in {".npy", ".npz"} and path.is_file()
    )
    named = [path for path in found if path.stem == _NAME]
    chosen = named or found
    if not chosen:
        raise CentroidsError(f"{model_dir} has no {_NAME}.npy or {_NAME}.npz: {_HINT}")
    if len(chosen) > 1:
        names = ", ".join(path.name for path in chosen[:8])
        raise CentroidsError(
            f"{model_dir} has several files of arrays ({names}): keep one {_NAME}.npy"
        )
    return chosen[0]


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise CentroidsError(f"{path} cannot be read: {error}; {_HINT}") from error


def _from_npz(file: IO[bytes], path: Path) -> NDArray[np.float64]:
    with zipfile.ZipFile(file) as archive:
        members = {each.filename: each for each in archive.infolist()}
        chosen = members.get(f"{_NAME}.npy")
        if chosen is None:
            if len(members) != 1:
                raise CentroidsError(
                    f"{path} has {len(members)} arrays and none of them is called {_NAME}: "
                    f"numpy.savez('{_NAME}.npz', {_NAME}={_NAME}) writes one that is"
                )
            (chosen,) = members.values()
        if chosen.compress_type not in _DEFLATED:
            raise CentroidsError(f"{path} is compressed in a way that numpy does not use; {_HINT}")
        with archive.open(chosen) as member:
            return _from_npy(member, f"{path}, {chosen.filename[:80]}")


def _from_npy(file: IO[bytes], where: str) -> NDArray[np.float64]:
    """Read an array. All that its header says is judged before any of its numbers is read.

    A few kilobytes of a ``.npz`` can announce, and hold, terabytes of zeros.
    """
    read_header = _HEADERS.get(npy.read_magic(file))
    if read_header is None:
        raise CentroidsError(
            f"{where} is in a version of the format that numbers do not need: {_HINT}"
        )
    shape, in_columns, dtype = read_header(file)
    _check_header(shape, dtype, where)
    size = shape[0] * shape[1] * dtype.itemsize
    data = file.read(size)
    if len(data) != size or file.read(1):
        raise CentroidsError(
            f"{where} must be as long as an array of shape {shape}: it is cut, or broken"
        )
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if in_columns else "C")
    # More than a float64 holds, in a longdouble, becomes inf, which is refused just below.
    with np.errstate(over="ignore"):
        centroids = array.astype(np.float64, order="C")
    if not (np.abs(centroids) <= LARGEST).all():
        row = int((~(np.abs(centroids) <= LARGEST)).any(axis=1).argmax())
        raise CentroidsError(
            f"{where}: centroid {row} has a number that is NaN, infinite or beyond {LARGEST:g}: "
            "train again, or leave that centroid out"
        )
    return centroids


def _check_header(shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> None:
    if dtype.kind not in "fiu":
        raise CentroidsError(
            f"{where} holds {dtype}; it must hold numbers: save it with dtype float32 or float64"
        )
    if len(shape) != 2 or min(shape) < 1:
        raise CentroidsError(
            f"{where} has the shape {shape}; it must be (centroids, features), at least one of each"
        )
    if shape[0] > MAX_CENTROIDS:
        raise CentroidsError(
            f"{where} has {shape[0]} centroids; it must have at most {MAX_CENTROIDS}"
        )
    if shape[0] * shape[1] * 8 > MAX_ARRAY_BYTES:  # as float64
        raise CentroidsError(
            f"{where} has the shape {shape}; it must be at most {MAX_ARRAY_BYTES} bytes of float64"
        )
