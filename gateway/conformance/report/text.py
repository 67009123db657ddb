"""What others said, made safe to show: a container's words and bytes are not ours."""

from __future__ import annotations

from typing import Final

from gateway.conformance.check import Severity, Verdict
from gateway.conformance.run import Report

#: In the place of what would steer a terminal, or is no character of XML.
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

#: What a verdict is called in a summary.
_COUNTED: Final = (
    (Verdict.FAIL, "failed"),
    (Verdict.NOTE, "noted"),
    (Verdict.BLOCKED, "blocked"),
    (Verdict.SKIP, "skipped"),
)


def safe(text: str) -> str:
    """One line of printable characters: no control, no change of direction, no half of a pair."""
    return "".join(char if char.isprintable() else _REPLACEMENT for char in text)


def safe_lines(text: str, most: int | None = None) -> list[str]:
    """Its lines, safe; the last ones if there are more than ``most``."""
    lines = [safe(line) for line in text.expandtabs(4).rstrip().splitlines()]
    return lines if most is None else lines[-most:]


def cut(text: str, most: int) -> str:
    """The beginning of it, with an ellipsis where it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def summary(report: Report) -> str:
    """``41 passed, 2 failed, 3 blocked, 1 skipped in 12.3 s``."""
    parts = [f"{report.count(Verdict.PASS)} passed"]
    for verdict, word in _COUNTED:
        if count := report.count(verdict):
            parts.append(f"{count} {word}")
    return f"{', '.join(parts)} in {report.seconds:.1f} s"


def judgement(report: Report) -> str:
    """``conformant`` or not, and what has to be said to it."""
    if report.conformant:
        failed = report.count(Verdict.FAIL)
        return "conformant, and could be better" if failed else "conformant"
    if report.count(Verdict.FAIL, Severity.MUST):
        return "not conformant"
    return "not conformant: nothing that must be so was tried"
