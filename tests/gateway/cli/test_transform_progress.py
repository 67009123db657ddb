"""partway.gateway.cli.transform_progress: how far a job is, and what it came to."""

from __future__ import annotations

import io
import logging

import pytest

from partway.gateway.batch.results import FileOutcome, FileState, Progress
from partway.gateway.cli.transform_progress import (
    FailuresShown,
    TransformShown,
    failure_lines,
    progress_line,
    summary,
)
from partway.gateway.fleet.instance import NOT_READY
from partway.gateway.fleet.processes.unexpanded import NOT_EXPANDED
from partway.log_lines import LogLine
from tests.gateway.streams.fakes import FakeClock

MIB = 2**20


def test_how_far_it_is():
    progress = Progress(files=1, bytes=0)
    assert progress_line(progress, 0.0) == "0 of 1 file, 0 records, 0.0 of 0.0 MB"
    progress = Progress(files=3000, bytes=2048 * MIB, bytes_done=512 * MIB, records=1_200_000)
    assert progress_line(progress, 60.0) == (
        "0 of 3,000 files, 1,200,000 records, 512.0 of 2,048.0 MB, 20,000 records/s, "
        "3 min 00 s left"
    )
    assert progress_line(progress, 1.0).endswith("1,200,000 records/s"), "too early to foretell"
    assert progress_line(progress, 1500.0).endswith("1 h 15 min left")


def outcome(state, name="a", reason="", records=0):
    return FileOutcome(name, state, reason, records)


def test_what_it_came_to():
    progress = Progress(files=2, records=1)
    progress.over(outcome(FileState.SKIPPED))
    progress.over(outcome(FileState.DONE))
    assert summary(progress, 2.0) == "2 files: 1 done, 1 skipped; 1 record in 2.0 s, 0 records/s"
    progress.over(outcome(FileState.FAILED))
    progress.over(outcome(FileState.NOT_BEGUN))
    line = "2 files: 1 done, 1 skipped, 1 failed, 1 not begun; 1 record in 0.0 s"
    assert summary(progress, 0.0) == line


def test_a_failure_does_not_steer_the_terminal():
    failed = outcome(FileState.FAILED, "b\x1b[31m", "no\nmore\x07")
    assert failure_lines(failed) == ["b\ufffd[31m: no", "  more\ufffd"]
    assert failure_lines(outcome(FileState.FAILED, "b", "")) == ["b: "]


@pytest.fixture
def shown():
    file, clock, progress = io.StringIO(), FakeClock(), Progress(files=40, bytes=MIB)
    one = TransformShown(progress, clock, file)
    one.file, one.clock, one.progress = file, clock, progress
    return one


def test_lines_where_nobody_watches(shown):
    with shown.running():
        shown.clock.advance(9.9)
        assert shown.file.getvalue() == ""
        shown.progress.bytes_done = MIB // 2
        shown.clock.advance(10.2)
        shown.progress.over(outcome(FileState.DONE))
        shown.progress.over(outcome(FileState.FAILED, "x" * 300, "record 3 (line 4): no"))
    assert shown.clock.armed == []
    assert shown.file.getvalue().splitlines() == [
        "0 of 40 files, 0 records, 0.5 of 1.0 MB, 10 s left",
        "0 of 40 files, 0 records, 0.5 of 1.0 MB, 20 s left",
        f"{'x' * 300}: record 3 (line 4): no",
    ]


def test_what_has_failed_is_named_again_at_the_end(shown):
    for number in range(30):
        shown.progress.over(outcome(FileState.FAILED, f"{number:02}", "no"))
    shown.progress.over(outcome(FileState.NOT_BEGUN, "98"))
    shown.file.truncate(0)
    shown.file.seek(0)
    shown.end()
    lines = shown.file.getvalue().splitlines()
    assert lines[:3] == ["31 of 40 files failed:", "  00: no", "  01: no"]
    assert lines[20:] == [
        "  19: no",
        "  and 10 more, named above",
        "  1 file not begun",
        "run the same command again for these files",
    ]


def test_nothing_is_said_of_no_failures(shown):
    shown.progress.over(outcome(FileState.DONE))
    shown.end()
    assert shown.file.getvalue() == ""


def test_on_a_terminal_it_is_one_line_that_is_drawn_again(shown, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    file = Terminal()
    one = TransformShown(shown.progress, shown.clock, file)
    with one.running():
        shown.progress.over(outcome(FileState.DONE))
        shown.progress.bytes_done = MIB // 2
        shown.clock.advance(5)
        assert shown.clock.armed == []
    assert "1 of 40 files, 0 records, 0.5 of 1.0 MB, 5.0 s left" in file.getvalue()


def test_why_instances_fail_is_shown_once(caplog):
    file, fleet = io.StringIO(), logging.getLogger("partway.fleet")
    with FailuresShown(TransformShown(Progress(), FakeClock(), file)) as failures:
        fleet.warning(LogLine("instance failed", instance="a", reason="no\x1b\nit printed: 1"))
        fleet.error(LogLine("instances are not started any more", reason="no\x1b\nit printed: 1"))
        fleet.warning(LogLine("instance failed", reason="another"))
        fleet.warning(LogLine("something else"))
        assert failures.without_what_is_said("none is there: another") == (
            "none is there, for the reason above"
        )
        assert failures.without_what_is_said("none is there: no") == "none is there: no"
    assert file.getvalue().splitlines() == [
        "an instance has failed: no\N{REPLACEMENT CHARACTER}",
        "  it printed: 1",
        "an instance has failed: another",
    ]
    with FailuresShown(TransformShown(Progress(), FakeClock(), file)):
        fleet.warning(LogLine(NOT_READY, reason="nothing listens on 1"))
        fleet.warning(LogLine(NOT_EXPANDED, reason="no shell expands $PORT"))
    assert file.getvalue().splitlines()[3:] == [
        "an instance is not ready: nothing listens on 1",
        "--command: no shell expands $PORT",
    ]
    fleet.warning(LogLine("instance failed", reason="another"))
    assert [each.getMessage() for each in caplog.records] == [
        "something else",
        "instance failed reason=another",
    ]
