"""Recording: what is in the file, and what a bad disk does to it."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from partway.gateway.workbench.intermediary.observer import (
    Observer,
    Sender,
    UpgradeAnswer,
    UpgradeRequest,
)
from partway.gateway.workbench.recording.recorder import Recorder, create
from partway.gateway.workbench.recording.recording import Recording, load_recording
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frames import Frame, Opcode

TARGET = "/v1/listen?model=general"
REQUEST = UpgradeRequest(
    TARGET,
    (
        ("Host", "container"),
        ("X-Amzn-SageMaker-Request-Id", "42"),
        ("Authorization", "AWS4-HMAC-SHA256 Signature=s3cret"),
        ("X-Amz-Security-Token", "s3cret"),
        ("Cookie", "s3cret"),
        ("Sec-WebSocket-Key", "s3cret"),
        ("Sec-WebSocket-Protocol", "payloadpart.v1.raw, token.s3cret"),
    ),
)
GRANTED = UpgradeAnswer(101, "Switching Protocols", (("Set-Cookie", "s3cret"), ("Server", "x")))


def text(payload: bytes, fin: bool = True) -> Frame:
    return Frame(Opcode.TEXT, payload, fin)


def only(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def recorded(directory: Path) -> Recording:
    return load_recording(only(directory))


def begun(recorder: Recorder, endpoint: str = "echo") -> Observer:
    observer = recorder.observe(endpoint, REQUEST)
    assert observer is not None
    observer.answered(GRANTED)
    return observer


def test_all_that_passes_is_in_the_file(tmp_path):
    directory = tmp_path / "deep" / "recordings"
    with closing(Recorder(directory)) as recorder:
        observer = begun(recorder)
        observer.frame(Sender.GATEWAY, text(b"he", fin=False))
        observer.frame(Sender.GATEWAY, Frame(Opcode.CONTINUATION, b"llo"))
        observer.frame(Sender.CONTAINER, Frame(Opcode.BINARY, b"\xff\0"))
        observer.frame(Sender.CONTAINER, Frame(Opcode.CLOSE, b"\x03\xe8done"))
        observer.ended(Sender.CONTAINER, "reset")
        observer.closed()
    found = recorded(directory)
    assert (found.head.endpoint, found.head.target) == ("echo", TARGET)
    assert found.answer is not None
    assert (found.answer.status, found.answer.headers) == (101, {"Server": "x"})
    assert [(each.sender, each.frame) for each in found.frames] == [
        (Sender.GATEWAY, text(b"he", fin=False)),
        (Sender.GATEWAY, Frame(Opcode.CONTINUATION, b"llo")),
        (Sender.CONTAINER, Frame(Opcode.BINARY, b"\xff\0")),
        (Sender.CONTAINER, Frame(Opcode.CLOSE, b"\x03\xe8done")),
    ]
    assert found.close_of(Sender.CONTAINER) == Close(1000, "done")
    assert [(each.sender, each.error) for each in found.ends] == [(Sender.CONTAINER, "reset")]
    assert found.complete


@pytest.mark.parametrize(("mode", "warned"), [(0o777, 1), (0o730, 1), (0o755, 0), (0o700, 0)])
def test_a_folder_that_others_may_write(tmp_path, caplog, mode, warned):
    directory = tmp_path / "recordings"
    directory.mkdir()
    directory.chmod(mode)
    Recorder(directory).close()
    assert [record.getMessage() for record in caplog.records] == [
        f"other users can delete recordings in this folder: chmod 700 folder={directory}"
    ] * warned


def test_who_else_may_read_it_and_what_is_not_in_it(tmp_path):
    directory = tmp_path / "recordings"
    before = os.umask(0)
    try:
        with closing(Recorder(directory)) as recorder:
            begun(recorder).closed()
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(only(directory).stat().st_mode) == 0o600
    assert recorded(directory).head.headers == {"X-Amzn-SageMaker-Request-Id": "42"}
    assert b"s3cret" not in only(directory).read_bytes()


def test_without_payloads(tmp_path):
    with closing(Recorder(tmp_path, payloads=False)) as recorder:
        observer = begun(recorder)
        observer.frame(Sender.GATEWAY, text(b"private"))
        observer.frame(Sender.CONTAINER, text(b"private"))
        observer.frame(Sender.CONTAINER, Frame(Opcode.CLOSE, b"\x03\xf3private"))
        observer.closed()
    data = only(tmp_path).read_bytes()
    assert b"private" not in data
    assert b"model=general" not in data
    found = recorded(tmp_path)
    first, second, close = found.frames
    assert (first.payload, first.size) == (None, 7)
    assert first.digest == second.digest != ""
    assert close.code == 1011
    assert found.complete


def test_a_name_is_nobodys_and_leads_nowhere_else(tmp_path):
    names = ["../../etc/passwd", "a/b", "\0\n", "", "x" * 500]
    with closing(Recorder(tmp_path / "in")) as recorder:
        for name in names:
            begun(recorder, name).closed()
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    paths = list((tmp_path / "in").iterdir())
    assert sorted(load_recording(path).head.endpoint for path in paths) == sorted(names)
    assert all(path.name.isascii() and len(path.name) < 120 for path in paths)


def test_nothing_is_overwritten(tmp_path):
    made: list[Path] = []

    def taken(path: Path):
        """Somebody else had the same name at the last moment, once as a link to what is theirs."""
        if not made:
            path.symlink_to(tmp_path / "theirs")
        made.append(path)
        return create(path)

    (tmp_path / "theirs").write_text("precious")
    directory = tmp_path / "in"
    with closing(Recorder(directory, create=taken)) as recorder:
        begun(recorder).closed()
    assert (tmp_path / "theirs").read_text() == "precious"
    assert made[1].name == f"{made[0].stem}-2.jsonl"
    assert load_recording(made[1]).complete


def test_a_recording_has_a_bound(tmp_path, caplog):
    with closing(Recorder(tmp_path, max_bytes=2000)) as recorder:
        observer = begun(recorder)
        for _ in range(10):
            observer.frame(Sender.GATEWAY, text(b"a" * 400))
        observer.closed()
    found = recorded(tmp_path)
    assert 2 <= len(found.frames) < 5
    assert not found.complete
    assert found.over is not None
    assert found.over.why == "a recording may have 2000 bytes at most"
    assert only(tmp_path).stat().st_size < 2200
    assert f"a recording ends before its stream file={only(tmp_path)} " in caplog.text


def test_recordings_have_a_bound(tmp_path, caplog):
    with closing(Recorder(tmp_path, max_recordings=2)) as recorder:
        observers = [recorder.observe("echo", REQUEST) for _ in range(4)]
        assert [observer is not None for observer in observers] == [True, True, False, False]
    assert len(list(tmp_path.iterdir())) == 2
    assert caplog.text.count("no more streams are recorded recorded=2") == 1


def test_all_recordings_together_have_a_bound(tmp_path, caplog):
    with closing(Recorder(tmp_path, max_bytes_in_all=2000)) as recorder:
        observers = [begun(recorder), begun(recorder)]
        for _ in range(10):
            for observer in observers:
                observer.frame(Sender.GATEWAY, text(b"a" * 200))
        for observer in observers:
            observer.closed()
        while recorder._waiting:
            pass
        assert recorder.observe("echo", REQUEST) is None
    found = [load_recording(path) for path in tmp_path.iterdir()]
    assert [each.complete for each in found] == [False, False]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2400
    assert caplog.text.count("all recordings together have reached their limit of bytes") == 2


def test_a_recorder_that_stops_ends_its_recordings(tmp_path):
    recorder = Recorder(tmp_path)
    observer = begun(recorder)
    recorder.close()
    observer.frame(Sender.GATEWAY, text(b"late"))
    observer.closed()
    recorder.close()
    assert recorder.observe("echo", REQUEST) is None
    found = recorded(tmp_path)
    assert (found.complete, found.frames) == (False, ())
    assert not [thread for thread in threading.enumerate() if thread.name == "recorder"]


def test_a_directory_that_cannot_be_one(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="File exists"):
        Recorder(tmp_path / "file")


# --- Bad disks ------------------------------------------------------------------------------------


class Disk:
    """A file whose writes a test can hold up, or have fail."""

    def __init__(self, path: Path) -> None:
        self.file = create(path)
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.room = 1 << 30
        self.closed = False

    def write(self, data: bytes | memoryview, /) -> int:
        assert self.goes_on.wait(20)
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self.file.write(bytes(data[: min(self.room, 7)]))  # a file may take less
        self.room -= written
        return written

    def truncate(self, size: int, /) -> object:
        return self.file.truncate(size)

    def seek(self, at: int, /) -> object:
        return self.file.seek(at)

    def close(self) -> None:
        self.closed = True
        self.file.close()


@pytest.fixture
def disks() -> Iterator[list[Disk]]:
    made: list[Disk] = []
    yield made
    for disk in made:
        disk.goes_on.set()


def on(disks: list[Disk], **state: object) -> Callable[[Path], Disk]:
    def made(path: Path) -> Disk:
        disk = Disk(path)
        for name, value in state.items():
            setattr(disk, name, value)
        disks.append(disk)
        return disk

    return made


def test_a_disk_that_is_slower_than_the_stream(tmp_path, disks, caplog):
    stuck = threading.Event()
    recorder = Recorder(tmp_path, max_waiting=100_000, create=on(disks, goes_on=stuck))
    observer = begun(recorder)
    for _ in range(1000):  # returns at once, though the disk takes nothing
        observer.frame(Sender.GATEWAY, text(b"a" * 1000))
    observer.closed()
    stuck.set()
    recorder.close()
    found = recorded(tmp_path)
    assert 30 < len(found.frames) < 100
    assert found.over is not None
    assert (found.over.complete, found.over.why) == (False, "the disk was slower than the streams")
    assert "the disk was slower than the streams" in caplog.text
    assert disks[0].closed


def test_a_flood_on_one_stream_ends_no_other_recording(tmp_path, disks):
    stuck = threading.Event()
    recorder = Recorder(tmp_path, max_waiting=100_000, create=on(disks, goes_on=stuck))
    flood, other = begun(recorder, "flood"), begun(recorder, "other")
    for _ in range(1000):
        flood.frame(Sender.GATEWAY, text(b""))
    other.frame(Sender.GATEWAY, text(b"hello"))
    other.closed()
    stuck.set()
    recorder.close()
    found = {each.head.endpoint: each for each in map(load_recording, tmp_path.iterdir())}
    assert not found["flood"].complete
    assert found["other"].complete
    assert len(found["other"].frames) == 1


def test_a_frame_that_is_larger_than_all_that_may_wait(tmp_path):
    with closing(Recorder(tmp_path, max_waiting=10)) as recorder:
        observer = recorder.observe("echo", REQUEST)
        assert observer is not None
        while recorder._waiting:  # the thread has the head already in hand
            pass
        observer.frame(Sender.GATEWAY, text(b"a" * 100))
        while recorder._waiting:
            pass
        observer.closed()
    assert len(recorded(tmp_path).frames) == 1


def test_a_disk_that_hangs_keeps_nobody_from_ending(tmp_path, disks, caplog):
    stuck = threading.Event()
    recorder = Recorder(tmp_path, create=on(disks, goes_on=stuck))
    begun(recorder)
    recorder.close(timeout=0.05)
    assert "the disk did not take all recordings in time bytes_left=" in caplog.text
    stuck.set()
    recorder._thread.join(5)
    assert not recorder._thread.is_alive()


@pytest.mark.parametrize("room", [700, 760, 800])
def test_a_disk_that_is_full_leaves_whole_lines(tmp_path, disks, caplog, room):
    with closing(Recorder(tmp_path, create=on(disks, room=room))) as recorder:
        observer = begun(recorder)
        for _ in range(100):
            observer.frame(Sender.GATEWAY, text(b"hello"))
        observer.closed()
    assert "No space left on device" in caplog.text
    assert only(tmp_path).read_bytes().endswith(b"}\n")
    found = recorded(tmp_path)
    assert found.frames
    assert not found.complete
    assert disks[0].closed


def test_a_disk_with_room_again_has_the_reason(tmp_path, disks):
    refused = [OSError(errno.EIO, "Input/output error")]
    made = on(disks)

    def failing_once(path: Path) -> Disk:
        disk = made(path)
        write = disk.write
        whole_lines = 0

        def once(data: bytes | memoryview, /) -> int:
            nonlocal whole_lines
            whole_lines += bytes(data[:7]).endswith(b"\n")
            if whole_lines == 3 and refused:
                raise refused.pop()
            return write(data)

        disk.write = once
        return disk

    with closing(Recorder(tmp_path, create=failing_once)) as recorder:
        observer = begun(recorder)
        observer.frame(Sender.GATEWAY, text(b"hello"))
        observer.closed()
    found = recorded(tmp_path)
    assert found.over is not None
    assert (found.over.complete, found.over.why) == (False, "Input/output error")
    assert found.frames == ()


def test_a_file_that_cannot_be_made(tmp_path, caplog):
    def refuse(path: Path) -> Disk:
        raise OSError(errno.EMFILE, "Too many open files")

    with closing(Recorder(tmp_path, create=refuse)) as recorder:
        observer = begun(recorder)
        observer.frame(Sender.GATEWAY, text(b"hello"))
        observer.closed()
    assert "Too many open files" in caplog.text
    assert caplog.text.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_that_was_said_is_logged(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    with closing(Recorder(tmp_path, max_bytes=500)) as recorder:
        observer = begun(recorder)
        observer.frame(Sender.GATEWAY, text(b"private" * 100))
        observer.closed()
    assert caplog.text
    assert "private" not in caplog.text
    assert "model=general" not in caplog.text
