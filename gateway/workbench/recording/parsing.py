"""A strict parser for the lines of a recording, since a file may come from anywhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NoReturn, TypeVar

from partway.gateway.workbench.intermediary.observer import Sender
from partway.gateway.workbench.recording.lines import (
    MAX_TEXT,
    NAMES,
    VERSION,
    Ended,
    Head,
    Line,
    Over,
    Passed,
    UpgradeAnswered,
)
from partway.protocol.limits import MAX_CONTROL_BYTES
from partway.protocol.websocket.close_codes import Close, encode_close
from partway.protocol.websocket.frames import Opcode

_Kind = TypeVar("_Kind")

_SENDERS: Final = {sender.value: sender for sender in Sender}
_OPCODES: Final = {name: opcode for opcode, name in NAMES.items()}

_KINDS: Final[Mapping[type[object], str]] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}

#: Most bytes of a line whose payload is text: six characters for each byte, and the rest.
_MAX_TEXT_LINE: Final = 6 * MAX_TEXT + (64 << 10)
#: Most commas and brackets of a longer line, whose base64 payload has none.
_MAX_MARKS: Final = 1000

#: Most seconds of a stream; no stream lives as long.
_MOST_SECONDS: Final = 1e7


class LineError(ValueError):
    """A line is not of a recording's format; the message says why."""


def from_json(data: bytes) -> Line:
    """Read one line of a recording.

    Raises:
        LineError: the line is not of the format.
    """
    # The parser has no limits of its own, and 20 MiB of "[]," would be half a gigabyte.
    if len(data) > _MAX_TEXT_LINE and sum(map(data.count, (b",", b"[", b"{"))) > _MAX_MARKS:
        raise LineError("the line has more members than any line of a recording")
    try:
        found = json.loads(data, parse_constant=_no_number)
    except RecursionError:
        raise LineError("the line is nested deeper than any line of a recording") from None
    except ValueError as error:
        raise LineError(f"the line is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise LineError(f"the line is {_kind(type(found))}; it must be an object")
    for mark, read in _READERS.items():
        if mark in found:
            line = read(_Members(found))
            if found:
                raise LineError(f"{min(found)!r} does not belong in a line with {mark!r}")
            return line
    raise LineError(f"the line must have one of the members {', '.join(_READERS)}")


def _kind(kind: type[object]) -> str:
    """The JSON name of a Python type."""
    return _KINDS.get(kind, "null")


class _Members:
    """The members of a line's JSON object. Each is taken once; members that are left are wrong."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def take(self, name: str, kind: type[_Kind]) -> _Kind:
        """Take the member of this name, which must be of this kind.

        Raises:
            LineError: the member is missing, or of another kind.
        """
        if name not in self._found:
            raise LineError(f"{name!r} is missing")
        value = self._found.pop(name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise LineError(f"{name!r} is {_kind(type(value))}; it must be {_kind(kind)}")
        return value

    def at(self) -> float:
        """Take the member ``at``: seconds since the start."""
        value = self.take("at", object)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise LineError(f"'at' is {_kind(type(value))}; it must be a number")
        if not 0 <= value <= _MOST_SECONDS:
            raise LineError(f"'at' is {value}; it must be 0 to {_MOST_SECONDS:g} seconds")
        return float(value)

    def count(self, name: str, most: int) -> int:
        """Take a member that is a whole number from 0 to ``most``."""
        value = self.take(name, int)
        if not 0 <= value <= most:
            raise LineError(f"{name!r} is {value}; it must be from 0 to {most}")
        return value

    def one_of(self, name: str, choices: Mapping[str, _Kind]) -> _Kind:
        """Take a member that is one of several words; return the word's value."""
        value = self.take(name, str)
        if value not in choices:
            raise LineError(f"{name!r} is {value!r}; it must be one of {', '.join(choices)}")
        return choices[value]

    def texts(self, name: str) -> dict[str, str]:
        """Take a member that is an object whose own members are text."""
        found = self.take(name, dict)
        for member, value in found.items():
            if not isinstance(value, str):
                raise LineError(
                    f"{name!r}: {member!r} is {_kind(type(value))}; it must be a string"
                )
        return found

    def payload(self) -> bytes:
        """Take the payload's bytes, which are written as text or in base64."""
        name = "text" if "text" in self else "base64"
        value = self.take(name, str)
        try:
            return value.encode() if name == "text" else base64.b64decode(value, validate=True)
        except ValueError as error:
            raise LineError(f"{name!r}: {error}") from None


def _no_number(text: str) -> NoReturn:
    raise LineError(f"{text} is not a number that JSON has")


# --- The kinds of lines ---------------------------------------------------------------------------


def _head(members: _Members) -> Head:
    version = members.take("recording", int)
    if version != VERSION:
        raise LineError(f"'recording' is {version}; the format must be {VERSION}")
    target = members.take("target", str)
    if not target.startswith("/") or not all("!" <= char <= "~" for char in target):
        raise LineError(f"'target' is {target!r}; it must be a path, optionally with a query")
    try:
        started = datetime.fromisoformat(members.take("started", str))
    except ValueError as error:
        raise LineError(f"'started': {error}") from None
    if started.tzinfo is None:
        raise LineError(f"'started' is {started.isoformat()!r}; it must have a time zone")
    endpoint, payloads = members.take("endpoint", str), members.take("payloads", bool)
    return Head(endpoint, target, started, payloads, members.texts("headers"))


def _answered(members: _Members) -> UpgradeAnswered:
    at, status = members.at(), members.count("answer", 999)
    body = members.payload() if "text" in members or "base64" in members else b""
    return UpgradeAnswered(at, status, members.texts("headers"), body)


def _passed(members: _Members) -> Passed:
    at, sender = members.at(), members.one_of("from", _SENDERS)
    opcode, fin = members.one_of("frame", _OPCODES), members.take("fin", bool)
    code = _code(members) if opcode is Opcode.CLOSE and "code" in members else None
    payload: bytes | None = None
    if "size" in members:
        size, digest = members.count("size", 1 << 40), members.take("hash", str)
        return Passed(at, sender, opcode, fin, None, size, digest, code)
    if "reason" in members:
        try:
            payload = encode_close(Close(code, members.take("reason", str)))
        except ValueError as error:
            raise LineError(f"'code': {error}") from None
    else:
        payload = members.payload()
    if opcode >= Opcode.CLOSE and (not fin or len(payload) > MAX_CONTROL_BYTES):
        raise LineError(
            f"a {NAMES[opcode]} must be one frame, of {MAX_CONTROL_BYTES} bytes at most"
        )
    return Passed(at, sender, opcode, fin, payload, len(payload))


def _code(members: _Members) -> int | None:
    value = members.take("code", object)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise LineError(f"'code' is {_kind(type(value))}; it must be a whole number, or null")
    return value


def _ended(members: _Members) -> Ended:
    at = members.at()
    return Ended(at, members.one_of("ended", _SENDERS), members.take("error", str))


def _over(members: _Members) -> Over:
    at = members.at()
    return Over(at, members.take("complete", bool), members.take("why", str))


#: The reader of each kind of line, by the member that only this kind has.
_READERS: Final[Mapping[str, Callable[[_Members], Line]]] = {
    "recording": _head,
    "frame": _passed,
    "answer": _answered,
    "ended": _ended,
    "complete": _over,
}
