"""What follows from a head is worked out once."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from partway.protocol.http1.facts import Fact


def head(**headers):
    return SimpleNamespace(headers=headers, facts={})


def test_a_fact_is_worked_out_once_for_each_head():
    asked = []
    fact = Fact(lambda headers: asked.append(headers))
    one, other = head(a="1"), head(a="2")
    assert [fact.of(each) for each in (one, one, other, other)] == [None] * 4
    assert asked == [{"a": "1"}, {"a": "2"}]


def test_facts_of_one_head_are_told_apart():
    one, other = Fact(len), Fact(lambda headers: headers["a"])
    asked = head(a="1")
    assert (one.of(asked), other.of(asked), one.of(asked)) == (1, "1", 1)


def test_what_a_fact_raises_is_raised_each_time():
    fact = Fact(lambda headers: headers["b"])
    asked = head(a="1")
    for _ in range(2):
        with pytest.raises(KeyError):
            fact.of(asked)
    assert asked.facts == {}
