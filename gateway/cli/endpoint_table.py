"""The output of ``partway endpoints``: a table, or a line for each change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from partway.gateway.fleet.states import OVER
from partway.gateway.fleet.status import (
    EndpointState,
    EndpointStatus,
    InstanceHealth,
    InstanceStatus,
    VariantStatus,
)
from partway.gateway.plain_text import safe_lines
from partway.gateway.terminal import console_for
from partway.log_lines import LogLine

#: Lines of one reason that are shown: a sentence, and the last lines that a container has printed.
_REASON_LINES: Final = 25

#: Columns by which a reason's further lines are indented.
_INDENT: Final = 4

#: Columns of a printed line's own indentation that are shown: half of 80 is left for its words.
_DEEPEST: Final = 36

#: Characters of a table's row outside a terminal: the longest names are 63 each.
_PLAIN_ROW: Final = 400

_COLOURS: Final = {
    EndpointState.CREATING: "yellow",
    EndpointState.IN_SERVICE: "green",
    EndpointState.UPDATING: "yellow",
    EndpointState.DELETING: "yellow",
    EndpointState.FAILED: "bold red",
    EndpointState.STOPPING: "yellow",
}

#: Columns that are shown only where an endpoint has several variants, or several containers.
_VARIANT: Final = "variant"
_CONTAINERS: Final = "containers"
#: Columns that fold onto more lines in a narrow terminal. The others keep their width.
_FOLDING: Final = frozenset({"endpoint", _VARIANT, "health", _CONTAINERS})
_NUMBERS: Final = frozenset({"streams", "requests", "restarts", "age"})

#: Units of an age, largest first, in seconds.
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def print_table(file: TextIO, endpoints: Iterable[EndpointStatus], now: float) -> None:
    """Print the table; outside a terminal each row is one line, however long its names are."""
    console_for(file, _PLAIN_ROW).print(table(endpoints, now))


def table(endpoints: Iterable[EndpointStatus], now: float) -> RenderableType:
    """Make a table with a row for each variant, and the reasons of failures below it.

    A terminal of 80 columns shows each state and number whole.

    Args:
        now: the time in epoch seconds, for ages.
    """
    rows = Table(box=None, pad_edge=False, header_style="dim")
    there = tuple(endpoints)
    shown = _columns(there)
    for name in shown:
        folds = name in _FOLDING
        rows.add_column(
            name,
            justify="right" if name in _NUMBERS else "left",
            no_wrap=not folds,
            overflow="fold" if folds else "ellipsis",
        )
    reasons = []
    for endpoint in there:
        for variant in endpoint.variants:
            cells = _cells(endpoint, variant, now)
            rows.add_row(*(cells[name] for name in shown))
        reasons += list(_reasons(endpoint))
    if not rows.row_count:
        return Text("the gateway has no endpoint")
    return Group(rows, *([Text()] if reasons else []), *reasons)


def age(seconds: float) -> str:
    """Write an age in its two largest units, as kubectl: ``45s``, ``3m20s``, ``5h``, ``12d4h``.

    Clocks may have been set back, so an age below 0 is shown as 0.
    """
    rest = max(0, int(seconds))
    parts = []
    for unit, size in _UNITS:
        number, rest = divmod(rest, size)
        parts.append((number, unit))
    first = next((place for place, (number, _) in enumerate(parts) if number), len(parts) - 1)
    two = parts[first : first + 2]
    return "".join(f"{number}{unit}" for number, unit in two if number) or "0s"


class ChangesSeen:
    """Finds the changes since the last call, and writes a line for each changed variant.

    An unchanged reason is not repeated.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], LogLine] = {}

    def lines(self, endpoints: Iterable[EndpointStatus], now: datetime) -> Iterator[str]:
        """Yield a line for each change; the numbers of open streams and requests are left out.

        Args:
            now: the time, in UTC.
        """
        after = {
            (endpoint.name, variant.name): _line(endpoint, variant, now)
            for endpoint in endpoints
            for variant in endpoint.variants
        }
        for key, line in after.items():
            before = self._before.get(key)
            if before is None or before.fields != line.fields or before.event != line.event:
                yield f"{_time(now)} {_news(line, before)}"
        for name, variant in self._before.keys() - after.keys():
            yield f"{_time(now)} {LogLine('gone', endpoint=name, variant=variant)}"
        self._before = after


