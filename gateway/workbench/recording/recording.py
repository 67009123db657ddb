"""A recording, loaded: its frames, and the messages made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from partway.gateway.storage.files import open_regular
from partway.gateway.workbench.intermediary.observer import Sender
from partway.gateway.workbench.recording.lines import (
    Ended,
    Head,
    Line,
    Over,
    Passed,
    UpgradeAnswered,
)
from partway.gateway.workbench.recording.parsing import LineError, from_json
from partway.protocol.limits import MAX_PART_BYTES
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frame_decoder import FrameError, decode_close
from partway.protocol.websocket.frames import Frame, Opcode

#: Most bytes of a file; a recorder writes an eighth less at most. A message in fragments is held
#: twice, joined and as its fragments.
MAX_LOADED: Final = 144 << 20

#: Most lines of a file. More tiny frames would take minutes and a gigabyte.
MAX_LINES: Final = 400_000

#: Most bytes of a line: the largest part in base64, and the names around it.
MAX_LINE: Final = MAX_PART_BYTES * 4 // 3 + (64 << 10)


class RecordingError(Exception):
    """A file is not a recording, or is of no use here; the message names file and line."""


@dataclass(frozen=True, slots=True)
class JoinedMessage:
    """A message, joined of its fragments.

    Attributes:
        kind: text or binary.
        payload: the message's bytes, as far as they came.
        at: seconds from the stream's start to the message's last frame.
        whole: whether the message's end came.
    """

    kind: Opcode
    payload: bytes
    at: float
    whole: bool = True


class Joining:
    """Joins one sender's frames to messages."""

    def __init__(self) -> None:
        self._kind: Opcode | None = None
        self._payload = bytearray()
        self._at = 0.0

    def add(self, frame: Frame, at: float) -> JoinedMessage | None:
        """Take a data frame; return the message that it ends, None if it ends none.

        Raises:
            ValueError: the frame continues nothing, or begins a message inside another.
        """
        opcode, payload, fin = frame
        if (opcode is Opcode.CONTINUATION) is (self._kind is None):
            raise ValueError(
                "a continuation frame continues no message"
                if self._kind is None
                else "a message begins inside another"
            )
        kind = self._kind or opcode
        self._payload += payload
        self._kind, self._at = kind, at
        return self._end(whole=True) if fin else None

    def rest(self) -> JoinedMessage | None:
        """Return the message whose end has not come, if there is one."""
        return None if self._kind is None else self._end(whole=False)

    def _end(self, whole: bool) -> JoinedMessage:
        assert self._kind is not None, "a message has begun"
        message = JoinedMessage(self._kind, bytes(self._payload), self._at, whole)
        self._kind = None
        self._payload.clear()
        return message


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded stream.

    Attributes:
        head: the first line: the request for the stream.
        answer: the container's answer to the upgrade; None if no answer came.
        frames: the frames of both sides, in the order in which they passed.
        ends: the ends of TCP connections.
        over: the last line; None if the recorder did not write it.
    """

    path: Path
    head: Head
    answer: UpgradeAnswered | None
    frames: tuple[Passed, ...]
    ends: tuple[Ended, ...]
    over: Over | None

    @property
    def complete(self) -> bool:
        """Whether the recording has everything that passed on the stream."""
        return self.over is not None and self.over.complete

    @property
    def seconds(self) -> float:
        """Seconds from the stream's start to its last event."""
        answered = self.answer.at if self.answer is not None else 0.0
        last = max((frame.at for frame in self.frames[-1:]), default=answered)
        return max((each.at for each in self.ends), default=last)

    def messages(self, sender: Sender) -> list[JoinedMessage]:
        """Join a side's frames to messages; an unfinished message is the last."""
        joining = Joining()
        found = [
            message
            for passed in self.frames
            if passed.sender is sender and passed.opcode < Opcode.CLOSE
            if (message := joining.add(passed.frame, passed.at)) is not None
        ]
        rest = joining.rest()
        return found if rest is None else [*found, rest]

    def close_of(self, sender: Sender) -> Close | None:
        """Decode a side's Close; None if that side sent no Close."""
        for passed in self.frames:
            if passed.sender is sender and passed.opcode is Opcode.CLOSE:
                return close_in(passed)
        return None


def close_in(passed: Passed) -> Close:
    """Decode a Close; an empty Close where the recorded one is against RFC 6455."""
    try:
        return decode_close(passed.payload or b"")
    except FrameError:
        return Close()


def load_recording(path: Path, most: int = MAX_LOADED) -> Recording:
    """Read a recording.

    A last line without its end is passed over: the recorder died while it wrote the line.

    Args:
        most: bytes that the file may have.

    Raises:
        RecordingError: the file cannot be read, or a line is wrong.
    """
    building = _Building(path)
    try:
        with open_regular(path) as file:
            for number, data in enumerate(_lines(file, path, most), 1):
                try:
                    building.take(from_json(data))
                except ValueError as error:
                    raise RecordingError(f"{path}:{number}: {error}") from None
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    return building.recording()


def _lines(file: BinaryIO, path: Path, most: int) -> Iterator[bytes]:
    size = number = 0
    while (data := file.readline(MAX_LINE + 1)).endswith(b"\n"):
        size += len(data)
        number += 1
        for found, limit, what in ((size, most, "bytes"), (number, MAX_LINES, "lines")):
            if found > limit:
                raise RecordingError(f"{path}: the file has more than {limit} {what}")
        yield data
    if len(data) > MAX_LINE:
        raise RecordingError(f"{path}:{number + 1}: the line has more than {MAX_LINE} bytes")


class _Building:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._head: Head | None = None
        self._answer: UpgradeAnswered | None = None
        self._frames: list[Passed] = []
        self._ends: list[Ended] = []
        self._over: Over | None = None
        self._at = 0.0
        self._joining = {sender: Joining() for sender in Sender}

    def take(self, line: Line) -> None:
        """Take the next line.

        Raises:
            LineError: the line must not stand behind the lines before it.
            ValueError: a frame must not follow the frames before it.
        """
        if isinstance(line, Head):
            if self._head is not None:
                raise LineError("this is a second head; only the first line may be a head")
            self._head = line
            return
        if self._head is None:
            raise LineError("the first line must be a recording's head, with 'recording'")
        if self._over is not None:
            raise LineError("the line follows the line with 'complete', which must be the last")
        if line.at < self._at:
            raise LineError(f"'at' is {line.at} s, earlier than the {self._at} s of a line before")
        self._at = line.at
        self._take(line, self._head.payloads)

    def _take(self, line: UpgradeAnswered | Passed | Ended | Over, payloads: bool) -> None:
        match line:
            case UpgradeAnswered():
                if self._answer is not None or self._frames:
                    raise LineError(
                        "there must be only one answer to the upgrade, before all frames"
                    )
                self._answer = line
            case Passed():
                if (line.payload is None) is payloads:
                    must = "must have" if payloads else "must not have"
                    raise LineError(f"the frame {must} a payload, by the head's 'payloads'")
                if line.opcode < Opcode.CLOSE:
                    self._joining[line.sender].add(line.frame, line.at)
                self._frames.append(line)
            case Ended():
                self._ends.append(line)
            case Over():
                self._over = line

    def recording(self) -> Recording:
        """Make the recording of the lines.

        Raises:
            RecordingError: there was no line.
        """
        if self._head is None:
            raise RecordingError(f"{self._path}: the file has no whole line")
        return Recording(
            self._path,
            self._head,
            self._answer,
            tuple(self._frames),
            tuple(self._ends),
            self._over,
        )
