"""The output of ``partway transform``: its progress, its failures and its summary."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self, TextIO

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task
from rich.progress_bar import ProgressBar
from rich.text import Text

from partway.gateway.batch.results import FileOutcome, FileState
from partway.gateway.batch.results import Progress as JobProgress
from partway.gateway.fleet.instance import NOT_READY
from partway.gateway.fleet.processes.unexpanded import NOT_EXPANDED
from partway.gateway.plain_text import safe_lines
from partway.gateway.terminal import console_for, print_line
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine
from partway.protocol.limits import MIB

_fleet = logging.getLogger("partway.fleet")

#: Seconds between two lines outside a terminal.
_INTERVAL: Final = 10.0

#: Seconds before the remaining time is estimated.
_TELLING: Final = 2.0

#: Files that the summary names; each has had its line when it failed.
_NAMED: Final = 20


def progress_line(progress: JobProgress, seconds: float) -> str:
    """Write a job's progress as a line.

    Args:
        seconds: since it began to ask.
    """
    over = len(progress.outcomes)
    parts = [
        f"{over} of {_counted(progress.files, 'file')}",
        _counted(progress.records, "record"),
        f"{progress.bytes_done / MIB:,.1f} of {progress.bytes / MIB:,.1f} MB",
    ]
    if seconds > 0 and progress.records:
        parts.append(f"{progress.records / seconds:,.0f} records/s")
    if progress.bytes_done and seconds >= _TELLING:
        left = seconds * (progress.bytes - progress.bytes_done) / progress.bytes_done
        parts.append(f"{_time(left)} left")
    return ", ".join(parts)


def summary(progress: JobProgress, seconds: float) -> str:
    counts = [f"{count} {state}" for state in FileState if (count := progress.count(state))]
    rate = f", {progress.records / seconds:,.0f} records/s" if seconds > 0 else ""
    return (
        f"{_counted(progress.files, 'file')}: {', '.join(counts)}; "
        f"{_counted(progress.records, 'record')} in {_time(seconds)}{rate}"
    )


def failure_lines(outcome: FileOutcome) -> list[str]:
    """Say why a file has no output: its name and the reason, in as many lines as that has."""
    first, *others = safe_lines(outcome.reason) or [""]
    (name,) = safe_lines(outcome.name) or [""]
    return [f"{name}: {first}", *(f"  {line}" for line in others)]


class TransformShown:
    """Shows a job on a terminal, or as lines elsewhere.

    Args:
        file: the output; standard error by default.
    """

    def __init__(self, progress: JobProgress, clock: Clock, file: TextIO | None = None) -> None:
        self._progress = progress
        self._clock = clock
        self._console = console_for(sys.stderr if file is None else file)
        self._began = clock.time()
        self._timer: Timer
        progress.on_outcome = self._told

    @property
    def seconds(self) -> float:
        """Seconds since the job began to ask."""
        return self._clock.time() - self._began

    def say(self, line: str) -> None:
        print_line(self._console, Text(line))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show the job's progress for as long as the block lasts."""
        self._began = self._clock.time()
        if self._console.is_terminal:
            with _Bar(self._console, self):
                yield
            return
        self._timer = self._clock.call_later(_INTERVAL, self._tick)
        try:
            yield
        finally:
            self._timer.cancel()

    def line(self) -> str:
        return progress_line(self._progress, self.seconds)

    @property
    def share(self) -> float:
        """The share of the bytes that is done, from 0 to 1."""
        return self._progress.bytes_done / self._progress.bytes if self._progress.bytes else 1.0

    def end(self) -> None:
        """List the failures again, which may stand far above, and how to repeat them."""
        failures = self._progress.failures
        if failures:
            begun = [each for each in failures if each.state is FileState.FAILED]
            self.say(f"{len(failures)} of {_counted(self._progress.files, 'file')} failed:")
            for each in begun[:_NAMED]:
                for line in failure_lines(each):
                    self.say(f"  {line}")
            if len(begun) > _NAMED:
                self.say(f"  and {len(begun) - _NAMED} more, named above")
            if unbegun := len(failures) - len(begun):
                self.say(f"  {_counted(unbegun, 'file')} not begun")
            self.say("run the same command again for these files")

    def _told(self, outcome: FileOutcome) -> None:
        if outcome.state is FileState.FAILED:
            for line in failure_lines(outcome):
                self.say(line)

    def _tick(self) -> None:
        self.say(self.line())
        self._timer = self._clock.call_later(_INTERVAL, self._tick)


#: The first words of a line about a warning, by the event in the fleet's log.
_WARNINGS: Final = {NOT_READY: "an instance is not ready", NOT_EXPANDED: "--command"}


class FailuresShown(logging.Filter):
    """Shows why instances fail, in the place of the fleet's log.

    Repeated attempts fail for the same reason, which is shown once. The object is a context
    manager, and active inside its block.
    """

    def __init__(self, shown: TransformShown) -> None:
        super().__init__()
        self._shown = shown
        self._said = ""

    def __enter__(self) -> Self:
        _fleet.addFilter(self)
        return self

    def __exit__(self, *_: object) -> None:
        _fleet.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the log keeps a record: not if the record gives the reason of a failure."""
        line = record.msg
        if not isinstance(line, LogLine) or not (reason := line.fields.get("reason")):
            return True
        if reason != self._said:
            self._said = str(reason)
            first, *others = safe_lines(self._said)
            what = _WARNINGS.get(line.event, "an instance has failed")
            for each in (f"{what}: {first}", *(f"  {other}" for other in others)):
                self._shown.say(each)
        return False

    def without_what_is_said(self, why: str) -> str:
        """Remove from the reason of a job's end the part that stands above already."""
        if self._said and why.endswith(f": {self._said}"):
            return f"{why.removesuffix(f': {self._said}')}, for the reason above"
        return why


class _Bar(Progress):
    def __init__(self, console: Console, shown: TransformShown) -> None:
        super().__init__(_Share(shown), _Line(shown), console=console, transient=True)
        self.add_task("", total=1.0)


class _Share(ProgressColumn):
    def __init__(self, shown: TransformShown) -> None:
        super().__init__()
        self._shown = shown

    def render(self, task: Task) -> ProgressBar:
        return ProgressBar(total=1.0, completed=self._shown.share, width=20)


class _Line(ProgressColumn):
    def __init__(self, shown: TransformShown) -> None:
        super().__init__()
        self._shown = shown

    def render(self, task: Task) -> Text:
        return Text(self._shown.line())


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
