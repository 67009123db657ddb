"""A conversation on a stream: what interrupts what, what waits, what is remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from partway.container.errors import ModelError
from partway.container.models.text.conversation_stream import ConversationStream
from partway.container.models.text.generation_request import ChatTurn
from partway.container.models.text.prompts import Conversation
from partway.container.models.text.replies import TextReply
from partway.container.models.text.request_members import Refused
from partway.container.models.text.sampling_options import Sampling
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from tests.container.models.text.spoken import Said
from tests.container.wire import PATIENCE

COMPLETE = CompletionState.COMPLETE
IN_JSON = {"type": "session"}


class Scene:
    """A stream and a model, both in the test's hands."""

    def __init__(self, queued: int = 3) -> None:
        self._messages: asyncio.Queue[str | None] = asyncio.Queue()
        self._generations: asyncio.Queue[Said] = asyncio.Queue()
        self.prompts: list[list[ChatTurn]] = []
        self.samplings: list[Sampling] = []
        self.sent: list[PayloadPart] = []
        self.hold: asyncio.Event | None = None  # while set and not over, no reply begins
        self.refusal: Refused | None = None
        self._heard = 0
        self._news = asyncio.Condition()
        self.talk = asyncio.create_task(ConversationStream(self._begin, self, queued).run())

    # What ConversationStream uses of a stream and of a model.

    async def messages(self) -> AsyncIterator[str]:
        while (message := await self._messages.get()) is not None:
            yield message

    async def send(self, message: str) -> None:
        await self.send_part(PayloadPart(message.encode(), DataType.UTF8, COMPLETE))

    async def send_part(self, part: PayloadPart) -> None:
        async with self._news:
            self.sent.append(part)
            self._news.notify_all()

    async def _begin(self, conversation: Conversation, sampling: Sampling) -> TextReply:
        self.prompts.append(list(conversation.turns))
        self.samplings.append(sampling)
        if self.hold is not None:
            await self.hold.wait()
        if self.refusal is not None:
            raise self.refusal
        generation = Said("p")
        self._generations.put_nowait(generation)
        return generation.reply(*sampling.stop)

    # What the test does.

    def ask(self, *messages: str | dict[str, object]) -> None:
        for message in messages:
            text = message if isinstance(message, str) else json.dumps(message)
            self._messages.put_nowait(text)

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

    async def next_events(self, count: int) -> list[Any]:
        """Wait for so many messages in JSON that were not taken yet."""
        first, self._heard = self._heard, self._heard + count
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: len(self.sent) >= self._heard)
        return [event(part) for part in self.sent[first : self._heard]]

    async def heard(self, *events: object) -> None:
        assert await self.next_events(len(events)) == list(events)

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.talk


def event(part: PayloadPart) -> Any:
    """A message in JSON."""
    assert (part.data_type, part.completion) == (DataType.UTF8, COMPLETE)
    return json.loads(part.payload)


def end_of(finish_reason: str, *, prompt: int = 1, reply: int = 0) -> dict[str, object]:
    counts = {"prompt_tokens": prompt, "completion_tokens": reply}
    usage = {**counts, "total_tokens": prompt + reply}
    return {"type": "end", "finish_reason": finish_reason, "usage": usage}


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


@pytest.mark.parametrize(
    "text",
    ["{x} what is this", '{"messages": [{"role": "user", "content": "anew"}]}', '{"type": "x"}'],
)
async def test_text_that_looks_like_json_is_text(text: str, scene: Scene) -> None:
    for number, message in enumerate((text, '{"type": "session"}', text), start=1):
        scene.ask(message)
        (await scene.reply()).say("1", "stop")
        await scene.sent_are(*["1|"] * number)
        assert scene.prompts[-1][-1] == ChatTurn("user", message)
    assert len(scene.prompts[-1]) == 5


async def test_a_session_in_text_has_a_system_and_options(scene: Scene) -> None:
    session = {"type": "session", "format": "text", "system": "Be brief.", "seed": 3, "stop": "END"}
    scene.ask(session, '{"seed": 4}')
    (await scene.reply()).say("1END", "stop")
    await scene.sent_are("1|")
    assert scene.prompts == [[ChatTurn("system", "Be brief."), ChatTurn("user", '{"seed": 4}')]]
    assert scene.samplings == [Sampling(seed=3, stop=("END",))]


