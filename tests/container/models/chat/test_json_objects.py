"""partway.container.models.chat.json_objects: a text is an object that can be written, or none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from partway.container.models.chat.json_objects import LARGE_TEXT, MAX_DEPTH, object_of, quoted


def nested(depth: int) -> str:
    """An object with so many levels, itself among them."""
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


def test_halves_of_surrogates_are_replaced_in_names_and_values() -> None:
    assert object_of(r'{"\ud800":["\udc00",{"a":"b\ud800"}],"c":"\ud83d\ude00"}') == {
        "?": ["?", {"a": "b?"}],
        "c": "\U0001f600",
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":[1e999]}',
        '{"a":%s}' % ("1" * 5_000),
        b'{"a":"\xed\xa0\x80"}',
        nested(MAX_DEPTH + 1),
        nested(980),
        nested(100_000),
        '{"a":[%s{}]}' % ("{}," * LARGE_TEXT),
        "[]",
        "",
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_other_texts_are_none(text: str | bytes) -> None:
    assert object_of(text) is None


def test_a_long_text_may_have_long_values() -> None:
    audio = "A" * LARGE_TEXT
    assert object_of(f'{{"type":"append","audio":"{audio}"}}') == {"type": "append", "audio": audio}


def test_the_deepest_object_is_read() -> None:
    assert json.dumps(object_of(nested(MAX_DEPTH)), separators=(",", ":")) == nested(MAX_DEPTH)


_ANY = some.recursive(
    some.none()
    | some.floats()
    | some.integers()
    | some.text(some.characters(exclude_categories=())),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


@given(some.dictionaries(some.text(some.characters(exclude_categories=())), _ANY))
def test_an_object_can_be_written_again(members: dict[str, object]) -> None:
    found = object_of(json.dumps(members))
    if found is not None:
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("value", ["x" * 10_000, [[]] * 10_000, {"a": "b" * 1_000}, 10**4_000])
def test_a_quotation_is_short(value: object) -> None:
    assert 2 < len(quoted(value)) <= 40
