"""partway.gateway.files: files that somebody else has written, which may have no end."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.files import is_file_or_folder, is_folder, read_bounded


def test_a_file_up_to_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"


def test_a_longer_one(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"123456")
    with pytest.raises(ValueError, match="5 bytes"):
        read_bounded(path, 5)


def test_one_without_an_end():
    with pytest.raises(ValueError, match="1000 bytes"):
        read_bounded(Path("/dev/zero"), 1000)


def test_one_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "nothing", 5)


def test_what_there_is(tmp_path):
    file, nothing, too_long = tmp_path / "a", tmp_path / "b", tmp_path / ("x" * 1000)
    file.touch()
    assert [is_folder(each) for each in (tmp_path, file, nothing, too_long)] == [True, *[False] * 3]
    found = [is_file_or_folder(each) for each in (tmp_path, file, nothing, too_long)]
    assert found == [True, True, False, False]
