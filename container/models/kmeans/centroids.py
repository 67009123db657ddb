"""The centroids of a model directory: a 2-D array in ``.npy`` or ``.npz``."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from partway.container.models.arrays import (
    ArraysError,
    ArrayShape,
    check_folder,
    read_array,
    read_member,
    reading,
)

#: Most centroids: the distances from one record to all of them are held at a time (8 MiB).
MAX_CENTROIDS: Final = 1 << 20

#: Largest absolute value of any number, here and in records. The sum of a million squares of this
#: number is still far below the limit of float64, so that every distance is finite.
LARGEST: Final = 1e140

_NAME: Final = "centroids"
_WANTED: Final = ArrayShape(
    ("centroids", "features"),
    "centroid",
    LARGEST,
    f"write it with numpy.save('{_NAME}.npy', centroids)",
    MAX_CENTROIDS,
)


def load_centroids(model_dir: Path) -> NDArray[np.float64]:
    """Read the centroids of a model.

    Args:
        model_dir: the folder with ``centroids.npy`` or ``centroids.npz``, or with a single file of
            these types.

    Returns:
        One centroid per row.

    Raises:
        ArraysError: there is no such file, or its array is not two-dimensional with finite numbers.
    """
    path = _find(model_dir)
    with reading(path, _WANTED.hint) as file:
        return _from_npz(file, path) if path.suffix == ".npz" else _from_npy(file, path)


def _find(model_dir: Path) -> Path:
    check_folder(model_dir)
    found = sorted(
        path for path in model_dir.iterdir() if path.suffix in {".npy", ".npz"} and path.is_file()
    )
    named = [path for path in found if path.stem == _NAME]
    chosen = named or found
    if not chosen:
        raise ArraysError(f"{model_dir} has no {_NAME}.npy or {_NAME}.npz: {_WANTED.hint}")
    if len(chosen) > 1:
        names = ", ".join(path.name for path in chosen[:8])
        raise ArraysError(
            f"{model_dir} has several files of arrays ({names}): keep one {_NAME}.npy"
        )
    return chosen[0]


def _from_npy(file: IO[bytes], path: Path) -> NDArray[np.float64]:
    return read_array(file, str(path), _WANTED)


def _from_npz(file: IO[bytes], path: Path) -> NDArray[np.float64]:
    with zipfile.ZipFile(file) as archive:
        members = {each.filename: each for each in archive.infolist()}
        chosen = members.get(f"{_NAME}.npy")
        if chosen is None:
            if len(members) != 1:
                raise ArraysError(
                    f"{path} has {len(members)} arrays, but none is called {_NAME}: "
                    f"write it with numpy.savez('{_NAME}.npz', {_NAME}={_NAME})"
                )
            (chosen,) = members.values()
        return read_member(archive, chosen, path, _WANTED)
