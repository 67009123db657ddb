"""Users of a voice assistant: each speaks in real time, 20 ms at a time, and listens."""

from __future__ import annotations

import asyncio
import heapq
import time
import wave
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np
import soxr
from picows import WSCloseCode, WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from benchmarks.load import RAW, LoadError
from benchmarks.text_replies import spread
from benchmarks.voice_wires import FRAME, Samples, Wire
from partway.container.models.voice.limits import PLAYBACK_AHEAD

#: A frame with a sample above it is loud: -34 dB of full scale.
_LOUD: Final = 650
#: Seconds within which an answer, or the reaction to an event, must come.
PATIENCE: Final = 120.0
#: Seconds that the microphones sleep at least: the clock of uvloop has whole milliseconds.
_TICK: Final = 0.001


class TooSlow(LoadError):
    """An event did not come in time."""


@dataclass(slots=True)
class Answer:
    """The sound of an answer, as a client plays it; times are those of the monotonic clock.

    Attributes:
        first: when the first audible part came; 0 before it.
        heard: seconds that have come since then.
        played: when all of them will have been heard.
        silence: the longest time for which the listener heard nothing within the answer.
        late: the longest delay of a part beyond the pace of an answer.
    """

    first: float = 0.0
    heard: float = 0.0
    played: float = 0.0
    silence: float = 0.0
    late: float = 0.0

    def add(self, now: float, samples: Samples, rate: int) -> None:
        """Note a part."""
        if not self.first and np.abs(samples).max(initial=0) < _LOUD:
            return
        length = len(samples) / rate
        if not self.first:
            self.first = self.played = now
        else:
            self.silence = max(self.silence, now - self.played)
            due = max(self.first, self.played + length - PLAYBACK_AHEAD)
            self.late = max(self.late, now - due)
        self.heard += length
        self.played = max(self.played, now) + length

    def heard_at(self, now: float) -> float:
        """Return the seconds that can have been heard."""
        return self.heard - max(0.0, self.played - now)


@dataclass(slots=True)
class Turn:
    """A sentence that was said, and the answer to it.

    Attributes:
        began: when the first loud frame was due; 0 before it.
        ended: when the last loud frame was due; 0 before it.
        events: the types of the server's events, in order.
        at: when the first event of each type came after the sentence.
    """

    sentence: int
    began: float = 0.0
    ended: float = 0.0
    answer: Answer = field(default_factory=Answer)
    events: list[str] = field(default_factory=list)
    at: dict[str, float] = field(default_factory=dict)


class User(WSListener):
    """A user who speaks, and hears the answers.

    Args:
        wire: the form of the sound.
        keep: whether the types of events are kept.
    """

    #: Codes of errors that are no faults.
    tolerated: frozenset[str] = frozenset()

    def __init__(self, wire: Wire, *, keep: bool = True) -> None:
        self.wire = wire
        self.turn: Turn | None = None
        self._keep = keep
        self._transport: WSTransport
        self._frames: deque[bytes] = deque()  # to be said
        self._loud = (0, 0)  # frames before the first and behind the last loud one
        self._left = 0  # of the frames to be said
        self._silent = wire.frame(np.zeros(round(FRAME * wire.rate), np.int16))
        self._said = asyncio.Event()
        self._changed = asyncio.Event()
        self.seen: dict[str, int] = {}
        self.last: dict[str, dict[str, Any]] = {}  # the last event of each type
        self.at: dict[str, float] = {}  # and when it came
        self.fault: LoadError | None = None
        self.is_leaving = False

    # --- Speaking --------------------------------------------------------------------------------

    def say(self, sentence: Sentence, number: int) -> Turn:
        """Begin to say a sentence; silence follows it."""
        self.turn = Turn(number)
        self._frames.extend(sentence.frames)
        self._loud, self._left = sentence.loud, len(sentence.frames)
        self._said.clear()
        return self.turn

    async def finish(self) -> None:
        """Wait until the sentence is said.

        Raises:
            LoadError: the stream has ended.
        """
        await self._said.wait()
        if self.fault is not None:
            raise self.fault

    def tick(self, due: float) -> None:
        """Send the frame that is due."""
        frame = self._silent
        if self._frames and self.turn is not None:
            frame = self._frames.popleft()
            place = self._left - len(self._frames)  # from 1 on
            if place == self._loud[0] + 1:
                self.turn.began = due
            if place == self._loud[1]:
                self.turn.ended = due
                self.turn.answer = Answer()  # an answer to a part of the sentence does not count
            if not self._frames:
                self._said.set()
        self._transport.send(self.wire.kind, frame)

    def send(self, message: bytes) -> None:
        self._transport.send(WSMsgType.TEXT, message)

    async def close(self) -> None:
        """Close the stream, and wait until the server has closed it too.

        Raises:
            TooSlow: it does not close it in time.
        """
        self.is_leaving = True
        self._transport.send_close(WSCloseCode.OK)
        try:
            async with asyncio.timeout(PATIENCE):
                while self.fault is None:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TooSlow(f"the server has not closed the stream for {PATIENCE:g} s") from None

    def abort(self) -> None:
        """Leave without a Close."""
        self.is_leaving = True
        self._transport.disconnect(graceful=False)

    # --- Listening -------------------------------------------------------------------------------

    async def until(self, kind: str, count: int = 1, patience: float = PATIENCE) -> float:
        """Wait for the next event of a type, or the one after it; return when it came.

        Raises:
            TooSlow: it does not come in time.
            LoadError: the stream has ended.
        """
        wanted = self.seen.get(kind, 0) + count
        async with asyncio.timeout(patience) as limit:
            while self.seen.get(kind, 0) < wanted and self.fault is None:
                self._changed.clear()
                try:
                    await self._changed.wait()
                except asyncio.CancelledError:
                    if limit.expired():
                        raise TooSlow(f"no {kind} came for {patience:g} s") from None
                    raise
        if self.seen.get(kind, 0) < wanted and self.fault is not None:
            raise self.fault
        return self.at[kind]

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            code, reason = frame.get_close_code(), frame.get_close_message()
            self._end(LoadError(f"the stream ended: {code} {reason!r}"))
            transport.disconnect()
            return
        now = time.monotonic()
        kind, audio, members = self.wire.read(frame)
        self.seen[kind] = self.seen.get(kind, 0) + 1
        self.last[kind], self.at[kind] = members, now
        if kind == "error" and members.get("error", {}).get("code") not in self.tolerated:
            self._end(LoadError(f"an error came: {members}"))
        if self.turn is not None and self._keep and self.turn.events[-1:] != [kind]:
            self.turn.events.append(kind)
        if self.turn is not None and self.turn.ended:
            self.turn.at.setdefault(kind, now)
        self.on_event(kind, members, np.frombuffer(audio, "<i2"), now)
        self._changed.set()

    def on_event(self, kind: str, members: dict[str, Any], samples: Samples, now: float) -> None:
        """Note an event, and the sound in it."""
        if self.turn is not None and len(samples):
            self.turn.answer.add(now, samples, self.wire.rate)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._end(LoadError("the stream's connection ended"))

    def _end(self, fault: LoadError) -> None:
        self.fault = self.fault or fault
        self._said.set()
        self._changed.set()


