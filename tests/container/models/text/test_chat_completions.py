"""Chat completions as their clients ask for them."""

from __future__ import annotations

import json

import pytest

from partway.container.models.text.chat_completions import (
    MAX_MODEL_CHARACTERS,
    ChatAsk,
    chat_of,
    is_chat,
)
from partway.container.models.text.generation_request import Ask, ChatTurn
from partway.container.models.text.output_constraints import MAX_SCHEMA_BYTES
from partway.container.models.text.request_members import Refused
from partway.container.models.text.sampling_options import IMPOSSIBLE, Sampling
from partway.container.models.text.tools import MAX_TOOLS, ToolCall, Tools
from partway.protocol.limits import MAX_CLOSE_REASON_BYTES

TOO_MANY_STEPS = "the least common multiple of all multipleOf must be at most 10000"
USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "F", "strict": True}}
ASK = Ask(messages=(ChatTurn("user", "hi"),))


def body(**members: object) -> bytes:
    """A body with one message and these members."""
    return json.dumps({"messages": [USER], **members}).encode()


def refusal_of(data: bytes) -> str:
    with pytest.raises(Refused) as caught:
        chat_of(data)
    assert len(caught.value.reason.encode()) <= MAX_CLOSE_REASON_BYTES
    return caught.value.reason


def test_a_body_with_everything() -> None:
    data = json.dumps(
        {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, USER],
            "max_completion_tokens": 5,
            "temperature": 0,
            "top_p": 0.5,
            "stop": "END",
            "seed": 7,
            "top_k": 40,
            "logprobs": True,
            "top_logprobs": 3,
            "stream": True,
            "stream_options": {"include_usage": True},
            "n": 1,
            "user": "someone",
        }
    ).encode()
    turns = (ChatTurn("system", "Be brief."), ChatTurn("user", "hi"))
    sampling = Sampling(5, 0.0, 0.5, ("END",), top_k=40, seed=7, top_logprobs=3)
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
        {"reasoning_effort": "low"}, {"verbosity": "low"},
        {"safety_identifier": "s"}, {"prompt_cache_key": "k"}, {"modalities": ["text"]},
        {"prediction": {"type": "content", "content": "x"}}, {"logit_bias": {"1": 2}},
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
        {"tool_choice": "none"}, {"tools": []}, {"tools": [TOOL], "tool_choice": "none"},
        {"tool_choice": "auto"}, {"function_call": "auto"}, {"n": 1}, {"logprobs": False},
        {"top_logprobs": 0},
        {"parallel_tool_calls": True}, {"response_format": {"type": "text"}}, {"seed": None},
        {"whatever": None},
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


@pytest.mark.parametrize(
    ("choice", "required", "callable_"),
    [
        (None, False, ("f", "g")),
        ("auto", False, ("f", "g")),
        ("required", True, ("f", "g")),
        ({"type": "function", "function": {"name": "g"}}, True, ("g",)),
    ],
)
def test_tools(choice: object, required: bool, callable_: tuple[str, ...]) -> None:
    other = {"name": "g", "parameters": {"properties": {"a": {"type": "string"}}}}
    tools = [TOOL, {"type": "function", "function": other}]
    data = body(tools=tools, tool_choice=choice, parallel_tool_calls=False)
    functions = (
        {"name": "f", "description": "F", "parameters": {"type": "object", "properties": {}}},
        {"name": "g", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
    )
    assert chat_of(data) == ChatAsk(
        Ask(messages=ASK.messages, tools=Tools(functions, callable_, required, parallel=False))
    )


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
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
                {"id": "2", "type": "function", "function": {"name": "g", "arguments": '{"a"'}},
            ],
        },
        {"role": "tool", "content": "7", "tool_call_id": "1"},
        {"role": "assistant", "content": "So", "audio": None, "function_call": None},
    ]
    asked = chat_of(json.dumps({"messages": messages}).encode())
    calls = (ToolCall("f", {"a": 1}), ToolCall("g", '{"a"'))  # the second one was cut
    assert asked.ask.messages == (
        *(ChatTurn("system", "Be brief."), ChatTurn("user", "hi")),
        ChatTurn("assistant", "", calls),
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
        (body(functions=[{}]), "functions: use tools and tool_choice"),
        (body(audio={"voice": "x"}), "audio: this model makes no sound; leave it out"),
        (body(logprobs=1), "logprobs: must be true or false"),
        (body(logprobs=True, top_logprobs=21), "top_logprobs: must be from 0 to 20"),
        (body(top_logprobs=1), "top_logprobs: needs logprobs; it must be true"),
        (
            body(tools="f", tool_choice="none"),
            f"tools: must be a list of at most {MAX_TOOLS} functions",
        ),
        (
            body(tools=[TOOL] * (MAX_TOOLS + 1)),
            f"tools: must be a list of at most {MAX_TOOLS} functions",
        ),
        (body(tools=[{}]), 'tools[0]: must be {"type": "function", "function": {…}}'),
        (
            body(tools=[{"type": "function", "function": {"name": "a b"}}]),
            "tools[0].function.name: must have 1 to 64 of a-z, A-Z, 0-9, _ and -",
        ),
        *(
            (
                body(tools=[{"type": "function", "function": {"description": "d", **name}}]),
                "tools[0].function.name: must have 1 to 64 of a-z, A-Z, 0-9, _ and -",
            )
            for name in ({}, {"name": None}, {"name": 5}, {"name": True})
        ),
        (
            body(tools=[{"type": "function", "function": {"name": "a", "parameters": [1]}}]),
            "tools[0].function.parameters: must be a JSON schema, as an object",
        ),
        (
            body(tools=[TOOL, TOOL]),
            "tools: two functions have the same name; each must have its own",
        ),
        (body(tool_choice="required"), "tool_choice: there are no tools to choose from"),
        (
            body(tools=[TOOL], tool_choice="any"),
            (
                "tool_choice: must be none, auto, required or "
                '{"type": "function", "function": {"name": …}}'
            ),
        ),
        (
            body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "g"}}),
            "tool_choice: names a function that is not among the tools",
        ),
        (
            body(tools=[TOOL], response_format={"type": "json_object"}),
            "response_format, tools: both give the answer a form; send only one of them",
        ),
        (
            body(
                response_format={
                    "type": "json_schema",
                    "json_schema": {"schema": {"enum": ["x" * MAX_SCHEMA_BYTES]}},
                }
            ),
            f"response_format.json_schema.schema: must have at most {MAX_SCHEMA_BYTES} bytes",
        ),
        (
            body(
                response_format={
                    "type": "json_schema",
                    "json_schema": {
                        "schema": {"anyOf": [{"multipleOf": 99.7}, {"multipleOf": 11}]}
                    },
                }
            ),
            f"response_format.json_schema.schema: {TOO_MANY_STEPS}",
        ),
        (
            body(
                response_format={
                    "type": "json_schema",
                    "json_schema": {"schema": {"items": {"multipleOf": 1e300}}},
                }
            ),
            f"response_format.json_schema.schema: {TOO_MANY_STEPS}",
        ),
        (
            b'{"messages": [{"role": "assistant", "tool_calls": [{}]}]}',
            "messages[0].tool_calls[0]: must be a call with a function and its name",
        ),
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
        ({"messages": [], "tools": []}, True),
        ({"messages": [], "logprobs": True}, True),
        ({"messages": []}, False),
        ({"messages": [], "max_new_tokens": 1}, False),
        ({"prompt": "hi", "model": "m"}, False),
        ({}, False),
    ],
)
def test_which_bodies_are_a_chat_completion_s(members: dict[str, object], chat: bool) -> None:
    assert is_chat(members) is chat
