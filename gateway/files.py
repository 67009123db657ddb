"""Files that somebody else has written."""

from __future__ import annotations

from pathlib import Path


def read_bounded(path: Path, most: int) -> bytes:
    """All of a file, which may have no end: more than ``most`` bytes are not read.

    Raises:
        OSError: it cannot be read.
        ValueError: it has more.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"more than {most} bytes")
    return data


def is_file_or_folder(path: Path) -> bool:
    """Whether a path leads to something; not so if its name is longer than the system takes."""
    try:
        return path.exists()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder; not so if its name is longer than the system takes."""
    try:
        return path.is_dir()
    except OSError:
        return False
