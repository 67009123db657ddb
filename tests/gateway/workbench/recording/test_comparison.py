"""StreamAnswers side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.workbench.recording.comparison import (
    By,
    ReplyVerdict,
    StreamAnswers,
    TimedReply,
    compare,
    first_difference,
)
from partway.gateway.workbench.recording.recording import JoinedMessage
from partway.protocol.websocket.frames import Opcode

SAME, DIFFERS, MISSING, EXTRA = (
    ReplyVerdict.SAME,
    ReplyVerdict.DIFFERS,
    ReplyVerdict.MISSING,
    ReplyVerdict.EXTRA,
)


def answers(*replies: str | bytes, code: int | None = 1000, **others: object) -> StreamAnswers:
    messages = [
        JoinedMessage(Opcode.TEXT, each.encode(), 0.0)
        if isinstance(each, str)
        else JoinedMessage(Opcode.BINARY, each, 0.0)
        for each in replies
    ]
    return StreamAnswers([TimedReply(message, 0.1) for message in messages], code=code, **others)


@pytest.mark.parametrize(
    ("then", "now", "exact", "shape", "end"),
    [
        ([], [], [], [], []),
        (["a", b"b"], ["a", b"b"], [SAME, SAME], [SAME, SAME], [SAME, SAME]),
        (["a"], ["b"], [DIFFERS], [SAME], [SAME]),
        (["a"], [b"a"], [DIFFERS], [DIFFERS], [SAME]),
        (["a", "b"], ["a"], [SAME, MISSING], [SAME, MISSING], [SAME, SAME]),
        (["a"], ["a", "b"], [SAME, EXTRA], [SAME, EXTRA], [SAME, SAME]),
        (["a"], [], [MISSING], [MISSING], [MISSING]),
        ([], ["a"], [EXTRA], [EXTRA], [SAME]),
    ],
)
def test_replies(then, now, exact, shape, end):
    for by, verdicts in ((By.EXACT, exact), (By.SHAPE, shape), (By.END, end)):
        found = compare(answers(*then), answers(*now), by)
        assert [row.verdict for row in found.rows] == verdicts
        assert found.same == (set(verdicts) <= {SAME})


def test_a_reply_without_its_end_is_another():
    (whole,) = answers("a").replies
    cut = TimedReply(JoinedMessage(Opcode.TEXT, b"a", 0.0, whole=False), 0.1)
    assert compare(StreamAnswers([whole]), StreamAnswers([cut])).rows[0].verdict is DIFFERS


@pytest.mark.parametrize(
    ("then", "now", "notes"),
    [
        (answers(code=None), answers(code=1011), ()),
        (
            answers(),
            answers(code=1011),
            ("the stream ends with Close 1011; in the recording it ended with Close 1000",),
        ),
        (
            answers(),
            answers(code=1006),
            ("the stream ends with no Close (1006); in the recording it ended with Close 1000",),
        ),
        (
            answers(),
            answers(code=None),
            ("the stream goes on; in the recording it ended with Close 1000",),
        ),
        (answers(), answers(code=None, trouble="no pongs"), ("no pongs",)),
        (
            answers(),
            answers(code=None, status=503),
            ("the container answers the upgrade with 503; in the recording with 101",),
        ),
        (answers(status=503, code=None), answers(status=503, code=None), ()),
        (answers(), answers(status=0, code=None, trouble="no stream"), ("no stream",)),
        (answers(code=1000, reason="a"), answers(code=1000, reason="b"), ()),
    ],
)
def test_what_else_differs(then, now, notes):
    found = compare(then, now)
    assert found.notes == notes
    assert found.same == (notes == ())


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_where_two_part(before, left, right):
    at = first_difference(before + left, before + right)
    shared = 0
    for one, other in zip(before + left, before + right, strict=False):
        if one != other:
            break
        shared += 1
    assert at == shared
