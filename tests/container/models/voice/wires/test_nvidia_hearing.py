"""partway.container.models.voice.wires.nvidia_hearing: transcription as NVIDIA's clients ask."""

from __future__ import annotations

import numpy as np
import pytest

from tests.container.models.voice.sounds import sounds
from tests.container.models.voice.wires.failing_engines import HEARS_SECOND
from tests.container.models.voice.wires.json_client import JsonClient, client

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

COMPLETED = "conversation.item.input_audio_transcription.completed"


def session(rate: int = 16_000, **members: object) -> dict[str, object]:
    """The session of pipecat's service, with more members."""
    return {
        "input_audio_format": "pcm16",
        "input_audio_params": {"sample_rate_hz": rate, "num_channels": 1},
        "input_audio_transcription": {"language": "en-US", "model": "parakeet"},
        "recognition_config": {"enable_automatic_punctuation": True},
        **members,
    }


def boosted(phrases: list[str]) -> dict[str, object]:
    return {"word_boosting_list": [{"phrases": phrases}]}


async def begin(stream: JsonClient, **wanted: object) -> None:
    await stream.send("transcription_session.update", session=session(**wanted))  # type: ignore[arg-type]
    assert (await stream.until("transcription_session.updated"))[-1]["session"]


async def say(stream: JsonClient, audio: np.ndarray, **members: object) -> None:
    """Send audio as pipecat does, each chunk with a commit."""
    for chunk in np.array_split(audio, max(1, len(audio) // 320)):
        await stream.append(chunk, **members)
        await stream.send("input_audio_buffer.commit")


async def test_silence_ends_an_utterance_and_commits_do_not():
    async with client() as stream:
        await begin(stream)
        await say(stream, sounds(0.2, 1.2, 0.8, 0.4, 0.8))
        texts = [(await stream.until(COMPLETED))[-1] for _ in range(2)]
        assert [event["transcript"] for event in texts] == ["one two three", "one"]
        assert texts[0]["item_id"] != texts[1]["item_id"]
        assert not texts[0]["is_last_result"]


async def test_other_rates():
    async with client() as stream:
        await begin(stream, rate=8_000)
        await say(stream, sounds(0.2, 1.2, 0.8, rate=8_000))
        assert (await stream.until(COMPLETED))[-1]["transcript"] == "one two three"


async def test_an_interim_text_is_whole():
    async with client() as stream:
        await begin(stream)
        await say(stream, sounds(0.1, 1.0))
        kind = "conversation.item.input_audio_transcription.delta"
        delta = (await stream.until(kind))[-1]["delta"]
        assert delta.startswith("one")


async def test_words_with_their_times():
    async with client() as stream:
        await begin(stream, recognition_config={"enable_word_time_offsets": True})
        await say(stream, sounds(0.2, 0.8, 0.8))
        words = (await stream.until(COMPLETED))[-1]["words_info"]["words"]
        assert [word["word"] for word in words] == ["one", "two"]
        assert words[0]["end_time"] == words[1]["start_time"]


async def test_a_forced_end_of_the_utterance():
    async with client() as stream:
        await begin(stream)
        await stream.append(sounds(0.1, 0.4), runtime_config={"force_eou": "true"})
        assert (await stream.until(COMPLETED))[-1]["transcript"] == "one"


async def test_the_audio_of_a_refused_message_is_not_heard():
    async with client() as stream:
        await begin(stream)
        await stream.append(sounds(0.1, 0.4), runtime_config={"force_eou": 1})
        assert "force_eou" in (await stream.until("error"))[-1]["message"]
        await stream.send("session.end")
        assert [event["transcript"] for event in await stream.rest()] == [""]


@pytest.mark.parametrize("end", ["session.end", "input_audio_buffer.done"])
async def test_the_end_tells_the_last_text(end):
    async with client() as stream:
        await begin(stream)
        await say(stream, sounds(0.1, 0.8))
        await stream.send(end)
        last = (await stream.rest())[-1]
        assert (last["transcript"], last["is_last_result"]) == ("one two", True)
        assert stream.connection.close_code == 1000


async def test_an_end_after_silence_is_told_too():
    async with client() as stream:
        await begin(stream)
        await say(stream, sounds(0.5))
        await stream.send("session.end")
        (last,) = await stream.rest()
        assert (last["transcript"], last["is_last_result"]) == ("", True)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"input_audio_format": "opus"}, "input_audio_format"),
        ({"input_audio_params": {"sample_rate_hz": 4_000}}, "4000"),
        ({"input_audio_params": {"sample_rate_hz": "16k"}}, "sample_rate_hz"),
        ({"input_audio_transcription": []}, "input_audio_transcription"),
        ({"input_audio_transcription": {"prompt": "x" * 262_145}}, "262145 characters"),
        ({"word_boosting": boosted(["x"] * 101)}, "101 keyterms of 101 characters"),
        ({"word_boosting": boosted(["x" * 2_001])}, "1 keyterms of 2001 characters"),
        ({"unknown": "x" * 600_000}, "session has 600"),
    ],
)
async def test_a_refused_session_may_be_mended(wanted, named):
    async with client() as stream:
        await stream.until("session.created")
        await stream.send("transcription_session.update", session=session(**wanted))
        assert named in (await stream.next())["error"]["message"]
        await begin(stream)


async def test_a_session_cannot_change():
    async with client() as stream:
        await begin(stream)
        await stream.send("transcription_session.update", session=session(rate=8_000))
        assert (await stream.next())["error"]["code"] == "session_fixed"
        await say(stream, sounds(0.1, 0.4, 0.8))
        assert (await stream.until(COMPLETED))[-1]["transcript"] == "one"


async def test_an_utterance_that_cannot_be_heard_is_told_and_the_next_one_heard():
    async with client(hears=HEARS_SECOND, eager_ms=0) as stream:
        await begin(stream)
        await stream.append(sounds(0.1, 0.4), runtime_config={"force_eou": "true"})
        await say(stream, sounds(0.8, 0.8, 0.8))
        events = await stream.until(COMPLETED)
        (failed,) = [event for event in events if event["type"].endswith(".failed")]
        assert "the ear is full" in failed["error"]["message"]
        assert events[-1]["transcript"] == "one two"
