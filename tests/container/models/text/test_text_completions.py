"""Completions of a plain prompt: bodies in, objects and events out."""

from __future__ import annotations

import json

import pytest

from partway.container.models.openai_events import DONE
from partway.container.models.text.generation_request import Ask
from partway.container.models.text.request_members import Refused
from partway.container.models.text.sampling_options import IMPOSSIBLE, Sampling
from partway.container.models.text.text_completions import (
    CompletionAsk,
    GeneratedAnswer,
    TextAnswer,
    completion_of,
    inputs_of,
    is_inputs,
)
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


def test_inputs() -> None:
    members = {
        "inputs": "hi",
        "parameters": {
            "max_new_tokens": 3,
            "do_sample": False,
            "return_full_text": True,
            "temperature": None,
            "watermark": True,
            "details": True,
        },
        "stream": True,
        "options": {},
    }
    expected = CompletionAsk(
        raw("hi", Sampling(max_new_tokens=3, temperature=0.0)),
        stream=True,
        full_text=True,
        ignored=frozenset({"options", "watermark"}),
    )
    assert inputs_of(members) == expected
    assert is_inputs(members)
    assert inputs_of({"inputs": "hi", "parameters": None}) == CompletionAsk(raw("hi"))


@pytest.mark.parametrize(
    ("read", "members", "reason"),
    [
        (completion_of, {}, "prompt: must be one string"),
        (completion_of, {"prompt": ["a", "b"]}, "prompt: must be one string"),
        (completion_of, {"prompt": [1, 2]}, "prompt: must be one string"),
        (completion_of, {"prompt": ""}, "prompt: must not be empty"),
        (completion_of, {"prompt": "a", "n": 2}, f"n: {IMPOSSIBLE['n']}"),
        (completion_of, {"prompt": "a", "best_of": 2}, f"best_of: {IMPOSSIBLE['n']}"),
        (completion_of, {"prompt": "a", "suffix": "b"}, "suffix: this model cannot insert"),
        (completion_of, {"prompt": "a", "max_tokens": 0}, "max_tokens: must be from 1"),
        (completion_of, {"prompt": "a", "logprobs": 21}, "logprobs: must be from 0 to 20"),
        (completion_of, {"prompt": "a", "logprobs": True}, "logprobs: must be a whole number"),
        (inputs_of, {"inputs": ["a"]}, "inputs: must be a string"),
        (inputs_of, {"inputs": ""}, "inputs: must not be empty"),
        (inputs_of, {"inputs": "a", "parameters": 1}, "parameters: must be an object"),
        (inputs_of, {"inputs": "a", "parameters": {"top_p": 2}}, "top_p: must be"),
        (inputs_of, {"inputs": "a", "parameters": {"do_sample": 1}}, "do_sample: must be true"),
    ],
)
def test_why_a_body_is_refused(read, members, reason) -> None:
    with pytest.raises(Refused) as caught:
        read(members)
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


async def test_inputs_are_answered_as_their_clients_read_it() -> None:
    assert json.loads(await GeneratedAnswer("x").whole(spoken("é"))) == [{"generated_text": "xé"}]
    first, last = await data_of(GeneratedAnswer().events(spoken("é")))
    token = {"id": 0, "text": "é", "logprob": 0.0, "special": False}
    assert first == {"index": 1, "token": token, "generated_text": None, "details": None}
    assert (last["token"]["text"], last["generated_text"]) == ("", "é")
