"""Pings and Pongs (RFC 6455 §5.5.2, §5.5.3; clauses 1.1-4, 1.4-3)."""

from __future__ import annotations

import pytest

from tests.container.rfc6455.subjects import BYTE_BY_BYTE, WHOLE, Subject, sent, sent_close
from tests.frame_factory import BINARY, CONTINUATION, PING, PONG, TEXT

#: A rule hangs on the frame, or on where it stands; engine, loop and chops meet each of them.
pytestmark = pytest.mark.pairwise

CHOPS = pytest.mark.parametrize("chop", [WHOLE, BYTE_BY_BYTE], ids=["whole", "byte by byte"])

DONE = sent_close(1000)


@pytest.mark.clause("1.1-4")
async def test_a_ping_of_every_size(subject: Subject) -> None:
    payloads = [bytes(range(size)) for size in range(126)]
    verdict = await subject.exchange(*(sent(PING, payload) for payload in payloads), DONE)
    assert verdict.pongs == payloads
    assert verdict.data == []
    assert verdict.close == (1000, "")


@pytest.mark.clause("1.1-4")
@CHOPS
@pytest.mark.parametrize("payload", [b"", b"hello", b"\x00\xff\xfe\xfd\x80", b"\xff" * 125])
async def test_a_ping_comes_back_byte_for_byte(
    subject: Subject, payload: bytes, chop: int | None
) -> None:
    verdict = await subject.exchange(sent(PING, payload), DONE, chop=chop)
    assert verdict.pongs == [payload]


@CHOPS
async def test_ten_pings_are_answered_in_order(subject: Subject, chop: int | None) -> None:
    payloads = [b"payload-%d" % number for number in range(10)]
    pings = b"".join(sent(PING, payload) for payload in payloads)
    verdict = await subject.exchange(pings, DONE, chop=chop)
    assert verdict.pongs == payloads


async def test_a_ping_is_answered_at_once(subject: Subject) -> None:
    """While the handler has nothing to do, and before anything else comes."""
    async with subject.stream() as peer:
        for payload in (b"", b"first", b"second"):
            await peer.send(sent(PING, payload))
            assert (await peer.next(PONG)).payload == payload
        await peer.send(DONE)
        await peer.verdict()
    assert peer.seen.payloads == []


async def test_pings_between_messages_disturb_none(subject: Subject) -> None:
    numbers = [b"%d" % number for number in range(100)]
    data = b"".join(sent(PING, each) + sent(TEXT, each) for each in numbers)
    verdict = await subject.exchange(data, DONE)
    assert verdict.pongs == numbers
    assert verdict.data == [(TEXT, each, True) for each in numbers]


@CHOPS
@pytest.mark.parametrize("payload", [b"", b"unasked for", b"\xff" * 125])
async def test_a_pong_that_nobody_asked_for(
    subject: Subject, payload: bytes, chop: int | None
) -> None:
    data = sent(PONG, payload) + sent(PONG, payload) + sent(PING, b"ping") + sent(TEXT, b"text")
    verdict = await subject.exchange(data, DONE, chop=chop)
    assert verdict.pongs == [b"ping"]
    assert verdict.data == [(TEXT, b"text", True)]
    assert verdict.close == (1000, "")


@CHOPS
@pytest.mark.parametrize("opcode", [PING, PONG], ids=["ping", "pong"])
@pytest.mark.parametrize("size", [126, 127, 65_536])
async def test_one_that_is_too_long(
    subject: Subject, opcode: int, size: int, chop: int | None
) -> None:
    if size > 1000 and chop is not None:
        chop = 997
    await subject.refuse(sent(opcode, bytes(size)), 1002, chop=chop)


@CHOPS
@pytest.mark.parametrize("opcode", [PING, PONG], ids=["ping", "pong"])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a message"])
async def test_one_in_fragments(
    subject: Subject, opcode: int, inside: bool, chop: int | None
) -> None:
    fragmented = sent(opcode, b"one", fin=False) + sent(CONTINUATION, b"two")
    await subject.refuse(fragmented, 1002, inside=inside, chop=chop)


@pytest.mark.clause("1.1-4")
async def test_a_ping_while_the_client_has_not_finished_its_message(subject: Subject) -> None:
    async with subject.stream() as peer:
        await peer.send(sent(BINARY, b"one", fin=False) + sent(PING, b"ping"))
        assert (await peer.next(PONG)).payload == b"ping"
        await peer.send(sent(CONTINUATION, b"two") + DONE)
        verdict = await peer.verdict()
    assert verdict.data == subject.echoed((BINARY, b"one", False), (CONTINUATION, b"two", True))


async def test_a_ping_behind_the_close_has_no_answer(subject: Subject) -> None:
    verdict = await subject.exchange(DONE, sent(PING, b"too late"))
    assert verdict.pongs == []
    assert verdict.close == (1000, "")
