"""partway.gateway.cli.invoke_output: parts as they are shown, and the times that are told."""

from __future__ import annotations

import io
import re

import pytest

from partway.gateway.cli.invoke_output import FramePrinter, ReplyPrinter, Timing, beginning_of
from partway.gateway.client import CompletionState, DataType, PayloadPart

UTF8, BINARY = DataType.UTF8, DataType.BINARY
PARTIAL, COMPLETE = CompletionState.PARTIAL, CompletionState.COMPLETE
GLOBE = "🌍".encode()


@pytest.mark.clause("1.2-5")
@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"", "''"),
        ("Grüße".encode(), "'Grüße'"),
        (b'it\'s "so"\n\x1b[2J', "'it\\'s \"so\"\\n\\x1b[2J'"),
        (GLOBE[:2], "<f0 9f>"),
        (GLOBE[2:], "<8c 8d>"),
        (b"a" + GLOBE[:3], "'a' <f0 9f 8c>"),
        (GLOBE[3:] + b"b\xff", "<8d> 'b' <ff>"),
        (b"\\xf0\\x9f", "'\\\\xf0\\\\x9f'"),
        (b"x" * 40, f"'{'x' * 40}'"),
        (b"x" * 41, f"'{'x' * 40}' …"),
        (b"x" * 38 + GLOBE, f"'{'x' * 38}' …"),
        (b"x" * 38 + GLOBE[:2], f"'{'x' * 38}' <f0 9f>"),
    ],
    ids=repr,
)
def test_a_code_point_that_is_cut_shows_its_bytes(payload, shown):
    """What is cut by its sender, and not by the line's width."""
    assert beginning_of(PayloadPart(payload, UTF8)) == shown


def test_bytes_are_shown_as_such():
    assert beginning_of(PayloadPart(GLOBE[:2], BINARY)) == "f0 9f"
    assert beginning_of(PayloadPart(bytes(41), BINARY)) == " ".join(["00"] * 40) + " …"


def test_a_frame_is_a_line():
    output = io.StringIO()
    FramePrinter(output).show(PayloadPart(GLOBE[:2], UTF8, PARTIAL), sent=True)
    assert re.fullmatch(
        r" {3}0\.\d{4} s  ↑ UTF8    PARTIAL          2 B  <f0 9f>\n", output.getvalue()
    )


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


SAID = [
    PayloadPart(b"\x1b[2", UTF8, PARTIAL),
    PayloadPart(b"Jred" + GLOBE[:1], UTF8, PARTIAL),
    PayloadPart(GLOBE[1:], UTF8, COMPLETE),
    PayloadPart(b"\x1b[2J", BINARY, COMPLETE),
    PayloadPart(b"\rnext", UTF8, COMPLETE),
]


def replies(output: io.BytesIO) -> bytes:
    printer = ReplyPrinter(output)
    for part in SAID:
        printer.show(part)
    return output.getvalue()


def test_a_terminal_is_steered_by_no_model():
    assert replies(Terminal()) == "red🌍\n<4 bytes>\nnext\n".encode()


def test_elsewhere_the_bytes_are_those_that_came():
    assert replies(io.BytesIO()) == b"\x1b[2Jred" + GLOBE + b"\n\x1b[2J\rnext\n"


# --- Times ---------------------------------------------------------------------------------------


def summary(*events: tuple[float, str]) -> str:
    """Of a stream that is open at 0."""
    at = 0.0
    timing = Timing(lambda: at)
    for at, event in events:  # noqa: B007 (told by the clock)
        getattr(timing, event)()
    return timing.summary()


SENT, CAME = "part_sent", "part_received"


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], "no part came back"),
        ([(1.0, SENT)], "no part came back"),
        ([(1.0, SENT), (4.0, SENT), (4.5, CAME)], "1 part back, time to first part 500.0 ms"),
        (
            [(1.0, SENT), (4.0, SENT), (4.25, CAME), (5.0, CAME)],
            "2 parts back, time to first part 250.0 ms",
        ),
        (
            [(1.0, SENT), (1.5, CAME), (4.0, SENT), (4.5, CAME)],
            "2 parts back, the first 500.0 ms after the first one sent, before the last",
        ),
        (
            [(0.25, CAME), (1.0, SENT)],
            "1 part back, the first 250.0 ms after the stream opened, before any was sent",
        ),
        (
            [(0.25, CAME)],
            "1 part back, the first 250.0 ms after the stream opened, before any was sent",
        ),
        (
            [(1.0, SENT), (2.0, CAME), (2.5, CAME), (3.0, CAME)],
            "3 parts back, time to first part 1000.0 ms, between parts 500.0 ms, jitter 0.0 ms",
        ),
    ],
)
def test_the_first_part_is_timed_from_the_last_one_sent(events, said):
    assert summary(*events) == said


def test_silence_begins_with_what_went_or_came_last():
    at = 0.0
    timing = Timing(lambda: at)
    at = 2.0
    assert timing.silent_for() == 2.0
    timing.part_sent()
    at = 5.0
    assert timing.silent_for() == 3.0
    timing.part_received()
    at = 6.0
    assert timing.silent_for() == 1.0


def test_parts_after_the_end_of_input_are_counted():
    timing = Timing(lambda: 0.0)
    timing.part_received()
    timing.input_ended()
    assert timing.late == 0
    timing.part_received()
    timing.part_received()
    assert timing.late == 2
