"""gateway.fleet.output.log_files: what is written, and what is there when something fails."""

from __future__ import annotations

import errno
import os

import pytest

from partway.gateway.fleet.limits import OUTPUT_FILE_BYTES
from partway.gateway.fleet.output import log_files as printed_files
from partway.gateway.fleet.output.log_files import (
    ENTRY,
    HEAD_BYTES,
    PrintedFiles,
    PrintedHead,
    instance_of,
    log_files,
    times_files,
)
from partway.gateway.fleet.output.reader import Printed

ID = "echo-A-1"


@pytest.fixture
def files(tmp_path):
    return PrintedFiles(tmp_path, ID, "echo")


def times(folder):
    """The head and the entries beside a log."""
    data = times_files(folder, ID)[0].read_bytes()
    return PrintedHead.read(data), [*ENTRY.iter_unpack(data[HEAD_BYTES:])]


def text(folder):
    with Printed.opened(folder, ID) as printed:
        return printed.begin, printed.before(printed.end, 10**9)


def test_the_log_is_as_it_was_printed_and_its_times_lie_beside_it(tmp_path, files):
    files.append(b"one\ntw", 1000)
    files.append(b"o\n", 2000)
    log, _ = log_files(tmp_path, ID)
    assert log.read_bytes() == b"one\ntwo\n"
    assert times(tmp_path) == (
        PrintedHead("echo", log.stat().st_ino, 0), [(0, 1000), (6, 2000)],
    )  # fmt: skip
    for path in (log, times_files(tmp_path, ID)[0]):
        assert path.stat().st_mode & 0o777 == 0o600


def test_positions_go_on_where_a_log_is_full(tmp_path, files):
    files.append(b"x" * OUTPUT_FILE_BYTES, 1000)
    files.append(b"next", 2000)
    files.append(b"more", 3000)
    head, entries = times(tmp_path)
    assert head.begin == OUTPUT_FILE_BYTES
    assert entries == [(OUTPUT_FILE_BYTES, 2000), (OUTPUT_FILE_BYTES + 4, 3000)]
    begin, data = text(tmp_path)
    assert (begin, len(data), data[-9:]) == (0, OUTPUT_FILE_BYTES + 8, b"xnextmore")
    # Whoever comes after it, as the gateway's next process, goes on too.
    PrintedFiles(tmp_path, ID, "echo").append(b".", 4000)
    assert times(tmp_path)[1][-1] == (OUTPUT_FILE_BYTES + 8, 4000)


def test_times_that_are_many_have_a_log_renamed(tmp_path, files, monkeypatch):
    monkeypatch.setattr(printed_files, "OUTPUT_TIMES_BYTES", HEAD_BYTES + 10 * ENTRY.size)
    for number in range(25):
        files.append(b"%d\n" % number, number)
    assert log_files(tmp_path, ID)[1].read_bytes() == b"".join(b"%d\n" % n for n in range(10, 20))
    for path in times_files(tmp_path, ID):
        assert path.stat().st_size <= HEAD_BYTES + 10 * ENTRY.size
    assert text(tmp_path)[1] == b"".join(b"%d\n" % n for n in range(10, 25))


def test_a_clock_that_goes_back_has_no_line_come_earlier(tmp_path, files):
    for now in (5000, 4000, 6000):
        files.append(b"x", now)
    assert [time for _, time in times(tmp_path)[1]] == [5000, 5000, 6000]


def test_a_log_that_was_removed_is_begun_anew_and_no_position_is_two_bytes(tmp_path, files):
    files.append(b"removed", 1000)
    log_files(tmp_path, ID)[0].unlink()
    files.append(b"new", 2000)
    assert text(tmp_path) == (7, b"new")


def test_where_times_were_removed_the_bytes_before_have_the_next_time(tmp_path, files):
    files.append(b"one", 1000)
    times_files(tmp_path, ID)[0].unlink()
    assert Printed.opened(tmp_path, ID) is None
    files.append(b"two", 2000)
    with Printed.opened(tmp_path, ID) as printed:
        assert printed.read(0, 10) == b"onetwo"
        assert printed.time_at(0) == printed.time_at(5) == 2000


def test_a_process_killed_between_two_renames_loses_nothing(tmp_path, files):
    files.append(b"first", 1000)
    log, older = log_files(tmp_path, ID)
    log.replace(older)  # and nothing more
    assert text(tmp_path) == (0, b"first")
    PrintedFiles(tmp_path, ID, "echo").append(b"second", 2000)
    assert text(tmp_path) == (0, b"firstsecond")


def test_half_an_entry_is_cut_off(tmp_path, files, monkeypatch):
    files.append(b"one", 1000)
    write = os.write
    with monkeypatch.context() as patch:
        done = []

        def full(descriptor, data):
            if done:
                raise OSError(errno.ENOSPC, "No space left on device")
            done.append(write(descriptor, data[:5]))
            return done[0]

        patch.setattr("partway.gateway.fleet.output.log_files.os.write", full)
        with pytest.raises(OSError, match="No space"):
            files.append(b"lost", 2000)
    files.append(b"two", 3000)
    assert times(tmp_path)[1] == [(0, 1000), (3, 3000)]
    assert text(tmp_path) == (0, b"onetwo")


@pytest.mark.parametrize("which", [log_files, times_files])
def test_what_a_link_leads_to_is_not_written(tmp_path, files, which):
    others = tmp_path / "others"
    others.write_bytes(b"not ours")
    which(tmp_path, ID)[0].symlink_to(others)
    with pytest.raises(OSError, match="symbolic links"):
        files.append(b"x", 1000)
    assert others.read_bytes() == b"not ours"


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 300, b"[]", b"{", b'{"endpoint": "a", "inode": 1}',
        b'{"endpoint": 1, "inode": 1, "begin": 0}', b'{"endpoint": "a", "inode": 1, "begin": -1}',
        b'{"endpoint": "a", "inode": 1.0, "begin": 0}',
    ],
)  # fmt: skip
def test_what_is_no_head(data):
    assert PrintedHead.read(data) is None


def test_the_longest_head_has_its_size():
    head = PrintedHead("e" * 63, 2**64 - 1, 2**63 - 1)
    assert len(head.written()) == HEAD_BYTES
    assert PrintedHead.read(head.written()) == head


@pytest.mark.parametrize(
    ("name", "instance"),
    [
        ("a.log", "a"), ("a.log.1", "a"), ("a.times", "a"), ("a.times.1", "a"),
        ("a.log.2", None), ("notes.txt", None), ("a", None),
    ],
)  # fmt: skip
def test_whose_file_it_is(name, instance):
    assert instance_of(name) == instance
