"""partway.gateway.apis.logs.events: each line is on one page, whatever the pages are."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.apis.control.limits import LOG_LINES_AT_ONCE
from partway.gateway.apis.logs import events as log_events
from partway.gateway.apis.logs.events import (
    Sought,
    line_at,
    lines_before,
    lines_from,
    page_of_one,
    page_of_several,
    span_of,
)
from partway.gateway.fleet.limits import MAX_LOG_LINE
from partway.gateway.fleet.output import log_files as printed_files
from partway.gateway.fleet.output.log_files import PrintedFiles
from partway.gateway.fleet.output.reader import Printed

ID = "echo-A-1"

#: What is printed at once, and how much later that is.
WRITES = st.lists(
    st.tuples(st.text("ab\n", min_size=1, max_size=12).map(str.encode), st.integers(0, 2)),
    min_size=1,
    max_size=20,
)


class Folder:
    """A folder with what one instance has printed, in small files."""

    def __init__(self, full):
        self._temporary = TemporaryDirectory()
        self._full = full

    def __enter__(self):
        self.path = Path(self._temporary.__enter__())
        self._whole = printed_files.OUTPUT_FILE_BYTES
        printed_files.OUTPUT_FILE_BYTES = self._full
        return self

    def __exit__(self, *error):
        printed_files.OUTPUT_FILE_BYTES = self._whole
        self._temporary.__exit__(*error)

    def write(self, writes, instance=ID):
        """Returns all lines that have an end, with the times of their ends."""
        files, now, begun, lines = PrintedFiles(self.path, instance, "echo"), 0, b"", []
        for data, later in writes:
            now += later
            files.append(data, now)
            *whole, begun = (begun + data).split(b"\n")
            lines += [(now, line.decode()) for line in whole if line]
        return lines, ([(now, begun.decode())] if begun else [])


def told(events):
    return [(event["timestamp"], event["message"]) for event in events]


@given(WRITES, st.integers(1, 5), st.booleans(), st.booleans(), st.integers(0, 40))
def test_pages_of_a_stream_bring_each_line_once(writes, limit, over, forward, since):
    with Folder(10**6) as folder:
        lines, begun = folder.write(writes)
        expected = [each for each in lines + begun * over if each[0] >= since]
        with Printed.opened(folder.path, ID) as printed:
            span = span_of(printed, since, None, over=over)
            found, position = [], None
            while True:
                page = page_of_one(printed, span, position, limit, forward=forward)
                after = page.end if forward else page.begin
                if after == position:
                    break
                assert len(page.events) <= limit
                found = found + page.events if forward else page.events + found
                position = after
        assert page.events == []
        assert told(found) == expected


@given(WRITES, st.integers(1, 40), st.integers(1, 5))
def test_each_end_of_a_page_is_the_others_beginning(writes, full, limit):
    with Folder(full) as folder:
        folder.write(writes)
        with Printed.opened(folder.path, ID) as printed:
            span = span_of(printed, None, None, over=True)
            last = page_of_one(printed, span, None, limit, forward=False)
            again = page_of_one(printed, span, last.begin, limit, forward=True)
            assert again.events == last.events
            assert page_of_one(printed, span, again.end, limit, forward=False).events == last.events


@given(WRITES, st.integers(0, 20), st.integers(0, 20))
def test_a_time_has_the_lines_that_ended_in_it(writes, start, end):
    with Folder(10**6) as folder:
        lines, _ = folder.write(writes)
        with Printed.opened(folder.path, ID) as printed:
            span = span_of(printed, start, end, over=False)
            page = page_of_one(printed, span, None, 1000, forward=True)
            assert told(page.events) == [each for each in lines if start <= each[0] < end]


@given(st.lists(WRITES, min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 30))
def test_pages_of_several_streams_bring_each_line_once_by_time(of_each, limit, scanned):
    whole = log_events.LOG_SCANNED_LINES
    log_events.LOG_SCANNED_LINES = scanned
    try:
        with Folder(10**6) as folder:
            expected = []
            for number, writes in enumerate(of_each):
                lines, begun = folder.write(writes, f"i{number}")
                expected += [(each[0], f"s{number}", each[1]) for each in lines + begun]
            streams = [
                (f"s{number}", lambda number=number: (Printed.opened(folder.path, f"i{number}"), 1))
                for number in range(len(of_each))
            ]
            found, mark, pages = [], None, 0
            while pages == 0 or mark is not None:
                sought = Sought(lambda text: "a" in text, None, None, limit, mark)
                events, mark = page_of_several(streams, sought, lambda: None)
                found += events
                pages += 1
                assert len(events) <= limit
                assert pages < 1000
        assert len({event["eventId"] for event in found}) == len(found)
        in_order = sorted(expected, key=lambda each: each[:2])
        assert [(e["timestamp"], e["logStreamName"], e["message"]) for e in found] == [
            each for each in in_order if "a" in each[2]
        ]
    finally:
        log_events.LOG_SCANNED_LINES = whole


@given(st.integers(-10, 2**63), st.booleans(), WRITES)
def test_any_position_has_an_answer(position, forward, writes):
    with Folder(10) as folder:
        folder.write(writes)
        with Printed.opened(folder.path, ID) as printed:
            span = span_of(printed, None, None, over=True)
            page = page_of_one(printed, span, position, 2, forward=forward)
            assert printed.begin <= page.begin <= page.end <= printed.end
            assert printed.begin <= line_at(printed, position) <= printed.end


@pytest.mark.parametrize("many", [MAX_LOG_LINE - 1, MAX_LOG_LINE, MAX_LOG_LINE + 1, 300_000])
def test_a_line_that_is_too_long_comes_in_pieces(tmp_path, many):
    files = PrintedFiles(tmp_path, ID, "echo")
    files.append(b"before\n" + b"x" * many + b"\nafter\n", 1)
    with Printed.opened(tmp_path, ID) as printed:
        lines = list(lines_from(printed, 0, printed.end))
        back = list(lines_before(printed, printed.end, 0))[::-1]
        for found in (lines, back):
            assert all(len(line.data) <= MAX_LOG_LINE for line in found)
            assert b"".join(line.data for line in found) == b"before" + b"x" * many + b"after"
            assert [line.end for line in found[:-1]] == [line.begin for line in found[1:]]
            assert (found[0].data, found[-1].data) == (b"before", b"after")
        sought = Sought(lambda _: True, None, None, 1000, None)
        events, _ = page_of_several([("s", lambda: (Printed.opened(tmp_path, ID), True))], sought,
                                    lambda: None)  # fmt: skip
        assert "".join(event["message"] for event in events) == "before" + "x" * many + "after"


def test_a_page_is_bounded_by_its_bytes(tmp_path):
    line = b"x" * 60_000 + b"\n"
    PrintedFiles(tmp_path, ID, "echo").append(line * 40, 1)
    with Printed.opened(tmp_path, ID) as printed:
        span = span_of(printed, None, None, over=False)
        page = page_of_one(printed, span, None, 10_000, forward=True)
    assert len(page.events) == 1024 * 1024 // (60_000 + 26)
    assert page.end == len(page.events) * len(line)


def test_lines_that_are_nothing_are_looked_at_for_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(log_events, "LOG_SCANNED_LINES", 100)
    PrintedFiles(tmp_path, ID, "echo").append(b"\n" * 1000 + b"end\n", 1)
    with Printed.opened(tmp_path, ID) as printed:
        span, position, pages = span_of(printed, None, None, over=False), None, 0
        while True:
            page = page_of_one(printed, span, position, 10, forward=True)
            pages += 1
            position = page.end
            if page.events:
                break
    assert (told(page.events), pages) == ([(1, "end")], 11)


def open_files():
    return psutil.Process().num_fds()


def test_files_are_open_only_while_they_are_read(tmp_path):
    for number in range(50):
        PrintedFiles(tmp_path, f"i{number}", "echo").append(b"x\n" * 100, number)
    before = open_files()
    most = 0

    def opened(number):
        nonlocal most
        printed = Printed.opened(tmp_path, f"i{number}")
        most = max(most, open_files() - before)
        return printed, True

    streams = [(f"s{number}", lambda number=number: opened(number)) for number in range(50)]
    sought = Sought(lambda _: True, None, None, 10_000, None)
    events, mark = page_of_several(streams, sought, lambda: None)
    assert (len(events), mark) == (5000, None)
    assert most <= 4
    assert open_files() <= before


def streams_of(folder, many, data, opened=None):
    """Streams that have all printed the same, and where each is noted when it is opened."""
    for number in range(many):
        PrintedFiles(folder, f"i{number}", "echo").append(data, number)

    def open_stream(number):
        if opened is not None:
            opened.append(number)
        return Printed.opened(folder, f"i{number}"), True

    return [(f"s{number}", lambda number=number: open_stream(number)) for number in range(many)]


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"x\n"])
def test_many_streams_of_short_lines_take_little_memory(tmp_path, monkeypatch, line):
    monkeypatch.setattr(log_events, "LOG_SCANNED_LINES", 100)
    streams = streams_of(tmp_path, 9, line * (64 * 1024 // len(line)))
    sought = Sought(lambda text: text == "y", None, None, 10_000, None)
    tracemalloc.start()
    try:
        events, mark = page_of_several(streams, sought, lambda: None)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (events, mark) == ([], (0, "s0", 99 * len(line)))
    assert most < 4 * 1024 * 1024


class NotWanted(Exception):
    pass


@pytest.mark.parametrize(
    ("patience", "expected"), [(0, []), (10, [0]), (LOG_LINES_AT_ONCE + 2, [0, 1])]
)
def test_whoever_wants_no_more_is_heard_before_all_streams_are_read(tmp_path, patience, expected):
    opened = []
    streams = streams_of(tmp_path, 3, b"\n" * 1000, opened)
    left = iter(range(patience))

    def check():
        if next(left, None) is None:
            raise NotWanted

    with pytest.raises(NotWanted):
        page_of_several(streams, Sought(lambda _: True, None, None, 10_000, None), check)
    assert opened == expected


def test_text_is_shown_as_it_is_and_what_is_none_is_replaced(tmp_path):
    PrintedFiles(tmp_path, ID, "echo").append("\x1b[31m é\r\n".encode() + b"\xff\n", 1)
    with Printed.opened(tmp_path, ID) as printed:
        page = page_of_one(printed, span_of(printed, None, None, over=False), None, 9, forward=True)
    assert [event["message"] for event in page.events] == ["\x1b[31m é", "\ufffd"]
