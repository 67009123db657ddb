"""Reports of a comparison: on a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from partway.gateway.plain_text import cut, safe
from partway.gateway.terminal import print_line
from partway.gateway.workbench.recording.comparison import (
    By,
    ComparedReply,
    Comparison,
    ReplyVerdict,
    TimedReply,
    in_words,
)
from partway.gateway.workbench.recording.lines import NAMES
from partway.gateway.workbench.recording.recording import Recording
from partway.protocol.websocket.frames import Opcode

#: Most rows of a table; of more replies only those that differ are shown.
MAX_ROWS: Final = 100

#: Bytes of a reply that are shown.
_SHOWN: Final = 48

_INDENT: Final = " " * 9
_WORDS: Final = {
    ReplyVerdict.SAME: ("same", "green"),
    ReplyVerdict.DIFFERS: ("DIFFERS", "bold red"),
    ReplyVerdict.MISSING: ("MISSING", "bold red"),
    ReplyVerdict.EXTRA: ("EXTRA", "bold red"),
}
_HEAD: Final = f"{'verdict':9}{'reply':>6}  {'kind':6}  {'bytes':>9}  {'then':>9}  {'now':>9}  said"


def show(recording: Recording, where: str, found: Comparison, console: Console) -> None:
    """Print a comparison: a row for each reply, differences below it, the stream's end."""
    started = recording.head.started.strftime("%Y-%m-%d %H:%M:%S %Z")
    title = f"{recording.path}, {recording.head.endpoint}, {started}; now {where}"
    print_line(console, Text(cut(safe(title), 500), "bold"))
    if not recording.complete:
        why = recording.over.why if recording.over is not None else "its recorder did not finish it"
        print_line(console, Text(safe(f"the recording ends before its stream: {why}"), "yellow"))
    print_line(console, Text())
    if not any(row.now for row in found.rows):
        _show_notes(found, console)  # the notes explain why there is no reply
    chosen, left_out = _chosen(found)
    if chosen:
        print_line(console, Text(_HEAD, "dim"))
    for number, row in chosen:
        for line in _row(number, row):
            print_line(console, line)
    if left_out:
        print_line(console, Text(f"{_INDENT}and {left_out} more replies", "dim"))
    if any(row.now for row in found.rows):
        _show_notes(found, console)
    if not found.rows:
        print_line(console, Text("there was no reply, so there was nothing to compare", "yellow"))
    if (end := _same_end(found)) is not None:
        print_line(console, Text.assemble((f"{'same':9}", "green"), safe(end)))
    print_line(console, Text())
    judgement = ("the same", "bold green") if found.same else ("different", "bold red")
    print_line(console, Text.assemble(f"{_summary(found)}: ", judgement))


def _show_notes(found: Comparison, console: Console) -> None:
    for note in found.notes:
        print_line(console, Text.assemble((f"{'DIFFERS':9}", "bold red"), safe(note)))


def to_json(recording: Recording, where: str, found: Comparison) -> str:
    """Write a comparison as JSON; times are seconds, payloads begin with their bytes in hex."""
    whole = {
        "recording": str(recording.path),
        "complete": recording.complete,
        "container": where,
        "by": found.by.value,
        "same": found.same,
        "notes": list(found.notes),
        "close": {
            "then": {"code": found.recorded.code, "reason": found.recorded.reason},
            "now": {"code": found.now.code, "reason": found.now.reason},
        },
        "counts": {verdict.value: found.count(verdict) for verdict in ReplyVerdict},
        "replies": [
            {
                "verdict": row.verdict.value,
                "at": row.at,
                "then": _reply(row.recorded),
                "now": _reply(row.now),
            }
            for row in found.rows
        ],
    }
    return json.dumps(whole, indent=2) + "\n"


def _reply(reply: TimedReply | None) -> dict[str, Any] | None:
    if reply is None:
        return None
    message = reply.message
    return {
        "kind": NAMES[message.kind],
        "size": len(message.payload),
        "whole": message.whole,
        "after": round(reply.after, 6),
        "hex": message.payload[:_SHOWN].hex(),
    }


def _chosen(found: Comparison) -> tuple[list[tuple[int, ComparedReply]], int]:
    """Choose the rows to show, numbered from one, and count the rows that are left out."""
    rows = list(enumerate(found.rows, 1))
    if len(rows) > MAX_ROWS:
        rows = [(number, row) for number, row in rows if row.verdict is not ReplyVerdict.SAME]
    chosen = rows[:MAX_ROWS]
    return chosen, len(found.rows) - len(chosen)


def _row(number: int, row: ComparedReply) -> Iterator[Text]:
    word, style = _WORDS[row.verdict]
    shown = row.now or row.recorded
    assert shown is not None, "a row is of a reply"
    message = shown.message
    rest = (
        f"{number:>6}  {NAMES[message.kind]:6}  {len(message.payload):>9}  "
        f"{_time(row.recorded):>9}  {_time(row.now):>9}  {_said(shown)}"
    )
    yield Text.assemble((f"{word:9}", style), rest)
    if row.verdict is not ReplyVerdict.DIFFERS or row.recorded is None or row.now is None:
        return
    then = row.recorded.message
    if row.at is None:
        kind = f"{NAMES[then.kind]}{'' if then.whole else ', incomplete'}"
        now = f"{NAMES[message.kind]}{'' if message.whole else ', incomplete'}"
        yield Text(f"{_INDENT}then {kind}, now {now}", "red")
        return
    start = max(0, row.at - _SHOWN // 4)
    yield Text(f"{_INDENT}from byte {row.at} on", "red")
    yield Text(f"{_INDENT}then: {_part(then.payload, start, then.kind)}", "red")
    yield Text(f"{_INDENT}now:  {_part(message.payload, start, message.kind)}", "red")


def _time(reply: TimedReply | None) -> str:
    return "" if reply is None else f"{reply.after:.3f} s"


def _said(reply: TimedReply) -> str:
    return _part(reply.message.payload, 0, reply.message.kind)


def _part(payload: bytes, start: int, kind: Opcode) -> str:
    """Show a piece of a payload in one line: text as text, anything else in hexadecimal."""
    piece = payload[start : start + _SHOWN]
    before, behind = "…" if start else "", "…" if start + _SHOWN < len(payload) else ""
    if kind is Opcode.TEXT:
        # A code point that the cut splits is dropped at either end. repr() escapes terminal
        # controls.
        text = piece.decode("utf-8", "ignore" if before or behind else "replace")
        return f"{before}{text!r}{behind}"
    return f"{before}{piece[: _SHOWN // 2].hex(' ')}{behind or '…' * (len(piece) > _SHOWN // 2)}"


def _same_end(found: Comparison) -> str | None:
    """The same end or refusal of the stream, then and now, in words; None if they differ."""
    now, recorded = found.now, found.recorded
    if now.status == recorded.status != HTTPStatus.SWITCHING_PROTOCOLS:
        return f"the container answers the upgrade with {now.status}"
    if now.code is None or now.code != recorded.code:
        return None
    return f"{in_words(now.code)} {now.reason!r}" if now.reason else in_words(now.code)


def _summary(found: Comparison) -> str:
    parts = [f"{len(found.rows)} {'reply' if len(found.rows) == 1 else 'replies'}"]
    counts = [(found.count(verdict), verdict.value) for verdict in ReplyVerdict]
    parts += [f"{count} {word}" for count, word in counts if count]
    by = {By.EXACT: "", By.SHAPE: ", by shape", By.END: ", by the end"}[found.by]
    return ", ".join(parts) + by
