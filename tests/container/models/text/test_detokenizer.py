"""Tokens as text: put together it is the whole's, and no piece of it has to be taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partway.container.models.text.detokenizer import Detokenizer

Decode = Callable[[list[int]], str]

SKIPPED = 256  # a special token of the byte level, which has no text


class Counted:
    """A ``decode`` that counts its calls, and the most tokens that one of them got."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self.calls = 0
        self.most = 0

    def __call__(self, ids: list[int]) -> str:
        self.calls += 1
        self.most = max(self.most, len(ids))
        return self._decode(ids)


def byte_level(ids: list[int]) -> str:
    """One byte a token, as a tokenizer without merges has it."""
    return bytes(id for id in ids if id != SKIPPED).decode("utf-8", errors="replace")


def byte_level_of(vocabulary: Sequence[bytes]) -> Decode:
    """Tokens of several bytes, which begin and end anywhere."""
    return lambda ids: b"".join(vocabulary[id] for id in ids).decode("utf-8", errors="replace")


def leading_space_lost(vocabulary: Sequence[str]) -> Decode:
    """SentencePiece: a word begins with ▁, and the first one's is no space."""
    return lambda ids: "".join(vocabulary[id] for id in ids).replace("▁", " ").removeprefix(" ")


def joined_pieces(vocabulary: Sequence[str]) -> Decode:
    """WordPiece: pieces are apart by a space, but where ## says that a word goes on."""
    return lambda ids: " ".join(vocabulary[id] for id in ids).replace(" ##", "")


def byte_fallback(ids: list[int]) -> str:
    """SentencePiece with bytes: a run of them is UTF-8, or each of them is a replacement character.

    Tokens under 256 are bytes, others characters.
    """
    text, run = "", b""
    for id in [*ids, 0x100]:
        if id < 0x100:
            run += bytes((id,))
            continue
        try:
            text += run.decode()
        except UnicodeDecodeError:
            text += "\ufffd" * len(run)
        text, run = text + chr(id), b""
    return text[:-1]


def pieces_of(decode: Decode, ids: Sequence[int], step: int = 1) -> list[str]:
    """What each ``step`` tokens, and the end, made visible."""
    subject = Detokenizer(decode)
    shown = [subject.add(ids[at : at + step]) for at in range(0, len(ids), step)]
    return [*shown, subject.flush()]


steps = st.integers(1, 5)
tokens_of_bytes = st.one_of(
    st.binary(max_size=200),
    st.text("a é你😀\ufffd", max_size=60).map(str.encode),
    # Beginnings that are not gone on with, and what would go on with nothing.
    st.lists(
        st.sampled_from(
            [b"\xf0\x9f\x98", b"\xf0", b"\xe4\xbd", b"\x80", b"\xff", b"a", b"\xe0\x80"]
        ),
        max_size=80,
    ).map(b"".join),
).map(list)


@given(tokens_of_bytes, steps)
@example(list(b"\xf0\x9f\x98" * 60), 1)
@example(list(b"\xff" * 200), 1)
@example(list(b"\x80" * 200), 1)
@example(list("😀".encode() * 60), 1)
@example(list("你".encode() * 60 + b"\xe4"), 1)
@example(list(("\0" * 7 + "𐀀\ufffd\ufffd").encode()), 1)  # cut within 𐀀, before it is all shown
def test_any_bytes(ids: list[int], step: int) -> None:
    assert "".join(pieces_of(byte_level, ids, step)) == byte_level(ids)


@given(st.lists(st.integers(0, SKIPPED), max_size=200))
@example([0xE4, SKIPPED, 0xBD, SKIPPED, 0xA0])
@example([SKIPPED] * 100 + [0xE4] + [SKIPPED] * 100 + [0xBD])
def test_special_tokens_among_any_bytes(ids: list[int]) -> None:
    assert "".join(pieces_of(byte_level, ids)) == byte_level(ids)


