"""``inputs`` of text-generation-inference: bodies in, objects and events out."""

from __future__ import annotations

import json

import pytest

from partway.container.models.text.generation_request import Ask
from partway.container.models.text.request_members import Refused
from partway.container.models.text.sampling_options import Sampling
from partway.container.models.text.tgi_inputs import (
    GeneratedAnswer,
    InputsAsk,
    inputs_of,
    is_inputs,
)
from tests.container.models.text.spoken import spoken


def raw(prompt: str, sampling: Sampling | None = None) -> Ask:
    return Ask(prompt=prompt, sampling=sampling or Sampling(), raw=True)


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
    expected = InputsAsk(
        raw("hi", Sampling(max_new_tokens=3, temperature=0.0)),
        stream=True,
        full_text=True,
        ignored=frozenset({"options", "watermark"}),
    )
    assert inputs_of(members) == expected
    assert is_inputs(members)
    assert inputs_of({"inputs": "hi", "parameters": None}) == InputsAsk(raw("hi"))


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"inputs": ["a"]}, "inputs: must be a string"),
        ({"inputs": ""}, "inputs: must not be empty"),
        ({"inputs": "a", "parameters": 1}, "parameters: must be an object"),
        ({"inputs": "a", "parameters": {"top_p": 2}}, "top_p: must be"),
        ({"inputs": "a", "parameters": {"do_sample": 1}}, "do_sample: must be true"),
    ],
)
def test_why_a_body_is_refused(members, reason) -> None:
    with pytest.raises(Refused) as caught:
        inputs_of(members)
    assert caught.value.reason.startswith(reason)


async def test_inputs_are_answered_as_their_clients_read_it() -> None:
    assert json.loads(await GeneratedAnswer("x").whole(spoken("é"))) == [{"generated_text": "xé"}]
    first, last = [json.loads(data) async for data in GeneratedAnswer().events(spoken("é"))]
    token = {"id": 0, "text": "é", "logprob": 0.0, "special": False}
    assert first == {"index": 1, "token": token, "generated_text": None, "details": None}
    assert (last["token"]["text"], last["generated_text"]) == ("", "é")
