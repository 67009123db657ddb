"""The file of centroids: what is read, and what is refused, with what to do about it."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from partway.container.errors import LoadFailed
from partway.container.models.arrays import ArraysError
from partway.container.models.kmeans import KMeans
from partway.container.models.kmeans.centroids import load_centroids
from partway.container.testing import serving

ROWS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])
MIB = 1 << 20


def npy(array: np.ndarray, **options: object) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **options)
    return file.getvalue()


def announcing(shape: tuple[int, ...], data: bytes = b"", descr: str = "<f8") -> bytes:
    """A .npy whose header says what it likes."""
    file = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + data


def zipped(kind: int = zipfile.ZIP_DEFLATED, /, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        ROWS,
        ROWS.astype(np.float32),
        ROWS.astype(np.float16),
        ROWS.astype(">f8"),
        np.asfortranarray(ROWS),
    ],
    ids=["float64", "float32", "float16", "big-endian", "in columns"],
)
def test_arrays_of_any_number(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "centroids.npy", array)
    loaded = load_centroids(tmp_path)
    assert loaded.dtype == np.float64
    assert loaded.flags.c_contiguous
    np.testing.assert_array_equal(loaded, ROWS)


def test_whole_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "centroids.npy", np.array([[1, 2]], np.int32))
    np.testing.assert_array_equal(load_centroids(tmp_path), [[1.0, 2.0]])


@pytest.mark.parametrize(
    "save",
    [
        lambda folder: np.save(folder / "trained.npy", ROWS),
        lambda folder: np.savez(folder / "trained.npz", ROWS),
        lambda folder: np.savez_compressed(folder / "trained.npz", any_name=ROWS),
        lambda folder: np.savez(folder / "a.npz", centroids=ROWS, inertia=np.zeros(3)),
        lambda folder: (
            np.save(folder / "centroids.npy", ROWS),
            np.save(folder / "labels.npy", ROWS + 1),
        ),
        lambda folder: (np.save(folder / "c.npy", ROWS), (folder / "README").write_text("")),
        lambda folder: (np.save(folder / "c.npy", ROWS), (folder / "old.npy").mkdir()),
    ],
    ids=[
        "the only npy",
        "the only npz",
        "compressed",
        "one of several arrays",
        "one of several files",
        "beside other files",
        "beside a folder",
    ],
)
def test_where_it_may_be(tmp_path: Path, save: Callable[[Path], object]) -> None:
    save(tmp_path)
    np.testing.assert_array_equal(load_centroids(tmp_path), ROWS)


FAULTS = {
    "no file": ({}, "has no centroids.npy or centroids.npz: write it with numpy.save"),
    "several files": ({"a.npy": npy(ROWS), "b.npz": b""}, r"several files .*\(a.npy, b.npz\)"),
    "two by the name": ({"centroids.npy": b"", "centroids.npz": b""}, "several files"),
    "no member by the name": ({"c.npz": zipped(a=b"", b=b"")}, "2 arrays, but none .* centroids="),
    "an empty archive": ({"c.npz": zipped()}, "0 arrays"),
    "one row alone": (
        {"c.npy": npy(ROWS[0])},
        r"c.npy has the shape \(3,\); it must be \(centroids",
    ),
    "three dimensions": ({"c.npy": npy(ROWS[None])}, r"the shape \(1, 2, 3\)"),
    "no rows": ({"c.npy": npy(ROWS[:0])}, r"the shape \(0, 3\)"),
    "no features": ({"c.npy": npy(ROWS[:, :0])}, r"the shape \(2, 0\)"),
    "objects": (
        {"c.npy": npy(ROWS.astype(object))},
        "holds object; it must hold numbers: .* dtype float32",
    ),
    "booleans": ({"c.npy": npy(ROWS > 1)}, "holds bool"),
    "complex": ({"c.npy": npy(ROWS * 1j)}, "holds complex128"),
    "text": ({"c.npy": npy(ROWS.astype(str))}, "holds <U"),
    "version 3": ({"c.npy": npy(ROWS, version=(3, 0))}, "version of the .npy format"),
    "NaN": ({"c.npy": npy(np.array([[0.0], [np.nan]]))}, "centroid 1 has a number that is NaN"),
    "infinite": ({"c.npy": npy(np.array([[np.inf]]))}, "centroid 0 .* infinite"),
    "vast": ({"c.npy": npy(np.array([[1e141]]))}, "beyond 1e.140"),
    "empty": ({"c.npy": b""}, "c.npy cannot be read: "),
    "no npy": ({"c.npy": b"1,2,3\n4,5,6\n"}, "c.npy cannot be read: .*magic"),
    "no npz": ({"c.npz": npy(ROWS)}, "c.npz cannot be read: .*zip"),
    "cut": ({"c.npy": npy(ROWS)[:-1]}, r"c.npy must have the length .* \(2, 3\)"),
    "cut in its header": ({"c.npy": npy(ROWS)[:40]}, "cannot be read"),
    "too long": ({"c.npy": npy(ROWS) + b"x"}, "must have the length"),
    "a number changed": (
        {"c.npz": zipped(zipfile.ZIP_STORED, c=npy(ROWS)).replace(ROWS[1, 2].tobytes(), bytes(8))},
        "cannot be read: Bad CRC",
    ),
    "unusual compression": (
        {"c.npz": zipped(zipfile.ZIP_LZMA, c=npy(ROWS))},
        "compressed in a way that numpy does not use",
    ),
    "a negative shape": ({"c.npz": zipped(c=announcing((-1, 2)))}, r"the shape \(-1, 2\)"),
    "too many": (
        {"c.npy": announcing((MIB + 1, 1))},
        "1048577 centroids; it must have at most 1048576",
    ),
    "too large": ({"c.npy": announcing((1, 1 << 60))}, "at most 1073741824 bytes of float64"),
    "too large, zipped": ({"c.npz": zipped(c=announcing((1024, 1 << 40)))}, "at most 1073741824"),
}


@pytest.mark.parametrize(("files", "reason"), FAULTS.values(), ids=FAULTS)
def test_what_is_refused(tmp_path: Path, files: dict[str, bytes], reason: str) -> None:
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(ArraysError, match=reason) as raised:
        load_centroids(tmp_path)
    assert str(tmp_path) in str(raised.value)


def test_what_is_small_on_disk_alone_is_not_read(tmp_path: Path) -> None:
    bomb = zipped(c=announcing((2, 2), bytes(64 * MIB)))
    assert len(bomb) < MIB
    (tmp_path / "c.npz").write_bytes(bomb)
    tracemalloc.start()
    try:
        with pytest.raises(ArraysError, match="must have the length"):
            load_centroids(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB


@pytest.mark.usefixtures("no_leaks")
async def test_a_container_without_them_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed) as raised:
        async with serving(KMeans(), tmp_path / "none"):
            pass
    assert isinstance(raised.value.__cause__, ArraysError)
    assert "none: name another with --model-dir" in str(raised.value.__cause__)
