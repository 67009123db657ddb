"""A file of rules for faults: what it may say, and what is said of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.workbench.intermediary.faults import (
    FAULTS,
    CloseEarly,
    Cut,
    Delay,
    DropPongs,
    Empty,
    Refuse,
    Rule,
    Split,
    Stall,
    Throttle,
)
from partway.gateway.workbench.intermediary.faults_file import load_faults
from tests.gateway.configuration.documents import TOO_DEEP, as_toml, taken_or_refused, with_any

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


@pytest.fixture
def loaded(tmp_path):
    """Loads a text as a file of faults; or what is said of it, without the file's name."""

    def load(text: str | bytes):
        path = tmp_path / "faults.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        try:
            return load_faults(path)
        except SettingsError as error:
            return [line.removeprefix(f"{path}: ") for line in str(error).splitlines()]

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


CODE = "a whole number from 1000 to 1014 except 1004 and 1006, or from 3000 to 4999"
PARTS = "a whole number of parts, 0 or more"
STREAMS = "a whole number of streams, 1 or more"
SECONDS = "a finite number of seconds above 0 and at most 3600"
TABLES = "one or more tables, each under [[rule]]"
CUT = "[[rule]]\ncut = true\n"


@pytest.mark.parametrize(
    ("text", "place", "found", "wanted"),
    [
        ("rule = 1", "rule", "the number 1", TABLES),
        ("rule = []", "rule", "an empty array", TABLES),
        ("[rule]", "rule", "a table", TABLES),
        ("rule = [1]", "rule#1", "the number 1", "a table"),
        (
            "[[rule]]\ncut = 1",
            "rule#1.cut",
            "the number 1",
            "a table with any of after, at, or true",
        ),
        (
            "[[rule]]\ncut = false",
            "rule#1.cut",
            "the boolean false",
            "a table with any of after, at, or true",
        ),
        ("[[rule]]\ndrop_pongs = 1", "rule#1.drop_pongs", "the number 1", "true"),
        ("[[rule]]\ncut = {after = 'x'}", "rule#1.cut.after", "the string 'x'", PARTS),
        ("[[rule]]\nstall = {after = -1}", "rule#1.stall.after", "-1", PARTS),
        (
            "[[rule]]\ncut = {at = true}",
            "rule#1.cut.at",
            "the boolean true",
            "a whole number of bytes, 0 or more",
        ),
        ("[[rule]]\ndelay = {seconds = 'x'}", "rule#1.delay.seconds", "the string 'x'", SECONDS),
        ("[[rule]]\ndelay = {seconds = 3601}", "rule#1.delay.seconds", "3601", SECONDS),
        (
            f"[[rule]]\ndelay = {{seconds = {'9' * 400}}}",
            "rule#1.delay.seconds",
            "a number of very many digits",
            SECONDS,
        ),
        (
            "[[rule]]\nclose = {reason = 1}",
            "rule#1.close.reason",
            "the number 1",
            "a string of at most 123 bytes",
        ),
        (
            "[[rule]]\nclose = {reason = '" + "é" * 62 + "'}",
            "rule#1.close.reason",
            f"'{'é' * 59}…'",
            "a string of at most 123 bytes",
        ),
        (
            "[[rule]]\nclose = {code = 1005, reason = 'a'}",
            "rule#1.close.reason",
            "'a'",
            "empty with the code 1005",
        ),
        ("[[rule]]\nclose = {code = 1006}", "rule#1.close.code", "1006", CODE),
        ("[[rule]]\nclose = {code = 1011.0}", "rule#1.close.code", "the number 1011.0", CODE),
        (
            "[[rule]]\nrefuse = {status = 600}",
            "rule#1.refuse.status",
            "600",
            "a whole number from 200 to 599",
        ),
        (
            "[[rule]]\nrefuse = {body = '" + "a" * 2049 + "'}",
            "rule#1.refuse.body",
            f"'{'a' * 59}…'",
            "a string of at most 2048 bytes",
        ),
        (
            "[[rule]]\nsplit = {into = 1}",
            "rule#1.split.into",
            "1",
            "a whole number of parts from 2 to 1000",
        ),
        (
            "[[rule]]\nempty = {count = 0}",
            "rule#1.empty.count",
            "0",
            "a whole number of parts from 1 to 1000",
        ),
        (
            "[[rule]]\nthrottle = {bytes_per_second = 0}",
            "rule#1.throttle.bytes_per_second",
            "0",
            "a whole number of bytes from 1 to 1073741824",
        ),
        (CUT + "first = '1'", "rule#1.first", "the string '1'", STREAMS),
        (CUT + "every = 0", "rule#1.every", "0", STREAMS),
        (CUT + "endpoint = 1", "rule#1.endpoint", "the number 1", "a string"),
        (CUT + CUT + "query = 'a'", "rule#2.query", "'a'", "pairs of key=value joined by &"),
        (
            CUT + "refuse = true",
            "rule#1.refuse",
            "other faults",
            "alone, since a refused stream has no other faults",
        ),
    ],
)
def test_a_wrong_value_is_named_with_its_place(loaded, text, place, found, wanted):
    assert loaded(text) == [
        f"{place}: {found} was given; it must be {wanted}".replace("faults was", "faults were")
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"rule: this key is missing; it must be {TABLES}"),
        (CUT + "[[rules]]", "rules: this key is unknown; the nearest known one is rule"),
        (
            "[[rule]]\nendpoint = 'x'",
            f"rule#1: no fault was given; it must have one or more of {', '.join(FAULTS)}",
        ),
        (
            CUT + "[[rule]]\nclosed = true",
            "rule#2.closed: this key is unknown; the nearest known one is close",
        ),
        (
            "[[rule]]\ncut = {afer = 1}",
            "rule#1.cut.afer: this key is unknown; the nearest known one is after",
        ),
        (
            "[[rule]]\ncut = {x = 1}",
            "rule#1.cut.x: this key is unknown; it must be one of after, at",
        ),
        (
            "[[rule]]\ndrop_pongs = {a = 1}",
            "rule#1.drop_pongs.a: this key is unknown; its table must be empty",
        ),
        (b"a = '\xff'", "this is not TOML: line 1 has a byte that is not UTF-8"),
        (
            "[[rule",
            (
                "this is not TOML: line 1, at the end: "
                "Expected ']]' at the end of an array declaration"
            ),
        ),
        (f"[[rule]]\nfirst = {'9' * 5000}", "this is not TOML: a number has too many digits"),
        (f"rule = {'[' * 20_000}", TOO_DEEP),
        ("#" * (256 << 10) + "#", "this file must have at most 262144 bytes"),
    ],
)
def test_what_else_is_said_of_the_file(loaded, text, said):
    assert loaded(text) == [said]


