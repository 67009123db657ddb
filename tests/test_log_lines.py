"""partway.log_lines: what happened as text and as JSON, a line each, whatever others had to say."""

from __future__ import annotations

import io
import json
import logging
import math
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.log_lines import (
    JsonFormatter,
    LogLine,
    TextFormatter,
    TextLines,
    format_of_log,
    say_failure,
)
from tests.conftest import ROOT

#: What would end a line, steer a terminal, or turn the direction of writing.
HOSTILE = (
    'x\n2026-11-22T16:31:15.123Z INFO partway.stream stream ended\r\x1b[2J\u202e\u2028"=\ud800'
)


@pytest.fixture(params=[TextFormatter, JsonFormatter])
def formatter(request):
    return request.param()


def record(message, *args, error=None, level=logging.INFO):
    made = logging.LogRecord("partway.stream", level, "", 0, message, args, error)
    made.created = datetime(2026, 11, 22, 16, 31, 15, 123_000, UTC).timestamp()
    return made


def raised(error):
    try:
        raise error
    except type(error):
        return sys.exc_info()


STREAM = LogLine("stream ended", endpoint="echo", parts_in=40, duration=12.031, first_part=None)


def test_a_line_as_text():
    assert TextFormatter().format(record(STREAM)) == (
        "2026-11-22T16:31:15.123Z INFO partway.stream stream ended endpoint=echo parts_in=40 "
        "duration=12.031 first_part=-"
    )


def test_a_line_as_json():
    line = JsonFormatter().format(record(STREAM))
    assert list(json.loads(line).items()) == [
        ("time", "2026-11-22T16:31:15.123Z"),
        ("level", "INFO"),
        ("logger", "partway.stream"),
        ("event", "stream ended"),
        ("endpoint", "echo"),
        ("parts_in", 40),
        ("duration", 12.031),
        ("first_part", None),
    ]


def test_what_others_log_has_its_text_for_an_event():
    other = record("loaded %s in %d s", "x", 3)
    assert TextFormatter().format(other).endswith(" INFO partway.stream loaded x in 3 s")
    assert json.loads(JsonFormatter().format(other))["event"] == "loaded x in 3 s"


def test_times_have_a_zone_and_are_when_it_was(formatter, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    line = formatter.format(logging.makeLogRecord({"msg": "now"}))
    text = line.split()[0] if isinstance(formatter, TextFormatter) else json.loads(line)["time"]
    assert before <= datetime.fromisoformat(text) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("with space", '"with space"'),
        ('a"b', r'"a\"b"'),
        ("a=b", '"a=b"'),
        ("", '""'),
        ("größe", "größe"),
        ("größe 1", '"größe 1"'),
        ("a\nb", r'"a\nb"'),
        ("\x1b[2J", r'"\u001b[2J"'),
        (None, "-"),
        (0.25, "0.25"),
    ],
)
def test_where_a_value_ends_can_be_seen(value, shown):
    assert str(LogLine("said", reason=value)) == f"said reason={shown}"


@given(st.text(st.characters(exclude_categories=())))
def test_no_text_of_others_makes_a_line_or_steers_a_terminal(text):
    ours = LogLine("said", reason=text)
    for message in (record(ours), record("%s", text)):
        line = JsonFormatter().format(message)
        assert line.isascii()
        assert line.isprintable()
        said = json.loads(line)
        assert text in (said.get("reason"), said["event"])
        first, *others = TextFormatter().format(message).split("\n")
        assert first.replace("\t", "").isprintable()
        assert all(each.startswith("    ") for each in others)
    assert TextFormatter().format(record(ours)).isprintable()


PRINTED = """\
the container ended with status 1
it printed last:
Traceback:
  File "a.py"
KeyError"""


def test_lines_that_were_printed_stand_below_their_record():
    failed = record(LogLine("failed", a="x", reason=TextLines(PRINTED), z="1\n2"))
    assert TextFormatter().format(failed) == (
        "2026-11-22T16:31:15.123Z INFO partway.stream failed a=x "
        'reason="the container ended with status 1" z="1\\n2"\n'
        '    it printed last:\n    Traceback:\n      File "a.py"\n    KeyError'
    )
    said = json.loads(JsonFormatter().format(failed))
    assert (said["event"], said["reason"], said["z"]) == ("failed", PRINTED, "1\n2")


