"""A recording is loaded, or it is said which line of it is wrong."""

from __future__ import annotations

import os
import tracemalloc

import pytest

from partway.gateway.workbench.intermediary.observer import Sender
from partway.gateway.workbench.recording import recording as module
from partway.gateway.workbench.recording.lines import MAX_TEXT
from partway.gateway.workbench.recording.recording import (
    JoinedMessage,
    RecordingError,
    load_recording,
)
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frames import Opcode
from tests.gateway.workbench.recording.recordings import (
    GRANTED,
    HEAD,
    OVER,
    both_close,
    came,
    closed,
    said,
    whole,
    written,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "recording.jsonl"


def test_fragments_are_joined_each_side_by_itself(path):
    whole(
        path,
        said(0.1, "he", fin=False),
        came(0.2, "hel", fin=False),
        {"at": 0.25, "from": "gateway", "frame": "ping", "fin": True, "text": "1"},
        said(0.3, "llo", frame="continuation"),
        came(0.4, "lo", frame="continuation"),
        came(0.5, b"/w==", fin=False),
        *both_close(0.6),
    )
    found = load_recording(path)
    assert found.messages(Sender.GATEWAY) == [JoinedMessage(Opcode.TEXT, b"hello", 0.3)]
    assert found.messages(Sender.CONTAINER) == [
        JoinedMessage(Opcode.TEXT, b"hello", 0.4),
        JoinedMessage(Opcode.BINARY, b"\xff", 0.5, whole=False),
    ]
    assert found.close_of(Sender.CONTAINER) == Close(1000, "")
    assert (found.complete, found.seconds) == (True, 0.6)


def test_what_a_crash_leaves_is_read_up_to_its_last_whole_line(path):
    whole(path, said(0.1, "hello"))
    text = path.read_bytes()
    ends = [number + 1 for number, byte in enumerate(text) if byte == ord("\n")]
    for size in range(ends[0], len(text)):
        path.write_bytes(text[:size])
        found = load_recording(path)
        assert not found.complete
        assert found.over is None
        assert len(found.frames) == (size >= ends[2])


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([HEAD], ":2: this is a second head; only the first line may be a head"),
        (["{"], ":2: the line is not JSON"),
        ([GRANTED, GRANTED], ":3: there must be only one answer to the upgrade, before all frames"),
        (
            [said(0.2, "a"), said(0.1, "b")],
            ":3: 'at' is 0.1 s, earlier than the 0.2 s of a line before",
        ),
        ([said(0, "a", frame="continuation")], ":2: a continuation frame continues no message"),
        ([said(0, "a", fin=False), said(0, "b")], ":3: a message begins inside another"),
        ([OVER, OVER], ":3: the line follows the line with 'complete', which must be the last"),
        (
            [{"at": 0, "from": "gateway", "frame": "text", "fin": True, "size": 1, "hash": ""}],
            ":2: the frame must have a payload, by the head's 'payloads'",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(path, lines, why):
    written(path, *lines)
    with pytest.raises(RecordingError) as caught:
        load_recording(path)
    assert str(caught.value).startswith(f"{path}{why}")


def test_files_that_are_none(path):
    with pytest.raises(RecordingError, match="No such file"):
        load_recording(path)
    path.write_text("")
    with pytest.raises(RecordingError, match="no whole line"):
        load_recording(path)
    path.write_text('{"at": 0, "complete": true, "why": ""}\n')
    with pytest.raises(RecordingError, match=":1: the first line must be a recording's head"):
        load_recording(path)


def test_what_is_loaded_has_a_bound(path, monkeypatch):
    whole(path, said(0.1, "hello"), closed(0.2, "gateway"))
    size = path.stat().st_size
    assert load_recording(path, size).complete
    with pytest.raises(RecordingError, match=f": the file has more than {size - 1} bytes"):
        load_recording(path, size - 1)
    monkeypatch.setattr(module, "MAX_LINES", 3)
    with pytest.raises(RecordingError, match=": the file has more than 3 lines"):
        load_recording(path)
    monkeypatch.setattr(module, "MAX_LINE", 100)
    with pytest.raises(RecordingError, match=":1: the line has more than 100 bytes"):
        load_recording(path)


def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(RecordingError, match=": this is a pipe; it must be a regular file"):
        load_recording(path)


def test_a_line_of_megabytes_that_is_no_payload_is_not_parsed(path):
    """In Python each of its arrays would be 70 bytes."""
    written(path, GRANTED, '{"at": [' + "[]," * 3_000_000 + "0]}")
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match=r":3: the line has more members than any line"):
            load_recording(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_long_text_full_of_commas_is_a_payload(path):
    text = "\x01,[" * (MAX_TEXT // 3)
    whole(path, said(0.1, text))
    assert load_recording(path).messages(Sender.GATEWAY)[0].payload == text.encode()
