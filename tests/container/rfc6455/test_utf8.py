"""Text is UTF-8 (RFC 6455 §8.1, RFC 3629; clause 1.1-8)."""

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
from tests.frame_factory import BINARY, CONTINUATION, PING, PONG, TEXT

#: A rule hangs on the frame, or on where it stands; engine, loop and chops meet each of them.
pytestmark = [pytest.mark.clause("1.1-8"), pytest.mark.pairwise]

DONE = sent_close(1000)

#: The first and last of each length, the neighbours of the surrogates, noncharacters, and text.
VALID = {
    "first of one byte": "00",
    "last of one byte": "7f",
    "first of two bytes": "c2 80",
    "last of two bytes": "df bf",
    "first of three bytes": "e0 a0 80",
    "before the surrogates": "ed 9f bf",
    "behind the surrogates": "ee 80 80",
    "replacement character": "ef bf bd",
    "last of three bytes": "ef bf bf",
    "first of four bytes": "f0 90 80 80",
    "last of all": "f4 8f bf bf",
    "noncharacters": "ef b7 90 ef b7 af ef bf be f0 9f bf be f3 bf bf bf f4 8f bf be",
    "byte order mark": "ef bb bf 78",
    "combining": "6e cc 83 6f cc 88",
    "greek": "ce ba e1 bd b9 cf 83 ce bc ce b5",
    "four scripts": "48 c3 a9 20 d0 b9 20 e6 97 a5 20 f0 9f 99 82",
}

#: What nothing behind it can make valid: the last byte of each is one too many. (A surrogate's
#: second byte is already; CPython's decoder waits for its third, and RFC 6455 lets it.)
INVALID = {
    "lone continuation 80": "80",
    "lone continuation bf": "bf",
    "continuation behind a code point": "c3 a9 80",
    "overlong / in two": "c0",
    "overlong in two, last": "c1",
    "overlong / in three": "e0 80",
    "overlong in three, last": "e0 9f",
    "overlong / in four": "f0 80",
    "overlong in four, last": "f0 8f",
    "first surrogate": "ed a0 80",
    "last surrogate": "ed bf bf",
    "surrogate behind text": "ce ba e1 bd b9 ed a0 80",
    "above 10ffff": "f4 90",
    "f5": "f5",
    "five bytes": "f8",
    "six bytes": "fc",
    "fe": "fe",
    "ff": "ff",
    "second byte missing": "c3 28",
    "second byte missing of three": "e2 28",
    "third byte missing": "e2 82 28",
    "second byte missing of four": "f0 28",
    "third byte missing of four": "f0 9f 28",
    "fourth byte missing": "f0 9f 99 28",
    "lead bytes in a row": "c3 c3",
}

#: What is not over yet.
TRUNCATED = {
    "one of two": "c3",
    "one of three": "e2",
    "two of three": "e2 82",
    "one of four": "f0",
    "two of four": "f0 9f",
    "three of four": "f0 9f 99",
    "two of a surrogate": "ed a0",
    "behind text": "ce ba e1 bd",
}


def cases(table: dict[str, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "data", [pytest.param(bytes.fromhex(text), id=id) for id, text in table.items()]
    )


CHOPS = pytest.mark.parametrize("chop", [WHOLE, BYTE_BY_BYTE], ids=["whole", "byte by byte"])


def single_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


# --- Valid ---------------------------------------------------------------------------------------


@CHOPS
@cases(VALID)
async def test_valid_text(subject: Subject, data: bytes, chop: int | None) -> None:
    """Whole, cut into two fragments at every place, and with each byte in a fragment."""
    frames = [(TEXT, data, True)]
    for cut in range(len(data) + 1):
        frames += fragments(TEXT, [data[:cut], data[cut:]])
    frames += fragments(TEXT, single_bytes(data))
    verdict = await subject.exchange(wire(frames), DONE, chop=chop)
    assert verdict.data == subject.echoed(*frames)
    assert verdict.close == (1000, "")


async def test_every_length_and_every_lead_byte(subject: Subject) -> None:
    """One character of each block of 64, of each of 4096 above, surrogates left out."""
    points = [*range(0, 0xD800, 63), *range(0xE000, 0x10000, 63), *range(0x10000, 0x110000, 4095)]
    text = "".join(map(chr, points)).encode()
    assert set(text) >= {*range(0xC2, 0xF5), *range(0x80, 0xC0)}
    cut = [text[at : at + 7] for at in range(0, len(text), 7)]  # a prime: it falls everywhere
    frames = [(TEXT, text, True), *fragments(TEXT, cut)]
    verdict = await subject.exchange(wire(frames), DONE)
    assert verdict.data == subject.echoed(*frames)


@cases(VALID)
async def test_a_control_frame_in_the_middle_of_a_code_point(subject: Subject, data: bytes) -> None:
    frames = fragments(TEXT, single_bytes(data))
    mixed = b"".join(wire([each]) + sent(PING, b"\xff") for each in frames)
    verdict = await subject.exchange(mixed, DONE)
    assert verdict.data == subject.echoed(*frames)
    assert verdict.pongs == [b"\xff"] * len(frames)


# --- Invalid -------------------------------------------------------------------------------------


@CHOPS
@cases(INVALID | TRUNCATED)
async def test_a_whole_message(subject: Subject, data: bytes, chop: int | None) -> None:
    await subject.refuse(sent(TEXT, b"begun " + data), 1007, chop=chop)


@cases(INVALID)
async def test_no_fragment_is_waited_for(subject: Subject, data: bytes) -> None:
    """Each byte in a fragment, and never a FIN: the first impossible byte is the last."""
    async with subject.stream() as peer:
        *possible, impossible = single_bytes(data)
        await peer.send(sent(TEXT, b"begun ", fin=False))
        await peer.send(b"".join(sent(CONTINUATION, each, fin=False) for each in possible))
        await peer.send(sent(PING))
        await peer.next(PONG)  # so far so good
        await peer.send(sent(CONTINUATION, impossible, fin=False))
        verdict = await peer.verdict()
    assert verdict.close[0] == 1007
    assert b"".join(peer.seen.payloads) in (b"", b"begun " + b"".join(possible))


@cases(TRUNCATED)
async def test_a_message_that_ends_in_the_middle_of_a_code_point(
    subject: Subject, data: bytes
) -> None:
    async with subject.stream() as peer:
        begun = [(TEXT, b"begun ", False), (CONTINUATION, data, False)]
        await peer.send(wire(begun) + sent(PING))
        await peer.next(PONG)  # it might still go on
        await peer.send(sent(CONTINUATION, b"") + sent(TEXT, b"behind") + DONE)
        verdict = await peer.verdict()
    assert verdict.close[0] == 1007
    assert verdict.data == subject.echoed(*begun)
    assert b"behind" not in peer.seen.payloads


async def test_one_message_does_not_finish_the_code_point_of_another(subject: Subject) -> None:
    await subject.refuse(sent(TEXT, b"\xc3") + sent(TEXT, b"\xa9"), 1007)


@cases(INVALID | TRUNCATED)
async def test_binary_is_whatever_it_is(subject: Subject, data: bytes) -> None:
    frames = [(BINARY, data, True), *fragments(BINARY, [data, data])]
    verdict = await subject.exchange(wire(frames), sent(TEXT, b"text"), DONE)
    assert verdict.data == [*subject.echoed(*frames), (TEXT, b"text", True)]
