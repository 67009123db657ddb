"""partway.container.models.voice.engines.stub_answers: answers that a test can foretell."""

from __future__ import annotations

from typing import Any

import pytest

from partway.container.models.voice.engines.stub_answers import StubAnswers

pytestmark = pytest.mark.usefixtures("anyio_backend")

TOOL = {"type": "function", "function": {"name": "time"}}


async def answered(content: Any, role: str = "user", **options: Any) -> list[dict[str, Any]]:
    messages = [{"role": role, "content": content}]
    return [dict(delta) async for delta in StubAnswers().answer(messages, options)]


async def test_it_repeats_the_last_message() -> None:
    deltas = await answered("hello there.")
    assert "".join(delta["content"] for delta in deltas) == "You said: hello there."
    assert deltas[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("choice", ["required", TOOL])
async def test_it_calls_a_function_that_it_must_call(choice: Any) -> None:
    call, end = await answered("time?", tools=[TOOL], tool_choice=choice)
    assert call["tool_calls"][0]["function"] == {"name": "time", "arguments": "{}"}
    assert end == {"finish_reason": "tool_calls"}


async def test_it_says_a_functions_output_and_calls_no_more() -> None:
    deltas = await answered("ten", "tool", tools=[TOOL], tool_choice="required")
    assert "".join(delta["content"] for delta in deltas) == "The tool said: ten."


async def test_it_stops_at_the_most_tokens() -> None:
    deltas = await answered("hello", max_tokens=2)
    assert deltas == [{"content": "You"}, {"content": " said:"}, {"finish_reason": "length"}]


async def test_parts_of_a_message() -> None:
    deltas = await answered([{"type": "text", "text": "look"}, {"type": "image_url"}])
    assert "".join(delta["content"] for delta in deltas) == "You said: look."
