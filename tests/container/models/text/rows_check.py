"""Requests whose tokens are sampled one by one: forms, seeds, probabilities. Needs torch."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest
import torch

from partway.container.models.text import row_sampling
from partway.container.models.text.grammars import Grammars
from partway.container.models.text.model import Text
from partway.container.models.text.output_constraints import Constraint
from partway.container.testing import Served
from tests.container.models.text.engine_check import until
from tests.container.models.text.tiny import CHAT, make_chain

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
IN_SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}
ARGUMENTS = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}},
    "required": ["a"],
    "additionalProperties": False,
}
TEXT = {"type": "string", "maxLength": 9}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": ARGUMENTS}}
    for name in ("one", "two")
]

#: A prompt with which a step fails, in the test that makes it fail.
FAULTY = "!" * 40


class Client:
    """Asks a served model as OpenAI's clients do."""

    def __init__(self, served: Served) -> None:
        self._url = f"{served.url}/v1/chat/completions"

    async def ask(self, prompt: str = "hi", **members: object) -> tuple[int, Any]:
        asked = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 300, **members}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self._url, json=asked) as response,
        ):
            return response.status, await response.json()

    async def choice(self, prompt: str = "hi", **members: object) -> Any:
        status, answer = await self.ask(prompt, **members)
        assert status == 200, answer
        return answer["choices"][0]

    async def said(self, prompt: str = "hi", **members: object) -> str:
        return str((await self.choice(prompt, **members))["message"]["content"])

    async def refusal(self, **members: object) -> str:
        status, answer = await self.ask(**members)
        assert status in (400, 501), answer
        return str(answer["error"]["message"])


@pytest.fixture
async def noisy(serve: Callable[..., Any], noise: Path) -> Client:
    _, served = await serve(noise)
    return Client(served)


# --- Forms ----------------------------------------------------------------------------------------


async def test_answers_of_a_schema_beside_others(noisy: Client) -> None:
    alone = await noisy.said(temperature=0, max_tokens=40)
    plain = [noisy.said(temperature=0, max_tokens=40) for _ in range(4)]
    formed = [noisy.choice(f"{at}", temperature=1, response_format=IN_SCHEMA) for at in range(8)]
    answers = await asyncio.gather(*formed, *plain)
    for choice in answers[:8]:
        assert choice["finish_reason"] == "stop"
        jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)
    assert len({choice["message"]["content"] for choice in answers[:8]}) > 1
    assert answers[8:] == [alone] * 4


async def test_any_object(noisy: Client) -> None:
    choice = await noisy.choice(response_format={"type": "json_object"}, max_tokens=30)
    assert choice["message"]["content"].startswith("{")


async def test_a_named_tool_and_one_of_several(noisy: Client) -> None:
    named = {"type": "function", "function": {"name": "two"}}
    for choice, names in ((named, {"two"}), ("required", {"one", "two"})):
        answer = await noisy.choice(tools=TOOLS, tool_choice=choice)
        assert answer["finish_reason"] == "tool_calls"
        (call,) = answer["message"]["tool_calls"]
        assert call["function"]["name"] in names
        jsonschema.validate(json.loads(call["function"]["arguments"]), ARGUMENTS)


@pytest.mark.parametrize("closing", [(), ("</tool_call>",)])
async def test_a_model_whose_template_knows_tools_calls_when_it_wants(
    closing: tuple[str, ...], serve: Callable[..., Any], tmp_path: Path
) -> None:
    """The model says a mark, and after it the form leaves no choice but a call."""
    added = ("<think>", "<tool_call>", *closing)
    folder = make_chain(tmp_path / "model", "a<think>b<tool_call>", added=added)
    template = "{% if tools %}{{ tools | tojson }}<tool_call>{name, arguments}{% endif %}" + CHAT
    (folder / "chat_template.jinja").write_text(template)
    _, served = await serve(folder)
    client = Client(served)
    answer = await client.choice(tools=TOOLS, temperature=0, parallel_tool_calls=False)
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["content"] == "a<think>b"
    (call,) = answer["message"]["tool_calls"]
    arguments = call["function"]["arguments"]
    jsonschema.validate(json.loads(arguments), ARGUMENTS)
    answer = await client.choice(tools=TOOLS, tool_choice="required", temperature=0)
    assert answer["message"]["tool_calls"][0]["function"]["arguments"] == arguments
    answer = await client.choice(tools=TOOLS, tool_choice="none", max_tokens=4, temperature=0)
    assert answer["message"]["content"] == "a<think>b<tool_call>"
    assert "tool_calls" not in answer["message"]


