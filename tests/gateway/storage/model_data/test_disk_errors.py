"""storage.model_data.disk_errors: what passes by itself, and what somebody has to change."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from partway.gateway.storage.model_data.disk_errors import disk_error_in_words

FOLDER = Path("/data/models")


def in_words(number: int, *of: str) -> tuple[str, bool]:
    return disk_error_in_words("model.tar.gz", FOLDER, OSError(number, os.strerror(number), *of))


@pytest.mark.parametrize(
    "number",
    [
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EACCES,
        errno.EPERM,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EROFS,
        errno.ENOLCK,
        errno.ENOSYS,
        errno.EOPNOTSUPP,
    ],
    ids=errno.errorcode.get,
)
def test_what_somebody_has_to_change(number):
    assert not in_words(number)[1]


@pytest.mark.parametrize(
    "number",
    [
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EIO,
        errno.ESTALE,
        errno.EINTR,
        errno.ETIMEDOUT,
        errno.EHOSTDOWN,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
    ],
    ids=errno.errorcode.get,
)
def test_what_passes(number):
    assert in_words(number)[1]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOENT, "it must exist, and the gateway's user must be allowed to read it"),
        (
            errno.ENOLCK,
            (
                "the file system of /data/models must be writable and support locks: move it "
                "with --data-dir"
            ),
        ),
        (
            errno.EMFILE,
            (
                "try again once programs of this machine need less, or raise the "
                "limit (ulimit -n, TasksMax, memory)"
            ),
        ),
        (errno.EIO, "check the disk, or the server of its file system, and try again"),
    ],
)
def test_what_is_to_be_done(number, said):
    assert in_words(number)[0] == f"model.tar.gz: {os.strerror(number)}; {said}"


def test_a_disk_that_is_full():
    assert in_words(errno.ENOSPC)[0] == (
        "model.tar.gz: the disk of /data/models is full (No space left on device); make room "
        "there, or move it with --data-dir"
    )


def test_the_file_is_named_unless_it_is_the_source():
    assert in_words(errno.EIO, "/data/models/0.part/x")[0].startswith(
        "model.tar.gz: /data/models/0.part/x: Input/output error; "
    )
    assert in_words(errno.EIO, "model.tar.gz")[0].startswith("model.tar.gz: Input/output error; ")


def test_an_error_without_a_number():
    said, passing = disk_error_in_words("model.tar.gz", FOLDER, OSError("it is odd"))
    assert said.startswith("model.tar.gz: it is odd; check the disk")
    assert passing
