"""Arrays of a model directory, in ``.npy`` or ``.npz``: no pickles, bounded sizes.

A few kilobytes of a ``.npz`` can announce, and hold, terabytes of zeros. So an array's header is
checked before any of its numbers is read.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from partway.protocol.limits import MIB

#: Largest array that is read. The arrays of k-means are far smaller: a million centroids of 128
#: floats take half of it.
MAX_ARRAY_BYTES: Final = 1024 * MIB

_HEADERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_DEFLATED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})  # numpy writes these


class ArraysError(Exception):
    """A model's arrays are missing or cannot be used; the text says where, and what to do."""


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """The required form of an array.

    Attributes:
        shape: names of its dimensions.
        row: the meaning of a row, for messages.
        largest: the largest absolute value of a number.
        hint: how to write such a file.
        most_rows: most rows; None for no limit.
    """

    shape: tuple[str, ...]
    row: str
    largest: float
    hint: str
    most_rows: int | None = None


def check_folder(model_dir: Path) -> None:
    """Check that the model directory exists.

    Raises:
        ArraysError: it does not exist.
    """
    if not model_dir.is_dir():
        raise ArraysError(f"there is no directory {model_dir}: name another with --model-dir")


@contextmanager
def reading(path: Path, hint: str) -> Iterator[IO[bytes]]:
    """Open a file for reading; exceptions about its content are raised with its name."""
    try:
        with path.open("rb") as file:
            yield file
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ArraysError(f"{path} cannot be read: {error}; {hint}") from error


def load_archive(path: Path, wanted: Mapping[str, ArrayShape]) -> dict[str, NDArray[np.float64]]:
    """Read arrays of a ``.npz``; other arrays in it are ignored.

    Raises:
        ArraysError: the archive or one of its arrays is missing, or cannot be used.
    """
    check_folder(path.parent)
    hint = next(iter(wanted.values())).hint
    if not path.is_file():
        raise ArraysError(f"{path.parent} has no {path.name}: {hint}")
    with reading(path, hint) as file, zipfile.ZipFile(file) as archive:
        members = {each.filename: each for each in archive.infolist()}
        missing = [name for name in wanted if f"{name}.npy" not in members]
        if missing:
            raise ArraysError(f"{path} has no array called {missing[0]}: {hint}")
        return {
            name: read_member(archive, members[f"{name}.npy"], path, each)
            for name, each in wanted.items()
        }


def read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, wanted: ArrayShape
) -> NDArray[np.float64]:
    """Read one array of an open archive.

    Raises:
        ArraysError: the array does not have the required form.
    """
    if member.compress_type not in _DEFLATED:
        raise ArraysError(f"{path} is compressed in a way that numpy does not use; {wanted.hint}")
    with archive.open(member) as file:
        return read_array(file, f"{path}, {member.filename[:80]}", wanted)


def read_array(file: IO[bytes], where: str, wanted: ArrayShape) -> NDArray[np.float64]:
    """Read one array in the format ``.npy``, to the end of its file.

    Raises:
        ArraysError: the array does not have the required form.
    """
    read_header = _HEADERS.get(npy.read_magic(file))
    if read_header is None:
        raise ArraysError(
            f"{where} is in a version of the .npy format that is not supported: {wanted.hint}"
        )
    shape, in_columns, dtype = read_header(file)
    count = _checked_count(shape, dtype, where, wanted)
    data = file.read(count * dtype.itemsize)
    if len(data) != count * dtype.itemsize or file.read(1):
        raise ArraysError(
            f"{where} must have the length of an array of shape {shape}: it is cut off or damaged"
        )
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if in_columns else "C")
    # A longdouble beyond float64 becomes inf, which is refused just below.
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float64, order="C")
    fine = np.abs(numbers) <= wanted.largest
    if not fine.all():
        row = int((~fine).reshape(shape[0], -1).any(axis=1).argmax())
        raise ArraysError(
            f"{where}: {wanted.row} {row} has a number that is NaN, infinite or beyond "
            f"{wanted.largest:g}: train again, or leave that {wanted.row} out"
        )
    return numbers


def _checked_count(
    shape: tuple[int, ...], dtype: np.dtype[Any], where: str, wanted: ArrayShape
) -> int:
    """Check an array's header, and return the number of its elements."""
    if dtype.kind not in "fiu":
        raise ArraysError(
            f"{where} holds {dtype}; it must hold numbers: save it with dtype float32 or float64"
        )
    if len(shape) != len(wanted.shape) or min(shape) < 1:
        raise ArraysError(
            f"{where} has the shape {shape}; it must be ({', '.join(wanted.shape)}), at least one "
            "of each"
        )
    if wanted.most_rows is not None and shape[0] > wanted.most_rows:
        raise ArraysError(
            f"{where} has {shape[0]} {wanted.row}s; it must have at most {wanted.most_rows}"
        )
    count = 1
    for each in shape:
        count *= each
    if count * 8 > MAX_ARRAY_BYTES:  # as float64
        raise ArraysError(
            f"{where} has the shape {shape}; it must be at most {MAX_ARRAY_BYTES} bytes of float64"
        )
    return count