async def test_forms_that_cannot_be_had(noisy: Client) -> None:
    for schema, reason in (
        ({"type": "nope"}, "Invalid type: nope"),
        ({"not": {}}, 'Unimplemented keys: ["not"]'),
        ({"$ref": "http://127.0.0.1/x.json"}, "Resource 'http://127.0.0.1/x.json' is not present"),
        ({"$ref": "file:///etc/passwd"}, "Resource 'file:///etc/passwd' is not present"),
    ):
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        said = await noisy.refusal(response_format=form)
        assert said.startswith(f"response_format: cannot be compiled: {reason}")
    said = await noisy.refusal(tools=TOOLS)
    assert said.startswith("tool_choice: the chat template has no form of calls that is known")


async def test_a_form_that_becomes_too_complex_is_its_request_s_trouble(noisy: Client) -> None:
    schema = {"type": "string", "pattern": "^xxx(((a{1,100}){1,100}){1,100}){100,101}$"}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    beside = asyncio.create_task(noisy.said(temperature=0, max_tokens=100))
    said = await noisy.refusal(response_format=form, temperature=2)
    assert said == "the answer's form is too complex for this place in it"
    assert await beside == await noisy.said(temperature=0, max_tokens=100)


async def test_prompts_never_wait_for_schemas(
    noisy: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More schemas than tokenizing threads are held; a plain prompt is answered beside them."""
    begun, go_on = threading.Event(), threading.Event()
    compiled = Grammars.compiled

    def held(self: Grammars, constraint: Constraint) -> Any:
        begun.set()
        assert go_on.wait(20)
        return compiled(self, constraint)

    monkeypatch.setattr(Grammars, "compiled", held)
    formed = [asyncio.create_task(noisy.choice(response_format=IN_SCHEMA)) for _ in range(4)]
    try:
        assert await asyncio.to_thread(begun.wait, 20)
        assert await asyncio.wait_for(noisy.said(max_tokens=3), 15)
        assert not any(task.done() for task in formed)
    finally:
        go_on.set()
    for choice in await asyncio.gather(*formed):
        jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)


async def test_a_schema_that_would_take_seconds_is_refused(noisy: Client) -> None:
    """Each part multiplies the grammar; its text has two kilobytes."""
    parts = [
        {
            "anyOf": [
                {"properties": {f"{part}{at}": TEXT}, "required": [f"{part}{at}"]} for at in "abc"
            ]
        }
        for part in range(6)
    ]
    schema = {"type": "object", "allOf": parts}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    said = await noisy.refusal(response_format=form)
    assert said.startswith("response_format: cannot be compiled: grammar size (number of symbols)")


async def test_without_llguidance(
    serve: Callable[..., Any], noise: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llguidance.hf", None)
    _, served = await serve(noise)
    client = Client(served)
    said = await client.refusal(response_format=IN_SCHEMA)
    assert said == "response_format: llguidance is not installed: pip install llguidance"
    assert await client.said(max_tokens=3)


async def test_where_steps_are_recorded(
    serve: Callable[..., Any], noise: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, served = await serve(noise)
    monkeypatch.setattr(type(model.engine), "samples_rows", False)
    client = Client(served)
    for member in ({"response_format": IN_SCHEMA}, {"seed": 1}, {"logprobs": True}, {"top_k": 2}):
        said = await client.refusal(**member)
        assert said == f"{next(iter(member))}: on this GPU all requests are sampled alike"
    assert await client.said(temperature=0, max_tokens=3)


async def test_a_stream_in_json_has_forms_too(serve: Callable[..., Any], noise: Path) -> None:
    _, served = await serve(noise)
    async with served.stream() as client:
        await client.send(json.dumps({"type": "session", "response_format": IN_SCHEMA}))
        await client.send(json.dumps({"prompt": "hi", "max_new_tokens": 300}))
        events = [json.loads(await client.recv())]
        while events[-1]["type"] != "end":
            events.append(json.loads(await client.recv()))
    jsonschema.validate(json.loads("".join(each["text"] for each in events[:-1])), SCHEMA)
    assert events[-1]["finish_reason"] == "stop"


# --- Seeds, top_k, probabilities ------------------------------------------------------------------


async def test_a_seed_repeats_an_answer(noisy: Client) -> None:
    asked = {"temperature": 1.5, "max_tokens": 30}
    first = await noisy.said(seed=7, **asked)
    others = [noisy.said("others", **asked) for _ in range(4)]
    again, *_ = await asyncio.gather(noisy.said(seed=7, **asked), *others)
    assert again == first
    assert await noisy.said(seed=8, **asked) != first
    assert len({await noisy.said(**asked) for _ in range(3)}) > 1, "they have no seed"


async def test_the_likeliest_of_one_is_the_likeliest(noisy: Client) -> None:
    greedy = await noisy.said(temperature=0, max_tokens=20)
    assert await noisy.said(temperature=2, top_k=1, max_tokens=20) == greedy
    assert await noisy.said(temperature=2, top_p=1e-6, seed=1, max_tokens=20) == greedy
    assert await noisy.said(temperature=2, seed=1, max_tokens=20) != greedy


@pytest.mark.parametrize("spread", [0.1, 2, 6])
@pytest.mark.parametrize("size", [100, 2048, 8192])
def test_a_nucleus_is_the_smallest_that_has_the_share(size: int, spread: float) -> None:
    torch.manual_seed(0)
    shares = (torch.randn(size) * spread).softmax(-1, dtype=torch.float64)
    likeliest = sorted(shares.tolist(), reverse=True)
    for share in (1e-9, 0.5, 0.9, 0.99999):
        kept = row_sampling._nucleus(shares, share)
        found = kept[kept > 0].sort(descending=True).values
        assert found.tolist() == likeliest[: len(found)]
        assert sum(likeliest[: len(found) - 1]) < share
        assert sum(likeliest[: len(found)]) == pytest.approx(share) or float(kept.sum()) > share
        assert torch.equal(kept[kept > 0], shares[kept > 0])  # each in its place


def test_a_nucleus_among_few_tokens_needs_no_order_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.Tensor, "sort", lambda *_, **__: pytest.fail("all were sorted"))
    torch.manual_seed(0)
    shares = (torch.randn(8192) * 8).softmax(-1, dtype=torch.float64)
    assert 0 < int((row_sampling._nucleus(shares, 0.5) > 0).sum()) < 2048


async def test_probabilities_are_the_model_s(serve: Callable[..., Any], noise: Path) -> None:
    model: Text
    model, served = await serve(noise)
    asked = {"temperature": 2, "seed": 1, "max_tokens": 8, "logprobs": True, "top_logprobs": 3}
    choice = await Client(served).choice(**asked)
    listed = choice["logprobs"]["content"]
    data = b"".join(bytes(each["bytes"]) for each in listed)
    assert data.decode("utf-8", "replace") == choice["message"]["content"]

    turns = [{"role": "user", "content": "hi"}]
    prompt = model.tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, return_dict=True
    )["input_ids"]
    alphabet = {bytes(model._token_names.bytes_of(token)): token for token in range(256)}
    reply = [alphabet[bytes(each["bytes"])] for each in listed]
    network = model.engine._loaded.model
    network.set_attn_implementation("eager")
    with torch.no_grad():
        logits = network(torch.tensor([prompt + reply]), use_cache=False).logits[0]
    expected = logits.float().log_softmax(-1)[len(prompt) - 1 : -1]
    for each, token, row in zip(listed, reply, expected, strict=True):
        assert each["logprob"] == pytest.approx(float(row[token]), abs=1e-3)
        best = row.topk(3).values.tolist()
        assert [top["logprob"] for top in each["top_logprobs"]] == pytest.approx(best, abs=1e-3)


async def test_after_a_failed_step_rows_go_on_where_they_were(
    serve: Callable[..., Any], tmp_path: Path, noise: Path
) -> None:
    model, served = await serve(noise)
    client = Client(served)
    asked = {"temperature": 1, "max_tokens": 200, "seed": 7, "logprobs": True}
    alone = await client.choice(**asked)
    broken = False

    def look(_module: object, inputs: tuple[torch.Tensor, ...]) -> None:
        nonlocal broken
        if (inputs[0] == model.tokenizer("!")["input_ids"][0]).sum() >= len(FAULTY):
            broken = True
            raise RuntimeError("broken")

    model.engine._loaded.model.model.embed_tokens.register_forward_pre_hook(look)
    many = [asyncio.create_task(client.choice(**asked)) for _ in range(2)]
    formed = asyncio.create_task(client.choice(response_format=IN_SCHEMA, seed=3))
    live = model.engine._live
    await until(lambda: len(live) == 3 and all(each.tokens for each in live))
    status, _ = await client.ask(FAULTY, temperature=0)
    assert (status, broken) == (500, True)
    for each in await asyncio.gather(*many):
        assert each["message"] == alone["message"]
        tokens, expected = (
            [token["bytes"] for token in choice["logprobs"]["content"]] for choice in (each, alone)
        )
        assert tokens == expected
    jsonschema.validate(json.loads((await formed)["message"]["content"]), SCHEMA)
