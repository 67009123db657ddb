"""Frames themselves: lengths, masks, RSV bits, opcodes (RFC 6455 §5.1 to §5.3)."""

from __future__ import annotations

import pytest

from partway.protocol.limits import MAX_PART_BYTES
from tests.container.rfc6455.subjects import BYTE_BY_BYTE, WHOLE, Subject, sent, sent_close
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, frame

#: A rule hangs on the frame, or on where it stands; engine, loop and chops meet each of them.
pytestmark = pytest.mark.pairwise

#: Around each place where the length changes its form.
SIZES = [0, 1, 124, 125, 126, 127, 128, 65_535, 65_536, 65_537]

CHOPS = pytest.mark.parametrize("chop", [WHOLE, BYTE_BY_BYTE], ids=["whole", "byte by byte"])
TYPES = pytest.mark.parametrize("opcode", [TEXT, BINARY], ids=["text", "binary"])
CONTROLS = pytest.mark.parametrize("opcode", [CLOSE, PING, PONG], ids=["close", "ping", "pong"])
INSIDE = pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a message"])

DONE = sent_close(1000)


def pattern(size: int) -> bytes:
    """ASCII in which no two places near each other look the same."""
    return (b"".join(b"%06d " % number for number in range(size // 7 + 1)))[:size]


# --- Lengths -------------------------------------------------------------------------------------


@TYPES
@pytest.mark.parametrize("size", SIZES)
async def test_a_message_of_any_length(subject: Subject, opcode: int, size: int) -> None:
    payload = pattern(size)
    verdict = await subject.exchange(sent(opcode, payload), sent(opcode, b"next"), DONE)
    assert verdict.data == [(opcode, payload, True), (opcode, b"next", True)]
    assert verdict.close == (1000, "")


@TYPES
@pytest.mark.parametrize("size", SIZES)
async def test_a_message_in_chops(subject: Subject, opcode: int, size: int) -> None:
    payload = pattern(size)
    chop = BYTE_BY_BYTE if size < 1000 else 997  # a prime: the chops fall everywhere
    verdict = await subject.exchange(sent(opcode, payload), DONE, chop=chop)
    assert verdict.data == [(opcode, payload, True)]
    assert verdict.close == (1000, "")


async def test_many_messages_in_one_read(subject: Subject) -> None:
    """More than go into one turn of the loop, and of every form of length."""
    messages = [(BINARY, pattern(size), True) for size in [0, 125, 126, 1000] * 50]
    messages[77] = (BINARY, pattern(70_000), True)
    verdict = await subject.exchange(*(sent(BINARY, payload) for _, payload, _ in messages), DONE)
    assert verdict.data == messages


@pytest.mark.clause("1.3-3")
async def test_the_largest_frame(subject: Subject) -> None:
    payload = bytes(MAX_PART_BYTES)
    verdict = await subject.exchange(sent(BINARY, payload), DONE)
    assert len(verdict.data) == 1
    assert verdict.data[0] == (BINARY, payload, True)


@pytest.mark.clause("1.5-6")
@pytest.mark.parametrize("length", [MAX_PART_BYTES + 1, 1 << 40, (1 << 63) - 1])
@INSIDE
async def test_a_frame_that_is_too_large_is_refused_from_its_header(
    subject: Subject, length: int, inside: bool
) -> None:
    opcode = CONTINUATION if inside else BINARY
    await subject.refuse(sent(opcode, announced=length), 1009, inside=inside)


@CHOPS
@pytest.mark.parametrize(
    ("size", "form"), [(0, 16), (5, 16), (125, 16), (0, 64), (125, 64), (126, 64), (65_535, 64)]
)
async def test_a_length_that_is_not_in_its_shortest_form(
    subject: Subject, size: int, form: int, chop: int | None
) -> None:
    if size > 1000 and chop is not None:
        chop = 997
    await subject.refuse(sent(BINARY, pattern(size), length_form=form), 1002, chop=chop)


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1])
async def test_a_length_with_its_top_bit_set(subject: Subject, length: int) -> None:
    await subject.refuse(sent(BINARY, announced=length), 1002)


@CHOPS
@CONTROLS
@pytest.mark.parametrize(("size", "form"), [(0, 16), (125, 16), (126, 16), (2, 64), (70_000, 64)])
async def test_a_control_frame_whose_length_is_not_in_seven_bits(
    subject: Subject, opcode: int, size: int, form: int, chop: int | None
) -> None:
    if size > 1000 and chop is not None:
        chop = 997
    await subject.refuse(sent(opcode, pattern(size), length_form=form), 1002, chop=chop)


# --- Masks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [bytes(4), b"\xff" * 4, b"\x00\x00\x00\x01", b"\x81\x82\x83\x84"])
async def test_any_key_masks(subject: Subject, mask: bytes) -> None:
    messages = [(BINARY, pattern(size), True) for size in range(20)]
    data = b"".join(frame(*message[:2], mask=mask) for message in messages)
    verdict = await subject.exchange(data, frame(PING, b"ping", mask=mask), DONE)
    assert verdict.data == messages
    assert verdict.pongs == [b"ping"]


@CHOPS
@INSIDE
@pytest.mark.parametrize("payload", [b"", b"x" * 10, b"x" * 200], ids=["empty", "short", "long"])
async def test_a_frame_without_a_mask(
    subject: Subject, payload: bytes, inside: bool, chop: int | None
) -> None:
    opcode = CONTINUATION if inside else TEXT
    await subject.refuse(frame(opcode, payload), 1002, inside=inside, chop=chop)


@CONTROLS
async def test_a_control_frame_without_a_mask(subject: Subject, opcode: int) -> None:
    await subject.refuse(frame(opcode, b"\x03\xe8"), 1002)


# --- RSV bits and opcodes ------------------------------------------------------------------------


@pytest.mark.parametrize("rsv", range(1, 8))
@pytest.mark.parametrize("opcode", [TEXT, BINARY, CLOSE, PING, PONG])
async def test_rsv_bits(subject: Subject, opcode: int, rsv: int) -> None:
    await subject.refuse(sent(opcode, b"\x03\xe8", rsv=rsv), 1002)


@pytest.mark.parametrize("rsv", range(1, 8))
@pytest.mark.parametrize("opcode", [CONTINUATION, PING])
async def test_rsv_bits_inside_a_message(subject: Subject, opcode: int, rsv: int) -> None:
    await subject.refuse(sent(opcode, b"x", rsv=rsv), 1002, inside=True, chop=BYTE_BY_BYTE)


@INSIDE
@pytest.mark.parametrize("payload", [b"", b"payload"], ids=["empty", "with payload"])
@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
async def test_reserved_opcodes(
    subject: Subject, opcode: int, payload: bytes, inside: bool
) -> None:
    await subject.refuse(sent(opcode, payload), 1002, inside=inside)


@pytest.mark.parametrize("opcode", [3, 7, 11, 15])
async def test_reserved_opcodes_byte_by_byte(subject: Subject, opcode: int) -> None:
    await subject.refuse(sent(opcode, b"x", fin=False), 1002, chop=BYTE_BY_BYTE)
