"""storage.model_data.folder: one gateway's; ``test_model_data.py`` has the rest of it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import psutil
import pytest

from partway.gateway.storage.file_threads import Wanted, WorkStopped
from partway.gateway.storage.model_data.folder import DataFolder, DataFolderInUse


def is_open(path: Path) -> bool:
    """Whether a descriptor of the process leads to a path."""
    return str(path) in {file.path for file in psutil.Process().open_files()}


def test_a_file_system_without_locks_costs_no_descriptor(tmp_path, monkeypatch):
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuses)
    folder = DataFolder(tmp_path / "models", 1000)
    for _ in range(3):
        with pytest.raises(OSError, match="No locks available") as caught:
            folder.take_over(set(), Wanted())
        assert caught.value.filename == f"{tmp_path}/models/lock"
    assert not is_open(tmp_path / "models" / "lock")


def test_it_is_locked_until_it_is_closed(tmp_path):
    folder, other = DataFolder(tmp_path, 1000), DataFolder(tmp_path, 1000)
    folder.take_over(set(), Wanted())
    assert is_open(tmp_path / "lock")
    with pytest.raises(DataFolderInUse):
        other.take_over(set(), Wanted())
    folder.close()
    assert not is_open(tmp_path / "lock")
    other.take_over(set(), Wanted())
    other.close()


def test_who_is_not_wanted_any_more_leaves_it_unlocked(tmp_path, monkeypatch):
    """As a thread that has hung in the system, and goes on once everybody has gone."""
    wanted, make = Wanted(), Path.mkdir

    def hangs(path: Path, *arguments: object, **more: object) -> None:
        make(path, *arguments, **more)  # type: ignore[arg-type]
        wanted.stop()

    monkeypatch.setattr(Path, "mkdir", hangs)
    with pytest.raises(WorkStopped):
        DataFolder(tmp_path / "models", 1000).take_over(set(), wanted)
    other = DataFolder(tmp_path / "models", 1000)
    other.take_over(set(), Wanted())
    other.close()
