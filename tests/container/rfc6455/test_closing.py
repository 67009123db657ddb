"""The closing handshake (RFC 6455 §5.5.1, §7)."""

from __future__ import annotations

import pytest

from tests.container.rfc6455.subjects import (
    BYTE_BY_BYTE,
    GOODBYE,
    WHOLE,
    Subject,
    sent,
    sent_close,
    wire,
)
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, TEXT, frame

#: A rule hangs on the frame, or on where it stands; engine, loop and chops meet each of them.
pytestmark = pytest.mark.pairwise

CHOPS = pytest.mark.parametrize("chop", [WHOLE, BYTE_BY_BYTE], ids=["whole", "byte by byte"])

LEGAL = [*range(1000, 1004), *range(1007, 1015), 3000, 3999, 4000, 4999]
GONE = range(1001, 1015)
ILLEGAL = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535]

#: What comes behind a Close, and must have no effect.
BEHIND = sent(TEXT, b"behind") + sent(PING, b"behind")


@pytest.mark.clause("1.5-1")
@CHOPS
@pytest.mark.parametrize("code", LEGAL)
async def test_a_legal_code_comes_back(subject: Subject, code: int, chop: int | None) -> None:
    """After the answer, which a client that has gone or failed does not wait for (1.5-9)."""
    verdict = await subject.exchange(sent(TEXT, b"before"), sent_close(code), chop=chop)
    if code not in GONE:
        assert verdict.data == [(TEXT, b"before", True)]
    assert verdict.close == (code, "")


@pytest.mark.clause("1.5-2")
@CHOPS
async def test_a_close_without_a_code(subject: Subject, chop: int | None) -> None:
    verdict = await subject.exchange(sent(TEXT, b"before"), sent_close(), chop=chop)
    assert verdict.data == [(TEXT, b"before", True)]
    assert verdict.close == (None, "")


@CHOPS
@pytest.mark.parametrize(
    "reason",
    ["going", "ü", "κόσμε 🙂", "x" * 123, "ü" * 61],
    ids=["ASCII", "two bytes", "four scripts", "123 bytes", "61 of two bytes"],
)
async def test_a_reason(subject: Subject, reason: str, chop: int | None) -> None:
    verdict = await subject.exchange(sent_close(1000, reason.encode()), chop=chop)
    assert verdict.close == (1000, reason)


@pytest.mark.clause("1.5-4")
@CHOPS
@pytest.mark.parametrize("code", ILLEGAL)
async def test_an_illegal_code(subject: Subject, code: int, chop: int | None) -> None:
    await subject.refuse(sent_close(code, b"why not"), 1002, chop=chop)


@pytest.mark.clause("1.5-4")
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a message"])
@pytest.mark.parametrize("payload", [b"\x03", b"\x00", b"\xff"])
async def test_one_byte_is_no_code(subject: Subject, payload: bytes, inside: bool) -> None:
    await subject.refuse(sent(CLOSE, payload), 1002, inside=inside)


async def test_a_reason_that_is_too_long(subject: Subject) -> None:
    await subject.refuse(sent_close(1000, b"x" * 124, length_form=16), 1002)


@pytest.mark.clause("1.5-5")
@CHOPS
@pytest.mark.parametrize(
    "reason",
    [b"\xff", b"\xc3", b"cut \xe2\x82", b"\xc0\xaf", b"\xed\xa0\x80", b"x" * 122 + b"\xc3"],
)
async def test_a_reason_that_is_not_utf_8(
    subject: Subject, reason: bytes, chop: int | None
) -> None:
    await subject.refuse(sent_close(1000, reason), 1007, chop=chop)


# --- What comes behind it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behind",
    [
        BEHIND,
        sent_close(1001),
        sent_close(),
        frame(TEXT, b"without a mask"),
        sent(3, b"reserved"),
        sent(TEXT, b"\xff"),
        sent(TEXT, b"half")[:-2],
        bytes(1000),
    ],
    ids=["frames", "a Close", "an empty Close", "unmasked", "reserved", "no text", "half", "zeros"],
)
@pytest.mark.parametrize("code", [1000, None, 4999])
async def test_nothing_behind_a_close_means_anything(
    subject: Subject, code: int | None, behind: bytes
) -> None:
    async with subject.stream() as peer:
        await peer.send(sent(TEXT, b"before") + sent_close(code) + behind)
        verdict = await peer.verdict()
    assert verdict.data == [(TEXT, b"before", True)]
    assert verdict.close == (code, "")
    assert peer.seen.payloads == [b"before"]


