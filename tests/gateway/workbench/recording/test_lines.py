"""The lines of a recording, written and read."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.workbench.intermediary.observer import Sender
from partway.gateway.workbench.recording.lines import (
    MAX_TEXT,
    Ended,
    Head,
    Line,
    Over,
    Passed,
    UpgradeAnswered,
    left_out,
    to_json,
)
from partway.gateway.workbench.recording.parsing import LineError, from_json
from partway.protocol.websocket.frames import Frame, Opcode

KEY = bytes(32)

times = st.floats(0, 1e6).map(lambda at: round(at, 6))
senders = st.sampled_from(Sender)
data_frames = st.builds(
    Frame,
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION]),
    st.binary(max_size=300) | st.text(max_size=100).map(str.encode),
    st.booleans(),
)
control_frames = st.builds(
    Frame,
    st.sampled_from([Opcode.PING, Opcode.PONG, Opcode.CLOSE]),
    st.binary(max_size=125),
    st.just(True),
)
closes = st.builds(
    lambda code, reason: Frame(Opcode.CLOSE, code.to_bytes(2, "big") + reason.encode()),
    st.sampled_from([1000, 1011, 4999]),
    st.text(max_size=30),
)
headers = st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3)
targets = st.from_regex(r"/[!-~]{0,20}", fullmatch=True)
moments = st.datetimes(timezones=st.just(UTC))
lines = st.one_of(
    st.builds(Head, st.text(max_size=20), targets, moments, st.booleans(), headers),
    st.builds(UpgradeAnswered, times, st.integers(0, 999), headers, st.binary(max_size=50)),
    st.builds(Passed.of, times, senders, data_frames | control_frames | closes),
    st.builds(Ended, times, senders, st.text(max_size=20)),
    st.builds(Over, times, st.booleans(), st.text(max_size=20)),
)


def written(line: Line) -> bytes:
    return b"".join(to_json(line))


@given(lines)
def test_what_is_written_is_read(line):
    data = written(line)
    assert data.isascii()
    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert from_json(data) == line


@given(lines)
def test_so_is_what_is_left_of_a_line_without_payloads(line):
    left = left_out(line, KEY)
    assert from_json(written(left)) == left


def test_a_frame_is_written_so_that_it_can_be_read():
    frame = Frame(Opcode.BINARY, '{"a": "ü\x1b"}'.encode(), fin=False)
    assert written(Passed.of(1.5, Sender.GATEWAY, frame)) == (
        b'{"at": 1.5, "from": "gateway", "frame": "binary", "fin": false, '
        b'"text": "{\\"a\\": \\"\\u00fc\\u001b\\"}"}\n'
    )


@pytest.mark.parametrize("payload", [b"\xff", b"a\0", b"a" * (MAX_TEXT + 1), b"\xff" * 200_001])
def test_what_cannot_be_read_is_base64(payload):
    line = Passed.of(0.0, Sender.CONTAINER, Frame(Opcode.BINARY, payload))
    data = written(line)
    assert b'"base64": "' in data
    assert from_json(data) == line


def test_without_payloads_nothing_of_them_is_left():
    lines = [
        Head("echo", "/path?key=secret", datetime.now(UTC)),
        UpgradeAnswered(0.0, 503, {}, b"secret"),
        Passed.of(0.1, Sender.GATEWAY, Frame(Opcode.TEXT, b"secret")),
        Passed.of(0.2, Sender.GATEWAY, Frame(Opcode.PING, b"secret")),
        Passed.of(0.3, Sender.CONTAINER, Frame(Opcode.CLOSE, b"\x03\xf3secret")),
    ]
    data = [written(left_out(line, KEY)) for line in lines]
    assert b"secret" not in b"".join(data)
    assert b'"target": "/path", ' in data[0]
    said = json.loads(data[2])
    assert said["size"] == 6
    assert said.keys() == {"at", "from", "frame", "fin", "size", "hash"}
    assert json.loads(data[4])["code"] == 1011


def test_a_hash_tells_equal_payloads_of_one_recording_alone():
    line = Passed.of(0.0, Sender.GATEWAY, Frame(Opcode.TEXT, b"yes"))
    other = Passed.of(0.0, Sender.GATEWAY, Frame(Opcode.TEXT, b"no"))
    assert left_out(line, KEY) == left_out(line, KEY) != left_out(other, KEY)
    assert left_out(line, KEY) != left_out(line, b"another recording's key")


FRAME = '"from": "gateway", "frame": "text", "fin": true'


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "not JSON"),
        ("[]", "the line is a list; it must be an object"),
        ("[" * 100_000, "nested deeper than any line"),
        ("{}", "the line must have one of the members recording, frame, answer"),
        (f'{{"at": NaN, {FRAME}, "text": ""}}', "NaN is not a number that JSON has"),
        (f'{{"at": 1e99, {FRAME}, "text": ""}}', r"'at' is 1e\+99; it must be 0 to 1e\+07 seconds"),
        (f'{{"at": -1, {FRAME}, "text": ""}}', r"'at' is -1; it must be 0 to 1e\+07 seconds"),
        (f'{{"at": true, {FRAME}, "text": ""}}', "'at' is true or false; it must be a number"),
        (f'{{{FRAME}, "text": ""}}', "'at' is missing"),
        (f'{{"at": 0, {FRAME}, "text": 1}}', "'text' is a whole number; it must be a string"),
        (f'{{"at": 0, {FRAME}, "text": "\\ud800"}}', "surrogates not allowed"),
        (f'{{"at": 0, {FRAME}, "base64": "a"}}', "'base64': "),
        (f'{{"at": 0, {FRAME}}}', "'base64' is missing"),
        (f'{{"at": 0, {FRAME}, "text": "", "base64": ""}}', "'base64' does not belong in"),
        (f'{{"at": 0, {FRAME}, "size": -1, "hash": ""}}', "'size' is -1; it must be from 0 to"),
        (
            '{"at": 0, "from": "me", "frame": "text"}',
            "'from' is 'me'; it must be one of gateway, container",
        ),
        (
            '{"at": 0, "from": "gateway", "frame": "word"}',
            "'frame' is 'word'; it must be one of continuation",
        ),
        (
            '{"at": 0, "from": "gateway", "frame": "ping", "fin": false, "text": ""}',
            "a ping must be one frame",
        ),
        (
            '{"at": 0, "from": "gateway", "frame": "close", "fin": true, "code": 5, "reason": ""}',
            "close code 5 must not be sent",
        ),
        (
            '{"at": 0, "from": "gateway", "frame": "close", "fin": true, "code": "", "reason": ""}',
            "'code' is a string; it must be a whole number, or null",
        ),
        ('{"recording": 2}', "'recording' is 2; the format must be 1"),
        ('{"recording": true}', "'recording' is true or false; it must be a whole number"),
        ('{"recording": 1, "target": "/a b"}', "'target' is '/a b'; it must be a path, optionally"),
        ('{"recording": 1, "target": "/", "started": "now"}', "'started': "),
        ('{"recording": 1, "target": "/", "started": "2026-01-01"}', "must have a time zone"),
        ('{"at": 0, "answer": 1000, "headers": {}}', "'answer' is 1000; it must be from 0 to 999"),
        (
            '{"at": 0, "answer": 101, "headers": {"a": 1}}',
            "'headers': 'a' is a whole number; it must be a string",
        ),
    ],
)
def test_lines_that_are_none(line, why):
    with pytest.raises(LineError, match=why):
        from_json(line.encode())
