"""Chat completions: bodies in, objects and events out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from partway.container.models.text.chat_completions import (
    DONE,
    MAX_MODEL_CHARACTERS,
    ChatAsk,
    Completion,
    Usage,
    chat_of,
    error_event,
    is_chat,
)
from partway.container.models.text.generation_request import (
    IMPOSSIBLE,
    Ask,
    ChatTurn,
    Refused,
    Sampling,
)
from partway.protocol.limits import MAX_CLOSE_REASON_BYTES
from partway.protocol.openai.errors import error_body

USER = {"role": "user", "content": "hi"}
ASK = Ask(messages=(ChatTurn("user", "hi"),))


def body(**members: object) -> bytes:
    """A body with one message and these members."""
    return json.dumps({"messages": [USER], **members}).encode()


def refusal_of(data: bytes) -> str:
    with pytest.raises(Refused) as caught:
        chat_of(data)
    assert len(caught.value.reason.encode()) <= MAX_CLOSE_REASON_BYTES
    return caught.value.reason


def event_of(data: bytes) -> Any:
    """What one server-sent event holds."""
    assert data.startswith(b"data: ")
    assert data.endswith(b"\n\n")
    assert data.count(b"\n") == 2
    return json.loads(data[6:])


def test_a_body_with_everything() -> None:
    data = json.dumps(
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, USER],
            "max_completion_tokens": 5,
            "temperature": 0,
            "top_p": 0.5,
            "stop": "END",
            "stream": True,
            "stream_options": {"include_usage": True},
            "n": 1,
            "user": "someone",
        }
    ).encode()
    turns = (ChatTurn("system", "Be brief."), ChatTurn("user", "hi"))
    sampling = Sampling(max_new_tokens=5, temperature=0.0, top_p=0.5, stop=("END",))
    expected = ChatAsk(Ask(messages=turns, sampling=sampling), True, True, "m", frozenset({"user"}))
    assert chat_of(data) == expected
    assert chat_of(json.loads(data)) == expected


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"model": None, "max_tokens": None, "stream": None, "stream_options": None, "user": None},
        {"stream": False, "n": 1, "frequency_penalty": 0, "logprobs": False, "seed": None},
    ],
)
def test_what_is_not_said(members: dict[str, object]) -> None:
    asked = chat_of(body(**members))
    assert (asked.ask, asked.stream, asked.include_usage, asked.model) == (ASK, False, False, None)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_both_names_of_the_limit_of_tokens(name: str) -> None:
    assert chat_of(body(**{name: 7})).ask.sampling.max_new_tokens == 7
    assert refusal_of(body(**{name: 0})).startswith(f"{name}: must be from 1 to ")
    assert refusal_of(body(**{name: True})) == f"{name}: must be a whole number"


def test_of_two_limits_the_newer_name_counts() -> None:
    asked = chat_of(body(max_tokens=7, max_completion_tokens=8))
    assert asked.ask.sampling.max_new_tokens == 8


@pytest.mark.parametrize(
    "member",
    [
        {"store": True}, {"metadata": {"a": "b"}}, {"service_tier": "auto"}, {"user": "u"},
        {"parallel_tool_calls": True}, {"reasoning_effort": "low"}, {"verbosity": "low"},
        {"safety_identifier": "s"}, {"prompt_cache_key": "k"}, {"modalities": ["text"]},
        {"prediction": {"type": "content", "content": "x"}}, {"seed": 1}, {"logit_bias": {"1": 2}},
        {"presence_penalty": 1}, {"frequency_penalty": 1}, {"sagemaker_base_url": "http://x"},
        {"whatever": 1},
    ],
)  # fmt: skip
def test_members_without_an_effect(member: dict[str, object]) -> None:
    asked = chat_of(body(**member))
    assert asked == ChatAsk(ASK, ignored=frozenset(member))


@pytest.mark.parametrize(
    "member",
    [
        {"tool_choice": "none"}, {"tools": []}, {"n": 1}, {"logprobs": False}, {"top_logprobs": 0},
        {"response_format": {"type": "text"}}, {"seed": None}, {"whatever": None},
    ],
)  # fmt: skip
def test_values_that_ask_for_nothing(member: dict[str, object]) -> None:
    assert chat_of(body(**member)) == ChatAsk(ASK)


@pytest.mark.parametrize("model", ["", None])
def test_a_model_without_a_name(model: object) -> None:
    assert chat_of(body(model=model)).model is None


@pytest.mark.parametrize(
    ("options", "usage"),
    [
        (None, False),
        ({}, False),
        ({"include_usage": None}, False),
        ({"include_usage": False}, False),
        ({"include_usage": True}, True),
    ],
)
def test_whether_tokens_are_counted(options: object, usage: bool) -> None:
    assert chat_of(body(stream=True, stream_options=options)).include_usage is usage
    assert not chat_of(body(stream_options=options)).include_usage


def test_a_content_in_parts_of_text() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "refusal", "refusal": "été", "more": 1}]
    data = json.dumps({"messages": [{"role": "user", "content": parts}]}).encode()
    assert chat_of(data).ask.messages == (ChatTurn("user", "one\nété"),)


def test_messages_as_clients_send_them() -> None:
    messages = [
        {"role": "developer", "content": "Be brief.", "name": "d"},
        {"role": "user", "content": "hi", "name": "u"},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}],
        },
        {"role": "tool", "content": "7", "tool_call_id": "1"},
        {"role": "assistant", "content": "So", "audio": None, "function_call": None},
    ]
    asked = chat_of(json.dumps({"messages": messages}).encode())
    assert asked.ask.messages == (
        *(ChatTurn("system", "Be brief."), ChatTurn("user", "hi"), ChatTurn("assistant", "")),
        *(ChatTurn("tool", "7"), ChatTurn("assistant", "So")),
    )
    assert asked.ignored == frozenset()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "messages[0].content: must not be empty"),
        ([{"type": "text", "text": ""}], "messages[0].content: must not be empty"),
        (["hi"], "messages[0].content[0]: must be an object with a type, such as text"),
        ([{"text": "a"}], "messages[0].content[0]: must be an object with a type, such as text"),
        (
            [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}],
            "messages[0].content[1]: the type is 'image_url'; this model takes text alone",
        ),
        ([{"type": "text", "text": 5}], "messages[0].content[0].text: must be a string"),
        (
            [{"type": "text", "content": "a"}],
            "messages[0].content[0].text: must be a string",
        ),
    ],
)
def test_other_parts_are_refused(content: object, reason: str) -> None:
    data = json.dumps({"messages": [{"role": "user", "content": content}]}).encode()
    assert refusal_of(data) == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"hi", "the body of a chat completion must be a JSON object"),
        (b"[]", "the body of a chat completion must be a JSON object"),
        (b'{"model": "m"}', "messages: missing"),
        (body(model=5), "model: must be a string"),
        (
            body(model="m" * 257),
            f"model: must be a name of at most {MAX_MODEL_CHARACTERS} characters",
        ),
        (
            body(model="\ud83d"),
            "model: has half of a surrogate pair; it must be valid Unicode text",
        ),
        (body(stream=1), "stream: must be true or false"),
        (
            body(stream=True, stream_options=1),
            'stream_options: must be an object, such as {"include_usage": true}',
        ),
        (
            body(stream=True, stream_options={"include_usage": 1}),
            "include_usage: must be true or false",
        ),
        (body(n=2), f"n: {IMPOSSIBLE['n']}"),
        (body(tools=[{}]), f"tools: {IMPOSSIBLE['tools']}"),
        (body(logprobs=True), f"logprobs: {IMPOSSIBLE['logprobs']}"),
        (
            body(response_format={"type": "json_object"}),
            f"response_format: {IMPOSSIBLE['response_format']}",
        ),
        (body(tool_choice="required"), f"tool_choice: {IMPOSSIBLE['tool_choice']}"),
        (b'{"messages": []}', "messages: must be a list of at least one message"),
        (
            b'{"messages": [{"role": "x"}]}',
            "messages[0].role: must be one of system, developer, user, assistant, tool, function",
        ),
        (body(temperature=3), "temperature: must be a number from 0 (greedy) to 2"),
        (b'{"messages": [], "messages": []}', "'messages': occurs twice; it must occur once"),
    ],
)
def test_why_a_body_is_refused(data: bytes, reason: str) -> None:
    assert refusal_of(data) == reason


@pytest.mark.parametrize(
    ("members", "chat"),
    [
        ({"messages": [], "model": "m"}, True),
        ({"messages": [], "max_tokens": 1}, True),
        ({"messages": [], "max_completion_tokens": 1}, True),
        ({"messages": [], "stream": False}, True),
        ({"messages": [], "stream_options": None}, True),
        ({"messages": []}, False),
        ({"messages": [], "max_new_tokens": 1}, False),
        ({"prompt": "hi", "model": "m"}, False),
        ({}, False),
    ],
)
def test_which_bodies_are_a_chat_completion_s(members: dict[str, object], chat: bool) -> None:
    assert is_chat(members) is chat


def test_a_whole_answer() -> None:
    completion = Completion("chatcmpl-1", "m", 1_700_000_000)
    assert json.loads(completion.whole("été 😀\n", "stop", Usage(3, 4))) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "été 😀\n", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


def test_an_answer_in_events() -> None:
    completion = Completion("chatcmpl-1", "m", 1_700_000_000)
    head = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "m",
    }
    events = [
        completion.first_chunk(),
        completion.chunk("a\r\n😀"),
        completion.last_chunk("length"),
    ]
    choices = [
        {"delta": {"role": "assistant", "content": ""}, "finish_reason": None},
        {"delta": {"content": "a\r\n😀"}, "finish_reason": None},
        {"delta": {}, "finish_reason": "length"},
    ]
    assert [event_of(event) for event in events] == [
        {**head, "choices": [{"index": 0, "logprobs": None, **choice}]} for choice in choices
    ]
    assert DONE == b"data: [DONE]\n\n"


def test_events_that_count_tokens() -> None:
    completion = Completion("chatcmpl-1", "m", 1, include_usage=True)
    for event in (completion.first_chunk(), completion.chunk("a"), completion.last_chunk("stop")):
        assert event_of(event)["usage"] is None
    last = event_of(completion.usage_chunk(Usage(3, 4)))
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def test_the_exact_bytes_of_an_event() -> None:
    expected = (
        'data: {"id":"c","created":1,"model":"m","object":"chat.completion.chunk",'
        '"choices":[{"index":0,"delta":{"content":"\\"é\\""},"logprobs":null,"finish_reason":null}]}'
        "\n\n"
    )
    assert Completion("c", "m", 1).chunk('"é"') == expected.encode()


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (413, "invalid_request_error"),
                         (500, "server_error"), (503, "server_error")],
)  # fmt: skip
def test_errors(status: int, kind: str) -> None:
    expected = {"error": {"message": "no “é”", "type": kind, "param": None, "code": None}}
    assert json.loads(error_body("no “é”", status)) == expected
    assert event_of(error_event("no “é”", status)) == expected
