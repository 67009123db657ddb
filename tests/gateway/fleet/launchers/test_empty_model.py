"""partway.gateway.fleet.launchers.empty_model."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from partway.gateway.fleet.launchers import empty_model
from partway.gateway.fleet.launchers.empty_model import KeptEmptyModelDir, empty_model_dir
from tests.disks import small_disk
from tests.gateway.kept_in_memory import KeptInMemory


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptInMemory]:
    """What a killed gateway process, which had such a folder, has left."""
    folder = tmp_path / "partway-model-1"
    folder.mkdir(0o550)
    first = KeptInMemory()
    first.keep("empty-model", bytes(folder))
    kept = first.next_process()
    yield kept
    kept.close()


@pytest.mark.clause("1.1-6")
def test_it_is_empty_and_not_to_be_written_to():
    with empty_model_dir() as name:
        assert list(Path(name).iterdir()) == []
        assert not Path(name).stat().st_mode & 0o222
    assert not Path(name).exists()


def test_what_was_written_all_the_same_goes_with_it():
    with empty_model_dir() as name:
        Path(name).chmod(0o700)
        (Path(name) / "file").write_text("x")
    assert not Path(name).exists()


def test_one_that_somebody_has_removed_is_no_error():
    with empty_model_dir() as name:
        Path(name).rmdir()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there are no files in memory here")
def test_a_full_disk_keeps_no_program_from_its_empty_folder(tmp_path, monkeypatch):
    with small_disk(tmp_path / "disk") as disk:
        disk.remount("ro")
        monkeypatch.setattr(tempfile, "tempdir", str(disk.path))
        with empty_model_dir() as name:
            assert Path(name).parent == Path("/dev/shm")
            assert list(Path(name).iterdir()) == []
        assert not Path(name).exists()


def test_no_folder_for_temporary_files_at_all(monkeypatch):
    """As where each that Python tries is on a full disk."""

    def none() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    monkeypatch.setattr(empty_model, "_MEMORY", Path("/there/is/none"))
    with pytest.raises(OSError, match="no folder for temporary files can be written to") as refused:
        empty_model_dir()
    assert refused.value.errno == errno.ENOSPC


def test_a_later_gateway_process_goes_on_with_it_and_removes_it(kept):
    before = kept.record("empty-model").decode()
    following = KeptEmptyModelDir(kept)
    assert following.path() == following.path() == before
    assert Path(before).is_dir()
    following.remove()
    assert not Path(before).exists()
    assert kept.names == set()


def test_a_later_gateway_process_without_programs_removes_it_too(kept):
    before = Path(kept.record("empty-model").decode())
    KeptEmptyModelDir(kept).remove()
    assert not before.exists()


def test_one_that_somebody_has_removed_is_made_again(kept):
    Path(kept.record("empty-model").decode()).rmdir()
    following = KeptEmptyModelDir(kept)
    made = following.path()
    assert Path(made).is_dir()
    assert kept.record("empty-model").decode() == made
    following.remove()
    assert not Path(made).exists()
