"""Log lines of gateway and container: an event and its fields, as text or as JSON.

Both log through Python's ``logging``. They pass a :class:`LogLine` instead of a text::

    log.info(LogLine("stream ended", endpoint="echo", parts_in=40))

``start_logging`` chooses the form of the lines::

    2026-11-22T16:31:15.123Z INFO partway.stream stream ended endpoint=echo parts_in=40

    {"time": "2026-11-22T16:31:15.123Z", "level": "INFO", "logger": "partway.stream",
    "event": "stream ended", "endpoint": "echo", "parts_in": 40}        (in one line)

The text of a record from other code, such as a model or aiohttp, is the event; it has no fields.

structlog needs its own loggers at every caller, and python-json-logger writes only JSON. Neither
makes text safe for an operator's terminal.
"""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Literal

LogFormat = Literal["text", "json"]

LOG_FORMATS: Final[tuple[LogFormat, ...]] = ("text", "json")

#: The value of a field. None stands for a missing one: ``-`` in text, null in JSON.
Value = str | int | float | None

#: The members of every line in JSON.
_OWN: Final = frozenset({"time", "level", "logger", "process", "event", "exception"})

#: Begins each further line of one record, so that foreign text cannot pass for a record.
_CONTINUED: Final = "\n    "

_log = logging.getLogger("partway")


class TextLines(str):
    """A field's value of several lines, such as the last lines that a container has printed.

    In text the first line is part of the record's line, and the others are indented below it. In
    JSON it is an ordinary string.
    """

    __slots__ = ()


class LogLine:
    """One line of the log: an event, and its fields.

    Args:
        event: fixed words, the same for each event of a kind.
        fields: the particular values, by name; they may contain any characters.
    """

    __slots__ = ("event", "fields")

    def __init__(self, event: str, /, **fields: Value) -> None:
        if taken := _OWN & fields.keys():
            raise ValueError(
                f"every line has a member {min(taken)}; a field must have another name"
            )
        self.event = event
        self.fields = fields

    def __str__(self) -> str:
        """The line as text: the event, then ``name=value`` for each field."""
        return self._with(self.fields)

    def head(self) -> str:
        """The line as text, with only the first line of a field that is :class:`TextLines`."""
        return self._with({name: _first_line(value) for name, value in self.fields.items()})

    def below(self) -> list[str]:
        """The other lines of fields that are :class:`TextLines`."""
        several = (value for value in self.fields.values() if isinstance(value, TextLines))
        return [line for value in several for line in value.split("\n")[1:]]

    def _with(self, fields: Mapping[str, Value]) -> str:
        return " ".join((self.event, *(f"{n}={_text(v)}" for n, v in fields.items())))


class _Formatter(logging.Formatter):
    """The common part of both forms.

    Args:
        process: whether lines have the process's number, where several share a log.
    """

    def __init__(self, *, process: bool = False) -> None:
        super().__init__()
        self._process = process


class TextFormatter(_Formatter):
    """Lines for people: time, level, logger, event, fields. A traceback is indented below its line.

    So are the further lines of a field that is :class:`TextLines`.
    """

    def format(self, record: logging.LogRecord) -> str:
        process = f" [{record.process}]" if self._process else ""
        line = record.msg if isinstance(record.msg, LogLine) else None
        said = record.getMessage() if line is None else line.head()
        head = f"{_time(record)} {record.levelname} {record.name}{process} {said}"
        below = [] if line is None else line.below()
        trace = _traceback(self, record)
        lines = "\n".join((head, *below, *([] if trace is None else [trace]))).splitlines()
        return _CONTINUED.join(map(_printable, lines))


class JsonFormatter(_Formatter):
    """Lines for programs: each is one JSON object in ASCII, a traceback its ``exception``."""

    def format(self, record: logging.LogRecord) -> str:
        line = record.msg if isinstance(record.msg, LogLine) else LogLine(record.getMessage())
        said: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
        }
        if self._process:
            said["process"] = record.process
        said |= {"event": line.event, **{n: _in_json(v) for n, v in line.fields.items()}}
        trace = _traceback(self, record)
        if trace is not None:
            said["exception"] = trace
        return json.dumps(said, allow_nan=False)


