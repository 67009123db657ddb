"""Which answers of a model count as cut."""

from __future__ import annotations

import json

import pytest

from tests.interop.chat_clients.scenarios import follows_schema, is_cut

WHOLE = '{\n "degrees": 42, "city": "Bergen"}'


def test_each_beginning_is_cut() -> None:
    assert follows_schema(json.loads(WHOLE))
    for end in range(1, len(WHOLE)):
        assert is_cut(WHOLE[:end]), WHOLE[:end]
    assert is_cut(" \n\n")
    assert is_cut('{"city": "Oslo",\n\n\n')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Oslo has 7 degrees",
        "{'city': 'Oslo'",
        '{"city": "Paris", "degr',
        '{"city": "Oslo", "degrees": 700',
        '{"city": "Oslo", "degrees": "7',
        '{"town": "Oslo", ',
        '{"city": "Oslo", "degrees": 7]',
        '```json\n{"city": "Oslo"',
        f"{WHOLE} and more",
        WHOLE,
    ],
)
def test_another_text_is_not(text: str) -> None:
    assert not is_cut(text)
