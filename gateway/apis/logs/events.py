"""Log events: the lines that instances have printed, in pages of one stream or of several."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from partway.gateway.apis.control.limits import (
    LOG_LINES_AT_ONCE,
    LOG_PAGE_BYTES,
    LOG_SCANNED_BYTES,
    LOG_SCANNED_LINES,
)
from partway.gateway.fleet.limits import MAX_LOG_LINE
from partway.gateway.fleet.output.reader import Printed
from partway.protocol.limits import KIB

#: Bytes that are read at once.
_BLOCK: Final = 64 * KIB

#: Bytes of a block, with the last line that begins in it and that line's end.
_MOST_OF_BLOCK: Final = _BLOCK + MAX_LOG_LINE + 1

#: Bytes that CloudWatch counts for an event in addition to its message.
_EVENT_BYTES: Final = 26


class Line(NamedTuple):
    """One line, or a piece of a line that has more than MAX_LOG_LINE bytes.

    Attributes:
        begin: the position in the whole output of the instance.
        end: the position after the line and its line ending.
        data: the bytes without the line ending.
    """

    begin: int
    end: int
    data: bytes

    @property
    def message(self) -> str:
        """The text; empty for an empty line, which is no event."""
        return self.data.removesuffix(b"\r").decode(errors="replace")


def lines_from(printed: Printed, position: int, until: int) -> Iterator[Line]:
    """Yield the lines that begin at or after ``position`` and end at or before ``until``."""
    begin, held = max(position, printed.begin), b""
    while (at := begin + len(held)) < until:
        block = printed.read(at, min(_BLOCK, until - at))
        if not block:
            break
        held, done = held + block, 0
        # One by one: a block may have as many lines as bytes, and only few may be needed.
        while (cut := held.find(b"\n", done)) >= 0:
            data, done = held[done:cut], cut + 1
            end = begin + len(data) + 1
            yield from _pieces(begin, end, data)
            begin = end
        held = held[done:]
        while len(held) > MAX_LOG_LINE:
            yield Line(begin, begin + MAX_LOG_LINE, held[:MAX_LOG_LINE])
            begin, held = begin + MAX_LOG_LINE, held[MAX_LOG_LINE:]
    if held:
        yield Line(begin, begin + len(held), held)


def _pieces(begin: int, end: int, data: bytes) -> Iterator[Line]:
    """Yield a line, in pieces if it is too long."""
    while len(data) > MAX_LOG_LINE:
        yield Line(begin, begin + MAX_LOG_LINE, data[:MAX_LOG_LINE])
        begin, data = begin + MAX_LOG_LINE, data[MAX_LOG_LINE:]
    yield Line(begin, end, data)


def lines_before(printed: Printed, position: int, down_to: int) -> Iterator[Line]:
    """Yield the lines that end at or before a position, the last one first."""
    end, held = min(position, printed.end), b""
    while (at := end - len(held)) > down_to:
        block = printed.before(at, min(_BLOCK, at - down_to))
        if not block:
            break
        held = block + held
        rest = len(held)
        # The last byte ends the last line, and begins no other.
        while (cut := held.rfind(b"\n", 0, max(0, rest - 1))) >= 0:
            data, rest = held[cut + 1 : rest], cut + 1
            pieces = _pieces(end - len(data), end, data.removesuffix(b"\n"))
            yield from reversed(list(pieces))
            end -= len(data)
        held = held[:rest]
        while len(held) > MAX_LOG_LINE:
            data, held = held[-MAX_LOG_LINE:], held[:-MAX_LOG_LINE]
            yield Line(end - len(data), end, data.removesuffix(b"\n"))
            end -= len(data)
    if held:
        yield Line(end - len(held), end, held.removesuffix(b"\n"))


def line_at(printed: Printed, position: int) -> int:
    """Return the position where the line with the byte at a position begins."""
    if not printed.begin < position < printed.end:
        return min(max(position, printed.begin), printed.end)
    before = printed.before(position, MAX_LOG_LINE)
    cut = before.rfind(b"\n")
    return position - (len(before) - cut - 1)


def span_of(printed: Printed, start: int | None, end: int | None, *, over: bool) -> tuple[int, int]:
    """Return the positions where the lines of a span of time begin and end.

    The time of a line is the time of its end, so later lines never have an earlier time.

    Args:
        start: the first time of the span, in milliseconds since the epoch; None for no limit.
        end: the first time after the span; None for no limit.
        over: whether the instance prints nothing more. Otherwise an unfinished last line is left
            out.
    """
    first = printed.begin if start is None else line_at(printed, printed.position_at(start))
    last = printed.end if end is None else line_at(printed, printed.position_at(end))
    if last == printed.end and not over:
        last = _ended(printed)
    return first, max(first, last)


def _ended(printed: Printed) -> int:
    """Return the position after the last finished line; a too long line counts as finished."""
    before = printed.before(printed.end, MAX_LOG_LINE + 1)
    begun = len(before) - before.rfind(b"\n") - 1
    return printed.end - begun if begun <= MAX_LOG_LINE else printed.end


class _Room:
    """The remaining room of one answer, and the remaining lines to scan for it."""

    def __init__(self, limit: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._limit = limit
        self._bytes = LOG_PAGE_BYTES
        self._lines = LOG_SCANNED_LINES
        self._scanned = LOG_SCANNED_BYTES

    def scan(self, line: Line) -> bool:
        """Count a scanned line; return False if there are too many."""
        self._lines -= 1
        self._scanned -= len(line.data)
        return self._lines >= 0 and self._scanned >= 0

    def take(self, message: str, event: dict[str, Any]) -> bool:
        """Add an event to the answer; return False if there is no room."""
        size = len(message.encode()) + _EVENT_BYTES
        if len(self.events) == self._limit or (self.events and size > self._bytes):
            return False
        self._bytes -= size
        self.events.append(event)
        return True


class PageOfOne(NamedTuple):
    """Some events of one stream, in order.

    Attributes:
        events: the events in CloudWatch's form.
        begin: the position where the first event begins.
        end: the position after the last event.
    """

    events: list[dict[str, Any]]
    begin: int
    end: int


def page_of_one(
    printed: Printed, span: tuple[int, int], position: int | None, limit: int, *, forward: bool
) -> PageOfOne:
    """Return the events of a stream after a position, or before it.

    Args:
        span: the positions where the span's lines begin and end.
        position: where to begin; None for the start of the span, or its end.
        limit: the largest number of events.
        forward: whether to return the events after the position, and not before it.
    """
    first, last = span
    start = (first if forward else last) if position is None else position
    start = min(max(start, first), last)
    at, room = start, _Room(limit)
    lines = (lines_from if forward else lines_before)(printed, start, last if forward else first)
    for line in lines:
        message = line.message
        if not room.scan(line):
            break
        if message:
            time = printed.time_at(line.end - 1)
            event = {"timestamp": time, "message": message, "ingestionTime": time}
            if not room.take(message, event):
                break
        at = line.end if forward else line.begin
    if forward:
        return PageOfOne(room.events, start, at)
    return PageOfOne(room.events[::-1], at, start)


#: A position among the events of several streams: time, stream and position, in the order of
#: sorting.
Mark = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class Sought:
    """A filter for the events of several streams.

    Attributes:
        fits: whether a message is wanted.
        start: the first time, in milliseconds since the epoch; None for no limit.
        end: the first time that is not included; None for no limit.
        limit: the largest number of events.
        after: the last event that was scanned before; None to begin with the first.
    """

    fits: Callable[[str], bool]
    start: int | None
    end: int | None
    limit: int
    after: Mark | None


#: Opens the output of a stream's instance, and tells whether the instance prints nothing more.
OpenStream = Callable[[], tuple[Printed | None, bool]]


def page_of_several(
    streams: Iterable[tuple[str, OpenStream]], sought: Sought, check: Callable[[], None]
) -> tuple[list[dict[str, Any]], Mark | None]:
    """Return events of several streams, sorted by time.

    Args:
        streams: the names of the streams, each with the function that opens it.
        check: called repeatedly while lines are read; may raise.

    Returns:
        The events in CloudWatch's form, and the last scanned event if there are more.
    """
    room, mark = _Room(sought.limit), sought.after
    sources = [_of_stream(name, opened, sought, check) for name, opened in streams]
    for place, line in heapq.merge(*sources, key=lambda found: found[0]):
        if not room.scan(line):
            return room.events, mark
        message = line.message
        wanted = message and sought.fits(message)
        if wanted and not room.take(message, _event(place, message)):
            return room.events, mark
        mark = place
    return room.events, None


def _of_stream(
    name: str, opened: OpenStream, sought: Sought, check: Callable[[], None]
) -> Iterator[tuple[Mark, Line]]:
    """Yield the lines of one stream; its files are open only while a block is read.

    All streams read their first block before the first line is used. So a block is small in bytes
    and in lines.
    """
    start, position = sought.start, None
    if sought.after is not None:
        start = max(start or 0, sought.after[0])
        position = sought.after[2] if sought.after[1] == name else None
    while True:
        check()
        printed, over = opened()
        if printed is None:
            return
        with printed:
            first, last = span_of(printed, start, sought.end, over=over)
            begin = first if position is None else max(first, position)
            block: list[tuple[Mark, Line]] = []
            for line in lines_from(printed, begin, min(last, begin + _MOST_OF_BLOCK)):
                if block and (line.end - begin > _BLOCK or len(block) == LOG_LINES_AT_ONCE):
                    break
                check()
                block.append(((printed.time_at(line.end - 1), name, line.begin), line))
        for place, line in block:
            if sought.after is None or place > sought.after:
                yield place, line
        if not block:
            return
        position = block[-1][1].end


def _event(place: Mark, message: str) -> dict[str, Any]:
    time, stream, position = place
    return {
        "logStreamName": stream,
        "timestamp": time,
        "message": message,
        "ingestionTime": time,
        "eventId": f"{time:014d}{zlib.crc32(stream.encode()):010d}{position:032d}",
    }
