"""The report on a terminal, and in the log of a CI job."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from partway.gateway.plain_text import cut, safe, safe_lines
from partway.gateway.terminal import print_line
from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.report.text import judgement, summary
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.verdict import Verdict

#: Lines of a container's output that are shown.
_OUTPUT_LINES: Final = 10

#: Columns that titles need to stand beside the other columns; with fewer they stand below.
_TITLE_WIDTH: Final = 40

#: Explanations stand below the column of severities.
_INDENT: Final = " " * 9

_WORDS: Final = {
    Verdict.PASS: ("pass", "green"),
    Verdict.FAIL: ("FAIL", "bold red"),
    Verdict.BLOCKED: ("blocked", "yellow"),
    Verdict.SKIP: ("skip", "dim"),
    Verdict.NOTE: ("note", "cyan"),
}


@contextmanager
def progress(checks: Sequence[Check], console: Console) -> Iterator[Callable[[Result], object]]:
    """Show a bar of the run on a terminal; yield the callback for each finished check."""
    if not console.is_terminal:
        yield id
        return
    with Progress(
        SpinnerColumn(),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task("", total=len(checks))
        yield lambda result: bar.update(task, advance=1, description=result.check.id)


def show(report: Report, console: Console) -> None:
    """Print the report: a row for each check, the remedy below each failure, a summary."""
    probe = f", probe {report.probe}" if report.probe else ""
    print_line(console, Text(cut(safe(f"{report.subject}{probe}"), 500), "bold"))
    print_line(console, Text())
    columns = _Columns([each.check for each in report.results], console.width)
    print_line(console, columns.header())
    output = ""
    blocked: dict[str, list[str]] = {}
    for result in report.results:
        if result.verdict is Verdict.BLOCKED:
            blocked.setdefault(result.said, []).append(result.check.id)
            continue
        for line in columns.row(result):
            print_line(console, line)
        if result.verdict in (Verdict.FAIL, Verdict.NOTE):
            for line in _what_to_do(result, console.width, output):
                print_line(console, line)
        if result.verdict is Verdict.FAIL:
            output = result.output
    for said, ids in blocked.items():
        print_line(console, _blocked(said, ids, console.width))
    print_line(console, Text())
    style = "bold green" if report.conformant else "bold red"
    print_line(console, Text.assemble(f"{summary(report)}: ", (judgement(report), style)))


class _Columns:
    def __init__(self, checks: Sequence[Check], width: int) -> None:
        self._id = max([len(check.id) for check in checks] + [len("check")])
        self._clauses = max([len(_clauses(check)) for check in checks] + [len("clauses")])
        before = len(_INDENT) + 10 + self._id + 2 + self._clauses + 2
        self._beside = width - before >= _TITLE_WIDTH
        self._indent = " " * before if self._beside else _INDENT
        self._room = max(width - len(self._indent), 20)

    def header(self) -> Text:
        head = f"{'verdict':9}{'severity':10}{'check':{self._id}}  {'clauses':{self._clauses}}"
        return Text(f"{head}  requirement" if self._beside else head.rstrip(), "dim")

    def row(self, result: Result) -> Iterator[Text]:
        check = result.check
        word, style = _WORDS[result.verdict]
        why = f" ({result.said})" if result.verdict is Verdict.SKIP else ""
        titles = textwrap.wrap(safe(check.title + why), self._room)
        rest = f"{check.severity.value:10}{check.id:{self._id}}  {_clauses(check):{self._clauses}}"
        first = f"{rest}  {titles.pop(0)}" if self._beside else rest.rstrip()
        yield Text.assemble((f"{word:9}", style), first)
        for title in titles:
            yield Text(self._indent + title)


def _blocked(said: str, ids: Sequence[str], width: int) -> Text:
    """One line for all checks that one failure blocks: dozens, where nothing listens."""
    count = f"{len(ids)} checks" if len(ids) > 1 else "1 check"
    line = cut(safe(f"{count} ({said}): {', '.join(ids)}"), max(width - len(_INDENT), 20))
    word, style = _WORDS[Verdict.BLOCKED]
    return Text.assemble((f"{word:9}", style), line)


def _what_to_do(result: Result, width: int, before: str) -> Iterator[Text]:
    room = max(width - len(_INDENT), 20)
    for line in textwrap.wrap(safe(result.said), room):
        yield Text(_INDENT + line, "red" if result.verdict is Verdict.FAIL else "cyan")
    for line in textwrap.wrap(safe(f"remedy: {result.remedy}"), room):
        yield Text(_INDENT + line)
    # A process's output belongs to all of its checks, so that only the first failure shows it.
    if result.verdict is Verdict.FAIL and result.output not in ("", before):
        yield Text(f"{_INDENT}the container printed:", "dim")
        for line in safe_lines(result.output, _OUTPUT_LINES):
            yield Text(f"{_INDENT}| {cut(line, room - 2)}", "dim")


def _clauses(check: Check) -> str:
    return " ".join(check.clauses)
