"""OpenAI's completions of a plain prompt: bodies in, objects and events out."""

from __future__ import annotations

import json

import pytest

from partway.container.models.openai_events import DONE
from partway.container.models.text.generation_request import Ask
from partway.container.models.text.openai_completions import (
    CompletionAsk,
    TextAnswer,
    completion_of,
)
from partway.container.models.text.request_members import Refused
from partway.container.models.text.sampling_options import IMPOSSIBLE, Sampling
from partway.container.models.text.token_scores import TokenNames
from tests.container.models.text.spoken import Letters, spoken


def raw(prompt: str, sampling: Sampling | None = None) -> Ask:
    return Ask(prompt=prompt, sampling=sampling or Sampling(), raw=True)


def test_a_completion() -> None:
    asked = completion_of(
        {
            "prompt": ["hi"],
            "model": "m",
            "max_tokens": 3,
            "temperature": 0,
            "stop": "x",
            "stream": True,
            "stream_options": {"include_usage": True},
            "echo": True,
            "n": 1,
            "logprobs": 3,
        }
    )
    sampling = Sampling(max_new_tokens=3, temperature=0.0, stop=("x",), top_logprobs=3)
    ignored = frozenset({"echo"})
    assert asked == CompletionAsk(raw("hi", sampling), True, True, "m", ignored=ignored)
    assert completion_of({"prompt": " \n"}) == CompletionAsk(raw(" \n"))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "prompt: must be one string"),
        ({"prompt": ["a", "b"]}, "prompt: must be one string"),
        ({"prompt": [1, 2]}, "prompt: must be one string"),
        ({"prompt": ""}, "prompt: must not be empty"),
        ({"prompt": "a", "n": 2}, f"n: {IMPOSSIBLE['n']}"),
        ({"prompt": "a", "best_of": 2}, f"best_of: {IMPOSSIBLE['n']}"),
        ({"prompt": "a", "suffix": "b"}, "suffix: this model cannot insert"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens: must be from 1"),
        ({"prompt": "a", "logprobs": 21}, "logprobs: must be from 0 to 20"),
        ({"prompt": "a", "logprobs": True}, "logprobs: must be a whole number"),
    ],
)
def test_why_a_body_is_refused(members, reason) -> None:
    with pytest.raises(Refused) as caught:
        completion_of(members)
    assert caught.value.reason.startswith(reason)


async def data_of(events) -> list[object]:
    return [DONE if data == DONE else json.loads(data) async for data in events]


HEAD = {"id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m"}
USAGE = {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


def choice_of(text: str, finish_reason: str | None = None) -> dict[str, object]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}


async def test_a_whole_completion() -> None:
    answer = TextAnswer("cmpl-1", "m", 7)
    said = json.loads(await answer.whole(spoken("é", "d", prompt="hi")))
    assert said == {**HEAD, "choices": [choice_of("éd", "stop")], "usage": USAGE}


async def test_a_completion_in_events() -> None:
    answer = TextAnswer("cmpl-1", "m", 7, include_usage=True)
    assert await data_of(answer.events(spoken("é", "d", prompt="hi", finish="length"))) == [
        {**HEAD, "choices": [choice_of("é")], "usage": None},
        {**HEAD, "choices": [choice_of("d")], "usage": None},
        {**HEAD, "choices": [choice_of("", "length")], "usage": None},
        {**HEAD, "choices": [], "usage": USAGE},
        DONE,
    ]


async def test_log_probabilities_are_lists() -> None:
    answer = TextAnswer("cmpl-1", "m", 7, token_names=TokenNames(Letters()))
    said = json.loads(await answer.whole(spoken("a", "b", scored=True)))
    assert said["choices"][0]["logprobs"] == {
        "tokens": ["a", "b"],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{"a": -0.5}, {"b": -0.5}],
    }
