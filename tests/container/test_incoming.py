"""The inbox, and the two ways of reading it."""

from __future__ import annotations

import asyncio

import pytest

from partway.container.fair_scheduling import HandlerScheduler
from partway.container.incoming import Fragments, Inbox, Messages
from partway.protocol.limits import PART_OVERHEAD
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.websocket.close_codes import Close


class Peer:
    """Counts what an inbox asks of the connection."""

    def __init__(self, **options: int) -> None:
        self.asked: list[str] = []
        self.closed: list[Close] = []
        self.inbox = Inbox(
            lambda: self.asked.append("pause"), lambda: self.asked.append("resume"), **options
        )

    def messages(self, max_message: int = 100) -> Messages:
        return Messages(self.inbox, self._close, max_message)

    def _close(self, close: Close) -> None:
        self.closed.append(close)
        self.inbox.drop()


def text(payload: bytes, *, partial: bool = False) -> PayloadPart:
    completion = CompletionState.PARTIAL if partial else CompletionState.COMPLETE
    return PayloadPart(payload, DataType.UTF8, completion)


def binary(payload: bytes, *, partial: bool = False) -> PayloadPart:
    return text(payload, partial=partial)._replace(data_type=DataType.BINARY)


async def test_messages_are_whole_and_have_the_type_of_their_first_frame() -> None:
    peer = Peer()
    for part in (
        text("één ".encode()),
        binary(b"\xff"),
        text(b"\xe2\x82", partial=True),
        text(b"", partial=True),
        text(b"\xac"),
        binary(b"a", partial=True),
        binary(b"b"),
        text(b""),
    ):
        peer.inbox.put(part)
    peer.inbox.end()
    assert [message async for message in peer.messages()] == ["één ", b"\xff", "€", b"ab", ""]


async def test_a_message_that_the_client_left_unfinished_is_not_one() -> None:
    peer = Peer()
    peer.inbox.put(text(b"whole"))
    peer.inbox.put(text(b"half", partial=True))
    peer.inbox.end()
    assert [message async for message in peer.messages()] == ["whole"]


@pytest.mark.parametrize("sizes", [(101,), (60, 41), (100, 1), (101, 0), (1,) * 101])
async def test_a_message_that_is_too_large_ends_the_stream(sizes: tuple[int, ...]) -> None:
    peer = Peer()
    *beginning, last = sizes
    for size in beginning:
        peer.inbox.put(binary(bytes(size), partial=True))
    peer.inbox.put(binary(bytes(last)))
    peer.inbox.put(binary(b"next"))
    assert [message async for message in peer.messages()] == []
    assert peer.closed == [Close(1009, "a message is larger than 100 bytes")]


@pytest.mark.parametrize("sizes", [(100,), (60, 40), (100, 0)])
async def test_a_message_of_the_largest_size(sizes: tuple[int, ...]) -> None:
    peer = Peer()
    *beginning, last = sizes
    for size in beginning:
        peer.inbox.put(binary(bytes(size), partial=True))
    peer.inbox.put(binary(bytes(last)))
    assert await anext(peer.messages()) == bytes(100)
    assert peer.closed == []


