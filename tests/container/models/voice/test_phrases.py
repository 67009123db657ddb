"""partway.container.models.voice.phrases: where text is cut."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.voice.limits import MAX_PHRASE
from partway.container.models.voice.phrases import PhraseCutter, phrases_of

TEXTS = st.lists(st.text(st.sampled_from("ab .,!?\n0。、"), max_size=80))


def cut(*pieces: str) -> list[str]:
    cutter = PhraseCutter()
    return [*(phrase for piece in pieces for phrase in cutter.add(piece)), *cutter.end()]


@given(TEXTS)
def test_no_word_is_lost_and_no_phrase_is_long(pieces):
    phrases = cut(*pieces)
    assert "".join("".join(phrases).split()) == "".join("".join(pieces).split())
    assert all(0 < len(phrase) <= MAX_PHRASE for phrase in phrases)
    assert all(phrase == phrase.strip() for phrase in phrases)


@given(TEXTS)
def test_pieces_change_nothing(pieces):
    """A text is cut in the same places, however it comes."""
    text = "".join(pieces)
    assert cut(*text) == cut(text)


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("", []),
        (" \n ", []),
        ("Hello", ["Hello"]),
        ("Hello, how are you today? Fine.", ["Hello, how are you today?", "Fine."]),
        ("Well, it is late, so go, now go. Yes.", ["Well, it is late,", "so go, now go.", "Yes."]),
        ("It costs 3.14 euros. Or more than it.", ["It costs 3.14 euros.", "Or more than it."]),
        ("He saw Dr. Smith. Then he saw J. Doe.", ["He saw Dr. Smith.", "Then he saw J. Doe."]),
        ('She said "come here." And he came.', ['She said "come here."', "And he came."]),
        ("Item one is it\nItem two is it", ["Item one is it", "Item two is it"]),
        (
            "今日はいい天気ですね、本当に。明日もです。",
            ["今日はいい天気ですね、本当に。", "明日もです。"],
        ),
    ],
)
def test_sentences(text, phrases):
    assert phrases_of(text) == phrases


def test_the_first_phrase_is_short():
    words = "word " * 30
    first, *others = cut(words)
    assert 40 <= len(first) < 46
    assert others == [("word " * 21).strip()]


def test_a_phrase_is_complete_as_early_as_it_can_be():
    cutter = PhraseCutter()
    assert cutter.add("It is three point") == []
    assert cutter.add(" one.") == []
    assert cutter.add(" ") == ["It is three point one."]
    assert cutter.add("A second sentence, with a mark") == []
    assert cutter.add("! ") == ["A second sentence, with a mark!"]
    assert cutter.add("The rest") == []
    assert cutter.end() == ["The rest"]
    assert cutter.end() == []


def test_after_an_end_the_next_phrase_is_short_again():
    cutter = PhraseCutter()
    for _ in range(2):
        assert cutter.add("One moment please, I look. ") == ["One moment please,"]
        assert cutter.end() == ["I look."]


def test_cleared_text_is_not_spoken():
    cutter = PhraseCutter()
    cutter.add("Forget this")
    cutter.clear()
    assert cutter.end() == []


def test_a_long_sentence_is_cut_at_a_mark_or_else_a_space():
    clause = "a clause of a sentence that goes on, "
    first, second, *_ = cut("Here we are now. " + clause * 20)
    assert first == "Here we are now."
    assert second == (clause * 8).strip()
    _, second, *_ = cut("Here we are now. " + "word " * 100)
    assert second == ("word " * 60).strip()
    assert [len(phrase) for phrase in cut("x" * 700)] == [300, 300, 100]


def test_a_long_text_is_cut_in_little_time():
    text = "a. " * 1_365  # each mark is a short form's, so none ends a sentence
    before = time.process_time()
    phrases = phrases_of(text)
    assert time.process_time() - before < 2
    assert [len(phrase) for phrase in phrases[:2]] == [41, 299]


def test_a_long_run_of_marks_is_cut_in_little_time():
    """Each mark of a run is looked at once for each piece: the loop has other streams to serve."""
    cutter = PhraseCutter()
    before = time.process_time()
    for _ in range(8_000):
        cutter.add(".")
    assert time.process_time() - before < 2


def test_a_mark_counts_at_the_very_end_of_the_longest_phrase():
    sentence = "x" * (MAX_PHRASE - 1) + "."
    assert cut(f"Here we are now. {sentence} y")[1] == sentence
