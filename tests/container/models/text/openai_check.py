"""A served language model at OpenAI's paths, and at /invocations in other forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from partway.container.testing import Served
from partway.gateway.fleet.endpoint import container_address
from partway.gateway.workbench.conformance.checks import openai
from partway.gateway.workbench.conformance.probes import BUILT_IN
from partway.gateway.workbench.conformance.run import Run
from partway.gateway.workbench.conformance.subject import Subject
from partway.gateway.workbench.conformance.verdict import Verdict

USER = {"role": "user", "content": "hi"}


@pytest.fixture
async def url(serve: Callable[..., Any], noise: Path) -> str:
    served: Served
    _, served = await serve(noise)
    return served.url


async def ask(url: str, path: str, **members: object) -> tuple[int, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/{path}", json=members) as response,
    ):
        return response.status, await response.read()


def events_of(body: bytes) -> list[Any]:
    done = b"data: [DONE]\n\n"
    assert body.endswith(done)
    events = body.removesuffix(done).split(b"\n\n")[:-1]
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


async def test_a_chat_is_the_same_whole_and_in_events(url: str) -> None:
    asked = {"messages": [USER], "max_tokens": 8, "temperature": 0, "store": True}
    status, whole = await ask(url, "v1/chat/completions", **asked)
    answer = json.loads(whole)
    assert (status, answer["object"], answer["model"]) == (200, "chat.completion", "noise0")
    status, body = await ask(url, "v1/chat/completions", stream=True, **asked)
    deltas = [event["choices"][0]["delta"].get("content", "") for event in events_of(body)]
    assert "".join(deltas) == answer["choices"][0]["message"]["content"]


async def test_a_completion_is_raw(url: str) -> None:
    asked = {"prompt": "hi", "max_tokens": 8, "temperature": 0}
    status, whole = await ask(url, "v1/completions", **asked)
    answer = json.loads(whole)
    assert (status, answer["usage"]["prompt_tokens"]) == (200, 2)  # without the chat template
    text = answer["choices"][0]["text"]
    options = {"stream": True, "stream_options": {"include_usage": True}}
    _, body = await ask(url, "v1/completions", **options, **asked)
    *events, usage = events_of(body)
    assert "".join(event["choices"][0]["text"] for event in events) == text
    assert usage["usage"] == answer["usage"]
    parameters = {"max_new_tokens": 8, "do_sample": False}
    _, said = await ask(url, "invocations", inputs="hi", parameters=parameters)
    assert json.loads(said) == [{"generated_text": text}]
    _, body = await ask(url, "invocations", inputs="hi", parameters=parameters, stream=True)
    tokens = [json.loads(event[6:]) for event in body.split(b"\n\n")[:-1]]
    assert "".join(each["token"]["text"] for each in tokens) == text
    assert tokens[-1]["generated_text"] == text


@pytest.mark.parametrize(
    ("path", "members", "says"),
    [
        ("v1/chat/completions", {"messages": [USER], "n": 2}, "n: "),
        ("v1/chat/completions", {}, "messages: missing"),
        ("v1/completions", {"prompt": [1]}, "prompt: must be one string"),
        ("v1/completions", {"prompt": "a" * 600}, "the prompt has 600 tokens"),
        ("invocations", {"inputs": ""}, "inputs: must not be empty"),
        ("v1/embeddings", {"input": "a"}, "nothing is served here"),
    ],
)
async def test_a_refusal_has_openai_s_form(
    url: str, path: str, members: dict[str, object], says: str
) -> None:
    status, body = await ask(url, path, **members)
    assert status in (400, 404)
    error = json.loads(body)["error"]
    assert error["message"].startswith(says)
    assert error["type"] == "invalid_request_error"


async def test_the_model_is_listed(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as response:
        (model,) = (await response.json())["data"]
    assert (model["id"], model["object"]) == ("noise0", "model")


async def test_it_conforms(url: str) -> None:
    subject = Subject(container_address(url))
    report = await Run(openai.checks, BUILT_IN["chat"]).run(subject)
    *others, paths = report.results
    assert not [each for each in others if each.verdict is not Verdict.PASS]
    assert "only Partway routes GET /v1/models" in paths.said


async def test_metrics_under_vllms_names(url: str) -> None:
    asked = {"prompt": "hi", "temperature": 0}
    await ask(url, "v1/completions", **asked, max_tokens=8)
    await ask(url, "v1/completions", **asked, max_tokens=8)
    form = {"type": "json_schema", "json_schema": {"name": "yes", "schema": {"const": "yes"}}}
    await ask(url, "v1/completions", **asked, max_tokens=8, response_format=form, stop="yes")
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as response:
        page = await response.text()
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    found = dict(line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#")
    assert float(found['vllm:prompt_tokens_total{model_name="noise0"}']) == 6
    assert float(found['vllm:generation_tokens_total{model_name="noise0"}']) >= 16
    ended = 'vllm:request_success_total{{finished_reason="{}",model_name="noise0"}}'
    assert float(found[ended.format("length")]) == 2
    assert float(found[ended.format("stop")]) == 1
    assert float(found['vllm:num_requests_running{model_name="noise0"}']) == 0
