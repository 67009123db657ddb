"""Rules: which streams they mean, how they count, what they refuse; and their file."""

from __future__ import annotations

import pytest

from partway.gateway.workbench.intermediary.faults import (
    FAULTS,
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
from partway.gateway.workbench.intermediary.faults_file import FaultsError, load_faults

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
        (lambda: Refuse(status=101), "status: 200 to 599 is wanted, not 101"),
        (lambda: Refuse(body="x" * 2049), "body: at most 2048 bytes is wanted, not 2049"),
        (lambda: CloseEarly(code=1006), "code: 1000 to 1014 but 1004 and 1006, or 3000 to 4999"),
        (lambda: CloseEarly(code=999), "code: "),
        (lambda: CloseEarly(reason="é" * 62), "reason: at most 123 bytes with this code is wanted"),
        (lambda: CloseEarly(code=1005, reason="x"), "reason: at most 0 bytes with this code"),
        (lambda: CloseEarly(after=-1), "after: 0 or more is wanted, not -1"),
        (lambda: Cut(after=-1), "after: "),
        (lambda: Cut(at=-1), "at: "),
        (lambda: Stall(after=-1), "after: "),
        (lambda: Delay(0), "seconds: more than 0, at most 3600 is wanted, not 0"),
        (lambda: Delay(float("nan")), "seconds: "),
        (lambda: Split(1), "into: 2 to 1000 is wanted, not 1"),
        (lambda: Empty(0), "count: 1 to 1000 is wanted, not 0"),
        (lambda: Throttle(0), "bytes_per_second: 1 to 1073741824 is wanted, not 0"),
        (lambda: Rule(()), "a fault: at least one of refuse, close, cut,"),
        (lambda: Rule((Cut(), Cut(1))), "faults: one of each kind is wanted, not two of one"),
        (lambda: Rule((Cut(), Refuse())), "refuse: alone, for no stream is left"),
        (lambda: Rule(CUT, first=0), "first: 1 or more is wanted, not 0"),
        (lambda: Rule(CUT, every=0), "every: 1 or more is wanted, not 0"),
        (lambda: Rule(CUT, query="fault"), "query: key=value, joined by &, is wanted, not 'fault'"),
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


# --- The file ------------------------------------------------------------------------------------

WHOLE = """
[[rule]]
endpoint = "echo"
path = "v1/listen"
query = "fault=all"
first = 4
every = 2
close = { code = 1012, reason = "restarting", after = 3 }
cut = { after = 1, at = 2 }
stall = { after = 5 }
drop_pongs = true
delay = { seconds = 1 }
split = { into = 3 }
empty = { count = 2 }
throttle = { bytes_per_second = 10 }

[[rule]]
refuse = { status = 429, body = "slow down" }
"""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CloseEarly("1011"), "close: code: a whole number is wanted, not '1011'"),
        (lambda: Delay("1"), "delay: seconds: a number is wanted, not '1'"),
        (lambda: Cut(at=True), "cut: at: a whole number is wanted, not True"),
        (lambda: Refuse(body=b"no"), "refuse: body: a string is wanted, not b'no'"),
    ],
)
def test_a_value_of_another_type_is_said_where_it_is_written(make, message):
    with pytest.raises(TypeError, match=f"^{message}$"):
        make()


@pytest.fixture
def loaded(tmp_path):
    """Loads a text as a file of faults; an error's message, without the file's name."""

    def load(text: str):
        path = tmp_path / "faults.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        try:
            return load_faults(path)
        except FaultsError as error:
            return str(error).replace(f"{path}: ", "", 1)

    return load


def test_a_file_says_everything(loaded):
    everything, refusal = loaded(WHOLE)
    assert refusal == Rule((Refuse(429, "slow down"),))
    assert everything == Rule(
        (
            CloseEarly(1012, "restarting", 3),
            Cut(1, 2),
            Stall(5),
            DropPongs(),
            Delay(1.0),
            Split(3),
            Empty(2),
            Throttle(10),
        ),
        endpoint="echo",
        path="v1/listen",
        query="fault=all",
        first=4,
        every=2,
    )


@pytest.mark.parametrize("name", FAULTS)
def test_true_is_a_fault_with_its_defaults(loaded, name):
    assert loaded(f"[[rule]]\n{name} = true") == (Rule((FAULTS[name](),)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff", "not TOML: "),
        ("[[rule", "not TOML: "),
        ("", "a [[rule]] is missing"),
        ("rule = 1", "a [[rule]] is missing"),
        ("rule = [1]", "rule 1: a table is wanted, as [[rule]] begins one"),
        ("[[rules]]", "rules: unknown; a file is made of [[rule]] tables"),
        ("[[rule]]\nendpoint = 'x'", "rule 1: a fault: at least one of refuse, close, cut, "),
        (
            "[[rule]]\ncut = true\n[[rule]]\nclosed = true",
            "rule 2: closed: unknown; known are endpoint, path, query, first, every, refuse, close",
        ),
        ("[[rule]]\ncut = 1", "rule 1: cut: a table with after, at, or true is wanted, not 1"),
        ("[[rule]]\ncut = false", "rule 1: cut: a table with after, at, or true is wanted, not f"),
        ("[[rule]]\ndrop_pongs = 1", "rule 1: drop_pongs: true is wanted, not 1"),
        ("[[rule]]\ncut = {afer = 1}", "rule 1: cut: afer: unknown; known are after, at"),
        ("[[rule]]\ndrop_pongs = {a = 1}", "rule 1: drop_pongs: a: unknown; it has no members"),
        ("[[rule]]\ncut = {after = 'x'}", "rule 1: cut: after: a whole number is wanted, not 'x'"),
        ("[[rule]]\ncut = {at = true}", "rule 1: cut: at: a whole number is wanted, not true"),
        ("[[rule]]\ndelay = {seconds = 'x'}", "rule 1: delay: seconds: a number is wanted, not"),
        ("[[rule]]\nclose = {reason = 1}", "rule 1: close: reason: a string is wanted, not 1"),
        ("[[rule]]\nclose = {code = 1006}", "rule 1: close: code: 1000 to 1014 but 1004 and 1006"),
        ("[[rule]]\ncut = true\nfirst = '1'", "rule 1: first: a whole number is wanted, not '1'"),
        ("[[rule]]\ncut = true\nevery = 0", "rule 1: every: 1 or more is wanted, not 0"),
        ("#" * (256 << 10) + "#", "more than 262144 bytes"),
        (
            f"[[rule]]\ndelay = {{seconds = {'9' * 400}}}",
            "rule 1: delay: seconds: a number is want",
        ),
        (f"[[rule]]\nfirst = {'9' * 5000}", "not TOML: "),
        (f"rule = {'[' * 20_000}", "not TOML: "),
    ],
)
def test_a_wrong_file_is_refused_with_the_place_and_what_is_allowed(loaded, text, message):
    refused = loaded(text)
    assert isinstance(refused, str)
    assert refused.startswith(message)


def test_a_file_that_never_ends_is_read_no_further_than_it_may(tmp_path):
    path = tmp_path / "endless.toml"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # it takes up nothing
    with pytest.raises(FaultsError, match="more than 262144 bytes"):
        load_faults(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FaultsError, match=r"none\.toml: cannot be read: No such file"):
        load_faults(tmp_path / "none.toml")
