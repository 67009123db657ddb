"""Chat clients, unmodified, against ``partway serve``: a stub engine, ``chat`` and ``text``.

Run by ``make interop-chat``; TEXT_PYTHON adds the language model. The gateway has ``--auth sigv4``,
so each client also signs, or sends one of SageMaker's API keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.interop.aws_sdk import REGION, SdkError
from tests.interop.chat_clients.clients import CLIENTS, Client, Libraries
from tests.interop.chat_clients.scenarios import SAID, SCENARIOS, Asking
from tests.interop.chat_clients.servers import Fleet, fleet, tiny_model
from tests.interop.served_api import ended, interpreter, surroundings

pytestmark = pytest.mark.timeout(600)

SERVERS = ["stub", "chat", *(["text"] if os.environ.get("TEXT_PYTHON") else [])]

#: The variables that name interpreters, and what each must have.
VARIABLES = {
    "chat": ("CHAT_PYTHON", "openai, litellm, langchain-openai, langchain-aws and openai-agents"),
    "strands": ("STRANDS_PYTHON", "strands-agents[openai,sagemaker]"),
}

ONE_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)
TEXT_PART = {"type": "text", "text": "hi"}
IMAGE = {"type": "image_url", "image_url": {"url": ONE_PIXEL}}

#: Members that a language model obeys or ignores.
TAKEN: dict[str, Any] = {
    "n": 1,
    "seed": 1,
    "user": "a",
    "store": True,
    "metadata": {"a": "b"},
    "service_tier": "auto",
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {"5": 1},
    "tool_choice": "none",
    "parallel_tool_calls": False,
    "reasoning_effort": "low",
    "verbosity": "low",
    "safety_identifier": "a",
    "prompt_cache_key": "a",
    "modalities": ["text"],
    "prediction": {"type": "content", "content": "a"},
    "max_completion_tokens": 8,
    "logprobs": False,
    "response_format": {"type": "text"},
}
#: Members that it obeys, or refuses by name.
TAKEN_OR_REFUSED: dict[str, Any] = {
    "logprobs": True,
    "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}],
}
#: Conversations that clients send.
SHAPES: dict[str, list[dict[str, Any]]] = {
    "a developer": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ],
    "a name": [{"role": "user", "content": "hi", "name": "ann"}],
    "parts": [{"role": "user", "content": [TEXT_PART, TEXT_PART]}],
    "the assistant last": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Well,"},
    ],
    "a reply sent back": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "Hello!",
            "refusal": None,
            "annotations": [],
            "audio": None,
            "function_call": None,
            "tool_calls": None,
        },
        {"role": "user", "content": "hi"},
    ],
    "a tool's result": [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "7 degrees"},
    ],
}
#: What no small language model obeys, by the name that the reason must have.
REFUSED: dict[str, dict[str, Any]] = {
    "n": {"n": 2},
    "image_url": {"messages": [{"role": "user", "content": [TEXT_PART, IMAGE]}]},
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
async def served(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Fleet]:
    directory = tmp_path_factory.mktemp("served")
    python, model = os.environ.get("TEXT_PYTHON", ""), None
    if python:
        model = await tiny_model(python, directory / "model")
    async with fleet(directory, text_python=python, text_model=model) as running:
        yield running
    log = running.gateway.log.read_text("utf-8")
    assert "Traceback" not in log, log


Ask = Callable[[Client, str], Awaitable[Asking]]


@pytest.fixture(scope="module")
async def asking(served: Fleet, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ask]:
    """A client at a server; each library is started once."""
    pythons = {name: interpreter(*variable, "interop-chat") for name, variable in VARIABLES.items()}
    directory = tmp_path_factory.mktemp("clients")
    async with Libraries.start(pythons, served.gateway, directory) as libraries:

        async def begin(client: Client, server: str) -> Asking:
            driven = await libraries.of(client)
            return Asking(served, driven, client, served.servers[server])

        yield begin


def named(*names: str) -> list[Any]:
    return [pytest.param(each, id=each.name) for each in CLIENTS if each.name in names]


ALL = [
    pytest.param(client, scenario, id=f"{client.name}-{scenario}")
    for client in CLIENTS
    for scenario in SCENARIOS
    if scenario in client.able
]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(("client", "scenario"), ALL)
async def test_a_client(asking: Ask, client: Client, scenario: str, server: str) -> None:
    await SCENARIOS[scenario](await asking(client, server))


WITH_OPTIONS = named(
    "openai (Python)", "openai (JavaScript)", "LiteLLM openai/", "LangChain ChatOpenAI"
)


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("client", WITH_OPTIONS)
@pytest.mark.parametrize("server", SERVERS)
async def test_a_refusal_names_what_it_refuses(
    asking: Ask, client: Client, refused: str, server: str
) -> None:
    asked = await asking(client, server)
    if asked.of_stub:
        assert (await asked.ask("whole", said="hi", **REFUSED[refused]))["text"] == "HI"
        return
    with pytest.raises(SdkError) as error:
        await asked.ask("whole", said="hi", **REFUSED[refused])
    assert refused in error.value.text


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", named("openai (Python)"))
class TestRequests:
    @pytest.mark.parametrize("member", TAKEN)
    async def test_a_member_that_every_engine_takes(
        self, asking: Ask, client: Client, server: str, member: str
    ) -> None:
        asked = await asking(client, server)
        answer = await asked.ask("whole", said=SAID, **{member: TAKEN[member]})
        assert answer["text"].strip()
        if asked.of_stub:
            assert asked.fleet.engine.asked[member] == TAKEN[member]

    @pytest.mark.parametrize("member", TAKEN_OR_REFUSED)
    async def test_a_member_that_is_obeyed_or_refused_by_name(
        self, asking: Ask, client: Client, server: str, member: str
    ) -> None:
        asked = await asking(client, server)
        options = {member: TAKEN_OR_REFUSED[member]}
        try:
            await asked.ask("whole", said=SAID, **options)
        except SdkError as refused:
            # A template without calls is named by `tool_choice`.
            if asked.of_stub or not re.search(f"{member.removesuffix('s')}\\w*: ", refused.text):
                raise

    @pytest.mark.parametrize("shape", SHAPES)
    async def test_a_conversation(
        self, asking: Ask, client: Client, server: str, shape: str
    ) -> None:
        asked = await asking(client, server)
        answer = await asked.ask("whole", said="", messages=SHAPES[shape])
        assert answer["text"].strip()
        if asked.of_stub:
            assert asked.fleet.engine.asked["messages"] == SHAPES[shape]

    async def test_a_token_of_aws_s_recipe(
        self, asking: Ask, client: Client, server: str, tmp_path: Path
    ) -> None:
        python = interpreter("SAGEMAKER_CORE_PYTHON", "sagemaker-core", "interop-chat")
        asked = await asking(client, server)
        program = (
            "from sagemaker.core.token_generator import generate_token\n"
            f"print(generate_token(region={REGION!r}))"
        )
        variables = surroundings(tmp_path, asked.server.gateway, python)
        told = await ended(python, "-c", program, environment=variables, directory=tmp_path)
        assert told.status == 0, told.errors
        with_token = replace(asked, server=replace(asked.server, key=told.output.strip()))
        assert (await with_token.ask("whole", said=SAID))["text"].strip()
        with_another = replace(asked, server=replace(asked.server, key=told.output.strip()[:-8]))
        with pytest.raises(SdkError) as error:
            await with_another.ask("whole", said=SAID)
        assert error.value.kind == "AuthenticationError"
