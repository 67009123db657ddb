"""A conversation on a stream: what interrupts what, what waits, what is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from partway.container.errors import Busy, ModelError
from partway.container.models.text.conversation_stream import ConversationStream
from partway.container.models.text.generation import Finish, Generation
from partway.container.models.text.generation_request import ChatTurn, Refused, Sampling
from partway.container.models.text.prompts import Conversation
from partway.container.models.text.replies import TextReply
from partway.container.models.text.settings import Sample
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from tests.container.wire import PATIENCE

COMPLETE = CompletionState.COMPLETE


class Said(Generation):
    """An engine's reply whose tokens are code points, let out by the test."""

    def __init__(self, prompt: str) -> None:
        super().__init__(lambda _: None, list(map(ord, prompt)), 100, Sample())

    def say(self, text: str, finish: Finish | None = None) -> None:
        self.extend(list(map(ord, text)), finish)


class Scene:
    """A stream and a model, both in the test's hands."""

    def __init__(self, queued: int = 3) -> None:
        self._messages: asyncio.Queue[str | None] = asyncio.Queue()
        self._generations: asyncio.Queue[Said] = asyncio.Queue()
        self.prompts: list[list[ChatTurn]] = []
        self.sent: list[PayloadPart] = []
        self.hold: asyncio.Event | None = None  # while set and not over, no reply begins
        self._news = asyncio.Condition()
        self.talk = asyncio.create_task(ConversationStream(self._begin, self, queued).run())

    # What ConversationStream uses of a stream and of a model.

    async def messages(self) -> AsyncIterator[str]:
        while (message := await self._messages.get()) is not None:
            yield message

    async def send_part(self, part: PayloadPart) -> None:
        async with self._news:
            self.sent.append(part)
            self._news.notify_all()

    async def _begin(self, conversation: Conversation, sampling: Sampling) -> TextReply:
        self.prompts.append(list(conversation.turns))
        if self.hold is not None:
            await self.hold.wait()
        generation = Said("p")
        self._generations.put_nowait(generation)
        return TextReply(generation, lambda tokens: "".join(map(chr, tokens)), sampling.stop)

    # What the test does.

    def ask(self, *messages: str) -> None:
        for message in messages:
            self._messages.put_nowait(message)

    def end(self) -> None:
        self._messages.put_nowait(None)

    async def reply(self) -> Said:
        async with asyncio.timeout(PATIENCE):
            return await self._generations.get()

    async def sent_are(self, *parts: str) -> None:
        """Wait for so many parts; ``|`` at an end is COMPLETE."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: len(self.sent) >= len(parts))
        assert [shown(part) for part in self.sent] == list(parts)

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.talk


def shown(part: PayloadPart) -> str:
    assert part.data_type is DataType.UTF8
    return part.payload.decode() + ("|" if part.completion is COMPLETE else "")


@pytest.fixture
async def scene(anyio_backend: object) -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    scene.talk.cancel()
    await asyncio.wait((scene.talk,))


async def test_a_reply_leaves_piece_by_piece_and_its_last_one_is_complete(scene: Scene) -> None:
    scene.ask("hi")
    reply = await scene.reply()
    reply.say("a")
    await scene.sent_are("a")
    reply.say("bc")
    await scene.sent_are("a", "bc")
    reply.say("d", "length")
    await scene.sent_are("a", "bc", "d|")
    scene.end()
    await scene.ended()


async def test_an_end_without_text_is_an_empty_part(scene: Scene) -> None:
    scene.ask("hi")
    reply = await scene.reply()
    reply.say("a")
    await scene.sent_are("a")
    reply.say("", "stop")
    await scene.sent_are("a", "|")


async def test_what_was_said_is_remembered(scene: Scene) -> None:
    for said, answered in (("one", "1"), ("two", "2")):
        scene.ask(said)
        (await scene.reply()).say(answered, "stop")
        await scene.sent_are(*("1|", "2|")[: len(scene.prompts)])
    scene.ask("three")
    await scene.reply()
    turns = [("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "2")]
    assert scene.prompts[-1] == [ChatTurn(*turn) for turn in [*turns, ("user", "three")]]


async def test_messages_take_the_place_of_what_is_remembered(scene: Scene) -> None:
    scene.ask("one")
    (await scene.reply()).say("1", "stop")
    await scene.sent_are("1|")
    scene.ask('{"messages": [{"role": "user", "content": "anew"}]}')
    (await scene.reply()).say("2", "stop")
    await scene.sent_are("1|", "2|")
    scene.ask("next")
    await scene.reply()
    assert scene.prompts[1] == [ChatTurn("user", "anew")]
    assert [turn.content for turn in scene.prompts[2]] == ["anew", "2", "next"]


async def test_a_request_interrupts_the_reply_that_is_under_way(scene: Scene) -> None:
    scene.ask("tell me")
    first = await scene.reply()
    first.say("once upon")
    await scene.sent_are("once upon")
    scene.ask("stop")
    second = await scene.reply()
    assert first.finish == "cancelled"
    await scene.sent_are("once upon", "|")
    second.say("ok", "stop")
    await scene.sent_are("once upon", "|", "ok|")
    assert scene.prompts[1] == [
        ChatTurn("user", "tell me"),
        ChatTurn("assistant", "once upon"),
        ChatTurn("user", "stop"),
    ]


async def test_one_that_queues_waits(scene: Scene) -> None:
    scene.ask("one", '{"prompt": "two", "queue": true}')
    first = await scene.reply()
    first.say("1")
    await scene.sent_are("1")
    assert first.finish is None
    first.say("", "stop")
    (await scene.reply()).say("2", "stop")
    await scene.sent_are("1", "|", "2|")


async def test_an_interruption_is_one_for_those_that_wait_too(scene: Scene) -> None:
    """Each request still gets a message, so that clients can count."""
    scene.ask("one")
    first = await scene.reply()
    scene.ask('{"prompt": "two", "queue": true}', "three")
    last = await scene.reply()
    assert first.finish == "cancelled"
    last.say("3", "stop")
    await scene.sent_are("|", "|", "3|")
    assert [turns[-1].content for turns in scene.prompts] == ["one", "three"]


async def test_an_interruption_while_a_reply_begins(scene: Scene) -> None:
    scene.hold = asyncio.Event()
    scene.ask("one")
    while not scene.prompts:  # noqa: ASYNC110 (a few turns of the loop)
        await asyncio.sleep(0)
    scene.ask("two")
    for _ in range(5):
        await asyncio.sleep(0)
    scene.hold.set()
    first, second = await scene.reply(), await scene.reply()
    assert first.finish == "cancelled"
    second.say("2", "stop")
    await scene.sent_are("|", "2|")


async def test_too_many_wait(scene: Scene) -> None:
    queued = '{"prompt": "more", "queue": true}'
    scene.ask("one")
    first = await scene.reply()
    scene.ask(*[queued] * 4)
    with pytest.raises(ExceptionGroup) as caught:
        await scene.ended()
    assert caught.group_contains(
        Busy, match="3 requests of this stream are waiting, and that is the limit"
    )
    assert first.finish == "cancelled"


async def test_a_stop_string_ends_the_reply(scene: Scene) -> None:
    scene.ask('{"prompt": "one", "stop": "END"}')
    reply = await scene.reply()
    reply.say("abcE")
    await scene.sent_are("abc")
    reply.say("NDmore")
    await scene.sent_are("abc", "|")
    assert reply.finish == "stop"
    scene.ask("two")
    await scene.reply()
    assert scene.prompts[1][1] == ChatTurn("assistant", "abc")


async def test_what_is_held_back_for_a_stop_string_leaves_with_the_end(scene: Scene) -> None:
    scene.ask('{"prompt": "one", "stop": "END"}')
    reply = await scene.reply()
    reply.say("abcE")
    await scene.sent_are("abc")
    reply.say("N", "stop")
    await scene.sent_are("abc", "EN|")


async def test_the_input_is_over_before_the_reply(scene: Scene) -> None:
    scene.ask("one", '{"prompt": "two", "queue": true}')
    scene.end()
    (await scene.reply()).say("1", "stop")
    (await scene.reply()).say("2", "stop")
    await scene.ended()
    await scene.sent_are("1|", "2|")


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda scene, reply: scene.ask('{"seed": 1}'), Refused),
        (lambda scene, reply: reply.fail(ModelError("NaN")), ModelError),
    ],
    ids=["a request", "a reply"],
)
async def test_what_ends_the_stream_gives_the_reply_up(
    fault: Callable[[Scene, Said], None], kind: type[ModelError], scene: Scene
) -> None:
    scene.ask("one")
    reply = await scene.reply()
    fault(scene, reply)
    with pytest.raises(ExceptionGroup) as caught:
        await scene.ended()
    assert caught.group_contains(kind)
    assert reply.over


async def test_a_client_that_leaves_gives_its_reply_up(scene: Scene) -> None:
    scene.ask("one")
    reply = await scene.reply()
    scene.talk.cancel()
    await asyncio.wait((scene.talk,))
    assert reply.finish == "cancelled"