async def test_a_session_in_json_answers_in_json(scene: Scene) -> None:
    scene.ask({**IN_JSON, "temperature": 0.5, "seed": 3}, {"prompt": "one", "seed": 4})
    reply = await scene.reply()
    reply.say("a")
    reply.say("b", "length")
    await scene.heard({"type": "text", "text": "ab"}, end_of("length", reply=2))
    assert scene.samplings == [Sampling(temperature=0.5, seed=4)]


async def test_messages_take_the_place_of_what_is_remembered(scene: Scene) -> None:
    scene.ask(IN_JSON, {"prompt": "one"})
    (await scene.reply()).say("1", "stop")
    await scene.heard({"type": "text", "text": "1"}, end_of("stop", reply=1))
    scene.ask({"messages": [{"role": "user", "content": "anew"}]})
    (await scene.reply()).say("", "stop")
    await scene.heard(end_of("stop"))
    scene.ask({"prompt": "next"})
    await scene.reply()
    assert scene.prompts[1] == [ChatTurn("user", "anew")]
    assert [turn.content for turn in scene.prompts[2]] == ["anew", "", "next"]


async def test_a_later_session_changes_the_system_and_the_options(scene: Scene) -> None:
    scene.ask({**IN_JSON, "system": "A", "seed": 1}, {"prompt": "one"})
    (await scene.reply()).say("", "stop")
    scene.ask({**IN_JSON, "system": "B", "top_k": 2}, {"prompt": "two"})
    (await scene.reply()).say("", "stop")
    assert [turns[0] for turns in scene.prompts] == [ChatTurn("system", at) for at in "AB"]
    assert len(scene.prompts[1]) == 4
    assert scene.samplings == [Sampling(seed=1), Sampling(top_k=2)]


async def test_a_session_during_a_reply_is_for_the_next_one(scene: Scene) -> None:
    scene.ask({**IN_JSON, "system": "A"}, {"prompt": "one"})
    reply = await scene.reply()
    scene.ask({**IN_JSON, "system": "B"}, {"prompt": "two"})
    await scene.reply()
    assert reply.finish == "cancelled"
    assert scene.prompts[-1] == [ChatTurn("system", "B"), ChatTurn("user", "two")]


@pytest.mark.parametrize(
    ("session", "message", "reason"),
    [
        (IN_JSON, "hi", "the message must be a JSON object: a request, or a session"),
        (IN_JSON, "{", "not JSON: "),
        (IN_JSON, {"prompt": "a", "n": 2}, "n: a request gets one answer"),
        (IN_JSON, {**IN_JSON, "format": "xml"}, "format: is 'xml'; it must be json or text"),
        (IN_JSON, {**IN_JSON, "prompt": "a"}, "'prompt': not a parameter of this model"),
        ({**IN_JSON, "seed": "x"}, {}, "seed: must be a whole number"),
    ],
)
async def test_a_wrong_request_in_json_is_answered(
    session: dict[str, object], message: str | dict[str, object], reason: str, scene: Scene
) -> None:
    scene.ask(session, message)
    (error,) = await scene.next_events(1)
    assert error["error"]["message"].startswith(reason)
    assert error["error"]["type"] == "invalid_request_error"
    if session is not IN_JSON:
        await scene.next_events(1)
    scene.ask({"prompt": "one"})
    (await scene.reply()).say("", "stop")
    await scene.heard(end_of("stop"))


async def test_a_reply_that_fails_in_json_leaves_no_turn_behind(scene: Scene) -> None:
    scene.ask(IN_JSON, {"prompt": "one"})
    (await scene.reply()).say("1", "stop")
    await scene.heard({"type": "text", "text": "1"}, end_of("stop", reply=1))
    scene.refusal = Refused("the prompt has 9 tokens")
    scene.ask({"prompt": "two"})
    (error,) = await scene.next_events(1)
    assert error["error"]["message"] == "the prompt has 9 tokens"
    scene.refusal = None
    scene.ask({"prompt": "three"})
    (await scene.reply()).fail(ModelError("NaN"))
    (error,) = await scene.next_events(1)
    assert error["error"]["type"] == "server_error"
    assert [turn.content for turn in scene.prompts[-1]] == ["one", "1", "three"]
    scene.ask({"prompt": "four"})
    (await scene.reply()).say("4", "stop")
    await scene.next_events(2)
    assert [turn.content for turn in scene.prompts[-1]] == ["one", "1", "four"]


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