@given(st.text(st.characters(exclude_categories=())))
def test_no_line_below_a_record_passes_for_one_or_steers_a_terminal(text):
    said = record(LogLine("said", reason=TextLines(f"{text}\n{HOSTILE}")))
    first, *others = TextFormatter().format(said).split("\n")
    assert first.startswith("2026-")
    assert first.isprintable()
    assert len(others) > 1
    assert all(each.startswith("    ") for each in others)
    assert all(each.replace("\t", "").isprintable() for each in others)
    assert json.loads(JsonFormatter().format(said))["reason"] == f"{text}\n{HOSTILE}"


def test_a_traceback_is_one_line_in_json():
    line = JsonFormatter().format(record(STREAM, error=raised(ValueError(HOSTILE))))
    assert "\n" not in line
    said = json.loads(line)
    assert said["event"] == "stream ended"
    assert said["exception"].startswith("Traceback (most recent call last):\n")
    assert f"ValueError: {HOSTILE}" in said["exception"]


def test_no_line_of_a_traceback_passes_for_a_record_in_text():
    first, *others = (
        TextFormatter().format(record(STREAM, error=raised(ValueError(HOSTILE)))).split("\n")
    )
    assert first.startswith("2026-")
    assert others[0] == "    Traceback (most recent call last):"
    assert all(each.startswith("    ") and each.isprintable() for each in others)


@pytest.mark.parametrize("name", ["time", "level", "logger", "event_", "exception", "process"])
def test_no_field_hides_what_each_line_has(name):
    if name == "event_":  # the event itself is positional, so this one is free
        assert LogLine("x", **{name: 1}).fields == {name: 1}
        return
    with pytest.raises(ValueError, match=f"every line has a member {name}"):
        LogLine("x", **{name: 1})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_have_is_null(number):
    line = JsonFormatter().format(record(LogLine("x", share=number)))
    assert line.endswith('"share": null}')


@pytest.mark.parametrize(("kind", "expected"), [(TextFormatter, " [42] x"), (JsonFormatter, 42)])
def test_of_several_processes_each_line_says_which(kind, expected):
    made = record("x")
    made.process = 42
    line = kind(process=True).format(made)
    assert (json.loads(line)["process"] if kind is JsonFormatter else line[-7:]) == expected


# --- A process that logs -------------------------------------------------------------------------

CODE = """
import logging, sys, threading, warnings
from partway.log_lines import format_of_log, say_failure, start_logging
start_logging("info", sys.argv[1])
assert format_of_log() == sys.argv[1]
logging.getLogger("model").debug("too little")
logging.getLogger("model").warning("two\\nlines")
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0, name="worker-1")
thread.start()
thread.join()
say_failure("partway serve", "no\\x1b port; choose another")
raise ValueError("at the end")
"""


def errors_of(kind: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "always"},
    )
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.splitlines()


def test_in_json_all_that_a_process_says_is_a_line():
    said = [json.loads(line) for line in errors_of("json")]
    model, warned, thread, failure, last = said
    assert (model["logger"], model["event"]) == ("model", "two\nlines")
    assert "UserWarning: old" in warned["event"]
    assert (thread["event"], thread["thread"]) == ("uncaught exception", "worker-1")
    assert "ZeroDivisionError" in thread["exception"]
    assert failure["reason"] == "no\x1b port; choose another"
    assert failure["command"] == "partway serve"
    assert "ValueError: at the end" in last["exception"]


def test_in_text_a_failure_is_for_whoever_typed_the_command():
    errors = errors_of("text")
    assert errors[0].endswith(" WARNING model two")
    assert errors[1] == "    lines"
    assert r"partway serve: no\x1b port; choose another" in errors


def test_a_process_that_does_not_log_says_failures_as_text(monkeypatch):
    monkeypatch.setattr(sys, "stderr", said := io.StringIO())
    assert format_of_log() == "text"
    say_failure("partway serve", "one\ntwo")
    assert said.getvalue() == "partway serve: one\npartway serve: two\n"
