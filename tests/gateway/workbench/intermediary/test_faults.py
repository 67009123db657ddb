"""Rules: which streams they mean, how they count, and what they refuse."""

from __future__ import annotations

import re

import pytest

from partway.gateway.workbench.intermediary.faults import (
    CloseEarly,
    Cut,
    Delay,
    DropPongs,
    Empty,
    Refuse,
    Rule,
    Rules,
    Split,
    Stall,
    Throttle,
)

CODE = "a whole number from 1000 to 1014 except 1004 and 1006, or from 3000 to 4999"
CLOSE, CUT = (CloseEarly(),), (Cut(),)
TARGET = "/invocations-bidirectional-stream"


# --- Which streams -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "endpoint", "target", "meant"),
    [
        ({}, "echo", TARGET, True),
        ({"endpoint": "echo"}, "echo", TARGET, True),
        ({"endpoint": "echo"}, "echo2", TARGET, False),
        ({"path": "v1/listen"}, "echo", "/v1/listen?model=x", True),
        ({"path": "/v1/listen"}, "echo", "/v1/listen", True),
        ({"path": "v1"}, "echo", "/v1/listen", False),
        ({"query": "fault=cut"}, "echo", f"{TARGET}?a=1&fault=cut&b=2", True),
        ({"query": "b=2&a=1"}, "echo", f"{TARGET}?a=1&fault=cut&b=2", True),
        ({"query": "fault=cut"}, "echo", f"{TARGET}?fault=cut2", False),
        ({"query": "fault=cut"}, "echo", TARGET, False),
        ({"query": "a=%20"}, "echo", f"{TARGET}?a=+", True),
        ({"endpoint": "echo", "query": "fault=cut"}, "echo", TARGET, False),
    ],
)
def test_which_streams_a_rule_means(which, endpoint, target, meant):
    assert Rule(CLOSE, **which).means(endpoint, target) is meant


@pytest.mark.parametrize(
    ("which", "spoiled"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"first": 1}, [1]),
        ({"first": 3}, [1, 2, 3]),
        ({"every": 3}, [3, 6]),
        ({"first": 4, "every": 2}, [2, 4]),
    ],
)
def test_which_of_the_streams_that_it_means(which, spoiled):
    rules = Rules([Rule(CLOSE, **which)])
    asked = [rules.faults_for("echo", TARGET) for _ in range(7)]
    assert [number for number, faults in enumerate(asked, 1) if faults] == spoiled
    (met,) = rules.met
    assert (met.counted, met.applied) == (7, len(spoiled))


def test_the_first_rule_that_takes_a_stream_has_it():
    rules = Rules([Rule(CLOSE, first=1), Rule(CUT, first=1), Rule((Stall(),), endpoint="other")])
    assert [rules.faults_for("echo", TARGET) for _ in range(3)] == [CLOSE, CUT, ()]
    assert [(met.counted, met.applied) for met in rules.met] == [(3, 1), (2, 1), (0, 0)]


def test_rules_that_are_replaced_count_anew_and_one_that_is_added_goes_behind():
    rules = Rules([Rule(CLOSE, first=1)])
    rules.faults_for("echo", TARGET)
    added = rules.add(Rule(CUT))
    assert rules.faults_for("echo", TARGET) == CUT
    assert (added.counted, added.applied) == (1, 1)
    rules.replace([Rule(CLOSE, first=1)])
    assert rules.faults_for("echo", TARGET) == CLOSE


# --- What cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Refuse(status=101),
            "status: 101 was given; it must be a whole number from 200 to 599",
        ),
        (
            lambda: Refuse(body="x" * 2049),
            f"body: '{'x' * 59}…' was given; it must be a string of at most 2048 bytes",
        ),
        (lambda: CloseEarly(code=1006), f"code: 1006 was given; it must be {CODE}"),
        (lambda: CloseEarly(code=999), "code: "),
        (
            lambda: CloseEarly(reason="é" * 62),
            f"reason: '{'é' * 59}…' was given; it must be a string of at most 123 bytes",
        ),
        (
            lambda: CloseEarly(code=1005, reason="x"),
            "reason: 'x' was given; it must be empty with the code 1005",
        ),
        (
            lambda: CloseEarly(after=-1),
            "after: -1 was given; it must be a whole number of parts, 0 or more",
        ),
        (lambda: Cut(after=-1), "after: "),
        (lambda: Cut(at=-1), "at: "),
        (lambda: Stall(after=-1), "after: "),
        (lambda: Delay(0), "seconds: 0 was given; it must be a finite number of seconds above 0"),
        (lambda: Delay(float("nan")), "seconds: "),
        (lambda: Split(1), "into: 1 was given; it must be a whole number of parts from 2 to 1000"),
        (lambda: Empty(0), "count: 0 was given; it must be a whole number of parts from 1 to 1000"),
        (
            lambda: Throttle(0),
            "bytes_per_second: 0 was given; it must be a whole number of bytes from 1",
        ),
        (lambda: Rule(()), "no fault was given; it must have one or more of refuse, close, cut,"),
        (
            lambda: Rule((Cut(), Cut(1))),
            "two faults of one kind were given; each must be of another kind",
        ),
        (
            lambda: Rule((Cut(), Refuse())),
            (
                "refuse: other faults were given; it must be alone, since a refused stream has no "
                "other faults"
            ),
        ),
        (
            lambda: Rule(CUT, first=0),
            "first: 0 was given; it must be a whole number of streams, 1 or more",
        ),
        (
            lambda: Rule(CUT, every=0),
            "every: 0 was given; it must be a whole number of streams, 1 or more",
        ),
        (
            lambda: Rule(CUT, query="fault"),
            "query: 'fault' was given; it must be pairs of key=value joined by &",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError) as raised:
        make()
    assert str(raised.value).startswith(message)


def test_a_fault_says_what_it_is():
    assert str(CloseEarly(1012, "back soon", 3)) == "close code=1012 reason='back soon' after=3"
    assert str(Cut(2)) == "cut after=2"
    assert str(DropPongs()) == "drop_pongs"


# --- Types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CloseEarly("1011"), f"code: '1011' was given; it must be {CODE}"),
        (
            lambda: Delay("1"),
            (
                "seconds: '1' was given; "
                "it must be a finite number of seconds above 0 and at most 3600"
            ),
        ),
        (
            lambda: Cut(at=True),
            "at: true was given; it must be a whole number of bytes, 0 or more",
        ),
        (
            lambda: Refuse(body=b"no"),
            "body: b'no' was given; it must be a string of at most 2048 bytes",
        ),
    ],
)
def test_a_value_of_another_type_is_said_where_it_is_written(make, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        make()
