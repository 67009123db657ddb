"""Results of checks as text; output of a container is made safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from partway.gateway.plain_text import safe, safe_lines
from partway.gateway.workbench.conformance.evidence import NotedExchange, Step, shown
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.verdict import Severity, Verdict

#: The word for each verdict in a summary.
_COUNTED: Final = (
    (Verdict.FAIL, "failed"),
    (Verdict.NOTE, "noted"),
    (Verdict.BLOCKED, "blocked"),
    (Verdict.SKIP, "skipped"),
)

#: An HTTP head's first line.
_HEAD: Final = re.compile(rb"(HTTP/1\.[01] \d{3}|[A-Z]+ \S+ HTTP/1\.[01]\r\n)")

#: Steps of an exchange that are shown as text: from its beginning, and from its end.
_FIRST, _LAST = 6, 14
_ARROWS: Final = {"sent": "-->", "received": "<--", "meanwhile": " . ", "failed": " ! "}

#: Bytes that are shown of a step, lines of a head, and lines of a container's output.
_BYTES: Final = 32
MAX_HEAD_LINES: Final = 16
_OUTPUT_LINES: Final = 20


def summary(report: Report) -> str:
    """Count the verdicts: ``41 passed, 2 failed, 3 blocked, 1 skipped in 12.3 s``."""
    parts = [f"{report.count(Verdict.PASS)} passed"]
    for verdict, word in _COUNTED:
        if count := report.count(verdict):
            parts.append(f"{count} {word}")
    return f"{', '.join(parts)} in {report.seconds:.1f} s"


def judgement(report: Report) -> str:
    """Say whether the subject is conformant, and whether another check failed."""
    if report.conformant:
        failed = report.count(Verdict.FAIL)
        return "conformant, but some should checks failed" if failed else "conformant"
    if report.count(Verdict.FAIL, Severity.MUST):
        return "not conformant"
    return "not conformant: no must check was tried"


# --- Evidence -------------------------------------------------------------------------------------


def failure(result: Result) -> Iterator[str]:
    """Write fault, remedy and evidence of a result as lines; the first line is the fault."""
    check = result.check
    yield safe(result.said)
    yield ""
    yield safe(f"{check.severity.value}: {check.title} ({' '.join(check.clauses)})")
    yield safe(f"remedy: {result.remedy}")
    if result.output:
        yield from ("", "the container printed:")
        yield from (f"| {line}" for line in safe_lines(result.output, _OUTPUT_LINES))
    exchanges = failing_first(result.exchanges)
    for exchange in exchanges[:1]:
        yield from ("", safe(f"{exchange.title}:"))
        yield from as_text(exchange)
    if len(exchanges) > 1:
        yield f"and {len(exchanges) - 1} more connections"


def failing_first(exchanges: tuple[NotedExchange, ...]) -> list[NotedExchange]:
    """Sort the exchange on which a check failed before the others."""
    return sorted(exchanges, key=lambda each: not each.failed)


def as_text(exchange: NotedExchange) -> Iterator[str]:
    """Write an exchange as lines: a time, an arrow and words for each step, and HTTP's headers."""
    for step in telling(exchange, _FIRST, _LAST):
        if isinstance(step, int):
            yield f"{'':14}... {step} more"
            continue
        label = f"{step.what}  {preview(step, _BYTES)}".rstrip()
        yield f"{step.at * 1000:9.1f} ms  {_ARROWS[step.side]} {safe(label)}"
        yield from (f"{'':18}| {line}" for line in fields_of(step))


def telling(exchange: NotedExchange, first: int, last: int) -> Iterator[Step | int]:
    """Choose an exchange's first and last steps, and the number left out between them.

    The last steps matter most, since the check failed at the end.
    """
    steps = list(exchange.steps)
    failed = [steps.pop()] if exchange.failed else []
    if len(steps) <= first + last:
        yield from steps
    else:
        yield from steps[:first]
        yield len(steps) - first - last
        yield from steps[-last:]
    if exchange.left_out:
        yield exchange.left_out
    yield from failed


def preview(step: Step, most: int) -> str:
    """The first bytes of a step; "" for an HTTP head, whose words show the bytes already."""
    if not step.data or _HEAD.match(step.data):
        return ""
    return shown(step.data[:most]) + ("…" if step.size > most else "")


def fields_of(step: Step) -> list[str]:
    """The header fields of an HTTP head; the last one may be cut."""
    if not _HEAD.match(step.data):
        return []
    head, end, _ = step.data.partition(b"\r\n\r\n")
    _, *fields = head.decode("latin-1").split("\r\n")
    if not end and step.size > len(step.data) and fields:
        fields[-1] += "…"
    if len(fields) > MAX_HEAD_LINES:
        fields[MAX_HEAD_LINES:] = [f"and {len(fields) - MAX_HEAD_LINES} more fields"]
    return [safe(field) for field in fields]
