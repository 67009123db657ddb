"""What follows from a head is worked out once."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from multidict import CIMultiDict

import partway.container.runtime
import partway.gateway.gateway
from partway.protocol.http1.facts import ANEW, Fact


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


class Telling(CIMultiDict):
    """Headers that know which of them was read."""

    def __init__(self, headers):
        super().__init__(headers)
        self.read = set()

    def get(self, name, otherwise=None):
        self.read.add(name.lower())
        return super().get(name, otherwise)

    def __getitem__(self, name):
        self.read.add(name.lower())
        return super().__getitem__(name)

    def getall(self, name, *otherwise):
        self.read.add(name.lower())
        return super().getall(name, *otherwise)


@pytest.mark.parametrize(
    ("side", "least"), [(partway.gateway.gateway, 5), (partway.container.runtime, 2)]
)
def test_no_fact_is_about_what_requests_say_anew(side, least):
    package = side.__package__
    modules = [each for name, each in list(sys.modules.items()) if name.startswith(package)]
    facts = {each for module in modules for each in vars(module).values() if isinstance(each, Fact)}
    assert len(facts) >= least
    anew = ANEW | {"content-length"}
    for fact in facts:
        for headers in ({}, dict.fromkeys(anew, "1"), {"Content-Type": "a", "Accept": "b"}):
            telling = Telling(headers)
            fact._work_out(telling)
            assert not telling.read & anew
            changed = {name: "2" if name in anew else value for name, value in headers.items()}
            assert fact._work_out(CIMultiDict(changed)) == fact._work_out(CIMultiDict(headers))
