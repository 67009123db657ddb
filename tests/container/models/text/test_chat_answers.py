"""Chat completions as they are answered: as one object, and in chunks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from partway.container.errors import ModelError
from partway.container.models.openai_events import DONE
from partway.container.models.text.call_forms import HERMES, CallForm
from partway.container.models.text.chat_answers import ChatAnswer
from partway.container.models.text.openai_answers import server_sent
from partway.container.models.text.token_scores import TokenNames
from partway.protocol.openai.errors import error_body
from tests.container.models.text.spoken import Letters, Said, spoken

HEAD = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "m"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
FIRST = {"role": "assistant", "content": ""}


def answer(**options: Any) -> ChatAnswer:
    return ChatAnswer("chatcmpl-1", "m", 1_700_000_000, **options)


async def chunks_of(answer: ChatAnswer, reply: Any) -> list[Any]:
    """The chunks of an answer; every one has the same head."""
    *events, last = [data async for data in answer.events(reply)]
    assert last == DONE == b"[DONE]"
    chunks = [json.loads(data) for data in events]
    for chunk in chunks:
        head = {**HEAD, "object": "chat.completion.chunk"}
        assert {name: chunk.pop(name) for name in head} == head
    return chunks


def choice(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


async def test_a_whole_answer() -> None:
    assert json.loads(await answer().whole(spoken("été", "😀\n"))) == {
        **HEAD,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "été😀\n", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 5, "total_tokens": 6},
    }


async def test_an_answer_in_chunks() -> None:
    assert await chunks_of(answer(), spoken("a\r\n", "😀", finish="length")) == [
        {"choices": [choice(FIRST)]},
        {"choices": [choice({"content": "a\r\n"})]},
        {"choices": [choice({"content": "😀"})]},
        {"choices": [choice({}, "length")]},
    ]


async def test_chunks_that_count_tokens() -> None:
    assert await chunks_of(answer(include_usage=True), spoken("ab")) == [
        {"choices": [choice(FIRST)], "usage": None},
        {"choices": [choice({"content": "ab"})], "usage": None},
        {"choices": [choice({}, "stop")], "usage": None},
        {"choices": [], "usage": USAGE},
    ]


async def test_the_exact_bytes_of_a_chunk() -> None:
    events = [data async for data in answer().events(spoken('"é"'))]
    assert events[1].decode() == (
        '{"id":"chatcmpl-1","created":1700000000,"model":"m","object":"chat.completion.chunk",'
        '"choices":[{"index":0,"delta":{"content":"\\"é\\""},"logprobs":null,"finish_reason":null}]}'
    )


def scored(token: str, *others: str) -> dict[str, Any]:
    listed = {"token": token, "logprob": -0.5, "bytes": list(token.encode())}
    return {**listed, "top_logprobs": [listed]}


async def test_log_probabilities_come_with_the_pieces_of_their_tokens() -> None:
    names = TokenNames(Letters())
    whole = json.loads(await answer(token_names=names).whole(spoken("aé", "b", scored=True)))
    content = [scored("a"), scored("é"), scored("b")]
    assert whole["choices"][0]["logprobs"] == {"content": content, "refusal": None}
    chunks = await chunks_of(answer(token_names=names), spoken("aé", "b", scored=True))
    reports = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert reports == [
        None,
        {"content": content[:2], "refusal": None},
        {"content": content[2:], "refusal": None},
        None,
    ]


@pytest.mark.parametrize("said", ['"logprobs":null', "a"])
async def test_a_whole_answer_with_scores_is_serialized_in_small_steps(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    dumps = json.dumps

    def measured(value: object, **options: Any) -> str:
        text = dumps(value, **options)
        sizes.append(len(text))
        return text

    monkeypatch.setattr(json, "dumps", measured)
    names = TokenNames(Letters())
    whole = await answer(token_names=names).whole(spoken(*[said] * 100, scored=True))
    (choice,) = json.loads(whole)["choices"]
    assert choice["message"]["content"] == said * 100
    assert choice["logprobs"]["content"] == [scored(letter) for letter in said * 100]
    assert max(sizes) < len(said) * 200 + 400  # the answer without its scores


CALL = '{"name": "f", "arguments": {"a": 1}}'


@pytest.mark.parametrize(
    ("form", "said", "content"),
    [
        (CallForm(), CALL, None),
        (HERMES, f"So: <tool_call>\n{CALL}\n</tool_call>", "So: "),
    ],
)
async def test_a_tool_call(form: CallForm, said: str, content: str | None) -> None:
    whole = json.loads(await answer(call_form=form).whole(spoken(*said)))
    (made,) = whole["choices"][0]["message"].pop("tool_calls")
    assert made == {
        "id": made["id"],
        "type": "function",
        "function": {"name": "f", "arguments": '{"a": 1}'},
    }
    assert whole["choices"][0]["message"]["content"] == content
    assert whole["choices"][0]["finish_reason"] == "tool_calls"

    _, *chunks, last = await chunks_of(answer(call_form=form), spoken(*said))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content", "") for delta in deltas) == (content or "")
    begun, *more = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert (begun["index"], begun["type"], begun["function"]) == (
        *(0, "function"),
        {"name": "f", "arguments": ""},
    )
    assert "".join(delta["function"]["arguments"] for delta in more) == '{"a": 1}'
    assert last["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("left_out", "arguments"), [(3, '{"a": '), (2, '{"a": 1'), (1, '{"a": 1}')]
)
async def test_a_call_that_was_cut(left_out: int, arguments: str) -> None:
    whole = json.loads(
        await answer(call_form=CallForm()).whole(spoken(CALL[:-left_out], finish="length"))
    )
    (made,) = whole["choices"][0]["message"]["tool_calls"]
    assert made["function"]["arguments"] == arguments
    assert whole["choices"][0]["finish_reason"] == "length"


async def test_a_call_that_a_stop_string_cuts_is_no_call_to_make() -> None:
    said = Said("p")
    said.say(f"<tool_call>\n{CALL}", "stop")
    whole = json.loads(await answer(call_form=HERMES).whole(said.reply("}")))
    assert whole["choices"][0]["finish_reason"] == "stop"


async def test_text_where_a_call_might_have_been() -> None:
    whole = json.loads(await answer(call_form=HERMES).whole(spoken("a <tool", "s>")))
    assert whole["choices"][0]["message"] == {
        "role": "assistant",
        "content": "a <tools>",
        "refusal": None,
    }
    assert whole["choices"][0]["finish_reason"] == "stop"


async def test_a_failure_after_the_first_event_is_an_event() -> None:
    events = server_sent(answer().events(spoken("a", finish=ModelError("no “é”", status=503))))
    *_, last = [event async for event in events]
    assert last == b"data: %b\n\n" % error_body("no “é”", 503)


async def test_a_failure_before_the_first_event_is_the_caller_s() -> None:
    with pytest.raises(ModelError, match="no"):
        await anext(server_sent(answer().events(spoken(finish=ModelError("no")))))


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (413, "invalid_request_error"),
                         (500, "server_error"), (503, "server_error")],
)  # fmt: skip
def test_errors(status: int, kind: str) -> None:
    expected = {"error": {"message": "no “é”", "type": kind, "param": None, "code": None}}
    assert json.loads(error_body("no “é”", status)) == expected
