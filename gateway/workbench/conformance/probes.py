"""What to say to a model, and what counts as its answer: a model rarely echoes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from partway.gateway.files import read_bounded
from partway.gateway.workbench.intermediary.observer import Sender
from partway.gateway.workbench.recording.recording import (
    JoinedMessage,
    Recording,
    RecordingError,
    load_recording,
)
from partway.protocol.frames import Opcode

#: Bytes of a probe's file; the largest that makes sense holds a few seconds of audio.
MAX_PROBE_BYTES: Final = 8 << 20
#: Seconds: of a probe at most, and of one that says nothing else.
MAX_TIMEOUT: Final = 600.0
USUAL_TIMEOUT: Final = 10.0
_KNOWN = frozenset({"name", "messages", "expect", "replies", "echo", "timeout"})


class ProbeError(Exception):
    """A probe's file does not say what it should; the message says where."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One question and its answer.

    Attributes:
        name: for reports.
        messages: what to send, each a message: ``str`` as text, ``bytes`` as binary.
        expect: a regular expression; a reply that is text must have a match of it.
        replies: messages that must come back at least.
        echo: whether what comes back is what was sent, message by message.
        timeout: seconds for all of it.
    """

    name: str
    messages: tuple[str | bytes, ...]
    expect: str = ""
    replies: int = 1
    echo: bool = False
    timeout: float = USUAL_TIMEOUT


def _tone(seconds: float, rate: int = 16_000) -> bytes:
    """A buzz between two silences, 16-bit PCM: speech, to who only listens for loudness."""
    silence = bytes(rate)
    period = rate // 150
    wave = [
        (12_000 if (at % period) < period // 3 else -6_000) for at in range(int(seconds * rate))
    ]
    loud = b"".join(sample.to_bytes(2, "little", signed=True) for sample in wave)
    return silence + loud + silence


BUILT_IN: Final[Mapping[str, Probe]] = {
    "echo": Probe("echo", ("partway asks: is anybody there?",), echo=True),
    "chat": Probe("chat", ("Say hello.",), timeout=60.0),
    "speech": Probe("speech", (_tone(0.5),), expect="speech_start", timeout=20.0),
}


def load_probe(path: Path) -> Probe:
    r"""Read a probe from a TOML file, or make one of a recording.

    ::

        name = "transcriber"
        messages = ["{\"type\": \"start\"}", { file = "hello.pcm" }, { hex = "00 ff" }]
        expect = "hello"
        replies = 1
        timeout = 30

    Raises:
        ProbeError: it is not TOML, or a member is missing, unknown or of the wrong kind; or the
            recording is of no use.
    """
    try:
        text = read_bounded(path, MAX_PROBE_BYTES)
        if text.startswith(b"{"):  # as no TOML does
            return _of_recording(load_recording(path, MAX_PROBE_BYTES))
        members = tomllib.loads(text.decode())
    except RecordingError as error:
        raise ProbeError(str(error)) from error
    # Not only tomllib's own: a number may have too many digits, and an array too many arrays in it.
    except (OSError, ValueError, RecursionError) as error:
        raise ProbeError(f"{path}: {error}") from error
    unknown = sorted(set(members) - _KNOWN)
    if unknown:
        raise ProbeError(f"{path}: {unknown[0]}: unknown; known are {', '.join(sorted(_KNOWN))}")
    messages = members.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ProbeError(f"{path}: messages: a list of what to send is missing")
    expect = _of(str, path, members, "expect", "")
    try:
        re.compile(expect)
    except (re.error, OverflowError, RecursionError) as error:
        raise ProbeError(f"{path}: expect: {error}") from error
    replies = _of(int, path, members, "replies", 1)
    timeout = _of((int, float), path, members, "timeout", USUAL_TIMEOUT)
    if replies < 0 or not 0 < timeout <= MAX_TIMEOUT:
        raise ProbeError(f"{path}: replies is 0 or more, timeout over 0 and at most 600 seconds")
    return Probe(
        name=_of(str, path, members, "name", path.stem),
        messages=tuple(_message(path, number, each) for number, each in enumerate(messages)),
        expect=expect,
        replies=replies,
        echo=_of(bool, path, members, "echo", False),
        timeout=float(timeout),
    )


def _within(folder: Path, name: str) -> Path:
    """A file of the probe's own folder: whoever wrote it is to be sent no other of one's files."""
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise ValueError(f"{name} is not in the probe's folder")
    return file


def _of(
    kind: type | tuple[type, ...], path: Path, members: Mapping[str, Any], name: str, usual: Any
) -> Any:
    value = members.get(name, usual)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = kind.__name__ if isinstance(kind, type) else "a number"
        raise ProbeError(f"{path}: {name}: {wanted} is wanted, not {type(value).__name__}")
    return value


def _message(path: Path, number: int, value: object) -> str | bytes:
    where = f"{path}: messages[{number}]"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        (how, what), *_ = value.items()
        try:
            if how == "hex" and isinstance(what, str):
                return bytes.fromhex(what)
            if how == "file" and isinstance(what, str):
                return read_bounded(_within(path.parent, what), MAX_PROBE_BYTES)
        except (OSError, ValueError) as error:
            raise ProbeError(f"{where}: {how}: {error}") from error
    raise ProbeError(f'{where}: use a string, {{ hex = "00 ff" }} or {{ file = "audio.pcm" }}')


def _of_recording(recording: Recording) -> Probe:
    """What the client said, message by message, and as many replies as came.

    A probe says all its messages first, and has no pace: what depends on either is better replayed.

    Raises:
        ProbeError: the client said nothing that can be said again.
    """
    path = recording.path
    if not recording.head.payloads:
        raise ProbeError(f"{path}: its payloads were left out: there is nothing to say")
    said = [_whole(path, each) for each in recording.messages(Sender.GATEWAY) if each.whole]
    if not said:
        raise ProbeError(f"{path}: its client said no whole message")
    replies = [each for each in recording.messages(Sender.CONTAINER) if each.whole]
    return Probe(
        name=path.stem,
        messages=tuple(said),
        replies=len(replies),
        echo=said == [_whole(path, each) for each in replies],
        timeout=min(max(2 * recording.seconds, USUAL_TIMEOUT), MAX_TIMEOUT),
    )


def _whole(path: Path, message: JoinedMessage) -> str | bytes:
    if message.kind is Opcode.BINARY:
        return message.payload
    try:
        return message.payload.decode()
    except UnicodeDecodeError:
        raise ProbeError(f"{path}: a text message, at {message.at:g} s, is not UTF-8") from None
