"""partway.container.models.voice.wires.flux_speak_turns: which part of a turn's text was heard."""

from __future__ import annotations

import pytest

from partway.container.models.voice.limits import MAX_ANSWER
from partway.container.models.voice.phrases import PhraseCutter
from partway.container.models.voice.wires.flux_speak_turns import SpokenTurn
from partway.container.models.voice.wires.text_speaker import TooMuchText

pytestmark = pytest.mark.usefixtures("anyio_backend")


def spoken(text: str, seconds: float = 1.0) -> SpokenTurn:
    """A turn whose every phrase lasts so many seconds."""
    turn = SpokenTurn(16_000)
    turn.add(text)
    cutter = PhraseCutter()
    for phrase in (*cutter.add(text), *cutter.end()):
        turn.playback.begin(phrase)
        turn.playback.add(seconds)
        turn.playback.end_phrase()
    return turn


@pytest.mark.parametrize(
    ("heard_ms", "text"),
    [
        (-5, ""),
        (0, ""),
        (990, " The first"),
        (1000, " The first  sentence."),
        (1990, " The first  sentence.\nAnd the"),
        (2000, " The first  sentence.\nAnd the other."),
        (9000, " The first  sentence.\nAnd the other."),
    ],
)
async def test_the_two_parts_are_the_whole_text(heard_ms: int, text: str) -> None:
    whole = " The first  sentence.\nAnd the other. "
    turn = spoken(whole)
    heard, rest = turn.split(heard_ms)
    assert (heard, heard + rest) == (text, whole)


async def test_a_word_without_an_end_is_split_at_its_phrases() -> None:
    heard, rest = spoken("x" * 700).split(1000)
    assert (len(heard), len(rest)) == (300, 400)


async def test_a_turn_reports_its_audio_and_characters() -> None:
    turn = spoken("Hello.", 1.5)
    metadata = turn.metadata()
    assert metadata["speech_id"] == turn.id != SpokenTurn(16_000).id
    assert metadata["audio_duration_ms"] == 1500
    assert metadata["input_character_count"] == metadata["billable_character_count"] == 6


async def test_the_text_of_a_turn_is_bounded() -> None:
    turn = spoken("x" * MAX_ANSWER)
    with pytest.raises(TooMuchText, match="a text of 1 characters is not spoken: its turn has"):
        turn.check("x")