def test_each_fault_of_each_rule_has_its_line(loaded):
    said = loaded("[[rule]]\nfirst = 0\ncut = {at = -1}\n[[rule]]\n[[rule]]\nclose = {code = 1}\n")
    assert [line.partition(":")[0] for line in said] == [
        "rule#1.first", "rule#1.cut.at", "rule#3.close.code"
    ]  # fmt: skip
    said = loaded("[[rule]]\nfirst = 1\n[[rule]]\n[[rule]]\ncut = true\n")
    assert [line.partition(":")[0] for line in said] == ["rule#1", "rule#2"]


RULE = {"cut": {"after": 1}}


@settings(deadline=None)
@given(with_any(RULE, ["endpoint", "query", "first", "every", *FAULTS]))
def test_whatever_a_file_says_it_is_taken_or_refused(tmp_path_factory, rule):
    path = tmp_path_factory.getbasetemp() / "faults.toml"
    path.write_text(as_toml({"rule": [rule]}), "utf-8")
    found = taken_or_refused(lambda: load_faults(path), SettingsError, path)
    assert found is None or all(isinstance(each, Rule) for each in found)


def test_a_file_that_never_ends_is_read_no_further_than_it_may(tmp_path):
    path = tmp_path / "endless.toml"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # it takes up nothing
    with pytest.raises(SettingsError, match="must have at most 262144 bytes"):
        load_faults(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.toml: cannot be read: No such file"):
        load_faults(tmp_path / "none.toml")
