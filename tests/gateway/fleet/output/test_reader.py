"""partway.gateway.fleet.output.reader: any position, any time, while files are renamed."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.fleet.output import log_files as printed_files
from partway.gateway.fleet.output.log_files import PrintedFiles, log_files, times_files
from partway.gateway.fleet.output.reader import Printed, last_printed, printed_instances

ID = "echo-A-1"


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=20), st.integers(0, 3)), min_size=1),
    st.integers(1, 60),
)
def test_every_byte_is_found_with_its_time(writes, full):
    said, now, whole, expected = b"", 0, printed_files.OUTPUT_FILE_BYTES, []
    printed_files.OUTPUT_FILE_BYTES = full
    try:
        with TemporaryDirectory() as folder:
            files = PrintedFiles(Path(folder), ID, "echo")
            for data, later in writes:
                now += later
                files.append(data, now)
                said += data
                expected += [now] * len(data)
            with Printed.opened(Path(folder), ID) as printed:
                assert printed.end == len(said)
                assert (printed.first_time, printed.last_time) == (expected[printed.begin], now)
                for at in range(printed.begin, printed.end):
                    assert printed.time_at(at) == expected[at]
                    assert said.startswith(printed.read(at, 7), at)
                    assert printed.before(at, 7) == said[max(printed.begin, at - 7) : at]
                assert printed.read(printed.end, 7) == b""
                for time in range(now + 2):
                    at = printed.position_at(time)
                    assert all(each >= time for each in expected[at:])
                    assert all(each < time for each in expected[printed.begin : at])
    finally:
        printed_files.OUTPUT_FILE_BYTES = whole


def test_one_that_is_open_is_as_it_was_while_files_are_renamed(tmp_path, monkeypatch):
    monkeypatch.setattr(printed_files, "OUTPUT_FILE_BYTES", 4)
    files = PrintedFiles(tmp_path, ID, "echo")
    for data in (b"1111", b"2222"):
        files.append(data, 1)
    with Printed.opened(tmp_path, ID) as printed:
        for data in (b"3333", b"4444", b"5555"):
            files.append(data, 2)
        assert printed.before(printed.end, 100) == b"11112222"
    with Printed.opened(tmp_path, ID) as printed:
        assert (printed.begin, printed.before(printed.end, 100)) == (12, b"44445555")


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_files_that_are_renamed_while_they_are_opened(tmp_path, monkeypatch, after):
    """Whichever of them were open by then: what is read hangs together, and is in its place."""
    monkeypatch.setattr(printed_files, "OUTPUT_FILE_BYTES", 4)
    files = PrintedFiles(tmp_path, ID, "echo")
    files.append(b"1111", 1)
    files.append(b"2222", 2)
    opened, open_ = [], os.open

    def open_and_rename(path, flags, mode=0o777):
        descriptor = open_(path, flags, mode)
        if flags & os.O_ACCMODE == os.O_RDONLY and str(path).startswith(str(tmp_path)):
            opened.append(path)
            if len(opened) == after:
                files.append(b"3333", 3)
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr("partway.gateway.storage.files.os.open", open_and_rename)
        printed = Printed.opened(tmp_path, ID)
    assert printed is not None
    with printed:
        assert printed.read(printed.begin, 1) == b"%d" % (printed.begin // 4 + 1)
        assert printed.time_at(printed.end - 1) == printed.end // 4
        assert printed.before(printed.end, 9) == b"111122223333"[printed.begin : printed.end]


def test_nothing_is_there_or_nothing_of_it(tmp_path):
    assert Printed.opened(tmp_path, ID) is None
    assert Printed.opened(tmp_path / "none", ID) is None
    log_files(tmp_path, ID)[0].write_bytes(b"of which no times are known")
    assert Printed.opened(tmp_path, ID) is None
    assert printed_instances(tmp_path) == {}
    assert printed_instances(tmp_path / "none") == {}


@pytest.mark.parametrize("which", [log_files, times_files])
def test_a_link_is_not_followed(tmp_path, which):
    PrintedFiles(tmp_path, ID, "echo").append(b"x", 1)
    path = which(tmp_path, ID)[0]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert Printed.opened(tmp_path, ID) is None
    if which is times_files:
        assert printed_instances(tmp_path) == {}


def test_whose_instances_have_printed(tmp_path):
    PrintedFiles(tmp_path, "a-b-c-1", "a-b").append(b"x", 1)
    PrintedFiles(tmp_path, "a-b-c-2", "a").append(b"x", 1)
    (tmp_path / "notes.txt").write_text("somebody's")
    os.mkfifo(tmp_path / "a.times")
    times_files(tmp_path, "a-b-c-1")[0].rename(times_files(tmp_path, "a-b-c-1")[1])
    assert printed_instances(tmp_path) == {"a-b-c-1": "a-b", "a-b-c-2": "a"}


def test_the_instance_that_printed_last(tmp_path):
    """All its containers, and none of another endpoint's or of an instance before."""
    assert last_printed(tmp_path, "echo") == ()
    printed = [("echo-A-1", "echo"), ("echo-A-2_a", "echo"), ("echo-A-2_b", "echo"), ("b-A-1", "b")]
    for seconds, (container, endpoint) in enumerate(printed):
        PrintedFiles(tmp_path, container, endpoint).append(b"x", 1)
        for path in (log_files(tmp_path, container)[0], times_files(tmp_path, container)[0]):
            os.utime(path, (seconds, seconds))
    assert last_printed(tmp_path, "echo") == ("echo-A-2_a", "echo-A-2_b")
    assert last_printed(tmp_path, "b") == ("b-A-1",)
    assert last_printed(tmp_path, "none") == ()
