"""The output of ``partway invoke``: a model's replies, or a line for each part; and the times."""

from __future__ import annotations

import codecs
import os
import statistics
import time
from collections.abc import Callable
from itertools import groupby
from typing import BinaryIO, Final, TextIO

from partway.gateway.cli.terminal_text import TerminalText
from partway.protocol.parts import CompletionState, DataType, PayloadPart

#: Bytes of a payload that ``--frames`` shows.
_SHOWN_BYTES: Final = 40


class ReplyPrinter:
    """Prints a model's replies, each text message with a line end.

    A file or a pipe gets the bytes as they are. A terminal gets text without terminal controls, and
    the sizes of binary parts.

    Args:
        output: standard output.
    """

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._text = TerminalText() if output.isatty() else None

    def show(self, part: PayloadPart) -> None:
        is_text = part.data_type is DataType.UTF8
        ends = part.completion is CompletionState.COMPLETE
        if self._text is None:
            self._output.write(part.payload)
        elif is_text:
            self._output.write(self._text.shown(part.payload, ends=ends).encode())
        else:
            self._output.write(f"<{len(part.payload)} bytes>\n".encode())
        if is_text and ends:
            self._output.write(b"\n")
        self._output.flush()


class FramePrinter:
    """Prints parts, one line each: time, direction, type, completion, size, beginning."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._coloured = output.isatty() and "NO_COLOR" not in os.environ
        self._started = time.monotonic()

    def show(self, part: PayloadPart, *, sent: bool) -> None:
        line = (
            f"{time.monotonic() - self._started:9.4f} s  {'↑' if sent else '↓'} "
            f"{part.data_type.value:6}  {part.completion.value:8}  "
            f"{len(part.payload):>8} B  {beginning_of(part)}"
        )
        if self._coloured:
            line = f"\x1b[{36 if sent else 32}m{line}\x1b[0m"
        print(line, file=self._output, flush=True)


def beginning_of(part: PayloadPart) -> str:
    """Show the beginning of a part's payload: text in quotes, bytes in hexadecimal.

    In a text part, an incomplete code point stands in angle brackets outside the quotes. A part may
    end in the middle of one (clause 1.2-5).
    """
    beginning = part.payload[:_SHOWN_BYTES]
    more = len(part.payload) > _SHOWN_BYTES
    if part.data_type is DataType.UTF8:
        # A code point that only this line cuts is left out.
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        shown = _in_quotes(decoder.decode(beginning, final=not more))
    else:
        shown = beginning.hex(" ")
    return f"{shown} …" if more else shown


def _in_quotes(text: str) -> str:
    runs = []
    for escaped, characters in groupby(text, lambda char: "\udc80" <= char <= "\udcff"):
        run = "".join(characters)
        if escaped:
            runs.append(f"<{run.encode('utf-8', 'surrogateescape').hex(' ')}>")
        else:
            runs.append(repr(run))
    return " ".join(runs) or "''"


class Timing:
    """The times of parts: the time to the first one, and how evenly the others follow.

    Make the object when the stream is open.

    Args:
        now: gives the time in seconds, from any beginning.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._opened = now()
        self._first_sent: float | None = None
        self._last_sent = self._opened
        self._input_ended = False
        self._received: list[float] = []
        #: Parts that came after the end of input.
        self.late = 0

    def part_sent(self) -> None:
        self._last_sent = self._now()
        if self._first_sent is None:
            self._first_sent = self._last_sent

    def input_ended(self) -> None:
        self._input_ended = True

    def part_received(self) -> None:
        self._received.append(self._now())
        self.late += self._input_ended

    def silent_for(self) -> float:
        """Seconds since the last part was sent or received."""
        return self._now() - max([self._last_sent, *self._received[-1:]])

    def summary(self) -> str:
        """Return one line with the times, in milliseconds."""
        if not self._received:
            return "no part came back"
        count = len(self._received)
        text = f"{count} part{'s' * (count > 1)} back, {self._to_the_first()}"
        gaps = [
            (later - earlier) * 1000
            for earlier, later in zip(self._received, self._received[1:], strict=False)
        ]
        if len(gaps) > 1:
            jitter = statistics.stdev(gaps)
            text += f", between parts {statistics.median(gaps):.1f} ms, jitter {jitter:.1f} ms"
        return text

    def _to_the_first(self) -> str:
        """The time from the last part sent, or from the first one where the model answers early."""
        first = self._received[0]
        if self._first_sent is None or first < self._first_sent:
            waited = (first - self._opened) * 1000
            return f"the first {waited:.1f} ms after the stream opened, before any was sent"
        if first < self._last_sent:
            waited = (first - self._first_sent) * 1000
            return f"the first {waited:.1f} ms after the first one sent, before the last"
        return f"time to first part {(first - self._last_sent) * 1000:.1f} ms"