async def test_a_request_without_a_piece_of_its_reply_is_forgotten(scene: Scene) -> None:
    scene.ask("one")
    (await scene.reply()).say("1", "stop")
    await scene.sent_are("1|")
    scene.ask("two")
    await scene.reply()
    scene.ask("three")
    await scene.reply()
    assert [turn.content for turn in scene.prompts[-1]] == ["one", "1", "three"]


async def test_one_that_queues_waits(scene: Scene) -> None:
    scene.ask(IN_JSON, {"prompt": "one"}, {"prompt": "two", "queue": True})
    first = await scene.reply()
    first.say("1")
    await scene.heard({"type": "text", "text": "1"})
    assert first.finish is None
    first.say("", "stop")
    (await scene.reply()).say("2", "stop")
    await scene.heard(
        *(end_of("stop", reply=1), {"type": "text", "text": "2"}, end_of("stop", reply=1))
    )


async def test_an_interruption_is_one_for_those_that_wait_too(scene: Scene) -> None:
    """Each request still gets an answer, so that clients can count."""
    scene.ask(IN_JSON, {"prompt": "one"})
    first = await scene.reply()
    scene.ask({"prompt": "two", "queue": True}, {"prompt": "three"})
    last = await scene.reply()
    assert first.finish == "cancelled"
    last.say("", "stop")
    await scene.heard(end_of("cancelled"), end_of("cancelled", prompt=0), end_of("stop"))
    assert [turns[-1].content for turns in scene.prompts] == ["one", "three"]


async def test_of_a_burst_the_last_one_is_answered(scene: Scene) -> None:
    scene.ask("one")
    first = await scene.reply()
    first.say("1")
    await scene.sent_are("1")
    scene.ask(*map(str, range(50)))
    last = await scene.reply()
    assert first.finish == "cancelled"
    last.say("ok", "stop")
    await scene.sent_are("1", *["|"] * 50, "ok|")
    assert [turns[-1].content for turns in scene.prompts] == ["one", "49"]


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
    queued = {"prompt": "more", "queue": True}
    scene.ask(IN_JSON, {"prompt": "one"})
    first = await scene.reply()
    scene.ask(*[queued] * 4)
    (error,) = await scene.next_events(1)
    reason = "3 requests of this stream are waiting, and that is the limit"
    assert error["error"]["message"] == reason
    assert first.finish is None


async def test_a_stop_string_ends_the_reply(scene: Scene) -> None:
    scene.ask({"type": "session", "format": "text", "stop": "END"}, "one")
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
    scene.ask({"type": "session", "format": "text", "stop": "END"}, "one")
    reply = await scene.reply()
    reply.say("abcE")
    await scene.sent_are("abc")
    reply.say("N", "stop")
    await scene.sent_are("abc", "EN|")


async def test_the_input_is_over_before_the_reply(scene: Scene) -> None:
    scene.ask(IN_JSON, {"prompt": "one"}, {"prompt": "two", "queue": True})
    scene.end()
    (await scene.reply()).say("", "stop")
    (await scene.reply()).say("", "length")
    await scene.ended()
    await scene.heard(end_of("stop"), end_of("length"))


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (lambda scene, reply: scene.ask(" "), Refused),
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


async def test_messages_in_json_are_parsed_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.ask(IN_JSON, {"prompt": "a"})
    (await scene.reply()).say("", "stop")
    await scene.heard(end_of("stop"))
    parsed: list[str] = []
    loads = json.loads

    def noted(text: str, **options: Any) -> Any:
        parsed.append(text)
        return loads(text, **options)

    monkeypatch.setattr(json, "loads", noted)
    later = [json.dumps({**IN_JSON, "seed": 1}), json.dumps({"prompt": "b"})]
    scene.ask(*later)
    await scene.reply()
    assert parsed == later
