"""speech behind the runtime: audio in, times out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
from multidict import MultiDict
from websockets.exceptions import ConnectionClosed, InvalidStatus

from partway.container.models.speech import Speech
from partway.container.models.speech.detector import RATE
from partway.container.models.speech.model import MAX_CONTROL_BYTES, SILENCE_LEVEL, SLICE_BYTES
from partway.container.stream import Stream
from partway.container.testing import Query, Served, serving
from partway.protocol.limits import PART_OVERHEAD
from partway.protocol.parts import PayloadPart
from tests.container.models.syllables import pcm, said, silence
from tests.container.wire import PATIENCE, raw_stream
from tests.frame_factory import BINARY, CONTINUATION, TEXT

pytestmark = pytest.mark.usefixtures("no_leaks")

#: Speech from 0.7 to 1.5 s, and from 2.3 s to the end.
AUDIO = pcm(
    np.concatenate([silence(0.7), said(0.8), silence(0.8), said(0.6)]) * 0.1
    + np.random.default_rng(3).standard_normal(int(2.9 * RATE)) * 0.003
)


async def heard(
    served: Served, parts: Sequence[str | bytes | list[bytes]], query: Query = ()
) -> tuple[list[dict[str, Any]], int, str]:
    """What is said to somebody who sends all parts and then Close; and the Close."""
    async with served.stream(query=query) as client:
        for part in parts:
            await client.send(part)
        # A Close sent by hand: the client's own would drop what still comes.
        client.protocol.send_close(1000)
        client.transport.writelines(client.protocol.data_to_send())
        messages = await said_to(client)
    return messages, client.close_code or 0, client.close_reason or ""


async def said_to(client: AsyncIterable[str | bytes]) -> list[dict[str, Any]]:
    """What comes before the end."""
    messages = []
    try:
        async for message in client:
            assert isinstance(message, str), "events are text"
            messages.append(json.loads(message))
    except ConnectionClosed:
        pass  # its code is the caller's to look at
    return messages


def turns(messages: Sequence[dict[str, Any]]) -> list[tuple[str, float]]:
    assert all(message.keys() == {"event", "time"} for message in messages)
    return [(message["event"], message["time"]) for message in messages]


def about(begins_and_ends: Sequence[float]) -> list[tuple[str, Any]]:
    names = ["speech_start", "speech_end"] * (len(begins_and_ends) // 2)
    return [
        (name, pytest.approx(time, abs=0.08))
        for name, time in zip(names, begins_and_ends, strict=True)
    ]


TIMES = (0.7, 1.5, 2.3, 2.9)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([AUDIO], id="in one"),
        pytest.param([AUDIO[n : n + 640] for n in range(0, len(AUDIO), 640)], id="20 ms each"),
        pytest.param([AUDIO[n : n + 777] for n in range(0, len(AUDIO), 777)], id="split samples"),
        pytest.param(
            [[AUDIO[a:b] for a, b in pairwise((0, 1, 1, 30_001, len(AUDIO)))]], id="fragments"
        ),
        pytest.param([b"", AUDIO, b""], id="nothing, too"),
    ],
)
async def test_times_do_not_depend_on_the_parts(parts: list[bytes | list[bytes]]) -> None:
    async with serving(Speech()) as served:
        messages, code, _ = await heard(served, parts)
        assert turns(messages) == about(TIMES), "speech that goes on to the end has an end, too"
        assert code == 1000


async def test_an_onset_is_told_while_the_speech_goes_on() -> None:
    async with serving(Speech()) as served, served.stream() as client:
        await client.send(AUDIO[: int(1.2 * RATE) * 2])
        async with asyncio.timeout(PATIENCE):
            message = json.loads(await client.recv())
        assert turns([message]) == about(TIMES)[:1]


async def test_nothing_is_said_of_nothing() -> None:
    async with serving(Speech()) as served:
        assert await heard(served, []) == ([], 1000, "")
        assert await heard(served, [bytes(32_000)]) == ([], 1000, "")


async def test_ten_megabytes_in_one_part() -> None:
    silent = np.random.default_rng(4).standard_normal(5_000_000).astype(np.float32) * 0.003
    async with serving(Speech()) as served:
        messages, code, _ = await heard(served, [pcm(silent) + AUDIO])
        begin = len(silent) / RATE
        assert turns(messages) == about([begin + time for time in TIMES])
        assert code == 1000


class Heard:
    """A stream whose parts are all there already, as far as a handler can tell."""

    query: MultiDict[str] = MultiDict()

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = parts

    async def fragments(self) -> AsyncIterator[PayloadPart]:
        for part in self.parts:
            yield PayloadPart(part)

    async def send(self, message: str) -> None: ...


@pytest.mark.parametrize("size", [SLICE_BYTES * 20, SLICE_BYTES, 16])
async def test_others_get_their_turn_while_one_has_sent_all_at_once(size: int) -> None:
    slices = 20 if size > 16 else 1
    audio = bytes(SLICE_BYTES * slices)
    parts = [audio[n : n + size] for n in range(0, len(audio), size)]
    listening = asyncio.ensure_future(Speech().stream(cast("Stream", Heard(parts))))
    turns_of_others = 0
    while not listening.done():
        await asyncio.sleep(0)
        turns_of_others += 1
    await listening
    with_overhead = len(audio) + PART_OVERHEAD * len(parts)
    assert turns_of_others >= with_overhead // SLICE_BYTES


# --- Levels --------------------------------------------------------------------------------------

LOUD = pcm(np.sin(np.arange(RATE // 5) * 2 * np.pi * 1000 / RATE))  # 0.2 s
FULL = (-np.ones(RATE // 10) * 32768).astype("<i2").tobytes()
QUIET = bytes(RATE // 10 * 2)


def levels(messages: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    return [(m["time"], m["level"]) for m in messages if m["event"] == "level"]


@pytest.mark.parametrize("size", [7, 333, 3200, 20_000])
async def test_levels_of_tenths_of_a_second(size: int) -> None:
    audio = LOUD + QUIET + FULL + QUIET[:-2]
    parts = [audio[n : n + size] for n in range(0, len(audio), size)]
    async with serving(Speech()) as served:
        messages, code, _ = await heard(served, parts, {"level": "true"})
        assert levels(messages) == [(0.1, -3.0), (0.2, -3.0), (0.3, SILENCE_LEVEL), (0.4, 0.0)]
        assert code == 1000


async def test_levels_when_they_are_asked_for() -> None:
    on, off = '{"level": true}', '{"level": false}'
    parts = [LOUD[:3201], on, on, LOUD[3201:], QUIET, off, QUIET, FULL[:1], FULL[1:2], on, FULL]
    async with serving(Speech()) as served:
        messages, _, _ = await heard(served, parts)
        assert levels(messages) == [(0.3, SILENCE_LEVEL)]
        messages, _, _ = await heard(served, [off, LOUD], {"level": "true"})
        assert levels(messages) == []
        messages, _, _ = await heard(served, [LOUD], {"level": "false"})
        assert levels(messages) == []


async def test_a_control_message_in_fragments() -> None:
    async with serving(Speech()) as served, raw_stream(int(served.url.rpartition(":")[2])) as raw:
        raw.send_frame(TEXT, b'{"lev', fin=False)
        raw.send_frame(CONTINUATION, b'el": true}')
        raw.send_frame(BINARY, QUIET)
        assert json.loads((await raw.frame()).payload)["event"] == "level"


# --- Faults --------------------------------------------------------------------------------------

FAULTS = [
    pytest.param(["{"], 1007, "a control message must be JSON", id="no JSON"),
    pytest.param([""], 1007, "a control message must be JSON", id="nothing"),
    pytest.param(["[" * 1000], 1007, "a control message must be JSON", id="deep"),
    pytest.param(["[true]"], 1008, "a control message must be an object", id="no object"),
    pytest.param(
        ['{"level": true, "gain": 2}'],
        1008,
        "a control message has an unknown member: 'gain'",
        id="an unknown member",
    ),
    pytest.param(
        [json.dumps({"é" * 200: 1})],
        1009,
        f"a control message must have at most {MAX_CONTROL_BYTES} bytes",
        id="a large message",
    ),
    pytest.param(
        [json.dumps({"é\ud800" * 50: 1})],
        1008,
        "a control message has an unknown member: '" + ("\\xe9\\ud800" * 4)[:39],
        id="a strange member",
    ),
    pytest.param(
        ['{"level": 1}'],
        1008,
        'a control message must be {"level": true} or {"level": false}',
        id="a number",
    ),
    pytest.param(
        ["{}"], 1008, 'a control message must be {"level": true} or {"level": false}', id="empty"
    ),
    pytest.param([b"\0"], 1007, "the audio ends in the middle of a sample", id="half a sample"),
]


@pytest.mark.parametrize(("parts", "code", "reason"), FAULTS)
async def test_a_fault_ends_its_own_stream_alone(
    parts: list[str | bytes], code: int, reason: str
) -> None:
    half = len(AUDIO) // 2 + 1
    async with serving(Speech()) as served, served.stream() as neighbour:
        await neighbour.send(AUDIO[:half])
        assert await heard(served, parts) == ([], code, reason)
        await neighbour.send(AUDIO[half:])
        async with asyncio.timeout(PATIENCE):
            found = [json.loads(await neighbour.recv()) for _ in range(3)]
        assert turns(found) == about(TIMES)[:3]


async def test_half_a_sample_takes_nothing_from_what_was_said_before_it() -> None:
    async with serving(Speech()) as served:
        messages, code, _ = await heard(served, [AUDIO + b"\0"])
        assert turns(messages) == about(TIMES)
        assert code == 1007


@pytest.mark.parametrize(
    "query",
    [{"level": "yes"}, {"level": ""}, [("level", "true"), ("level", "true")], {"gain": "2"}],
)
async def test_a_query_that_is_not_known(query: Query) -> None:
    async with serving(Speech()) as served:
        with pytest.raises(InvalidStatus) as refused:
            async with served.stream(query=query):
                pass
        assert refused.value.response.status_code == 400


async def test_a_client_that_leaves_in_the_middle() -> None:
    async with serving(Speech()) as served:
        async with served.stream() as client:
            await client.send(AUDIO[:50_001])
            client.transport.abort()
        assert (await heard(served, [AUDIO]))[1] == 1000