@pytest.mark.parametrize("bad", [sent(3), sent(TEXT, b"\xff"), sent(BINARY, announced=1 << 40)])
async def test_nothing_behind_a_fault_means_anything(subject: Subject, bad: bytes) -> None:
    """Not even when it comes later: the server reads it, and no more."""
    async with subject.stream() as peer:
        await peer.send(bad)
        closed = await peer.next(CLOSE)
        await peer.send(BEHIND + sent_close(1000) + sent_close(4000), chop=7)
        verdict = await peer.verdict()
    assert closed.close_code in (1002, 1007, 1009)
    assert [each.opcode for each in verdict.frames] == [CLOSE]
    assert peer.seen.payloads == []


async def test_not_even_while_the_handler_has_more_to_do(subject: Subject) -> None:
    """A Close is answered when the handler is done (RFC 6455 §5.5.1 lets it), however late."""
    subject.model.may_end.clear()
    try:
        async with subject.stream() as peer:
            await peer.send(sent(TEXT, b"before") + sent_close(4000))
            await peer.next(TEXT)
            behind = BEHIND + sent(3) + sent_close(1001) + sent(TEXT, b"behind")
            await peer.send(behind, chop=3)
            assert not peer.seen.ended
            subject.model.may_end.set()
            verdict = await peer.verdict()
    finally:
        subject.model.may_end.set()
    assert verdict.data == [(TEXT, b"before", True)]
    assert verdict.pongs == []
    assert verdict.close == (4000, "")
    assert peer.seen.payloads == [b"before"]


# --- The server is the first ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        sent_close(1000),
        sent_close(4999),
        sent_close(),
        BEHIND + sent_close(1000),
        sent_close(1000) + BEHIND,
        sent(TEXT, b"half a message", fin=False) + sent_close(1000),
        sent_close(1005),
        sent(CLOSE, b"\x03"),
        sent(3),
        sent(TEXT, b"\xff"),
        frame(TEXT, b"without a mask"),
        sent(BINARY, announced=1 << 40),
    ],
    ids=[
        *("same code", "another code", "no code", "frames first", "frames behind", "half first"),
        *("illegal code", "one byte", "reserved", "no text", "unmasked", "too large"),
    ],
)
async def test_whatever_answers_it_ends_the_connection(subject: Subject, answer: bytes) -> None:
    """And says nothing more: its Close was the last frame."""
    async with subject.stream() as peer:
        await peer.send(sent(TEXT, GOODBYE))
        assert (await peer.next(CLOSE)).close_code == 1000
        await peer.send(answer)
        verdict = await peer.verdict()
    assert [each.opcode for each in verdict.frames] == [CLOSE]
    assert peer.seen.payloads == [GOODBYE]


async def test_both_are_the_first(subject: Subject) -> None:
    """The two Closes cross on their way: each is the answer to the other."""
    verdict = await subject.exchange(sent(TEXT, GOODBYE), sent_close(4000))
    assert verdict.close[0] in (1000, 4000)
    assert len(verdict.frames) == 1


# --- In the middle of a message ------------------------------------------------------------------


@pytest.mark.clause("1.5-7")
@CHOPS
@pytest.mark.parametrize("code", [1000, 1001, 4000, None])
async def test_in_the_middle_of_a_message(
    subject: Subject, code: int | None, chop: int | None
) -> None:
    begun = [(TEXT, b"one", False), (CONTINUATION, b"two", False)]
    verdict = await subject.exchange(wire(begun), sent_close(code), chop=chop)
    assert verdict.data == subject.echoed(*begun)
    assert verdict.close == (code, "")


async def test_in_the_middle_of_a_code_point(subject: Subject) -> None:
    begun = [(TEXT, b"\xe2\x82", False)]
    verdict = await subject.exchange(wire(begun), sent_close(1000))
    assert verdict.data == subject.echoed(*begun)
    assert verdict.close == (1000, "")
