"""A conversation by voice in which an answer is interrupted and another one fails, for any client.

A client is a :class:`Conversation`. :class:`Driver` has the commands of ``make voice``, which come
as :mod:`told` says::

    open      begins a conversation
    say       the user says the WAV; returns the seconds from the speech's end to the first audio
    interrupt the user says it again during the answer. Returns once the next answer has begun
    failure   waits for an error; returns its text
    hear_out  waits for the end of the answer; returns the seconds of audio that it has
    save      writes the answers as WAV files, numbered in their order
    close     ends the conversation

Imports nothing else of this project, which lives in another environment.
"""

from __future__ import annotations

import array
import asyncio
import time
import wave
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

#: Seconds of audio in a piece that is sent.
PIECE = 0.02
#: Seconds for whatever a server does.
PATIENCE = 30.0
#: Seconds of an answer that must be there before it is interrupted. A server may send 0.5 s of them
#: before they can be heard.
INTERRUPTED_AFTER = 1.0
#: Samples that are louder are speech.
LOUD = 200

clock = time.monotonic


class Speech:
    """Audio that a user says, mono with 16 bits.

    Attributes:
        begun: the time of its first sound.
        ended: the time of its last sound.
    """

    def __init__(self, file: Path) -> None:
        with wave.open(str(file)) as sound:
            rate = sound.getframerate()
            audio = sound.readframes(sound.getnframes())
        loud = [at for at, each in enumerate(array.array("h", audio)) if abs(each) > LOUD]
        self._first, self._last = loud[0] / rate, loud[-1] / rate
        size = round(rate * PIECE) * 2
        self._pieces = [audio[start : start + size] for start in range(0, len(audio), size)]
        self.begun = self.ended = 0.0

    async def say(self, send: Callable[[bytes], Awaitable[object]]) -> None:
        """Send each piece at the moment at which a microphone would have all of it."""
        start = clock()
        self.begun, self.ended = start + self._first, start + self._last
        for number, piece in enumerate(self._pieces, 1):
            await asyncio.sleep(start + number * PIECE - clock())
            await send(piece)


class Noted(NamedTuple):
    what: str
    value: str
    at: float


class Notes:
    """Events of a conversation as they come, with their times."""

    def __init__(self) -> None:
        self._noted: list[Noted] = []
        self._new = asyncio.Event()

    def add(self, what: str, value: str = "") -> None:
        self._noted.append(Noted(what, value, clock()))
        self._new.set()

    async def find(self, what: str, since: float = 0.0) -> Noted:
        """Wait for the first event of a kind from a time on.

        Raises:
            RuntimeError: an error came instead, or nothing in time.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    for each in self._noted:
                        if each.what == what and each.at >= since:
                            return each
                        if each.what == "error":
                            raise RuntimeError(f"no {what!r} came, but an error: {each.value}")
                    self._new.clear()
                    await self._new.wait()
        except TimeoutError:
            raise RuntimeError(f"no {what!r} came in {PATIENCE:g} s") from None


def named(error: Exception) -> str:
    """Return what an exception says; of a WebSocket's end, the Close that came."""
    close = getattr(error, "rcvd", None)
    if close is not None:
        return f"{type(error).__name__}: {close.code} {close.reason}"
    return f"{type(error).__name__}: {error}"


class Conversation:
    """A client's conversation, which notes these events.

    ``audio`` for the first audio of an answer, ``more`` for the rest, ``over`` for an answer's end,
    ``told`` when the client learns that the user interrupts, ``kept`` with the text that the
    history has of the interrupted answer, and ``error``.

    Args:
        place: members of the command ``open``.
        rate: samples a second of the answers.
    """

    #: Whether ``kept`` will come.
    keeps_history = True

    def __init__(self, place: dict[str, Any], rate: int) -> None:
        self.place = place
        self.rate = rate
        self.notes = Notes()
        self.answers: list[bytearray] = []

    def begin_answer(self) -> None:
        """Have the next audio begin another answer."""
        self.answers.append(bytearray())

    def add(self, audio: bytes) -> None:
        """Add audio to the last answer."""
        answer = self.answers[-1]
        self.notes.add("more" if answer else "audio")
        answer += audio

    def seconds(self) -> float:
        return len(self.answers[-1]) / 2 / self.rate

    async def send(self, audio: bytes) -> None:
        """Send what the user says."""
        raise NotImplementedError

    async def open(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class Driver:
    """The commands.

    Args:
        kind: makes a conversation of the place that ``open`` names.
        version: of the client, with its name.
    """

    def __init__(self, kind: Callable[[dict[str, Any]], Conversation], version: str) -> None:
        self._kind = kind
        self._version = version
        self._answers: list[tuple[bytes, int]] = []

    async def version(self) -> str:
        return self._version

    async def open(self, wav: str, **place: Any) -> None:
        self._speech = Speech(Path(wav))
        self._talk = self._kind(place)
        async with asyncio.timeout(PATIENCE):
            await self._talk.open()

    async def say(self) -> float:
        await self._speech.say(self._talk.send)
        return await self._first_audio()

    async def interrupt(self) -> dict[str, Any]:
        talk = self._talk
        while talk.seconds() < INTERRUPTED_AFTER:
            await talk.notes.find("more", clock())
        before = clock()
        await self._speech.say(talk.send)
        told = await talk.notes.find("told", before)
        kept = (await talk.notes.find("kept", before)).value if talk.keeps_history else None
        await self._first_audio()
        return {"told": told.at - self._speech.begun, "kept": kept}

    async def _first_audio(self) -> float:
        """Wait for an answer to what was said; return the seconds until it began."""
        ended = self._speech.ended
        return (await self._talk.notes.find("audio", ended)).at - ended

    async def failure(self) -> str:
        return (await self._talk.notes.find("error")).value

    async def hear_out(self) -> float:
        await self._talk.notes.find("over")
        return self._talk.seconds()

    async def close(self) -> None:
        self._answers += [(bytes(each), self._talk.rate) for each in self._talk.answers]
        async with asyncio.timeout(PATIENCE):
            await self._talk.close()

    async def save(self, begin: str) -> None:
        """Write the answers of all conversations; ``begin`` is the beginning of their paths."""
        for number, (audio, rate) in enumerate(self._answers, 1):
            with wave.open(f"{begin}-{number}.wav", "wb") as sound:
                sound.setnchannels(1)
                sound.setsampwidth(2)
                sound.setframerate(rate)
                sound.writeframes(audio)