_U = TypeVar("_U", bound=User)


async def opened(url: str, make: Callable[[], _U]) -> _U:
    """Open a stream for a new user, and greet.

    Raises:
        LoadError: the handshake is refused, or breaks off.
    """
    try:
        _, found = await ws_connect(
            make,
            url,
            websocket_handshake_timeout=PATIENCE,
            extra_headers={"Sec-WebSocket-Protocol": RAW},
        )
    except (WSError, TimeoutError) as error:
        raise LoadError(f"no stream was opened: {error}") from error
    if found is None:  # picows returns None when the peer leaves during the handshake
        raise LoadError("the connection ended during the handshake")
    user = cast("_U", found)
    wire = user.wire
    if wire.greeting and not user.seen.get("session.created"):
        await user.until("session.created")
    for message in wire.hello:
        user.send(message)
        await user.until("session.updated")
    return user


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence as messages of a wire.

    Attributes:
        loud: the frames before the first loud one, and up to the last loud one.
    """

    frames: Sequence[bytes]
    loud: tuple[int, int]

    @classmethod
    def of(cls, samples: Samples, wire: Wire) -> Sentence:
        """Make one of samples at the wire's rate."""
        size = round(FRAME * wire.rate)
        padded = np.concatenate([samples, np.zeros(-len(samples) % size, np.int16)])
        frames = padded.reshape(-1, size)
        loud = (np.abs(frames.astype(np.int32)).max(axis=1) >= _LOUD).nonzero()[0]
        if not len(loud):
            raise LoadError("a sentence is silent")
        return cls([wire.frame(each) for each in frames], (int(loud[0]), int(loud[-1]) + 1))


def sentences(folder: Path, wire: Wire) -> list[Sentence]:
    """Read the WAV files of a folder, by name; a benchmark wrote them in 16 bits, mono."""
    found = []
    for path in sorted(folder.glob("*.wav")):
        with wave.open(str(path)) as file:
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
            samples = soxr.resample(samples, file.getframerate(), wire.rate)
        found.append(Sentence.of(samples, wire))
    return found


class Microphones:
    """Sends the frames of all users, each in its own phase of the 20 ms.

    Attributes:
        lateness: seconds by which each frame was sent too late.
    """

    def __init__(self) -> None:
        self.lateness: list[float] = []
        self._due: list[tuple[float, int, User]] = []
        self._numbers = 0

    def add(self, user: User, phase: float = 0.0) -> None:
        """Open a user's microphone.

        Args:
            phase: from 0 to 1, of a frame.
        """
        self._numbers += 1
        due = time.monotonic() + FRAME * (1 + phase)
        heapq.heappush(self._due, (due, self._numbers, user))

    def spread(self) -> dict[str, float]:
        """Return the median, the 99th percentile and the most of ``lateness``."""
        median, p99 = spread(self.lateness)
        return {"median": median, "p99": p99, "most": max(self.lateness)}

    async def run_with(self, *work: Coroutine[Any, Any, None]) -> None:
        """Send frames while there is work; the first failure ends all of it.

        Raises:
            LoadError: the work has failed.
        """
        speaking = asyncio.create_task(self._run())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in (speaking, *tasks):
                task.cancel()
            await asyncio.wait([speaking, *tasks])

    async def _run(self) -> None:
        """Send frames until cancelled; a user whose stream has ended says nothing more."""
        while True:
            now = time.monotonic()
            while self._due and self._due[0][0] <= now:
                due, number, user = self._due[0]
                if user.is_leaving or user.fault is not None:
                    heapq.heappop(self._due)
                    continue
                user.tick(due)
                self.lateness.append(time.monotonic() - due)
                heapq.heapreplace(self._due, (due + FRAME, number, user))
            wait = self._due[0][0] - time.monotonic() if self._due else FRAME
            await asyncio.sleep(max(wait, _TICK))
