"""A stream of chat completion requests: what ends an answer, and what is answered with an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from partway.container.errors import ModelError
from partway.container.models.text.chat_answers import ChatAnswer
from partway.container.models.text.chat_completions import ChatAsk
from partway.container.models.text.chunk_stream import ChunkStream
from partway.container.models.text.replies import TextReply
from tests.container.models.text.spoken import Said
from tests.container.wire import PATIENCE
from tests.container.workers.processes import eventually

DONE = "[DONE]"


def request(text: str = "hi", **members: object) -> str:
    return json.dumps({"messages": [{"role": "user", "content": text}], **members})


class Scene:
    """A stream and a model, both in the test's hands."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[str | None] = asyncio.Queue()
        self._sent: asyncio.Queue[str] = asyncio.Queue()
        self._replies: asyncio.Queue[Said] = asyncio.Queue()
        self.asked: list[ChatAsk] = []
        self.hold: asyncio.Event | None = None  # while set and not over, no reply begins
        self.talk = asyncio.create_task(ChunkStream(self._begin, self).run())

    async def messages(self) -> AsyncIterator[str]:
        while (message := await self._messages.get()) is not None:
            yield message

    async def send(self, message: str) -> None:
        self._sent.put_nowait(message)

    async def _begin(self, asked: ChatAsk) -> tuple[ChatAnswer, TextReply]:
        self.asked.append(asked)
        if self.hold is not None:
            await self.hold.wait()
        said = Said("p")
        self._replies.put_nowait(said)
        answer = ChatAnswer("id", "m", 1, include_usage=asked.include_usage)
        return answer, said.reply(*asked.ask.sampling.stop)

    def ask(self, *messages: str | None) -> None:
        for message in messages:
            self._messages.put_nowait(message)

    async def reply(self) -> Said:
        async with asyncio.timeout(PATIENCE):
            return await self._replies.get()

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            message = await self._sent.get()
        return message if message == DONE else json.loads(message)

    async def deltas(self, count: int) -> list[Any]:
        return [(await self.next())["choices"][0]["delta"] for _ in range(count)]


@pytest.fixture
async def scene(anyio_backend: object) -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    scene.talk.cancel()
    await asyncio.wait((scene.talk,))


FIRST = {"role": "assistant", "content": ""}


async def test_each_request_is_answered_by_chunks(scene: Scene) -> None:
    for _ in range(2):
        scene.ask(request(stream_options={"include_usage": True}))
        (await scene.reply()).say("a", "length")
        assert await scene.deltas(2) == [FIRST, {"content": "a"}]
        last = await scene.next()
        assert last["choices"][0]["finish_reason"] == "length"
        assert (await scene.next())["usage"]["total_tokens"] == 2
        assert await scene.next() == DONE


async def test_the_input_is_over_before_the_answer(scene: Scene) -> None:
    scene.ask(request(), None)
    (await scene.reply()).say("", "stop")
    assert await scene.deltas(2) == [FIRST, {}]
    assert await scene.next() == DONE
    async with asyncio.timeout(PATIENCE):
        await scene.talk


async def test_a_request_ends_the_answer_before(scene: Scene) -> None:
    scene.ask(request())
    first = await scene.reply()
    first.say("a")
    assert await scene.deltas(2) == [FIRST, {"content": "a"}]
    scene.ask(*[request(str(number)) for number in range(20)])
    second = await scene.reply()
    assert first.finish == "cancelled"
    second.say("b", "stop")
    assert await scene.deltas(3) == [FIRST, {"content": "b"}, {}]
    assert await scene.next() == DONE
    assert [asked.ask.messages[-1].content for asked in scene.asked] == ["hi", "19"]


async def test_a_request_ends_one_that_is_only_beginning(scene: Scene) -> None:
    scene.hold = asyncio.Event()
    scene.ask(request("a"))
    await eventually(lambda: len(scene.asked) == 1)
    scene.ask(request("b"))
    await eventually(scene._messages.empty)
    scene.hold.set()
    first = await scene.reply()
    second = await scene.reply()
    assert first.finish == "cancelled"
    second.say("b", "stop")
    assert await scene.deltas(3) == [FIRST, {"content": "b"}, {}]
    assert await scene.next() == DONE


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("hi", "a message must be a chat completion request: a JSON object"),
        ("{", "not JSON: "),
        (request(n=2), "n: a request gets one answer"),
        ("{}", "messages: missing"),
    ],
)
async def test_a_wrong_request_is_answered_and_the_stream_goes_on(
    message: str, reason: str, scene: Scene
) -> None:
    scene.ask(message)
    assert (await scene.next())["error"]["message"].startswith(reason)
    scene.ask(request())
    (await scene.reply()).say("", "stop")
    assert await scene.deltas(2) == [FIRST, {}]


async def test_a_reply_that_fails_is_answered_with_an_error(scene: Scene) -> None:
    scene.ask(request())
    reply = await scene.reply()
    reply.say("a")
    assert await scene.deltas(2) == [FIRST, {"content": "a"}]
    reply.fail(ModelError("NaN"))
    error = (await scene.next())["error"]
    assert (error["message"], error["type"]) == ("NaN", "server_error")
    scene.ask(request())
    await scene.reply()


async def test_a_client_that_leaves_gives_its_reply_up(scene: Scene) -> None:
    scene.ask(request())
    reply = await scene.reply()
    scene.talk.cancel()
    await asyncio.wait((scene.talk,))
    assert reply.finish == "cancelled"
