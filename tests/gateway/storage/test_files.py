"""partway.gateway.storage.files: files that somebody else has written, which may have no end."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from partway.gateway.storage.files import (
    is_file_or_folder,
    is_folder,
    locked,
    open_regular,
    others_may,
    read_bounded,
    replace_file,
    user_data_folder,
)


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
    with pytest.raises(OSError, match="this is a device; it must be a regular file"):
        read_bounded(Path("/dev/zero"), 1000)


def test_a_pipe_whose_writer_never_comes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="this is a pipe; it must be a regular file"):
        open_regular(tmp_path / "pipe")


def test_a_folder(tmp_path):
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


def test_a_file_that_is_refused_is_closed_again(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    before = len([*Path("/dev/fd").iterdir()])
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(OSError, match=r"regular file|Is a directory"):
            open_regular(path)
    assert len([*Path("/dev/fd").iterdir()]) <= before


def test_a_regular_file_is_read_as_ever(tmp_path):
    (tmp_path / "file").write_bytes(b"12")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"12"


@pytest.mark.parametrize(
    ("mode", "verb"),
    [
        (0o600, ""),
        (0o700, ""),
        (0o640, "read"),
        (0o604, "read"),
        (0o622, "write"),
        (0o602, "write"),
        (0o666, "read and write"),
        (0o611, ""),
    ],
)
def test_what_others_may_do(mode, verb):
    assert others_may(mode) == verb


def test_one_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "nothing", 5)


def test_what_there_is(tmp_path):
    file, nothing, too_long = tmp_path / "a", tmp_path / "b", tmp_path / ("x" * 1000)
    file.touch()
    assert [is_folder(each) for each in (tmp_path, file, nothing, too_long)] == [True, *[False] * 3]
    found = [is_file_or_folder(each) for each in (tmp_path, file, nothing, too_long)]
    assert found == [True, True, False, False]


# --- Written -------------------------------------------------------------------------------------


def test_a_file_is_replaced_at_once(tmp_path):
    path = tmp_path / "file"
    replace_file(path, b"old", 0o644)
    with path.open("rb") as before:
        replace_file(path, b"new", 0o600)
        assert before.read() == b"old", "whoever has opened it reads the old bytes"
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_replaced_stays(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(OSError, match="folder"):
        replace_file(path, b"new", 0o600)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "nowhere" / "file", b"new", 0o600)


# --- Where they lie ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/u"}, Path("/home/u/.local/share/partway")),
        ({"HOME": "/home/u", "XDG_DATA_HOME": "data"}, Path("/home/u/.local/share/partway")),
        ({"HOME": "/home/u", "XDG_DATA_HOME": "/data"}, Path("/data/partway")),
        ({"HOME": ""}, None),
        ({}, None),
    ],
)
def test_a_users_data(environment, expected):
    assert user_data_folder(environment) == expected


def test_a_lock_is_one_holders(tmp_path):
    lock = locked(tmp_path / "lock")
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    with pytest.raises(BlockingIOError):
        locked(tmp_path / "lock")
    os.close(lock)
    os.close(locked(tmp_path / "lock"))


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def refuses(descriptor: int, _: int) -> None:
        opened.append(descriptor)
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    opened: list[int] = []
    monkeypatch.setattr(fcntl, "flock", refuses)
    with pytest.raises(OSError, match="No locks available") as caught:
        locked(tmp_path / "lock")
    assert caught.value.filename == str(tmp_path / "lock")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_a_lock_is_no_link(tmp_path):
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        locked(tmp_path / "lock")
