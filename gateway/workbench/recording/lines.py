"""The lines of a recording: the members of each kind, and how they are written.

Each line is one JSON object in ASCII, so that printing a file cannot control a terminal.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

from partway.gateway.workbench.intermediary.observer import Sender
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frame_decoder import FrameError, decode_close
from partway.protocol.websocket.frames import Frame, Opcode

#: The version of the recordings' format; another number is another format.
VERSION: Final = 1

#: Most bytes of a payload that is written as text. Larger ones are base64, which is encoded piece
#: by piece so that other threads can run.
MAX_TEXT: Final = 256 << 10
_PIECE: Final = 48 << 10  # a multiple of three: base64 pads at its end alone


@dataclass(frozen=True, slots=True)
class Head:
    """A recording's first line, which names the stream.

    Attributes:
        target: path and query of the upgrade; the path alone where payloads are left out.
        started: when the stream began, by the wall clock, with a time zone.
        headers: the upgrade request's headers, as far as they are kept.
    """

    endpoint: str
    target: str
    started: datetime
    payloads: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpgradeAnswered:
    """The container's answer to the upgrade.

    Attributes:
        at: seconds since the start.
        status: 101 grants the stream.
        headers: the answer's headers, as far as they are kept.
        body: the body of a refusal, as far as it was seen; empty where payloads are left out.
    """

    at: float
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Passed:
    """A frame that passed.

    Attributes:
        at: seconds since the start.
        payload: the frame's bytes; None where payloads are left out.
        size: the payload's, in bytes.
        digest: in the payload's place: the same for the same payload of the same recording.
        code: the code of a Close whose reason was left out with the payloads.
    """

    at: float
    sender: Sender
    opcode: Opcode
    fin: bool
    payload: bytes | None
    size: int
    digest: str = ""
    code: int | None = None

    @classmethod
    def of(cls, at: float, sender: Sender, frame: Frame) -> Passed:
        opcode, payload, fin = frame
        return cls(at, sender, opcode, fin, payload, len(payload))

    @property
    def frame(self) -> Frame:
        """The frame that passed; with an empty payload where the payload was left out."""
        return Frame(self.opcode, self.payload or b"", self.fin)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a side's TCP connection; ``error`` is empty if the end was in order."""

    at: float
    sender: Sender
    error: str = ""


@dataclass(frozen=True, slots=True)
class Over:
    """A recording's last line.

    Attributes:
        at: seconds since the start.
        complete: whether the lines above have everything that passed on the stream.
        why: the reason where they do not; empty where they do.
    """

    at: float
    complete: bool
    why: str = ""


Line: TypeAlias = Head | UpgradeAnswered | Passed | Ended | Over

#: The name of a frame's kind.
NAMES: Final = {opcode: opcode.name.lower() for opcode in Opcode}


def left_out(line: Line, key: bytes) -> Line:
    """Remove payloads, queries and reasons from a line.

    A keyed hash stands for a payload, and the key is never stored. A short payload could be guessed
    from a plain hash.
    """
    match line:
        case Head():
            path = line.target.partition("?")[0]
            return Head(line.endpoint, path, line.started, False, line.headers)
        case UpgradeAnswered():
            return UpgradeAnswered(line.at, line.status, line.headers)
        case Passed(at, sender, opcode, fin, payload, size) if payload is not None:
            digest = hashlib.blake2b(payload, digest_size=8, key=key).hexdigest()
            close = _close_of(opcode, payload)
            code = None if close is None else close.code
            return Passed(at, sender, opcode, fin, None, size, digest, code)
    return line


def to_json(line: Line) -> list[bytes]:
    """Write the line as bytes, in pieces; the last piece ends with the line's end."""
    match line:
        case Head():
            return _pieces(
                {
                    "recording": VERSION,
                    "endpoint": line.endpoint,
                    "target": line.target,
                    "started": line.started.isoformat(),
                    "payloads": line.payloads,
                    "headers": dict(line.headers),
                }
            )
        case UpgradeAnswered():
            members = {"at": line.at, "answer": line.status, "headers": dict(line.headers)}
            return _pieces(members, line.body or None)
        case Passed():
            return _frame(line)
        case Ended():
            return _pieces({"at": line.at, "ended": line.sender.value, "error": line.error})
        case Over():
            return _pieces({"at": line.at, "complete": line.complete, "why": line.why})


def _frame(line: Passed) -> list[bytes]:
    members: dict[str, Any] = {
        "at": line.at,
        "from": line.sender.value,
        "frame": NAMES[line.opcode],
        "fin": line.fin,
    }
    if line.payload is None:
        members |= {"size": line.size, "hash": line.digest}
        if line.opcode is Opcode.CLOSE:
            members["code"] = line.code
        return _pieces(members)
    close = _close_of(line.opcode, line.payload)
    if close is not None:
        return _pieces(members | {"code": close.code, "reason": close.reason})
    return _pieces(members, line.payload)


def _close_of(opcode: Opcode, payload: bytes) -> Close | None:
    """Decode a Close; None for another frame, and for a Close that RFC 6455 forbids."""
    if opcode is not Opcode.CLOSE:
        return None
    try:
        return decode_close(payload)
    except FrameError:
        return None


def _pieces(members: Mapping[str, Any], payload: bytes | None = None) -> list[bytes]:
    if payload is None:
        return [json.dumps(members).encode() + b"\n"]
    text = _as_text(payload)
    if text is not None:
        return [json.dumps({**members, "text": text}).encode() + b"\n"]
    head = json.dumps(members)[:-1] + ', "base64": "'
    encoded = (
        base64.b64encode(payload[start : start + _PIECE])
        for start in range(0, len(payload), _PIECE)
    )
    return [head.encode(), *encoded, b'"}\n']


def _as_text(payload: bytes) -> str | None:
    """Decode a payload as text; None where that fails. Binary messages often are JSON."""
    if len(payload) > MAX_TEXT or b"\0" in payload:
        return None
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
