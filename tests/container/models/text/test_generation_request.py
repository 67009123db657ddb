"""What a request asks for, and why it is refused."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partway.container.errors import ModelError
from partway.container.models.text.generation_request import (
    MAX_TURNS,
    Ask,
    ChatTurn,
    ask_of,
    prompt_of,
)
from partway.container.models.text.output_constraints import Constraint, json_rule
from partway.container.models.text.request_members import (
    MAX_TEXT_BYTES,
    Refused,
    members_of,
    quoted,
)
from partway.container.models.text.sampling_options import (
    IMPOSSIBLE,
    MAX_NEW_TOKENS,
    MAX_SEED,
    MAX_STOP_CHARACTERS,
    Sampling,
)
from partway.protocol.limits import MAX_CLOSE_REASON_BYTES

USER = {"role": "user", "content": "hi"}
JSON_OBJECT = Constraint(
    "response_format",
    'start: %json {"type": "object", "x-guidance": '
    '{"whitespace_pattern": "[ \\\\t\\\\r\\\\n]{0,16}"}}',
)
NO_NAME = "Expecting property name enclosed in double quotes"
HALF = "has half of a surrogate pair; it must be valid Unicode text"


def refusal(message: str | bytes) -> Refused:
    """Why a message is refused; every reason fits a Close frame, and shows little of its cause."""
    with pytest.raises(Refused) as caught:
        ask_of(message)
    assert len(caught.value.reason.encode()) <= MAX_CLOSE_REASON_BYTES
    assert caught.value.reason.isprintable()
    return caught.value


def refusal_of(**members: object) -> str:
    """Why these members, beside a prompt, are refused."""
    error = refusal(json.dumps({"prompt": "hi", **members}))
    assert (error.code, error.status) == (1008, 400)
    return error.reason


def refusal_of_messages(messages: object) -> str:
    error = refusal(json.dumps({"messages": messages}))
    assert (error.code, error.status) == (1008, 400)
    return error.reason


def sampling_of(**members: object) -> Sampling:
    """What these members, beside a prompt, say of how to generate."""
    return ask_of(json.dumps({"prompt": "hi", **members})).sampling


@pytest.mark.parametrize(
    "text", ["hi", "  hi\n", "[1, 2]", '"{}"', "été 你 😀", "null", "a {b}", "\x00", "\ufeff{}"]
)
def test_plain_text_is_a_prompt_as_it_is(text: str) -> None:
    assert ask_of(text) == ask_of(text.encode()) == Ask(prompt=text)
    assert members_of(text) is None


@pytest.mark.parametrize("text", ["{x} what is this", '{"messages": []}', "{", '{"seed": '])
def test_plain_text_that_looks_like_json_is_a_prompt_where_only_text_is_read(text: str) -> None:
    assert prompt_of(text) == prompt_of(text.encode()) == Ask(prompt=text)


def test_json_says_more() -> None:
    text = """ \n{"prompt": "hi", "max_new_tokens": 5, "temperature": 0.5, "top_p": 0.9,
        "stop": ["\\n", "END"], "queue": true, "top_k": 40, "seed": -7,
        "response_format": {"type": "json_object"}}"""
    sampling = Sampling(5, 0.5, 0.9, ("\n", "END"), 40, -7, JSON_OBJECT)
    expected = Ask(prompt="hi", sampling=sampling, queue=True)
    assert ask_of(text) == ask_of(text.encode()) == expected
    members = members_of(text)
    assert members is not None
    assert ask_of(members) == expected


def test_what_is_not_said_is_left_to_the_engine() -> None:
    everything = dict.fromkeys(["max_new_tokens", "temperature", "top_p", "stop", "queue"])
    for members in ({}, everything, {**everything, "messages": None, "seed": None, "n": None}):
        assert ask_of(json.dumps({"prompt": "hi", **members})) == Ask(prompt="hi")
    assert sampling_of(stop=[]) == Sampling(None, None, None, ())


def test_a_whole_conversation() -> None:
    turns = [
        ("system", "Be brief."),
        ("user", "hi"),
        ("assistant", ""),  # it was interrupted before its first word
        ("user", "été 你 😀"),
    ]
    messages = [{"role": role, "content": content} for role, content in turns]
    expected = Ask(messages=tuple(ChatTurn(role, content) for role, content in turns))
    assert ask_of(json.dumps({"messages": messages})) == expected
    # as a library sends again what it has received
    messages[2].update(refusal=None, tool_calls=None)
    assert ask_of(json.dumps({"messages": messages, "prompt": None})) == expected


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("temperature", 0),
        ("temperature", 2),
        ("temperature", 1e-9),
        ("top_p", 1),
        ("top_p", 0.001),
        ("max_new_tokens", 1),
        ("max_new_tokens", MAX_NEW_TOKENS),
        ("top_k", 1),
        ("seed", 0),
        ("seed", MAX_SEED),
        ("seed", -MAX_SEED - 1),
    ],
)
def test_values_at_their_limits(member: str, value: float) -> None:
    found = getattr(sampling_of(**{member: value}), member)
    assert found == value
    assert type(found) is (float if member in ("temperature", "top_p") else int)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("temperature", value) for value in (-0.1, 2.1, True, "1", [1], 10**400)),
        *(("top_p", value) for value in (0, -1, 1.01, True, False, "0.5", {})),
        *(("max_new_tokens", value) for value in (0, -1, 1.0, True, "5", MAX_NEW_TOKENS + 1)),
        *(("stop", value) for value in ("", ["a", ""], 5, [5], [["a"]], {"a": 1}, False)),
        ("stop", ["a"] * 5),
        ("stop", "a" * (MAX_STOP_CHARACTERS + 1)),
        *(("top_k", value) for value in (-2, 1.0, True, "5", MAX_NEW_TOKENS + 1)),
        *(("seed", value) for value in (1.0, True, "5", MAX_SEED + 1, -MAX_SEED - 2)),
        *(("response_format", value) for value in ("json", [], {}, {"type": 1}, {"type": "xml"})),
        ("response_format", {"type": "json_schema"}),
        ("response_format", {"type": "json_schema", "json_schema": {"schema": [1]}}),
        *(("queue", value) for value in (0, 1, "true", [])),
        *(("prompt", value) for value in ("", " \n", 5, ["hi"], {}, True)),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(member: str, value: object) -> None:
    assert refusal_of(**{member: value}).startswith(member)


def test_a_number_that_becomes_infinite() -> None:
    error = refusal('{"prompt": "hi", "temperature": 1e999}')
    assert error.reason == "temperature: must be a number from 0 (greedy) to 2"


def test_stop_strings_at_their_limits() -> None:
    longest = "é" * MAX_STOP_CHARACTERS
    assert sampling_of(stop=longest).stop == (longest,)
    assert sampling_of(stop=["a", "b", "c", longest]).stop == ("a", "b", "c", longest)


@pytest.mark.parametrize("member", IMPOSSIBLE)
def test_what_cannot_be_honoured_is_refused_by_its_name(member: str) -> None:
    assert refusal_of(**{member: 7}) == f"{member}: {IMPOSSIBLE[member]}"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("n", 1),
        ("logprobs", False),
        ("presence_penalty", 0),
        ("frequency_penalty", 0.0),
        ("logit_bias", {}),
        ("tools", []),
        ("response_format", {"type": "text"}),
        ("top_k", 0),
        ("top_k", -1),
    ],
)
def test_what_asks_for_nothing_is_not_refused(member: str, value: object) -> None:
    assert sampling_of(**{member: value}) == Sampling()


@pytest.mark.parametrize(
    ("member", "value"),
    [("n", True), ("n", 2), ("logprobs", 0), ("frequency_penalty", False), ("tools", {})],
)
def test_what_only_looks_as_if_it_asked_for_nothing(member: str, value: object) -> None:
    assert refusal_of(**{member: value}) == f"{member}: {IMPOSSIBLE[member]}"


def test_names_of_other_interfaces_say_what_to_do() -> None:
    assert refusal_of(max_tokens=5) == "max_tokens: use max_new_tokens"
    assert refusal_of(stream=True) == "stream: it is allowed only in the body of a chat completion"


@pytest.mark.parametrize("name", ["Prompt", "temprature", "", "é\n\x00", "x" * 1000, "😀" * 100])
def test_unknown_names_are_quoted_and_cut(name: str) -> None:
    reason = refusal_of(**{name: None})
    assert reason == f"{quoted(name)}: not a parameter of this model"
    assert len(quoted(name)) <= 40


def test_one_of_messages_and_prompt() -> None:
    assert (
        refusal('{"temperature": 1}').reason
        == "prompt: missing; the request must have prompt or messages"
    )
    assert refusal("{}").reason == "prompt: missing; the request must have prompt or messages"
    assert refusal_of(messages=[USER]) == "messages, prompt: both were given; send only one of them"
    for messages, prompt in ((None, None), ((ChatTurn("user", "hi"),), "hi")):
        with pytest.raises(ValueError, match="either messages or a prompt"):
            Ask(messages=messages, prompt=prompt)


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u00a0"])
def test_an_empty_prompt_is_refused(text: str) -> None:
    assert refusal(text).reason == "the prompt: must not be empty"
    assert refusal_of(prompt=text) == "prompt: must not be empty"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "messages: must be a list of at least one message"),
        ("hi", "messages: must be a list of at least one message"),
        ({}, "messages: must be a list of at least one message"),
        (["hi"], "messages[0]: must be an object with role and content"),
        ([USER, {"content": "a"}], "messages[1].role: must be one of system, user, assistant"),
        (
            [{"role": "tool", "content": "a"}],
            "messages[0].role: must be one of system, user, assistant",
        ),
        (
            [{"role": ["user"], "content": "a"}],
            "messages[0].role: must be one of system, user, assistant",
        ),
        ([{"role": "user"}], "messages[0].content: must be a string"),
        ([{"role": "user", "content": 5}], "messages[0].content: must be a string"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "messages[0].content: must be a string",
        ),
        (
            [{**USER, "name": "Ann"}],
            "messages[0]: 'name' is unknown; a message has role and content",
        ),
        (
            [USER, {"role": "assistant", "content": "a"}],
            "messages: the last message must have the role user",
        ),
        (
            [{"role": "system", "content": "a"}],
            "messages: the last message must have the role user",
        ),
        ([USER, {"role": "user", "content": " "}], "messages[1].content: must not be empty"),
        ([USER] * (MAX_TURNS + 1), f"messages: must have at most {MAX_TURNS} items"),
    ],
)
def test_what_is_no_conversation_is_refused(messages: object, reason: str) -> None:
    assert refusal_of_messages(messages) == reason


def test_a_long_conversation() -> None:
    asked = ask_of(json.dumps({"messages": [USER] * MAX_TURNS}))
    assert asked.messages == (ChatTurn("user", "hi"),) * MAX_TURNS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", f"not JSON: {NO_NAME} at character 1"),
        ("{'prompt': 1}", f"not JSON: {NO_NAME} at character 1"),
        ('{"prompt": "a"} {', "not JSON: Extra data at character 16"),
        ('{"prompt": "a\nb"}', "not JSON: Invalid control character at character 13"),
        ('{"temperature": NaN}', "not JSON: NaN is not a number in JSON"),
        ('{"temperature": -Infinity}', "not JSON: -Infinity is not a number in JSON"),
        ('{"prompt": "a", "prompt": "a"}', "'prompt': occurs twice; it must occur once"),
        ('{"prompt": {"a": 1, "a": 2}}', "'a': occurs twice; it must occur once"),
        # Since 3.14 the C stack bounds the depth: at 8 MiB 65,000, where it was 1,000 in 3.11.
        ('{"a":' + '[{"":' * 50_000, "the JSON is nested too deep"),
        ('{"a":' + "[" * 200_000, "the JSON is nested too deep"),
        ('{"top_p": %s}' % ("1" * 5000), "the JSON has a number that is too long"),
        ('{"prompt": "\\ud83d"}', f"prompt: {HALF}"),
        ('{"prompt": "a", "stop": "\\ude00"}', f"stop: {HALF}"),
        ('{"messages": [{"role": "user", "content": "\\ud83d"}]}', f"messages[0].content: {HALF}"),
        ("a\ud83d", f"the message: {HALF}"),
    ],
)  # fmt: skip
def test_what_is_not_json_in_unicode_is_invalid_data(text: str, reason: str) -> None:
    error = refusal(text)
    assert (error.reason, error.code, error.status) == (reason, 1007, 400)


def test_a_surrogate_pair_is_one_character() -> None:
    assert ask_of('{"prompt": "\\ud83d\\ude00"}').prompt == "😀"


@pytest.mark.parametrize(
    ("data", "place"), [(b"\xff", 0), (b"ab\xe4\xbd", 2), (b'{"a": "\x80"}', 7)]
)
def test_bytes_are_utf_8(data: bytes, place: int) -> None:
    error = refusal(data)
    assert error.reason == f"the message is not UTF-8: byte {place} is invalid"
    assert (error.code, error.status) == (1007, 400)


def test_text_is_counted_in_bytes() -> None:
    for text in ("a" * MAX_TEXT_BYTES, "é" * (MAX_TEXT_BYTES // 2)):
        assert ask_of(text).prompt == ask_of(text.encode()).prompt == text
    long = json.dumps({"prompt": "a" * MAX_TEXT_BYTES})
    for text in (
        "a" * (MAX_TEXT_BYTES + 1),
        "é" * (MAX_TEXT_BYTES // 2 + 1),
        long,
        "a" * (1 << 20),
    ):
        for message in (text, text.encode()):
            error = refusal(message)
            assert error.reason == f"too much text: it must have at most {MAX_TEXT_BYTES} bytes"
            assert (error.code, error.status) == (1009, 413)


def test_a_refusal_is_a_model_s_error_and_travels() -> None:
    error = pickle.loads(pickle.dumps(Refused("no", code=1009, status=413)))
    assert isinstance(error, ModelError)
    assert isinstance(error, Refused)
    assert (error.reason, error.code, error.status) == ("no", 1009, 413)
    assert (Refused("no").code, Refused("no").status) == (1008, 400)


@given(st.text())
def test_what_is_quoted_is_printable_and_short(text: str) -> None:
    shown = quoted(text)
    assert len(shown) <= 40
    assert shown.isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "a"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
names = st.sampled_from(
    [
        *("messages", "prompt", "max_new_tokens", "temperature", "top_p", "stop", "queue", "seed"),
        *("n", "top_k", "response_format", "logprobs"),
    ]
)


@given(
    st.dictionaries(names | st.text(max_size=3), json_values, max_size=4).map(json.dumps)
    | st.text("{}[]\",:\\u0 1e'", max_size=40).map("{".__add__)
    | st.binary(max_size=40)
)
@example('{"messages": [{"role": {}, "content": []}]}')
@example('{"n": {"a": [[]]}}')
def test_whatever_comes_is_an_ask_or_a_refusal(message: str | bytes) -> None:
    reason = ""
    try:
        asked = ask_of(message)
    except Refused as error:
        reason = error.reason
    else:
        assert (asked.messages is None) is not (asked.prompt is None)
    assert len(reason.encode()) <= MAX_CLOSE_REASON_BYTES
    assert reason.isprintable()


@pytest.mark.parametrize("steps", [(0.01, 5, 100), (5, 5, 5, 5), (10_000,), (0, -1), (97, 103)])
def test_schemas_that_count_in_steps(steps: tuple[float, ...]) -> None:
    written = {"items": [{"type": "number", "multipleOf": step} for step in steps]}
    assert json_rule("schema", written).startswith("%json ")
