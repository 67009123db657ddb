"""Messages in fragments (RFC 6455 §5.4)."""

from __future__ import annotations

import pytest

from tests.container.rfc6455.subjects import (
    BYTE_BY_BYTE,
    WHOLE,
    Subject,
    fragments,
    sent,
    sent_close,
    wire,
)
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT

#: A rule hangs on the frame, or on where it stands; engine, loop and chops meet each of them.
pytestmark = pytest.mark.pairwise

CHOPS = pytest.mark.parametrize("chop", [WHOLE, BYTE_BY_BYTE], ids=["whole", "byte by byte"])
TYPES = pytest.mark.parametrize("opcode", [TEXT, BINARY], ids=["text", "binary"])

DONE = sent_close(1000)


@CHOPS
@TYPES
@pytest.mark.parametrize(
    "pieces",
    [
        (b"one", b"two"),
        (b"", b""),
        (b"", b"", b""),
        (b"", b"between", b""),
        (b"begun", b"", b""),
        tuple(b"%d" % number for number in range(20)),
    ],
    ids=["two", "two empty", "three empty", "empty ends", "empty at last", "twenty"],
)
async def test_fragments_are_a_message(
    subject: Subject, opcode: int, pieces: tuple[bytes, ...], chop: int | None
) -> None:
    frames = fragments(opcode, pieces)
    verdict = await subject.exchange(wire(frames), sent(BINARY, b"next"), DONE, chop=chop)
    assert verdict.data == [*subject.echoed(*frames), (BINARY, b"next", True)]


@TYPES
@pytest.mark.parametrize("size", [0, 1, 200])
async def test_a_thousand_fragments(subject: Subject, opcode: int, size: int) -> None:
    frames = fragments(opcode, [b"x" * size] * 1000)
    verdict = await subject.exchange(wire(frames), DONE)
    assert verdict.data == subject.echoed(*frames)
    assert verdict.close == (1000, "")


@pytest.mark.parametrize("sizes", [(125, 126), (65_535, 65_536), (70_000, 1, 0, 127)])
async def test_fragments_of_any_length(subject: Subject, sizes: tuple[int, ...]) -> None:
    frames = fragments(BINARY, [bytes(size) for size in sizes])
    verdict = await subject.exchange(wire(frames), DONE, chop=9973)
    assert verdict.data == subject.echoed(*frames)


@CHOPS
async def test_a_code_point_may_be_split(subject: Subject, chop: int | None) -> None:
    text = "Ünïcödé κόσμε 日本 🙂".encode()
    frames = fragments(TEXT, [bytes((byte,)) for byte in text])
    verdict = await subject.exchange(wire(frames), DONE, chop=chop)
    assert verdict.data == subject.echoed(*frames)
    assert b"".join(peer_payload for _, peer_payload, _ in verdict.data) == text


# --- Control frames between them -----------------------------------------------------------------


@pytest.mark.clause("1.3-2")
@CHOPS
@pytest.mark.parametrize("count", [1, 10])
async def test_pings_between_fragments(subject: Subject, count: int, chop: int | None) -> None:
    pings = [b"ping-%d" % number for number in range(count)]
    frames = fragments(TEXT, [b"one", b"two", b"three"])
    data = b"".join(wire([each]) + b"".join(sent(PING, ping) for ping in pings) for each in frames)
    verdict = await subject.exchange(data, DONE, chop=chop)
    assert verdict.pongs == pings * 3
    assert verdict.data == subject.echoed(*frames)


@pytest.mark.clause("1.3-2")
async def test_a_ping_between_fragments_is_answered_at_once(subject: Subject) -> None:
    async with subject.stream() as peer:
        for number, frame in enumerate(fragments(TEXT, [b"one", b"two", b"three", b""])):
            await peer.send(wire([frame]) + sent(PING, b"%d" % number))
            assert (await peer.next(PONG)).payload == b"%d" % number
        await peer.send(DONE)
        await peer.verdict()


@CHOPS
async def test_pongs_between_fragments(subject: Subject, chop: int | None) -> None:
    frames = fragments(BINARY, [b"one", b"two"])
    data = wire(frames[:1]) + sent(PONG, b"unasked for") + wire(frames[1:])
    verdict = await subject.exchange(data, DONE, chop=chop)
    assert verdict.pongs == []
    assert verdict.data == subject.echoed(*frames)


# --- What is out of order ------------------------------------------------------------------------


@CHOPS
@pytest.mark.parametrize("fin", [False, True], ids=["FIN=0", "FIN=1"])
@pytest.mark.parametrize("payload", [b"", b"payload"], ids=["empty", "with payload"])
async def test_a_continuation_that_continues_nothing(
    subject: Subject, payload: bytes, fin: bool, chop: int | None
) -> None:
    await subject.refuse(sent(CONTINUATION, payload, fin=fin), 1002, chop=chop)


@CHOPS
async def test_a_continuation_behind_a_whole_message(subject: Subject, chop: int | None) -> None:
    """Whose last fragment has told that it is over."""
    frames = fragments(TEXT, [b"one", b"two"])
    async with subject.stream() as peer:
        await peer.send(wire(frames) + sent(PING))
        await peer.next(PONG)
        await peer.send(sent(CONTINUATION, b"three") + sent(TEXT, b"behind") + DONE, chop)
        verdict = await peer.verdict()
    assert verdict.close[0] == 1002
    assert verdict.data == subject.echoed(*frames)
    assert b"three" not in peer.seen.payloads


@CHOPS
@TYPES
@pytest.mark.parametrize("fin", [False, True], ids=["FIN=0", "FIN=1"])
async def test_a_message_inside_a_message(
    subject: Subject, opcode: int, fin: bool, chop: int | None
) -> None:
    await subject.refuse(sent(opcode, b"another", fin=fin), 1002, inside=True, chop=chop)


@CHOPS
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a message"])
@pytest.mark.parametrize("opcode", [CLOSE, PING, PONG], ids=["close", "ping", "pong"])
async def test_a_fragmented_control_frame(
    subject: Subject, opcode: int, inside: bool, chop: int | None
) -> None:
    await subject.refuse(sent(opcode, b"\x03\xe8", fin=False), 1002, inside=inside, chop=chop)


# --- Ends in the middle --------------------------------------------------------------------------


async def test_a_message_that_is_never_finished_is_none(subject: Subject) -> None:
    """Those who take messages never see it; an echo of frames says no FIN that it has not had."""
    begun = [(TEXT, b"one", False), (CONTINUATION, b"two", False)]
    async with subject.stream() as peer:
        await peer.send(wire(begun) + DONE)
        verdict = await peer.verdict()
    assert verdict.data == subject.echoed(*begun)
    assert verdict.close == (1000, "")


async def test_a_connection_that_ends_in_the_middle_of_a_frame(subject: Subject) -> None:
    async with subject.stream() as peer:
        await peer.send(sent(TEXT, b"whole") + sent(PING))
        await peer.next(PONG)
        await peer.send(sent(BINARY, b"half of a frame")[:-4])
    assert peer.seen.payloads == [b"whole"]
