"""Messages on their way out: whole, in fragments, from several tasks."""

from __future__ import annotations

import asyncio

import pytest

from partway.container.outgoing import Outbox, OutgoingMessage
from partway.container.stream import StreamClosed
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.frames import Frame
from tests.frame_factory import BINARY, CONTINUATION, TEXT


class Line:
    """Where frames go: open, waiting, or closed."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes, bool]] = []
        self.free = asyncio.Event()
        self.free.set()
        self.closed = False
        self.outbox = Outbox(self._write, self._clear, self._ready)

    def message(self, *, text: bool = True) -> OutgoingMessage:
        return OutgoingMessage(self.outbox, text=text)

    def close(self) -> None:
        self.outbox.cut()
        self.closed = True
        self.free.set()

    def _write(self, frame: Frame) -> None:
        assert not self.closed
        self.frames.append((int(frame.opcode), frame.payload, frame.fin))

    def _clear(self) -> bool:
        return self.free.is_set() and not self.closed

    async def _ready(self) -> None:
        await self.free.wait()
        if self.closed:
            raise StreamClosed(1001, "over")


async def turns() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def break_off(line: Line, fragments: list[str]) -> None:
    """A message that fails in the middle."""

    async def reply() -> None:
        async with line.message() as out:
            for fragment in fragments:
                await out.send(fragment)
            raise LookupError

    with pytest.raises(LookupError):
        await reply()


async def test_whole_messages() -> None:
    line = Line()
    for message in ("é", b"\x00", bytearray(b"a"), memoryview(b"b"), "", b""):
        await line.outbox.send(message)  # type: ignore[arg-type]
    assert line.frames == [
        (TEXT, "é".encode(), True),
        (BINARY, b"\x00", True),
        (BINARY, b"a", True),
        (BINARY, b"b", True),
        (TEXT, b"", True),
        (BINARY, b"", True),
    ]
    assert (line.outbox.parts_out, line.outbox.bytes_out) == (6, 5)


async def test_what_is_no_message() -> None:
    line = Line()
    with pytest.raises(TypeError, match="a message must be str or bytes, not dict"):
        await line.outbox.send({"text": "x"})  # type: ignore[arg-type]
    for part in ("abc", b"abc", None):
        with pytest.raises(TypeError, match=r"must be a PayloadPart, not \w+; send\(\) takes"):
            await line.outbox.send_part(part)  # type: ignore[arg-type]
    assert line.outbox.parts_out == 0
    async with line.message() as out:
        with pytest.raises(TypeError, match="fragments must be str"):
            await out.send(b"x")
        await out.send("y")
    async with line.message(text=False) as out:
        for fragment in ("x", 5):  # bytes(5) would be five of them
            with pytest.raises(TypeError, match="fragments must be bytes, not"):
                await out.send(fragment)  # type: ignore[arg-type]
        await out.send(b"z")
    with pytest.raises(RuntimeError, match="block is over"):
        await out.send(b"late")
    assert line.frames == [(TEXT, b"y", True), (BINARY, b"z", True)]


@pytest.mark.parametrize(
    ("fragments", "frames"),
    [
        ([], [(TEXT, b"", True)]),
        (["one"], [(TEXT, b"one", True)]),
        (
            ["Generating", " response"],
            [(TEXT, b"Generating", False), (CONTINUATION, b" response", True)],
        ),
        (
            ["a", "", "c"],
            [(TEXT, b"a", False), (CONTINUATION, b"", False), (CONTINUATION, b"c", True)],
        ),
        (["", ""], [(TEXT, b"", False), (CONTINUATION, b"", True)]),
    ],
)
async def test_a_message_in_fragments_has_no_empty_trailer(
    fragments: list[str], frames: list[tuple[int, bytes, bool]]
) -> None:
    line = Line()
    async with line.message() as out:
        for count, fragment in enumerate(fragments):
            await out.send(fragment)
            assert len(line.frames) == count, "one is held back, and no more"
    assert line.frames == frames


async def test_messages_of_several_tasks_do_not_mix() -> None:
    line = Line()
    go_on = asyncio.Event()

    async def slowly() -> None:
        async with line.message() as out:
            await out.send("a")
            await out.send("b")
            await go_on.wait()
            await out.send("c")

    async def part() -> None:
        await line.outbox.send_part(PayloadPart(b"part"))

    async def fragments() -> None:
        async with line.message(text=False) as out:
            await out.send(b"1")
            await out.send(b"2")

    first = asyncio.create_task(slowly())
    await turns()
    others = [
        asyncio.create_task(each) for each in (line.outbox.send("whole"), part(), fragments())
    ]
    await turns()
    assert line.frames == [(TEXT, b"a", False)]
    go_on.set()
    await asyncio.gather(first, *others)
    assert line.frames[:3] == [
        (TEXT, b"a", False),
        (CONTINUATION, b"b", False),
        (CONTINUATION, b"c", True),
    ]
    rest = line.frames[3:]
    first_of_two = rest.index((BINARY, b"1", False))
    assert rest[first_of_two + 1] == (CONTINUATION, b"2", True)
    assert (TEXT, b"whole", True) in rest
    assert (BINARY, b"part", True) in rest


async def test_a_task_does_not_wait_for_itself() -> None:
    line = Line()
    async with line.message() as out:
        await out.send("a")
        with pytest.raises(RuntimeError, match="a message is open in this task"):
            await line.outbox.send("b")
        with pytest.raises(RuntimeError, match="a message is open in this task"):
            await line.outbox.send_part(PayloadPart(b"c"))
    assert line.frames == [(TEXT, b"a", True)]


async def test_a_sender_that_waited_for_room_still_waits_for_its_turn() -> None:
    """While it waited another message began."""
    line = Line()
    line.free.clear()
    waiting = asyncio.create_task(line.outbox.send("later"))
    message = line.message()
    entering = asyncio.create_task(message.__aenter__())
    await turns()
    line.free.set()
    await entering
    await message.send("a")
    await message.send("b")
    await message.__aexit__(None, None, None)
    await waiting
    order = [payload for _, payload, _ in line.frames]
    assert order in ([b"later", b"a", b"b"], [b"a", b"b", b"later"])


@pytest.mark.clause("1.5-7")
@pytest.mark.parametrize("sent", [[], ["a"], ["a", "b"]])
async def test_a_block_left_by_an_exception_before_the_close(sent: list[str]) -> None:
    """The message stays unfinished: no FIN is made up."""
    line = Line()
    await break_off(line, sent)
    line.close()
    assert [payload.decode() for _, payload, _ in line.frames] == sent
    assert not any(fin for *_, fin in line.frames)


@pytest.mark.parametrize("sent", [[], ["a"], ["a", "b"]])
async def test_a_block_left_by_an_exception_before_another_message(sent: list[str]) -> None:
    """A reply that was interrupted ends where it was, so that the next one can begin."""
    line = Line()
    await break_off(line, sent)
    await line.outbox.send("next")
    *torn, last = line.frames
    assert last == (TEXT, b"next", True)
    assert [payload.decode() for _, payload, _ in torn] == sent
    assert [fin for *_, fin in torn] == [False] * (len(sent) - 1) + [True] * bool(sent)
    line.close()
    assert line.frames[-1] == last


async def test_a_cancelled_message_lets_the_next_one_begin() -> None:
    line = Line()

    async def reply() -> None:
        async with line.message() as out:
            await out.send("half")
            await asyncio.Event().wait()

    replying = asyncio.create_task(reply())
    await turns()
    replying.cancel()
    await asyncio.wait((replying,))
    async with line.message() as out:
        await out.send("whole")
    assert line.frames == [(TEXT, b"half", True), (TEXT, b"whole", True)]


async def test_a_close_in_the_middle_of_an_open_message() -> None:
    line = Line()

    async def reply() -> None:
        async with line.message() as out:
            await out.send("a")
            line.close()
            await out.send("b")

    with pytest.raises(StreamClosed):
        await reply()
    assert line.frames == [(TEXT, b"a", False)]


async def test_a_close_while_the_last_fragment_waits_for_room() -> None:
    line = Line()
    message = await line.message().__aenter__()
    await message.send("a")
    line.free.clear()
    leaving = asyncio.create_task(message.__aexit__(None, None, None))
    await turns()
    line.close()
    with pytest.raises(StreamClosed):
        await leaving
    assert line.frames == [(TEXT, b"a", False)]
    with pytest.raises(StreamClosed):
        await line.outbox.send("next")


async def test_parts_go_as_they_are() -> None:
    line = Line()
    await line.outbox.send_part(PayloadPart(b"a", DataType.UTF8, CompletionState.PARTIAL))
    with pytest.raises(RuntimeError, match="its COMPLETE part must be sent first"):
        await line.outbox.send("x")
    with pytest.raises(RuntimeError, match="its COMPLETE part must be sent first"):
        await line.message().__aenter__()
    await line.outbox.send_part(PayloadPart(b"b"))
    await line.outbox.send("x")
    assert line.frames == [
        (TEXT, b"a", False),
        (CONTINUATION, b"b", True),
        (TEXT, b"x", True),
    ]
