"""partway.gateway.fleet.output.log_tail: last lines, and what comes, however files are rotated."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as some

from partway.gateway.fleet.limits import MAX_LOG_LINE
from partway.gateway.fleet.output import log_tail
from partway.gateway.fleet.output.log_files import log_files
from partway.gateway.fleet.output.log_tail import LogTail
from partway.gateway.storage.files import open_regular

ID = "echo-AllTraffic-1a2b3c"


class Written:
    """An instance's log, written as it is: appended to, and renamed when it is full."""

    def __init__(self, folder: Path) -> None:
        self.path, self.older = log_files(folder, ID)

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def rotate(self, data: bytes = b"") -> None:
        self.path.replace(self.older)
        self.append(data)


@pytest.fixture
def written(tmp_path) -> Written:
    return Written(tmp_path)


def everything(tail: LogTail) -> bytes:
    found = b""
    while data := tail.read():
        found += data
    return found


def open_files() -> int:
    """How many descriptors this process has."""
    return psutil.Process().num_fds()


# --- The last lines ------------------------------------------------------------------------------


def lines_of(data: bytes) -> list[bytes]:
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


_TEXTS = some.text("ab\n", max_size=40).map(str.encode)


@given(
    older=some.none() | _TEXTS,
    newer=some.none() | _TEXTS,
    count=some.none() | some.integers(0, 20),
    block=some.sampled_from([1, 2, 3, 7, 65536]),
)
def test_the_last_lines(older, newer, count, block):
    """Of both files; one that runs on from the older file into the newer one counts in each."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(log_tail, "_BLOCK", block)
        for path, data in zip(log_files(Path(folder), ID), (newer, older), strict=True):
            if data is not None:
                path.write_bytes(data)
        tail = LogTail(Path(folder), ID, count)
        found = everything(tail) + tail.rest()
        tail.close()
    lines = lines_of(older or b"") + lines_of(newer or b"")
    expected = b"".join(lines[max(0, len(lines) - count) :] if count is not None else lines)
    assert found.removesuffix(b"\n") == expected.removesuffix(b"\n")
    assert found == b"" or found.endswith(b"\n")


# --- What comes ----------------------------------------------------------------------------------


def test_nothing_is_there_yet(tmp_path, written):
    tail = LogTail(tmp_path, ID, 0)
    assert tail.read() == b""
    written.append(b"one\n")
    assert tail.read() == b"one\n"
    assert tail.read() == b""
    tail.close()


def test_what_comes_is_read_once(tmp_path, written):
    written.append(b"before\n")
    tail = LogTail(tmp_path, ID, 0)
    assert tail.read() == b""
    written.append(b"one\ntw")
    assert tail.read() == b"one\n"
    assert tail.read() == b""
    written.append(b"o\nthree")
    assert tail.read() == b"two\n"
    assert (tail.rest(), tail.rest()) == (b"three\n", b"")
    tail.close()


@pytest.mark.parametrize("rotations", [1, 2])
def test_nothing_is_lost_over_a_rotation(tmp_path, written, rotations):
    written.append(b"0\n")
    tail = LogTail(tmp_path, ID, None)
    assert tail.read() == b"0\n"
    for number in range(20):
        for rotation in range(rotations):
            written.append(b"last of %d.%d, " % (number, rotation))
            written.rotate(b"first of the next\n")
        expected = b"".join(
            b"last of %d.%d, first of the next\n" % (number, rotation)
            for rotation in range(rotations)
        )
        assert everything(tail) == expected
    tail.close()


def test_between_the_renaming_and_the_next_file_there_is_none(tmp_path, written):
    written.append(b"one\n")
    tail = LogTail(tmp_path, ID, None)
    assert tail.read() == b"one\n"
    written.append(b"two\n")
    written.path.replace(written.older)
    assert everything(tail) == b"two\n"
    written.append(b"three\n")
    assert everything(tail) == b"three\n"
    tail.close()


def test_only_what_is_needed_is_open(tmp_path, written):
    before = open_files()
    tail = LogTail(tmp_path, ID, None)
    for _ in range(5):
        written.append(b"one\n")
        everything(tail)
        assert open_files() <= before + 1
        written.rotate()
    tail.close()
    tail.close()
    written.append(b"more\n")
    assert tail.read() == b""
    assert open_files() <= before


def test_a_line_without_an_end_is_not_held_for_ever(tmp_path, written):
    tail = LogTail(tmp_path, ID, None)
    written.append(b"x" * (3 * MAX_LOG_LINE + 5))
    pieces = []
    while data := tail.read():
        assert len(data) <= 2 * MAX_LOG_LINE + 1
        assert data.endswith(b"\n")
        pieces.append(data.removesuffix(b"\n"))
    assert b"".join(pieces) == b"x" * (3 * MAX_LOG_LINE + 5)
    tail.close()


def test_closing_does_not_wait_for_a_thread_that_reads(tmp_path, written, monkeypatch):
    """A disk may hang, and whoever closes is the gateway's loop; the thread closes then."""
    reads, goes_on = threading.Event(), threading.Event()

    def hanging(path: Path) -> BinaryIO:
        reads.set()
        assert goes_on.wait(60)
        return open_regular(path)

    monkeypatch.setattr(log_tail, "open_regular", hanging)
    written.append(b"one\n")
    before = open_files()
    tail = LogTail(tmp_path, ID, None)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(tail.read)
        try:
            assert reads.wait(60)
            tail.close()
        finally:
            goes_on.set()
        reading.result(60)
        assert open_files() <= before
    assert tail.read() == b""


def test_what_is_no_file_is_not_waited_for(tmp_path, written):
    os.mkfifo(written.path)
    tail = LogTail(tmp_path, ID, None)
    assert tail.read() == b""
    tail.close()
