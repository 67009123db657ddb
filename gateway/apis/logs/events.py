"""Lines that instances have printed, as events of a log stream: a page of one, or of several."""

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

#: Read at once.
_BLOCK: Final = 64 * KIB

#: A block, the last line that begins in it, and that one's end.
_MOST_OF_BLOCK: Final = _BLOCK + MAX_LOG_LINE + 1

#: What CloudWatch counts for an event besides its message.
_EVENT_BYTES: Final = 26


class Line(NamedTuple):
    """One line, or a piece of one that has more than MAX_LOG_LINE bytes.

    Attributes:
        begin: its position in all that its instance has printed.
        end: the position behind it, and behind its line end.
        data: without its line end.
    """

    begin: int
    end: int
    data: bytes

    @property
    def message(self) -> str:
        """Its text; empty for an empty line, which is no event."""
        return self.data.removesuffix(b"\r").decode(errors="replace")


def lines_from(printed: Printed, position: int, until: int) -> Iterator[Line]:
    """The lines that begin at a position and behind it, and end at another at the latest."""
    begin, held = max(position, printed.begin), b""
    while (at := begin + len(held)) < until:
        block = printed.read(at, min(_BLOCK, until - at))
        if not block:
            break
        held, done = held + block, 0
        # One by one: a block may have as many lines as bytes, and few of them be wanted.
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
    """A line, in pieces if it is longer than one may be."""
    while len(data) > MAX_LOG_LINE:
        yield Line(begin, begin + MAX_LOG_LINE, data[:MAX_LOG_LINE])
        begin, data = begin + MAX_LOG_LINE, data[MAX_LOG_LINE:]
    yield Line(begin, end, data)


def lines_before(printed: Printed, position: int, down_to: int) -> Iterator[Line]:
    """The lines that end at a position and before it, the last one first."""
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
    """Where the line begins that has the byte at a position."""
    if not printed.begin < position < printed.end:
        return min(max(position, printed.begin), printed.end)
    before = printed.before(position, MAX_LOG_LINE)
    cut = before.rfind(b"\n")
    return position - (len(before) - cut - 1)


def span_of(printed: Printed, start: int | None, end: int | None, *, over: bool) -> tuple[int, int]:
    """Where the lines of a time begin, and where they end.

    The time of a line is that of its end: so what comes later has no earlier time.

    Args:
        printed: by the instance.
        start: the first time that is meant, in milliseconds since the epoch; None for any.
        end: the first time that is not meant any more; None for any.
        over: whether the instance prints no more: else a line that has no end yet is not there.
    """
    first = printed.begin if start is None else line_at(printed, printed.position_at(start))
    last = printed.end if end is None else line_at(printed, printed.position_at(end))
    if last == printed.end and not over:
        last = _ended(printed)
    return first, max(first, last)


def _ended(printed: Printed) -> int:
    """The position behind the last line that has an end; one that is too long has it anywhere."""
    before = printed.before(printed.end, MAX_LOG_LINE + 1)
    begun = len(before) - before.rfind(b"\n") - 1
    return printed.end - begun if begun <= MAX_LOG_LINE else printed.end


class _Room:
    """What one answer may still have, and what may still be looked at for it."""

    def __init__(self, limit: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._limit = limit
        self._bytes = LOG_PAGE_BYTES
        self._lines = LOG_SCANNED_LINES
        self._scanned = LOG_SCANNED_BYTES

    def scan(self, line: Line) -> bool:
        """Whether a line may be looked at; then it counts."""
        self._lines -= 1
        self._scanned -= len(line.data)
        return self._lines >= 0 and self._scanned >= 0

    def take(self, message: str, event: dict[str, Any]) -> bool:
        """Whether there is room for an event; then it is in the answer."""
        size = len(message.encode()) + _EVENT_BYTES
        if len(self.events) == self._limit or (self.events and size > self._bytes):
            return False
        self._bytes -= size
        self.events.append(event)
        return True


class PageOfOne(NamedTuple):
    """Some events of one stream, in their order.

    Attributes:
        events: as CloudWatch has them.
        begin: the position where the first begins.
        end: the position behind the last one.
    """

    events: list[dict[str, Any]]
    begin: int
    end: int


def page_of_one(
    printed: Printed, span: tuple[int, int], position: int | None, limit: int, *, forward: bool
) -> PageOfOne:
    """Some events of a stream, from a position on, or up to it.

    Args:
        printed: by the instance.
        span: where the first line begins that is meant, and where the last one ends.
        position: where to begin; None for the first of these, or the last.
        limit: how many, at most.
        forward: whether what comes behind the position is meant, or what comes before it.
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


#: A place among the events of several streams: time, stream and position, by which they have their
#: order.
Mark = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class Sought:
    """Which events of several streams are meant.

    Attributes:
        fits: whether a message is one of them.
        start: the first time that is meant, in milliseconds since the epoch; None for any.
        end: the first time that is not meant any more; None for any.
        limit: how many, at most.
        after: the last one that has been looked at; None to begin with the first.
    """

    fits: Callable[[str], bool]
    start: int | None
    end: int | None
    limit: int
    after: Mark | None


#: Opens what the instance of a stream has printed, and says whether that prints no more.
OpenStream = Callable[[], tuple[Printed | None, bool]]


def page_of_several(
    streams: Iterable[tuple[str, OpenStream]], sought: Sought, check: Callable[[], None]
) -> tuple[list[dict[str, Any]], Mark | None]:
    """Some events of several streams, in the order of their times.

    Args:
        streams: by their names, and how each is opened.
        sought: which events are meant.
        check: called again and again while lines are read; may raise.

    Returns:
        The events, as CloudWatch has them; and the last that was looked at, if there are more.
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
    """The lines of one stream; its files are open only while a block of them is read.

    Each stream has its first block before the first line of any is looked at: so a block is small
    in bytes and in lines.
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
