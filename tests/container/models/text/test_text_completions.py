"""Completions of a plain prompt: bodies in, objects and events out."""

from __future__ import annotations

import json

import pytest

from partway.container.models.text.chat_completions import Usage
from partway.container.models.text.generation_request import IMPOSSIBLE, Ask, Refused, Sampling
from partway.container.models.text.text_completions import (
    CompletionAsk,
    TextCompletion,
    completion_of,
    generated,
    inputs_of,
    is_inputs,
    token_event,
)


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
        }
    )
    sampling = Sampling(max_new_tokens=3, temperature=0.0, stop=("x",))
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


def test_answers() -> None:
    completion = TextCompletion("cmpl-1", "m", 7, include_usage=True)
    head = {"id": "cmpl-1", "object": "text_completion", "created": 7, "model": "m"}
    choice = {"index": 0, "text": "é", "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert json.loads(completion.whole("é", "stop", Usage(3, 4))) == {
        **head,
        "choices": [choice],
        "usage": usage,
    }
    assert event_of(completion.chunk("é", "stop")) == {**head, "choices": [choice], "usage": None}
    assert event_of(completion.usage_chunk(Usage(3, 4))) == {**head, "choices": [], "usage": usage}
    assert json.loads(generated("é")) == [{"generated_text": "é"}]
    assert event_of(token_event("é", 2, "dé"))["token"]["text"] == "é"
    assert event_of(token_event("é", 2, "dé"))["generated_text"] == "dé"


def event_of(data: bytes):
    assert data.startswith(b"data: ")
    assert data.endswith(b"\n\n")
    return json.loads(data[6:])
