"""partway.gateway.client.messages: parts joined, text decoded, questions answered, in bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from partway.gateway.client import (
    BadMessage,
    CompletionState,
    ConnectionLost,
    DataType,
    ModelStreamFailed,
    PayloadPart,
    StreamEnded,
    connect,
)
from partway.gateway.client.messages import MessageIterator, MessageReader
from partway.gateway.limits import CLIENT_MAX_MESSAGE
from tests.frame_factory import BINARY, CONTINUATION, TEXT, close, frame
from tests.gateway.client.peers import echo_container, until, url_of
from tests.wire.peers import ENDPOINT, soon

COMPLETE, PARTIAL = CompletionState.COMPLETE, CompletionState.PARTIAL
ENDED = None


def text(payload: bytes, completion: CompletionState = COMPLETE) -> PayloadPart:
    return PayloadPart(payload, DataType.UTF8, completion)


def binary(payload: bytes, completion: CompletionState = COMPLETE) -> PayloadPart:
    return PayloadPart(payload, DataType.BINARY, completion)


class Parts:
    """Gives the parts of a list, then waits for ever; the end, and errors, are in the list too."""

    def __init__(self, *parts: PayloadPart | Exception | None) -> None:
        self.left = list(parts)
        self.more = asyncio.Event()

    def add(self, *parts: PayloadPart | Exception | None) -> None:
        self.left += parts
        self.more.set()

    async def receive(self) -> PayloadPart | None:
        while not self.left:
            self.more.clear()
            await self.more.wait()
        part = self.left[0]
        if isinstance(part, PayloadPart):  # an end remains
            del self.left[0]
        if isinstance(part, Exception):
            raise part
        return part


def messages_of(
    *parts: PayloadPart | Exception | None, max_message: int = CLIENT_MAX_MESSAGE
) -> MessageIterator:
    return MessageIterator(MessageReader(Parts(*parts).receive), max_message)


async def collected(messages: AsyncIterator[str | bytes]) -> list[str | bytes]:
    return [message async for message in messages]


# --- Messages -------------------------------------------------------------------------------------


async def test_parts_become_messages_text_and_bytes():
    found = await collected(
        messages_of(
            text("Grüße".encode()),
            binary(b"\x00\xff"),
            text(b""),
            binary(b""),
            text(b"a ", PARTIAL),
            text(b"globe: \xf0\x9f", PARTIAL),
            text(b"", PARTIAL),
            text(b"\x8c\x8d"),
            binary(b"\xf0\x9f", PARTIAL),
            binary(b"\x8c"),
            ENDED,
        )
    )
    assert found == ["Grüße", b"\x00\xff", "", b"", "a globe: 🌍", b"\xf0\x9f\x8c"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
async def test_a_message_in_parts_of_any_size(size):
    message = "zwölf Boxkämpfer 🌍".encode()
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    parts = [text(piece, PARTIAL) for piece in pieces[:-1]] + [text(pieces[-1])]
    assert await collected(messages_of(*parts, *parts, ENDED)) == [message.decode()] * 2


async def test_both_wires_bring_whole_messages(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        model.send(frame(TEXT, b"\xf0\x9f", fin=False), frame(CONTINUATION, b"\x8c\x8d"))
        model.send(frame(BINARY, b"\xf0", fin=False), frame(CONTINUATION, b"\x9f"), close(1000))
        messages = stream.messages()
        assert await soon(anext(messages)) == "🌍"
        assert await soon(anext(messages)) == b"\xf0\x9f"
        with pytest.raises(ModelStreamFailed):
            await soon(anext(messages))


async def test_who_gives_up_in_a_message_loses_nothing_of_it():
    parts = Parts(text(b"the ", PARTIAL))
    reader = MessageReader(parts.receive)
    messages = MessageIterator(reader)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(messages), 0.01)
    parts.add(text(b"whole"), text(b"next"), ENDED)
    assert await anext(messages) == "the whole", "a cancelled iterator has not ended"
    assert await collected(MessageIterator(reader)) == ["next"], "another one goes on where it was"


async def test_errors_of_the_stream_come_through():
    messages = messages_of(text(b"one"), text(b"half", PARTIAL), ConnectionLost("cut"))
    assert await anext(messages) == "one"
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="cut"):
            await anext(messages)


# --- Messages that cannot be given ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([text(b"12345")], "12345"),
        ([text(b"123", PARTIAL), text(b"45")], "12345"),
        ([binary(b"12345", PARTIAL), binary(b"", PARTIAL), binary(b"")], b"12345"),
    ],
)
async def test_a_message_as_large_as_allowed(parts, expected):
    assert await collected(messages_of(*parts, ENDED, max_message=5)) == [expected]


@pytest.mark.parametrize(
    "parts",
    [
        [text(b"123456")],
        [text(b"123456", PARTIAL), text(b"7")],
        [text(b"123", PARTIAL), text(b"456")],
        [text(b"123", PARTIAL), text(b"456", PARTIAL), text(b"", PARTIAL), text(b"7")],
    ],
)
async def test_a_message_over_the_limit_is_named_and_the_next_one_read(parts):
    messages = messages_of(*parts, text(b"next"), ENDED, max_message=5)
    with pytest.raises(BadMessage, match=r"more than 5 bytes \(max_message\)") as caught:
        await anext(messages)
    assert not caught.value.reconnect
    assert await collected(messages) == ["next"]


async def test_a_message_without_end_is_held_up_to_the_limit():
    parts = Parts(*(binary(b"x" * 100, PARTIAL) for _ in range(100)))
    reader = MessageReader(parts.receive)
    with pytest.raises(BadMessage):
        await reader.next(max_message=1000)
    assert len(parts.left) == 89, "raised at once, not at the message's end"
    assert len(reader._gathered) == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.next(max_message=1000), 0.01)
    assert (parts.left, len(reader._gathered)) == ([], 0)
    parts.add(ENDED)
    assert await reader.next(max_message=1000) is None


async def test_parts_without_bytes_cost_nothing():
    parts = Parts(*(binary(b"", PARTIAL) for _ in range(20_000)), binary(b"x"))
    assert await MessageReader(parts.receive).next(max_message=1) == b"x"


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"ok \xff", "of 4 bytes is not UTF-8 at byte 3"),
        (b"\xed\xa0\x80", "at byte 0"),
        (b"cut \xf0\x9f", "at byte 4"),
    ],
)
async def test_text_that_is_not_utf8_is_named_and_the_next_message_read(payload, why):
    for parts in ([text(payload)], [text(payload[:1], PARTIAL), text(payload[1:])]):
        messages = messages_of(*parts, text(b"next"), ENDED)
        with pytest.raises(BadMessage, match=why):
            await anext(messages)
        assert await collected(messages) == ["next"]


async def test_a_stream_that_ends_inside_a_message():
    messages = messages_of(text(b"one"), text(b"hal", PARTIAL), ENDED)
    assert await anext(messages) == "one"
    with pytest.raises(BadMessage, match="ended inside a message, after 3 bytes"):
        await anext(messages)
    assert await collected(messages) == []


# --- Questions ------------------------------------------------------------------------------------


async def test_a_question_and_its_answer(transport, gateway_for):
    async with echo_container() as port:
        gateway = await gateway_for(container_port=port)
        async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
            assert await soon(stream.ask("Grüße")) == "Grüße"
            assert await soon(stream.ask(b"\x00\xff")) == b"\x00\xff"
            assert await soon(stream.ask("")) == ""
            assert await soon(stream.ask(bytearray(b"\xff"))) == b"\xff"


async def test_those_who_ask_at_once_take_turns(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        asking = [asyncio.create_task(stream.ask(f"question {number}")) for number in range(3)]
        for number in range(3):
            assert (await model.frame()).payload == f"question {number}".encode()
            assert not any(task.done() for task in asking[number:])
            model.send(frame(TEXT, f"answer {number}".encode()))
        answers = await soon(asyncio.gather(*asking))
    assert answers == ["answer 0", "answer 1", "answer 2"]


async def test_nobody_asks_while_another_waits_for_messages(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        messages = stream.messages()
        waiting = asyncio.create_task(anext(messages))
        await asyncio.sleep(0)
        for refused in (stream.ask("now?"), anext(stream.messages())):
            with pytest.raises(RuntimeError, match="another task waits for a message"):
                await refused
        model.send(frame(TEXT, b"for the first"))
        assert await soon(waiting) == "for the first"
        asking = asyncio.create_task(stream.ask("now!"))
        assert (await model.frame()).payload == b"now!", "what was refused has not been sent"
        with pytest.raises(RuntimeError, match="must not wait at the same time"):
            await anext(messages)
        model.send(frame(TEXT, b"yes"))
        assert await soon(asking) == "yes"


async def test_the_answer_to_a_question_that_was_given_up_is_for_no_other(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stream.ask("one"), 0.01)
        with pytest.raises(RuntimeError, match="read from messages"):
            await stream.ask("two")
        model.send(frame(TEXT, b"answer to one"))
        assert await soon(anext(stream.messages())) == "answer to one"
        asking = asyncio.create_task(stream.ask("two"))
        assert [each.payload for each in await model.frames(2)] == [b"one", b"two"]
        model.send(frame(TEXT, b"answer to two"))
        assert await soon(asking) == "answer to two"


async def test_a_question_that_never_went_up_has_no_answer_to_come():
    sending = asyncio.Event()

    async def held_up() -> None:
        await sending.wait()

    parts = Parts()
    reader = MessageReader(parts.receive)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.ask(held_up, 10), 0.01)
    sending.set()
    parts.add(text(b"yes"))
    assert await reader.ask(held_up, 10) == "yes"


async def test_an_answer_that_cannot_be_given_has_come():
    parts = Parts(text(b"too long", PARTIAL), text(b"..."), text(b"\xff"), text(b"good"))
    reader = MessageReader(parts.receive)

    async def send() -> None:
        return

    for why in ("more than 5 bytes", "not UTF-8"):
        with pytest.raises(BadMessage, match=why):
            await reader.ask(send, 5)
    assert await reader.ask(send, 5) == "good"


async def test_no_answer_comes_any_more(transport, gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT, transport=transport) as stream:
        model = await container.stream()
        asking = asyncio.create_task(stream.ask("anybody?"))
        await model.frame()
        model.send(close(4000, b"out of memory"))
        with pytest.raises(ModelStreamFailed, match="out of memory"):
            await soon(asking)
        with pytest.raises(ModelStreamFailed):
            await stream.ask("anybody?")


async def test_a_clean_end_is_no_answer(gateway_for, container):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        model = await container.stream()
        asking = asyncio.create_task(stream.ask("anybody?"))
        await model.frame()
        await stream.end_input()
        await model.frame()
        model.send(close(1000))
        with pytest.raises(StreamEnded, match="before an answer came"):
            await soon(asking)
        await until(lambda: stream._ended, "the end")
        with pytest.raises(StreamEnded, match="the stream has ended"):
            await stream.ask("anybody?")


@pytest.mark.parametrize("wrong", [None, 12, ["text"]])
async def test_what_can_be_asked(gateway_for, container, wrong):
    gateway = await gateway_for()
    async with connect(url_of(gateway), ENDPOINT) as stream:
        with pytest.raises(TypeError, match=r"message: .* was given; it must be a str or bytes"):
            await stream.ask(wrong)
