"""partway.container.models.voice.engines.chat_answers: answers of an upstream, and their end."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from partway.container.errors import ModelError
from partway.container.models.chat.settings import ChatSettings
from partway.container.models.voice.engines.chat_answers import ChatAnswers
from tests.container.models.chat.upstreams import FakeUpstream, chunk, in_events, upstream
from tests.wire.peers import eventually

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

USER = [{"role": "user", "content": "hello"}]


async def tool(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    call = {"index": 0, "id": "1", "function": {"name": "time", "arguments": "{}"}}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return await in_events(request, chunk("", tool_calls=[call]), end, {"choices": []})


async def endless(fake: FakeUpstream, request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n')
    await fake.go_on.wait()
    return response


async def failing(_: FakeUpstream, request: web.Request) -> web.StreamResponse:
    return await in_events(request, chunk("Hel"), {"error": {"message": "no memory"}})


def answers_of(fake: FakeUpstream, **settings: Any) -> ChatAnswers:
    answers = ChatAnswers(ChatSettings(upstreams=(fake.url,), **settings))
    answers.load(None)
    return answers


async def closed(answers: ChatAnswers) -> None:
    session = answers._upstreams._session
    if session is not None:
        await session.close()


async def test_deltas_and_the_reason_of_the_end() -> None:
    async with upstream(tool) as fake:
        answers = answers_of(fake, model="m", system="Be kind.", options={"temperature": 0.5})
        deltas = [delta async for delta in answers.answer(USER, {"temperature": 0, "tools": []})]
        await closed(answers)
    assert [delta.get("tool_calls", [{}])[0].get("id") for delta in deltas] == ["1", None]
    assert deltas[1] == {"finish_reason": "tool_calls"}
    method, body, _ = fake.requests[0]
    assert method == "POST /v1/chat/completions"
    assert body == {
        "model": "m",
        "temperature": 0,
        "tools": [],
        "messages": [{"role": "system", "content": "Be kind."}, *USER],
        "stream": True,
    }


async def test_a_session_with_instructions_keeps_them() -> None:
    async with upstream(tool) as fake:
        answers = answers_of(fake, system="Be kind.")
        messages = [{"role": "system", "content": "Be brief."}, *USER]
        async for _ in answers.answer(messages, {}):
            pass
        await closed(answers)
    assert fake.requests[0][1]["messages"] == messages


async def test_closing_an_answer_cancels_it_upstream() -> None:
    async with upstream(endless) as fake:
        answers = answers_of(fake)
        async with aclosing(answers.answer(USER, {})) as deltas:
            assert (await anext(deltas))["content"] == "Hel"
        await eventually(fake.left.is_set)
        await closed(answers)


async def test_a_failure_has_the_upstreams_reason() -> None:
    async with upstream(failing) as fake:
        answers = answers_of(fake)
        with pytest.raises(ModelError, match="no memory"):
            async for _ in answers.answer(USER, {}):
                pass
        await closed(answers)
