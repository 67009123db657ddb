"""Calls in a reply's text, wherever its pieces are cut."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.text.call_forms import HERMES, CallForm
from partway.container.models.text.call_reader import CallReader
from partway.container.models.text.tools import ToolCall

LLAMA = CallForm(arguments="parameters", in_template=True)


def read(form: CallForm, pieces: list[str], *, cut: bool = False) -> CallReader:
    """Read pieces; the deltas together are the content and the calls."""
    reader = CallReader(form)
    deltas = [delta for piece in pieces for delta in reader.add(piece)]
    deltas += reader.end(cut=cut)
    content, calls = "", []
    for delta in deltas:
        content += str(delta.get("content", ""))
        for call in delta.get("tool_calls", []):  # type: ignore[attr-defined]
            if "id" in call:
                assert call["index"] == len(calls)
                calls.append([call["function"]["name"], ""])
            calls[call["index"]][1] += call["function"]["arguments"]
    assert content == reader.content
    assert calls == [[each.name, each.arguments] for each in reader.calls]
    return reader


def split(text: str, places: list[int]) -> list[str]:
    cuts = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[first:last] for first, last in pairwise(cuts)]


arguments = st.dictionaries(
    st.text(max_size=3),
    st.sampled_from(["}", "</tool_call>", '", "arguments": ', "\n", "é😀", "<tool_call>"])
    | st.text(),
    max_size=3,
)
calls = st.builds(ToolCall, st.sampled_from(["f", "g-1"]), arguments)
places = st.lists(st.integers(0, 1000), max_size=20)


@given(calls, st.sampled_from([CallForm(), LLAMA]), places)
def test_a_reply_that_is_one_call(call: ToolCall, form: CallForm, places: list[int]) -> None:
    reader = read(form, split(form.written(call), places))
    (made,) = reader.calls
    assert (made.name, json.loads(made.arguments)) == (call.name, call.arguments)
    assert reader.content == ""


@given(st.lists(calls | st.sampled_from(["So: ", "<tool", "{}\n"]), max_size=4), places)
def test_calls_in_text(said: list[ToolCall | str], places: list[int]) -> None:
    text = "".join(HERMES.written(each) if isinstance(each, ToolCall) else each for each in said)
    reader = read(HERMES, split(text, places))
    expected = [(each.name, each.arguments) for each in said if isinstance(each, ToolCall)]
    assert [(made.name, json.loads(made.arguments)) for made in reader.calls] == expected
    assert reader.content == "".join(each for each in said if isinstance(each, str))


@pytest.mark.parametrize("form", [CallForm(), HERMES])
def test_a_reply_that_is_cut_anywhere(form: CallForm) -> None:
    text = form.written(ToolCall("f", {"a": "b"}))
    head = len(form.head) + len("f") + len(form.between)
    for at in range(len(text)):
        reader = read(form, [text[:at]], cut=True)
        assert len(reader.calls) == (at >= head)
        if at >= head:
            assert text[head:].startswith(reader.calls[0].arguments)