class _Wrapped:
    """A line that keeps its indentation on each row of a narrow terminal.

    Args:
        first: columns before its first row.
        then: columns before the rows that follow.
    """

    def __init__(self, line: Text, first: int, then: int) -> None:
        self._line = line
        self._first = first
        self._then = then

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = max(options.max_width - max(self._first, self._then), 1)
        for number, row in enumerate(self._line.wrap(console, width)):
            yield Text(" " * (self._then if number else self._first)) + row


class _Row:
    """The counted cells of a variant's row."""

    def __init__(self, variant: VariantStatus) -> None:
        alive = [each for each in variant.instances if each.state not in OVER]
        self.instances = f"{variant.serving}/{variant.desired}"
        self.health = _health(alive)
        self.streams = sum(each.streams for each in alive)
        self.requests = sum(each.requests for each in alive)


def _columns(endpoints: Iterable[EndpointStatus]) -> list[str]:
    variants = [endpoint.variants for endpoint in endpoints]
    several_variants = any(len(each) > 1 for each in variants)
    several_containers = any(_containers(variant) for each in variants for variant in each)
    return [
        "endpoint",
        *([_VARIANT] if several_variants else []),
        *("instances", "state", "health"),
        *([_CONTAINERS] if several_containers else []),
        *("streams", "requests", "restarts", "age"),
    ]


def _cells(endpoint: EndpointStatus, variant: VariantStatus, now: float) -> dict[str, str | Text]:
    row = _Row(variant)
    return {
        "endpoint": endpoint.name,
        _VARIANT: variant.name,
        "instances": row.instances,
        "state": Text(endpoint.state.value, _COLOURS[endpoint.state]),
        "health": row.health,
        _CONTAINERS: _containers(variant) or "-",
        "streams": str(row.streams),
        "requests": str(row.requests),
        "restarts": str(variant.restarts),
        "age": age(now - endpoint.since),
    }


def _containers(variant: VariantStatus) -> str:
    """The host names of the containers in each instance; empty where an instance has one."""
    return next((", ".join(each.containers) for each in variant.instances if each.containers), "")


def _health(instances: Iterable[InstanceStatus]) -> str:
    """``healthy`` where all are, else a count for each health; a dash without instances."""
    counts = Counter(each.health for each in instances)
    if len(counts) == 1:
        return next(iter(counts)).value
    said = (f"{counts[health]} {health.value}" for health in InstanceHealth if counts[health])
    return ", ".join(said) or "-"


def _line(endpoint: EndpointStatus, variant: VariantStatus, now: datetime) -> LogLine:
    row = _Row(variant)
    reason = _in_one_line(
        endpoint.reason or variant.trouble or variant.slow_start_reason(now.timestamp())
    )
    said = {"note": endpoint.note, "reason": reason}
    return LogLine(
        endpoint.state.value,
        endpoint=endpoint.name,
        variant=variant.name,
        instances=row.instances,
        health=row.health,
        restarts=variant.restarts,
        **{name: text for name, text in said.items() if text},
    )


def _in_one_line(reason: str) -> str:
    """A reason with the last of a container's printed lines; a table has all of them."""
    first, *printed = reason.splitlines() or [""]
    if len(printed) < 2:
        return first
    return f"{first}; {printed[0]} {printed[-1]}"


def _news(line: LogLine, before: LogLine | None) -> LogLine:
    """Remove the reason from a line if it is the same as before."""
    if before is None or before.fields.get("reason") != line.fields.get("reason"):
        return line
    fields = {name: value for name, value in line.fields.items() if name != "reason"}
    return LogLine(line.event, **fields)


def _reasons(endpoint: EndpointStatus) -> Iterator[RenderableType]:
    """Yield the reasons of an endpoint's failures, each once."""
    said = set()
    note = f": {endpoint.note}" if endpoint.note else ""
    whose = [(f"{endpoint.name}{note}", endpoint.reason)]
    for variant in endpoint.variants:
        whose.append((f"{endpoint.name}, variant {variant.name}", variant.trouble))
        whose += [(f"{each.id} ({each.state.value})", each.reason) for each in variant.instances]
    for who, reason in whose:
        if not reason or reason in said:
            continue
        said.add(reason)
        first, *rest = safe_lines(reason, _REASON_LINES) or [""]
        yield _Wrapped(Text.assemble((f"{who}: ", "bold"), first), 0, _INDENT)
        for line in rest:
            text = line.lstrip()
            indent = _INDENT + min(len(line) - len(text), _DEEPEST)
            yield _Wrapped(Text(text, "dim"), indent, indent)


def _time(when: datetime) -> str:
    """Write a time by ISO 8601 and in UTC, as the log has it."""
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")
