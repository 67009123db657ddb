"""partway.gateway.storage.disk_refusals: which errors are a disk's, and what it has left."""

from __future__ import annotations

import errno
import os

import pytest

from partway.gateway.storage.disk_refusals import free_room, is_disk_refusal
from tests.disks import small_disk

REFUSALS = [
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ESTALE,
]


@pytest.mark.parametrize("number", REFUSALS, ids=errno.errorcode.get)
def test_what_a_disk_refuses_for_now(number):
    assert is_disk_refusal(OSError(number, os.strerror(number)))


@pytest.mark.parametrize(
    "number", [errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMFILE], ids=errno.errorcode.get
)
def test_what_is_no_disks_fault(number):
    assert not is_disk_refusal(OSError(number, os.strerror(number)))


def test_the_room_of_a_folder_that_is_not_there_yet(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        empty = free_room(disk.path / "a" / "b")
        assert empty is not None
        assert empty.bytes > 1 << 20
        assert empty.files > 0
        disk.fill()
        full = free_room(disk.path / "a" / "b")
        assert full is not None
        assert full.bytes == 0


def test_the_room_of_what_is_no_folder(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert free_room(file / "below") is None
    assert free_room(tmp_path / ("x" * 300)) is None
