"""Probes: a question to a model, and the answer that must come back.

A model rarely echoes, so each probe says itself which replies it expects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from partway.gateway.configuration.expected import Flag, array, number, table_or, text, whole
from partway.gateway.configuration.messages import TableRefused, given
from partway.gateway.configuration.reader import read_toml
from partway.gateway.storage.files import open_regular, read_bounded
from partway.gateway.workbench.intermediary.observer import Sender
from partway.gateway.workbench.recording.recording import (
    JoinedMessage,
    Recording,
    RecordingError,
    load_recording,
)
from partway.protocol.websocket.frames import Opcode

#: Most bytes of a probe's file. The largest sensible probe holds a few seconds of audio.
MAX_PROBE_BYTES: Final = 8 << 20
#: Most bytes of all files of one probe, since a probe may name a file thousands of times.
MAX_FILES_BYTES: Final = 32 << 20
#: Most characters of ``expect``. Compiling 1,000 takes 1.5 s at worst; 4 MB take 18 s.
MAX_PATTERN: Final = 1000
#: Most seconds of a probe, and the seconds of a probe that names no timeout.
MAX_TIMEOUT: Final = 600.0
USUAL_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True)
class Probe:
    """One question and its answer.

    Attributes:
        messages: the messages to send: ``str`` as text, ``bytes`` as binary.
        expect: a regular expression; a text reply must have a match of it.
        replies: the least number of messages that must come back.
        echo: whether each message must come back as it was sent.
        timeout: seconds for the whole question and answer.
    """

    name: str
    messages: tuple[str | bytes, ...]
    expect: str = ""
    replies: int = 1
    echo: bool = False
    timeout: float = USUAL_TIMEOUT


def _tone(seconds: float, rate: int = 16_000) -> bytes:
    """Make a buzz between two silences, 16-bit PCM. A detector by loudness takes it for speech."""
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


# --- The file -------------------------------------------------------------------------------------


def _is_hex(digits: str) -> bool:
    try:
        bytes.fromhex(digits)
    except ValueError:
        return False
    return True


def _compiles(pattern: str) -> bool:
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"it has {len(pattern)} characters; there must be at most {MAX_PATTERN}")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(error) from error
    return True


@dataclass(frozen=True, slots=True)
class _BytesTable:
    """A message that is no text: exactly one of the two is given."""

    hex: Annotated[str, text("bytes in hexadecimal, such as 00 ff", _is_hex)] | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        if (self.hex is None) == (self.file is None):
            found = "neither hex nor file was" if self.hex is None else "hex and file were"
            raise TableRefused(f"{found} given; it must be one of the two")

    def read(self, folder: Path, room: int) -> bytes:
        """Read the bytes.

        Args:
            folder: the probe's folder. A file elsewhere is refused, since the probe's author may be
                a stranger.
            room: most bytes of a file.

        Raises:
            TableRefused: the file is elsewhere, cannot be read, is a pipe or a device, or is too
                large.
        """
        if self.hex is not None:
            return bytes.fromhex(self.hex)
        assert self.file is not None, "one of the two is given"
        try:
            file = (folder / self.file).resolve()
            if file.is_relative_to(folder.resolve()):
                return read_bounded(file, min(MAX_PROBE_BYTES, room))
            why = ""
        except OSError as error:
            why = f" ({error.strerror or error})"
        except ValueError as error:  # the file is too large, or its name has a NUL
            why = f" ({error})"
        raise TableRefused(
            f"{given(self.file)}; it must be a file in the folder of the probe{why}", "file"
        )


_Message = Annotated[
    str | _BytesTable,
    table_or(
        'a string, { hex = "00 ff" } or { file = "audio.pcm" }',
        _BytesTable,
        lambda message: isinstance(message, str),
    ),
]


@dataclass(frozen=True, slots=True)
class _File:
    """A probe's file; :class:`Probe` describes the members."""

    messages: Annotated[
        tuple[_Message, ...], array("an array of one or more messages to send", least=1)
    ]
    name: str | None = None
    expect: Annotated[str, text("a regular expression, as Python has them", _compiles)] = ""
    replies: Annotated[int, whole(0, unit="messages")] = 1
    echo: Flag = False
    timeout: Annotated[float, number(above=0, most=MAX_TIMEOUT, unit="seconds")] = USUAL_TIMEOUT


def load_probe(path: Path) -> Probe:
    r"""Read a probe from a TOML file, or make one of a recording.

    ::

        name = "transcriber"
        messages = ["{\"type\": \"start\"}", { file = "hello.pcm" }, { hex = "00 ff" }]
        expect = "hello"
        replies = 1
        timeout = 30

    Raises:
        SettingsError: the file is no valid probe.
        RecordingError: the file is a recording that makes no probe.
    """
    if _is_recording(path):
        return _of_recording(load_recording(path, MAX_PROBE_BYTES))
    document = read_toml(path, MAX_PROBE_BYTES)
    table = document.as_table(_File)
    messages: list[str | bytes] = []
    refused = []
    room = MAX_FILES_BYTES
    for at, each in enumerate(table.messages):
        if isinstance(each, str):
            messages.append(each)
            continue
        try:
            data = each.read(path.parent, room)
        except TableRefused as error:
            refused.append(error.within(("messages", at)))
        else:
            messages.append(data)
            room -= len(data) if each.hex is None else 0
    document.refuse(refused)
    return Probe(
        name=path.stem if table.name is None else table.name,
        messages=tuple(messages),
        expect=table.expect,
        replies=table.replies,
        echo=table.echo,
        timeout=table.timeout,
    )


def _is_recording(path: Path) -> bool:
    """Whether a file begins as a recording, and not as TOML; False if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(1) == b"{"
    except OSError:
        return False


def _of_recording(recording: Recording) -> Probe:
    """Make a probe of the client's messages in a recording, with as many replies as came.

    A probe sends all messages first, without the recorded pace. A replay keeps order and pace.

    Raises:
        RecordingError: the client sent nothing that can be sent again.
    """
    path = recording.path
    if not recording.head.payloads:
        raise RecordingError(
            f"{path}: the recording has no payloads, so a probe has nothing to send"
        )
    said = [_whole(path, each) for each in recording.messages(Sender.GATEWAY) if each.whole]
    if not said:
        raise RecordingError(f"{path}: the recorded client sent no complete message")
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
        raise RecordingError(f"{path}: the text message at {message.at:g} s is not UTF-8") from None