def start_logging_as_asked(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Log in JSON from here on if the command line or the environment asks for it.

    A command calls this before it parses its words, so that an error in them is JSON too. A later
    :func:`start_logging` replaces this call.

    Args:
        words: the command line, without the program's name.
        environment: usually ``os.environ``.
    """
    if (_format_flag(words) or environment.get("PARTWAY_LOG_FORMAT")) == "json":
        start_logging("info", "json")


def _format_flag(words: Sequence[str]) -> str | None:
    """Return the last value of ``--log-format``; None if the flag is not there."""
    value = None
    for word, following in zip(words, (*words[1:], None), strict=True):
        name, equals, text = word.partition("=")
        if name == "--log-format":
            value = text if equals else following
    return value


def start_logging(level: str | int, kind: LogFormat, *, process: bool = False) -> None:
    """Log to standard error from here on, unless the process has another handler already.

    With ``json``, Python's own output there becomes lines too: warnings, and exceptions that end
    the process or a thread.

    Args:
        level: the least to log: a name such as ``info``, or its number.
        kind: the form of the lines.
        process: whether lines have the process's number, where several share a log.
    """
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonFormatter if kind == "json" else TextFormatter
    handler.setFormatter(formatter(process=process))
    level = level.upper() if isinstance(level, str) else level
    root = logging.getLogger()
    for before in root.handlers[:]:
        if isinstance(before.formatter, _Formatter):
            root.removeHandler(before)
    logging.basicConfig(level=level, handlers=[handler])
    if kind == "json":
        logging.captureWarnings(capture=True)
        sys.excepthook = _uncaught
        threading.excepthook = _uncaught_in_thread


def format_of_log() -> LogFormat:
    """Return the form of this process's lines."""
    handlers = logging.getLogger().handlers
    return "json" if any(isinstance(each.formatter, JsonFormatter) for each in handlers) else "text"


def say_failure(command: str, what: str) -> None:
    """Report on standard error, in the form of the log, why a command failed."""
    if format_of_log() == "json":
        _log.critical(LogLine("the command failed", command=command, reason=what))
        return
    for line in what.splitlines():
        sys.stderr.write(f"{command}: {_printable(line)}\n")


def say_listening(url: str, authority: str = "") -> None:
    """Report on standard output, in the form of the log, that the process serves.

    ``authority`` is the path of the local CA's certificate; it is empty without one.
    """
    if format_of_log() == "json":
        line = LogLine("listening", url=url, **({"ca": authority} if authority else {}))
        record = _log.makeRecord(_log.name, logging.INFO, "", 0, line, (), None)
        text = JsonFormatter().format(record)
    else:
        text = f"listening on {url}" + (f" (CA: {authority})" if authority else "")
    # One write: a reader that waits for the line never sees half of it.
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _time(record: logging.LogRecord) -> str:
    """The record's time by ISO 8601 and in UTC, so that logs of several machines fit together."""
    when = datetime.fromtimestamp(record.created, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts) or None


def _in_json(value: Value) -> Value:
    """A field's value, or null for a number that JSON does not have: infinity, or not a number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _first_line(value: Value) -> Value:
    return value.partition("\n")[0] if isinstance(value, TextLines) else value


def _text(value: Value) -> str:
    """Return a field's value, in quotes if a reader could not see its end."""
    if value is None:
        return "-"
    text = str(value)
    if isinstance(value, str) and (not text or not text.isprintable() or set(text) & set(' "=')):
        return json.dumps(text, ensure_ascii=not text.isprintable())
    return text


def _printable(line: str) -> str:
    """A line without terminal controls and changes of the writing direction."""
    if line.isprintable():
        return line
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode()
        for each in line
    )


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _log.critical(LogLine("uncaught exception"), exc_info=(kind, error, trace))


def _uncaught_in_thread(failed: threading.ExceptHookArgs) -> None:
    name = None if failed.thread is None else failed.thread.name
    error = failed.exc_value
    if error is not None and not isinstance(error, SystemExit):
        _log.error(LogLine("uncaught exception", thread=name), exc_info=error)
