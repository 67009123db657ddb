"""partway.gateway.cli.endpoint_table: the table, and the line of each change."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from partway.gateway.cli.endpoint_table import ChangesSeen, age, print_table, table
from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import EndpointState, InstanceHealth
from tests.gateway.fleet.statuses import SINCE, a_variant, an_endpoint, an_instance

COLUMNS = ["endpoint", "instances", "state", "health", "streams", "requests", "restarts", "age"]


def shown(*endpoints) -> list[str]:
    output = io.StringIO()
    print_table(output, endpoints, SINCE + 200)
    return [line.rstrip() for line in output.getvalue().splitlines()]


# --- The table -----------------------------------------------------------------------------------


def test_no_endpoint():
    assert shown() == ["the gateway has no endpoint"]


def test_a_row_for_each_variant():
    voice = an_endpoint(
        "voice",
        a_variant(
            an_instance("voice-A-1", streams=3, requests=1),
            an_instance("voice-A-2", streams=4),
            an_instance("voice-A-3", state=InstanceState.STARTING, health=InstanceHealth.UNKNOWN),
            an_instance("voice-A-4", state=InstanceState.FAILED, health=InstanceHealth.UNHEALTHY),
            name="A",
            desired=3,
            restarts=2,
        ),
        a_variant(name="B"),
        state=EndpointState.UPDATING,
    )
    rows = [re.split(" {2,}", line) for line in shown(an_endpoint("echo"), voice)]
    assert rows == [
        ["endpoint", "variant", *COLUMNS[1:]],
        ["echo", "AllTraffic", "1/1", "InService", "healthy", "0", "0", "0", "3m20s"],
        ["voice", "A", "2/3", "Updating", "1 unknown, 2 healthy", "7", "1", "2", "3m20s"],
        ["voice", "B", "0/0", "Updating", "-", "0", "0", "0", "3m20s"],
    ]


def test_the_only_variant_of_each_endpoint_has_no_column():
    rows = [re.split(" {2,}", line) for line in shown(an_endpoint("echo"))]
    assert rows == [COLUMNS, ["echo", "1/1", "InService", "healthy", "0", "0", "0", "3m20s"]]


@pytest.mark.parametrize("several", [False, True], ids=["plain", "variants-and-containers"])
@pytest.mark.parametrize("state", EndpointState)
def test_80_columns_show_each_state_and_number_whole(state, several):
    both = {"pre": "http://127.0.0.1:1", "model": "http://127.0.0.1:2"} if several else {}
    instances = [an_instance(f"i-{number}", containers=both) for number in range(100)]
    ill = an_instance("ill", health=InstanceHealth.UNHEALTHY, requests=123_456, streams=654_321)
    long = a_variant(*instances, ill, name="v" * 63, restarts=1_000)
    endpoint = an_endpoint("e" * 63, long, *[a_variant()] * several, state=state)
    output = io.StringIO()
    Console(file=output, width=80).print(table([endpoint], SINCE + 3600 * 23 + 60 * 59))
    text = output.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for whole in ("101/101", state.value, "654321", "123456", "1000", "23h59m"):
        assert re.search(rf"(^| ){whole}($| )", text, re.MULTILINE), f"{whole} in:\n{text}"
    assert text.count("e" * 3)
    assert "…" not in text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (200, "3m20s"),
        (3600, "1h"),
        (3661, "1h1m"),
        (86_399, "23h59m"),
        (86_401, "1d"),
        (86_400 * 400 + 3_600 * 5, "400d5h"),
    ],
)
def test_an_age_has_at_most_two_units(seconds, said):
    assert age(seconds) == said


def test_containers_are_named_where_an_instance_has_several():
    both = {"pre": "http://127.0.0.1:1", "model": "http://127.0.0.1:2"}
    scored = an_endpoint("scored", a_variant(an_instance("scored-A-1", containers=both), name="A"))
    rows = [re.split(" {2,}", line) for line in shown(an_endpoint("echo"), scored)]
    assert rows[0][:5] == [*COLUMNS[:4], "containers"]
    assert [row[4] for row in rows[1:]] == ["-", "pre, model"]


def test_why_something_is_not_as_it_should_be_stands_below():
    trouble = "exit status 1\nTraceback\n  boom\x1b[2J"
    failed = an_endpoint(
        "echo",
        a_variant(
            an_instance("echo-A-1", state=InstanceState.FAILED, reason=trouble),
            an_instance("echo-A-2", state=InstanceState.DRAINING, reason="missed 3 pings"),
            name="A",
            trouble=trouble,
        ),
        state=EndpointState.FAILED,
        reason="no instance came into service",
    )
    assert shown(failed)[2:] == [
        "",
        "echo: no instance came into service",
        "echo, variant A: exit status 1",
        "    Traceback",
        "      boom�[2J",
        "echo-A-2 (Draining): missed 3 pings",
    ]


def test_a_long_reason_is_indented_on_each_row_of_a_narrow_terminal():
    lines = ["one " * 30, "two " * 30, "  three " + "three " * 30, "x" * 100]
    output = io.StringIO()
    failed = an_endpoint("echo", reason="\n".join(lines))
    Console(file=output, width=80).print(table([failed], SINCE))
    rows = [line.rstrip() for line in output.getvalue().splitlines()][3:]
    assert max(map(len, rows)) <= 80
    indents = {
        word: [len(row) - len(row.lstrip()) for row in rows if word in row]
        for word in ("one", "two", "three", "x")
    }
    assert indents == {"one": [0, 4], "two": [4, 4], "three": [6, 6, 6], "x": [4, 4]}
    assert " ".join(rows).split()[:-2] == " ".join(["echo:", *lines[:3]]).split()


def test_what_containers_say_is_bounded_and_is_no_markup():
    lines = [f"line {number}" for number in range(100)]
    failed = an_endpoint("echo", reason="\n".join(["[red]why[/red]", *lines]))
    found = shown(failed)[3:]
    assert found[0].startswith("echo: ")
    assert len(found) == 25
    assert shown(an_endpoint("echo", reason="[red]why[/red]"))[3] == "echo: [red]why[/red]"


def test_the_longest_names_fit_into_a_line():
    long = an_endpoint("e" * 63, a_variant(an_instance("x"), name="v" * 63), a_variant(name="w"))
    assert len(shown(long)) == 3
    assert shown(long)[1].startswith(f"{'e' * 63}  {'v' * 63}  1/1 ")


# --- A line for each change ----------------------------------------------------------------------

NOW = datetime(2026, 11, 22, 16, 31, 20, tzinfo=UTC)


@pytest.fixture
def look():
    changes = ChangesSeen()
    return lambda *endpoints: list(changes.lines(endpoints, NOW))


def test_a_line_for_what_has_changed_and_for_nothing_else(look):
    echo, voice = an_endpoint("echo"), an_endpoint("voice")
    line = "InService endpoint=echo variant=AllTraffic instances=1/1 health=healthy restarts=0"
    assert look(echo) == [f"2026-11-22T16:31:20Z {line}"]
    assert look(echo) == []
    busy = an_endpoint("echo", a_variant(an_instance("echo-AllTraffic-1a2b3c", streams=9)))
    assert look(busy, voice) == [f"2026-11-22T16:31:20Z {line.replace('echo', 'voice')}"]
    assert look(busy) == ["2026-11-22T16:31:20Z gone endpoint=voice variant=AllTraffic"]
    assert look() == ["2026-11-22T16:31:20Z gone endpoint=echo variant=AllTraffic"]


def test_of_a_reason_the_first_line_is_said_and_steers_nothing(look):
    failed = an_endpoint("echo", state=EndpointState.FAILED, reason="status 1\x1b[2J\n  Traceback")
    (line,) = look(failed)
    assert line.endswith(r' restarts=0 reason="status 1\u001b[2J"')


def test_of_what_a_container_has_printed_the_last_line_is_said_and_said_once(look):
    why = "the container ended with status 1\nit printed last:\nTraceback\nKeyError: 'model'"
    for restarts, said in ((0, why), (1, why), (2, why.replace("KeyError", "OSError")), (3, "")):
        failing = a_variant(trouble=said, restarts=restarts, desired=1)
        (line,) = look(an_endpoint("chat", failing, state=EndpointState.CREATING))
        begin = 'reason="the container ended with status 1; it printed last: '
        name = {0: "KeyError", 2: "OSError"}.get(restarts)
        assert (f"{begin}{name}: 'model'\"" if name else "reason=") in line or name is None
        assert ("reason=" in line) is (name is not None)


def test_why_an_instance_is_not_ready_is_said_once_it_has_been_starting_for_seconds(look):
    why = "nothing listens on 26933; this process listens on 18999"
    for seconds, said in ((1, ""), (5, f" reason={json.dumps(why)}")):
        since = NOW.timestamp() - seconds
        slow = an_instance("x", state=InstanceState.STARTING, reason=why, since=since)
        ready = an_instance("y", reason="it drains", since=SINCE)
        (line,) = look(an_endpoint("echo", a_variant(ready, slow)))
        assert line.partition(" restarts=0")[2] == said


def test_which_change_was_given_up_and_what_serves(look):
    note = "the update to chat-v2 was given up; chat-v1 still serves"
    of = an_endpoint("chat", reason="the container ended with status 1", note=note)
    assert shown(of)[3] == f"chat: {note}: the container ended with status 1"
    (line,) = look(of)
    assert f'note="{note}" reason="the container ended with status 1"' in line
