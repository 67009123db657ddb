"""Heads that differ in what a client says anew: read as llhttp reads them, and not by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.http1.alike import AlikeHeads
from partway.protocol.http1.parser import REMEMBERED_HEAD_BYTES, RequestParser
from partway.protocol.http1.request import SAID_ANEW, SIGNATURE
from tests.protocol.http1.parsed_heads import ALIKE, ODD, UNLIKE, fed, heads, outcome, signed


@pytest.mark.parametrize("other", ALIKE[1:])
def test_a_head_that_is_like_the_last_is_not_read_by_llhttp(other):
    parser = fed(ALIKE[0])
    parser._parser = None
    parser.feed(other)
    first, second = heads(parser)
    assert second.facts is first.facts
    assert second.first is first


@pytest.mark.parametrize("remembers", [0, REMEMBERED_HEAD_BYTES])
def test_what_a_head_says_that_is_like_the_last_is_its_own(remembers):
    parser = RequestParser(remembers)
    for each in ALIKE:
        parser.feed(each)
    ids = [b"1-2-3", b"another one", b"1", b"1-2-3", b"1-2-3"]
    assert [each.headers["Amz-Sdk-Invocation-Id"].encode() for each in heads(parser)] == ids
    assert [each.length for each in heads(parser)] == [5, 5, 12, 0, 5]
    assert [each.path for each in heads(parser)] == [
        *["/endpoints/a/invocations"] * 3,
        "/endpoints/b-1/invocations",
        "/base/endpoints/%61/invocations",
    ]


def test_a_head_that_llhttp_read_after_all_leaves_what_is_known_as_it_was():
    first, second = signed(id=b"1"), signed(id=b"2")
    pieces = [first, second + first, signed(id=b"2", date=b"20261126T120005Z")]
    assert outcome(pieces, REMEMBERED_HEAD_BYTES) == outcome(pieces, 0)


@pytest.mark.parametrize("other", [*ALIKE, *ODD, *UNLIKE])
@pytest.mark.parametrize("first", [*ALIKE, *ODD])
def test_a_head_says_what_llhttp_reads_in_it_whatever_came_before(first, other):
    pieces = [first, other, ALIKE[1]]
    assert outcome(pieces, REMEMBERED_HEAD_BYTES) == outcome(pieces, 0)


_OTHER = st.sampled_from(
    [b" ", b"\t", b"\r", b"\n", b"\r\n", b":", b"/", b"?", b"a", b"5", b"\xff"]
)


@pytest.mark.parametrize("first", [*ALIKE, *ODD])
def test_what_is_said_anew_is_what_each_says(first):
    other = first.replace(b"0" * 64, b"1" * 64)
    read = heads(fed(first, other, *ALIKE, *ODD))
    assert read[1].facts is read[0].facts or first == other or read[0].headers is None
    for each in read:
        assert each.says_anew().keys() == each.first.says_anew().keys()
        assert all(map(SAID_ANEW.fullmatch, each.says_anew().values()))
        said = {name.lower(): value.encode() for name, value in each.raw_headers}
        anew = dict(each.says_anew())
        signature = anew.pop(SIGNATURE, b"")
        assert said["authorization"].endswith(signature)
        assert anew.items() <= said.items()


@pytest.mark.parametrize(
    "id_", [b"2", b"attempt=1; max=3", b"a longer one", b"", b"1  2", b"1\xff2"]
)
def test_an_odd_value_is_read_as_it_was_or_by_llhttp(id_):
    first, second = signed(), signed(id=id_, signature=b"1" * 64)
    parser = fed(first)
    alike = AlikeHeads(heads(parser)[0], first.removesuffix(b"hello"), REMEMBERED_HEAD_BYTES)
    other = alike.read(heads(parser)[0], second)
    if id_ in (b"", b"1  2", b"1\xff2"):
        assert other is None
    else:
        assert other.says_anew()["amz-sdk-invocation-id"] == id_
        assert alike.size == len(second) - len(b"hello")


def test_a_head_that_is_longer_than_what_is_remembered_is_not_read():
    first = signed()
    head, size = heads(fed(first))[0], len(first) - len(b"hello")
    alike = AlikeHeads(head, first[:size], size)
    assert alike.read(head, signed(id=b"1-2-33")) is None
    assert alike.read(head, signed(id=b"1-2-4")) is not None


@given(st.sampled_from(ALIKE), st.sampled_from(ALIKE), st.data())
def test_another_byte_anywhere_in_a_head_is_read_as_llhttp_reads_it(first, second, data):
    at = data.draw(st.integers(0, len(second)))
    until = data.draw(st.integers(at, min(at + 2, len(second))))
    other = second[:at] + data.draw(_OTHER) + second[until:]
    pieces = [first, other, ALIKE[1]]
    assert outcome(pieces, REMEMBERED_HEAD_BYTES) == outcome(pieces, 0)
