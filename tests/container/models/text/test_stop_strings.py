"""Stop strings: what is shown of a text, however it is cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partway.container.models.text.stop_strings import Stops

#: Few letters, so that beginnings overlap.
texts = st.text("ab", max_size=24)
lists_of_stops = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4)


def shown_of(stops: list[str], pieces: list[str]) -> tuple[list[str], bool]:
    """What each piece, and the end, made visible; and whether a stop string came."""
    subject = Stops(stops)
    shown = [subject.add(piece) for piece in pieces]
    return [*shown, subject.flush()], subject.stopped


def expected(stops: list[str], text: str) -> tuple[str, bool]:
    """The plainest reading of the rule: character by character, the longest that is complete."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


@pytest.mark.parametrize(
    ("stops", "pieces", "shown"),
    [
        ([], ["a", "b"], ["a", "b", ""]),
        (["END"], ["an EN", "D after"], ["an ", "", ""]),
        (["END"], ["an E", "asy one"], ["an ", "Easy one", ""]),
        (["END"], ["at the EN"], ["at the ", "EN"]),
        (["END"], ["END"], ["", ""]),
        (["END"], ["aEND", "END"], ["a", "", ""]),
        (["\n\n"], ["a\n", "b\n", "\n", "c"], ["a", "\nb", "", "", ""]),
        (["aab"], ["aaab"], ["a", ""]),
        (["aab"], ["a", "a", "a", "b"], ["", "", "a", "", ""]),
        (["abab"], ["ab", "abb"], ["", "", ""]),
        (["ababb"], ["aba", "bab", "b"], ["", "ab", "", ""]),
        (["hello", "lo"], ["well hel", "lo"], ["well ", "", ""]),
        (["é", "😀"], ["caf", "é"], ["caf", "", ""]),
    ],
)
def test_what_is_shown(stops: list[str], pieces: list[str], shown: list[str]) -> None:
    assert shown_of(stops, pieces)[0] == shown


def test_the_one_that_is_complete_first_wins() -> None:
    # "abcd" begins earlier, and nobody could know that it was coming when "c" was complete.
    assert shown_of(["abcd", "c"], ["abcd"]) == (["ab", ""], True)
    assert shown_of(["abcd", "c"], list("abcd")) == (["", "", "ab", "", ""], True)


def test_of_two_that_are_complete_at_once_the_longer_one_wins() -> None:
    for stops in (["ab", "xab"], ["xab", "ab"]):
        assert shown_of(stops, ["1xab"]) == (["1", ""], True)


def test_nothing_follows_a_stop() -> None:
    stops = Stops(["."])
    assert stops.add("a.b") == "a"
    assert stops.stopped
    assert stops.add("c") == ""
    assert stops.flush() == ""


def test_what_is_shown_at_the_end_is_shown_once() -> None:
    stops = Stops(["END"])
    stops.add("EN")
    assert stops.flush() == "EN"
    assert stops.flush() == ""
    assert not stops.stopped


def test_an_empty_stop_string_is_nobody_s_wish() -> None:
    with pytest.raises(ValueError, match="empty"):
        Stops(["a", ""])


@given(lists_of_stops, st.lists(st.text("ab", max_size=6), max_size=8))
@example(["aab"], ["aaa", "b"])
@example(["abab", "ba"], ["ab", "ab"])
def test_however_it_is_cut(stops: list[str], pieces: list[str]) -> None:
    shown, stopped = shown_of(stops, pieces)
    assert ("".join(shown), stopped) == expected(stops, "".join(pieces))


@given(st.text("ab.", min_size=1, max_size=5), st.text("ab.", max_size=24), st.data())
def test_one_stop_string_is_a_split_at_its_first_place(stop: str, text: str, data: st.DataObject):
    cut = data.draw(st.integers(0, len(text)))
    shown, stopped = shown_of([stop], [text[:cut], text[cut:]])
    assert "".join(shown) == text.split(stop, 1)[0]
    assert stopped is (stop in text)


@given(lists_of_stops, texts)
def test_no_more_is_held_back_than_a_stop_string_could_claim(stops: list[str], text: str) -> None:
    subject = Stops(stops)
    shown = ""
    for at, character in enumerate(text, 1):
        shown += subject.add(character)
        if subject.stopped:
            break
        held = text[len(shown) : at]
        assert shown + held == text[:at]
        assert len(held) < max(map(len, stops), default=1)
        assert not held or any(stop.startswith(held) for stop in stops)
        # and all that one of them could claim
        ends = (text[begin:at] for begin in range(len(shown)))
        assert not any(stop.startswith(end) for stop in stops for end in ends)
