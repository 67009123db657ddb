"""The model ``speech``: audio in, begin and end times of speech out."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Final

import numpy as np

from partway.container.errors import ModelError
from partway.container.model import DEFAULT_PATH, Model, Opening, route
from partway.container.models.speech.detector import RATE, SAMPLE_BYTES, Detector, Turn
from partway.container.stream import Stream
from partway.protocol.limits import PART_OVERHEAD
from partway.protocol.parts import CompletionState, DataType
from partway.protocol.websocket.close_codes import INVALID_DATA, POLICY_VIOLATION, TOO_BIG

#: Bytes of audio, in one part or many, after which other tasks get a turn: two seconds of audio,
#: which take one to two milliseconds.
SLICE_BYTES: Final = 1 << 16

#: Largest control message, in bytes; a valid one has 16.
MAX_CONTROL_BYTES: Final = 1024

#: Seconds between two levels, and the level of silence in decibels of full scale: JSON has no
#: infinity, and one step of 16 bits is at -90.
LEVEL_PERIOD: Final = 0.1
SILENCE_LEVEL: Final = -100.0

_PERIOD_BYTES = int(LEVEL_PERIOD * RATE) * SAMPLE_BYTES
_SWITCH = {"true": True, "false": False}


class Speech(Model):
    """Reports where speech begins and ends in 16-bit little-endian PCM, mono, at 16 kHz.

    Binary parts of any size are audio; text messages turn further reports on and off.
    """

    async def admit(self, opening: Opening) -> None:
        values = opening.query.getall("level", ["false"])
        if len(values) > 1 or values[0] not in _SWITCH:
            raise ModelError("level must be true or false", status=400)

    @route(DEFAULT_PATH, query={"level"})
    async def stream(self, stream: Stream) -> None:
        listener = _Listener(level=_SWITCH[stream.query.get("level", "false")])
        since_turn = 0
        async for payload, data_type, completion in stream.fragments():
            if data_type is DataType.UTF8:
                listener.control(payload, last=completion is CompletionState.COMPLETE)
            else:
                audio = memoryview(payload)
                for begin in range(0, len(audio), SLICE_BYTES):
                    if begin:
                        await asyncio.sleep(0)
                    for message in listener.audio(audio[begin : begin + SLICE_BYTES]):
                        await stream.send(message)
            since_turn += len(payload) + PART_OVERHEAD
            if since_turn >= SLICE_BYTES:  # the loop does not wait for parts that are there already
                since_turn = 0
                await asyncio.sleep(0)
        for message in listener.end():
            await stream.send(message)
        if listener.half_a_sample:
            raise ModelError("the audio ends in the middle of a sample", code=INVALID_DATA)


class _Listener:
    __slots__ = ("_control", "_detector", "_meter")

    def __init__(self, *, level: bool) -> None:
        self._detector = Detector()
        self._meter = _Meter(0) if level else None
        self._control = b""  # the beginning of an unfinished message

    @property
    def half_a_sample(self) -> bool:
        return self._detector.bytes_fed % SAMPLE_BYTES != 0

    def audio(self, pcm: memoryview) -> list[str]:
        """Process more audio; return the messages that it causes."""
        messages = [_turn(turn) for turn in self._detector.feed(pcm)]
        if self._meter is not None:
            messages += self._meter.feed(pcm)
        return messages

    def end(self) -> list[str]:
        return [_turn(turn) for turn in self._detector.end()]

    def control(self, fragment: bytes, *, last: bool) -> None:
        """Take a fragment of a control message.

        Raises:
            ModelError: the message is malformed, or asks for an unsupported report.
        """
        self._control += fragment
        if len(self._control) > MAX_CONTROL_BYTES:
            raise ModelError(
                f"a control message must have at most {MAX_CONTROL_BYTES} bytes", code=TOO_BIG
            )
        if last:
            message, self._control = self._control, b""
            level = _level_asked(message)
            if level and self._meter is None:
                self._meter = _Meter(self._detector.bytes_fed)
            elif not level:
                self._meter = None


class _Meter:
    """Measures the level of each period of the audio.

    Args:
        position: bytes of audio received before; the first period is the next whole one.
    """

    __slots__ = ("_pending", "_periods", "_skip")

    def __init__(self, position: int) -> None:
        self._periods = -(-position // _PERIOD_BYTES)
        self._skip = self._periods * _PERIOD_BYTES - position
        self._pending = bytearray()  # an incomplete period

    def feed(self, pcm: memoryview) -> list[str]:
        skipped = min(self._skip, len(pcm))
        self._skip -= skipped
        self._pending += pcm[skipped:]
        messages = []
        whole = len(self._pending) // _PERIOD_BYTES
        for n in range(whole):
            samples = np.frombuffer(self._pending, "<i2", _PERIOD_BYTES // 2, n * _PERIOD_BYTES)
            self._periods += 1
            messages.append(_level(self._periods * LEVEL_PERIOD, samples.astype(np.float64)))
            del samples  # an array would pin its buffer, which is about to shrink
        del self._pending[: whole * _PERIOD_BYTES]
        return messages


def _turn(turn: Turn) -> str:
    event = "speech_start" if turn.begins else "speech_end"
    return json.dumps({"event": event, "time": round(turn.time, 3)})


def _level(time: float, samples: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    power = float(np.dot(samples, samples)) / len(samples) / 32768.0**2
    level = 10 * math.log10(power) if power else SILENCE_LEVEL
    return json.dumps({"event": "level", "time": round(time, 3), "level": round(level, 1)})


def _level_asked(message: bytes) -> bool:
    """Return whether a control message asks for levels.

    Raises:
        ModelError: the message is not a control message.
    """
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):
        raise ModelError("a control message must be JSON", code=INVALID_DATA) from None
    if not isinstance(said, dict):
        raise ModelError("a control message must be an object", code=POLICY_VIOLATION)
    unknown = sorted(said.keys() - {"level"})
    if unknown:
        raise ModelError(
            f"a control message has an unknown member: {ascii(unknown[0])[:40]}",
            code=POLICY_VIOLATION,
        )
    if not isinstance(said.get("level"), bool):
        raise ModelError(
            'a control message must be {"level": true} or {"level": false}', code=POLICY_VIOLATION
        )
    return bool(said["level"])