@pytest.mark.parametrize("beginning", ["Hel", ""])
async def test_a_reader_that_gives_up_waiting_loses_nothing(beginning: str) -> None:
    """An idle timeout around anext() is common."""
    peer = Peer()
    peer.inbox.put(text(beginning.encode(), partial=True))
    peer.inbox.put(text(b"\xe2\x82", partial=True))
    for _ in range(2):
        waiting = asyncio.create_task(anext(peer.messages()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
    peer.inbox.put(text(b"\xac"))
    assert await anext(peer.messages()) == f"{beginning}€"


async def test_the_two_ways_of_reading_do_not_mix_in_a_message() -> None:
    peer = Peer()
    for part in (text(b"a", partial=True), text(b"b"), text(b"c", partial=True)):
        peer.inbox.put(part)
    fragments, messages = Fragments(peer.inbox), peer.messages()
    await anext(fragments)
    with pytest.raises(RuntimeError, match=r"fragments\(\) has begun a message"):
        await anext(messages)
    await anext(fragments)
    waiting = asyncio.create_task(anext(messages))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    with pytest.raises(RuntimeError, match=r"messages\(\) has begun a message"):
        await anext(fragments)


async def test_an_endless_message_is_refused_before_it_ends() -> None:
    peer = Peer()
    reading = asyncio.create_task(anext(peer.messages(), "over"))
    while not peer.closed:
        peer.inbox.put(binary(b"xxxxxxxxxx", partial=True))
        await asyncio.sleep(0)
    assert await reading == "over"
    assert peer.inbox.bytes_in <= 120


async def test_over_the_high_water_mark_the_client_is_not_read() -> None:
    peer = Peer(high_water=2 * PART_OVERHEAD + 20, low_water=PART_OVERHEAD)
    for _ in range(3):
        peer.inbox.put(binary(bytes(10)))
    assert peer.asked == ["pause"]
    assert peer.inbox.held_bytes == 3 * PART_OVERHEAD + 30
    await peer.inbox.next()
    await peer.inbox.next()
    assert peer.asked == ["pause"], "the low-water mark is not reached"
    await peer.inbox.next()
    assert peer.asked == ["pause", "resume"]
    assert peer.inbox.held_bytes == 0


async def test_what_came_before_the_end_is_still_there_and_what_is_dropped_is_not() -> None:
    peer = Peer()
    for payload in (b"a", b"b"):
        peer.inbox.put(binary(payload))
    peer.inbox.end()
    assert await peer.inbox.next() == PayloadPart(b"a")
    peer.inbox.drop()
    assert peer.inbox.held_bytes == 0
    assert [part async for part in Fragments(peer.inbox)] == []


async def test_an_end_wakes_the_reader() -> None:
    peer = Peer()
    reading = asyncio.create_task(peer.inbox.next())
    await asyncio.sleep(0)
    peer.inbox.end()
    assert await reading is None


async def test_a_reader_that_was_cancelled_leaves_its_place() -> None:
    peer = Peer()
    reading = asyncio.create_task(peer.inbox.next())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait((reading,))
    peer.inbox.put(binary(b"x"))
    assert await peer.inbox.next() == PayloadPart(b"x")


async def test_two_readers() -> None:
    peer = Peer()
    reading = asyncio.create_task(peer.inbox.next())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one reader"):
        await peer.inbox.next()
    peer.inbox.end()
    await reading


# --- Waiting for a turn ---------------------------------------------------------------------------


class Held:
    """An inbox whose readers are woken one in a turn, and what it asks of the connection."""

    def __init__(self, **options: int) -> None:
        self.asked: list[str] = []
        self._scheduler = HandlerScheduler(at_least=1, share=100)
        self._say = lambda word: lambda: self.asked.append(word)
        self.inbox = Inbox(
            self._say("pause"),
            self._say("resume"),
            scheduler=self._scheduler,
            hold=self._say("hold"),
            let_go=self._say("let go"),
            **options,
        )

    def use_up_the_turn(self) -> None:
        self._scheduler.wake(asyncio.get_running_loop().create_future())

    async def reading(self) -> asyncio.Task[PayloadPart | None]:
        task = asyncio.create_task(self.inbox.next())
        await asyncio.sleep(0)
        return task


async def test_a_reader_that_has_its_turn_at_once_holds_nothing() -> None:
    held = Held()
    reading = await held.reading()
    held.inbox.put(text(b"a"))
    assert await reading == text(b"a")
    assert held.asked == []


async def test_while_a_reader_waits_for_its_turn_the_client_is_not_read() -> None:
    held = Held()
    reading = await held.reading()
    held.use_up_the_turn()
    held.inbox.put(text(b"a"))
    held.inbox.put(text(b"b"))  # of the same read
    assert held.asked == ["hold"]
    assert await reading == text(b"a")
    assert held.asked == ["hold", "let go"]
    assert held.inbox.take() == text(b"b")


async def test_a_reader_that_gives_up_lets_the_client_be_read() -> None:
    held = Held()
    reading = await held.reading()
    held.use_up_the_turn()
    held.inbox.put(text(b"a"))
    reading.cancel()
    await asyncio.wait((reading,))
    assert held.asked == ["hold", "let go"]
    assert held.inbox.take() == text(b"a")


async def test_a_client_that_is_paused_is_not_read_for_a_turns_sake() -> None:
    held = Held(high_water=10, low_water=5)
    reading = await held.reading()
    held.use_up_the_turn()
    held.inbox.put(text(b"a" * 100))
    assert held.asked == ["pause"]
    assert await reading == text(b"a" * 100)
    assert held.asked == ["pause", "resume"]


async def test_the_end_holds_nobody() -> None:
    held = Held()
    reading = await held.reading()
    held.use_up_the_turn()
    held.inbox.end()
    assert await reading is None
    assert held.asked == []
