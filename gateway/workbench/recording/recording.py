"""A recording, loaded: its frames, and the messages that they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

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
from partway.protocol.closing import Close
from partway.protocol.frame_codec import FrameError, decode_close
from partway.protocol.frames import Frame, Opcode
from partway.protocol.limits import MAX_PART_BYTES

#: Bytes of a file; recordings are half as large unless somebody wants more.
MAX_LOADED: Final = 256 << 20

#: Bytes of a line: the largest part in base64, and the names around it.
MAX_LINE: Final = MAX_PART_BYTES * 4 // 3 + (64 << 10)


class RecordingError(Exception):
    """A file that is no recording, or not one for what is wanted; names file and line."""


@dataclass(frozen=True, slots=True)
class JoinedMessage:
    """A message, joined of its fragments.

    Attributes:
        kind: text or binary.
        payload: all of it, or what there is of it.
        at: seconds from the stream's start to its last frame.
        whole: whether its end came.
    """

    kind: Opcode
    payload: bytes
    at: float
    whole: bool = True


class Joining:
    """Frames in, messages out, for one sender."""

    def __init__(self) -> None:
        self._kind: Opcode | None = None
        self._payload = bytearray()
        self._at = 0.0

    def add(self, frame: Frame, at: float) -> JoinedMessage | None:
        """The message that a data frame ends.

        Raises:
            ValueError: it continues nothing, or begins a message inside another.
        """
        opcode, payload, fin = frame
        if (opcode is Opcode.CONTINUATION) is (self._kind is None):
            raise ValueError(
                "a continuation frame continues nothing"
                if self._kind is None
                else "a message begins inside another"
            )
        kind = self._kind or opcode
        self._payload += payload
        self._kind, self._at = kind, at
        return self._end(whole=True) if fin else None

    def rest(self) -> JoinedMessage | None:
        """The message whose end has not come, if there is one."""
        return None if self._kind is None else self._end(whole=False)

    def _end(self, whole: bool) -> JoinedMessage:
        assert self._kind is not None, "a message has begun"
        message = JoinedMessage(self._kind, bytes(self._payload), self._at, whole)
        self._kind = None
        self._payload.clear()
        return message


@dataclass(frozen=True, slots=True)
class Recording:
    """One stream.

    Attributes:
        path: of its file.
        head: what was asked for.
        answer: None if none came.
        frames: of both sides, in the order in which they passed.
        ends: of TCP connections.
        over: the last line; None if the recorder did not come to write it.
    """

    path: Path
    head: Head
    answer: UpgradeAnswered | None
    frames: tuple[Passed, ...]
    ends: tuple[Ended, ...]
    over: Over | None

    @property
    def complete(self) -> bool:
        """Whether all that passed is in it."""
        return self.over is not None and self.over.complete

    @property
    def seconds(self) -> float:
        """From its start to the last thing that happened."""
        answered = self.answer.at if self.answer is not None else 0.0
        last = max((frame.at for frame in self.frames[-1:]), default=answered)
        return max((each.at for each in self.ends), default=last)

    def messages(self, sender: Sender) -> list[JoinedMessage]:
        """What a side said, message by message; one that was not finished is the last."""
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
        """What a side's Close said; None if it sent none."""
        for passed in self.frames:
            if passed.sender is sender and passed.opcode is Opcode.CLOSE:
                return close_in(passed)
        return None


def close_in(passed: Passed) -> Close:
    """What a Close says; nothing if it is against RFC 6455."""
    try:
        return decode_close(passed.payload or b"")
    except FrameError:
        return Close()


def load_recording(path: Path, most: int = MAX_LOADED) -> Recording:
    """Read a recording.

    A last line without its end is passed over: the recorder died while it wrote it.

    Args:
        path: of the file.
        most: bytes that it may have.

    Raises:
        RecordingError: it cannot be read, or a line is not what it should be.
    """
    building = _Building(path)
    try:
        with path.open("rb") as file:
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
        if size > most:
            raise RecordingError(f"{path}: it has more than {most} bytes")
        number += 1
        yield data
    if len(data) > MAX_LINE:
        raise RecordingError(f"{path}:{number + 1}: the line has more than {MAX_LINE} bytes")


class _Building:
    """A recording whose lines are still coming."""

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
        """Take the next line in.

        Raises:
            LineError: it is not its place.
            ValueError: a frame is not.
        """
        if isinstance(line, Head):
            if self._head is not None:
                raise LineError("it is a second head")
            self._head = line
            return
        if self._head is None:
            raise LineError("the first line is no head of a recording")
        if self._over is not None:
            raise LineError("it is behind the last line")
        if line.at < self._at:
            raise LineError(f"it is of {line.at} s, and behind a line of {self._at} s")
        self._at = line.at
        self._take(line, self._head.payloads)

    def _take(self, line: UpgradeAnswered | Passed | Ended | Over, payloads: bool) -> None:
        match line:
            case UpgradeAnswered():
                if self._answer is not None or self._frames:
                    raise LineError("an answer to the upgrade is behind what it answers")
                self._answer = line
            case Passed():
                if (line.payload is None) is payloads:
                    raise LineError("it has a payload, or has none, against what the head says")
                if line.opcode < Opcode.CLOSE:
                    self._joining[line.sender].add(line.frame, line.at)
                self._frames.append(line)
            case Ended():
                self._ends.append(line)
            case Over():
                self._over = line

    def recording(self) -> Recording:
        """All that was taken in.

        Raises:
            RecordingError: that is nothing.
        """
        if self._head is None:
            raise RecordingError(f"{self._path}: it has no whole line")
        return Recording(
            self._path,
            self._head,
            self._answer,
            tuple(self._frames),
            tuple(self._ends),
            self._over,
        )