@given(
    st.lists(
        st.sampled_from(["a", " the", "é", "你", "😀", "👩‍👩‍👧‍👦", "\ufffd", "\n"]).map(str.encode)
        | st.binary(min_size=1, max_size=6),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_tokens_of_any_bytes(vocabulary: list[bytes], data: st.DataObject) -> None:
    decode = byte_level_of(vocabulary)
    ids = data.draw(st.lists(st.integers(0, len(vocabulary) - 1), max_size=150))
    assert "".join(pieces_of(decode, ids, data.draw(steps))) == decode(ids)


@given(st.text(max_size=80))
@example("naïve 你好，世界 👩‍👩‍👧‍👦 été")
@example("\U0010ffff" * 40)
def test_each_character_is_there_with_its_last_byte(text: str) -> None:
    subject = Detokenizer(byte_level)
    late = ""
    for character in text:
        pieces = [subject.add([byte]) for byte in character.encode()]
        assert not any(pieces[:-1])
        if character == "\ufffd":  # which might be a broken one's: it is seen with the next one
            late += character
            assert pieces[-1] == late[:-3]
            late = late[-3:]
        else:
            assert pieces[-1] == late + character
            late = ""
    assert subject.flush() == late


WORDS = ["▁Hello", "▁world", "▁", "ing", ",", "é", "▁你", "😀", "▁▁"]
PIECES = ["hello", "##ing", "world", ",", "##s", "你", "é"]


def test_a_first_mark_is_not_forgotten_for_special_tokens() -> None:
    decode = leading_space_lost(["▁", "", "▁a"])
    assert "".join(pieces_of(decode, [0] + [1] * 100 + [2])) == " a"


@given(st.lists(st.integers(0, len(WORDS) - 1), max_size=150), steps)
@example([2, 2, 0], 1)
def test_a_first_word_that_loses_its_space(ids: list[int], step: int) -> None:
    decode = leading_space_lost(WORDS)
    assert "".join(pieces_of(decode, ids, step)) == decode(ids)


@given(st.lists(st.integers(0, len(PIECES) - 1), max_size=150), steps)
def test_pieces_of_words(ids: list[int], step: int) -> None:
    decode = joined_pieces(PIECES)
    assert "".join(pieces_of(decode, ids, step)) == decode(ids)


@given(
    st.lists(
        st.text("a你😀é龘", max_size=30).map(lambda text: list(text.encode()))
        | st.lists(st.sampled_from([ord("你") + 0x100, 0x141, 0x20AC]), max_size=30),
        max_size=6,
    ),
    steps,
)
@example([list("你".encode() * 100)], 1)
@example([list("😀".encode() * 100)], 4)
@example([list(b"abc" + "é".encode() * 100)], 1)
@example([list("你😀你😀😀".encode() * 20)], 1)
@example([list("a😀你😀".encode() * 20)], 1)
def test_runs_of_bytes_that_are_utf_8(runs: list[list[int]], step: int) -> None:
    ids = [id for run in runs for id in run]
    counted = Counted(byte_fallback)
    assert "".join(pieces_of(counted, ids, step)) == byte_fallback(ids)
    assert counted.most <= 16 + 3  # the window is cut when the next character is whole


def test_what_was_shown_of_a_run_of_bytes_stays() -> None:
    ids = [*"你".encode(), 0xE4, 0xFF, 0x141, 0x142]
    assert byte_fallback(ids) == "\ufffd" * 5 + "\u0141\u0142"
    assert pieces_of(byte_fallback, ids) == [
        *("", "", "你", "", ""),
        "\ufffd" * 4 + "\u0141",
        *("\u0142", ""),
    ]


def test_a_run_of_bytes_that_stays_broken_is_shown_on() -> None:
    ids = list("你".encode()) + [0xFF] * 300
    counted = Counted(byte_fallback)
    shown = pieces_of(counted, ids)
    assert "".join(shown) == "你" + "\ufffd" * 302
    assert not any(shown[3:6])
    assert all(shown[8:])
    assert counted.most <= 16


@given(st.lists(st.integers(0, 0xFF) | st.just(ord("Ω")), max_size=300))
@example([0xE4, 0xBD, ord("Ω")] * 60)
@example([*"龘".encode(), 0xFF] * 60 + [ord("Ω")] * 3)
@example([0xFF, *("a😀😀" * 20).encode(), ord("Ω")])
@example([0xFF, *("你" * 40).encode(), ord("Ω")])
def test_whatever_a_run_of_bytes_is_no_other_token_is_lost(ids: list[int]) -> None:
    counted = Counted(byte_fallback)
    shown = "".join(pieces_of(counted, ids))
    assert shown.count("Ω") >= ids.count(ord("Ω"))  # bytes make it too
    assert counted.most <= 64


@pytest.mark.parametrize(
    ("ids", "calls", "most"),
    [
        pytest.param(list(b"plain words " * 100), 1.2, 16, id="ascii"),
        pytest.param(list("你好".encode() * 200), 2, 16, id="CJK"),
        pytest.param(list("😀".encode() * 200), 2, 16, id="emoji"),
        pytest.param([0xFF] * 1000, 1.2, 16, id="broken"),
        pytest.param(list(b"\xf0\x9f\x98" * 300), 2, 16, id="cut off"),
        pytest.param([SKIPPED] * 1000, 1.2, 16, id="special, from the first one on"),
        pytest.param([0x41] + [SKIPPED] * 1000, 2.1, 16, id="special, after text"),
        pytest.param([0xE4] + [SKIPPED] * 1000, 2.1, 16, id="special, within a character"),
    ],
)
def test_a_token_costs_little_however_many_came_before(
    ids: list[int], calls: float, most: int
) -> None:
    counted = Counted(byte_level)
    assert "".join(pieces_of(counted, ids)) == byte_level(ids)
    assert counted.most <= most
    assert counted.calls <= calls * len(ids)


def test_characters_that_all_lie_across_two_tokens() -> None:
    decode = Counted(byte_level_of([b"\xe4", b"\xbd\xa0\xe4"]))
    shown = pieces_of(decode, [0] + [1] * 200)
    assert shown == ["", *["你"] * 200, "\ufffd"]
    assert decode.most <= 16


def test_a_decode_that_is_of_no_usual_kind_gets_short_windows_too() -> None:
    # Each text depends on the number of tokens: no cut agrees with what was before.
    counted = Counted(lambda ids: chr(len(ids)) * len(ids))
    pieces_of(counted, range(1000))
    assert counted.most <= 64


def test_after_the_end_it_begins_anew() -> None:
    subject = Detokenizer(leading_space_lost(WORDS))
    assert subject.add([0, 1]) == "Hello world"
    assert subject.flush() == ""
    assert subject.add([0]) == "Hello"
    broken = Detokenizer(byte_level)
    assert broken.add(b"a\xe4") == "a"
    assert broken.flush() == "\ufffd"
    assert broken.flush() == ""
    assert broken.add(b"\xbd") == ""
    assert broken.flush() == "\ufffd"


def test_no_tokens() -> None:
    assert pieces_of(byte_level, []) == [""]
    assert Detokenizer(byte_level).add([]) == ""
