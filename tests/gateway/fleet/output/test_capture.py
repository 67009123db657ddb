"""partway.gateway.fleet.output.capture: real files, by a clock that the test turns."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partway.gateway.fleet.limits import (
    LAST_LINE_CHARACTERS,
    LAST_LINES,
    LAST_OUTPUT_BYTES,
    OUTPUT_CLOSE_TIMEOUT,
    OUTPUT_FILE_BYTES,
    OUTPUT_FLUSH_BYTES,
    OUTPUT_FLUSH_INTERVAL,
    OUTPUT_WAITING_BYTES,
    OUTPUTS_KEPT,
)
from partway.gateway.fleet.output.capture import OutputFolder
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock


@pytest.fixture
async def folder(
    anyio_backend: object, no_leaks: None, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[OutputFolder]:
    (tmp_path / "data").mkdir(exist_ok=True)  # by the gateway that owns it
    folder = OutputFolder(tmp_path / "data" / "logs", clock)
    yield folder
    await soon(folder.aclose())


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "data" / "logs"


async def written(folder: OutputFolder, clock: FakeClock) -> None:
    """Wait until all that was printed is written."""
    while folder._waiting or folder._writing is not None:
        clock.advance(OUTPUT_FLUSH_INTERVAL)
        if folder._writing is not None:
            await soon(asyncio.wait((folder._writing,)))


def names(folder: Path) -> list[str]:
    """The logs in a folder; each has its times beside it."""
    return sorted(path.name for path in folder.iterdir() if ".times" not in path.name)


def dropped(logs: Path, reason: str) -> str:
    return (
        "output of instances is dropped until the disk takes it "
        f'folder={logs} instance=a reason="{reason}"'
    )


# --- The last lines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", ()),
        (b"\n\n", ()),
        (b"one\ntwo\r\n\nfour", ("one", "two", "", "four")),
        (b" 1 %\r 2 %\r 3 %\ndone\n", (" 3 %", "done")),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07 \xff \xe2\x80\xae\tx", ("red �]0;title� � �  x",)),
        (b"a" * 10_000, ("a" * (LAST_LINE_CHARACTERS - 1) + "…",)),
        (b"".join(b"%d\n" % n for n in range(100)), tuple(str(n) for n in range(80, 100))),
    ],
)
def test_the_last_lines_are_few_and_safe(said, expected):
    output = OutputFolder(None).open("a")
    for at in range(0, len(said), 3):  # however it was cut
        output.feed(said[at : at + 3])
    assert output.last_lines() == expected
    assert len(expected) <= LAST_LINES


def test_what_is_kept_of_them_is_bounded():
    output = OutputFolder(None).open("a")
    for _ in range(100):
        output.feed(bytes(LAST_OUTPUT_BYTES * 2))
        assert len(output._tail) == LAST_OUTPUT_BYTES
    assert not output._waiting


# --- Files ---------------------------------------------------------------------------------------


async def test_all_of_it_is_in_a_file_that_others_cannot_read(folder, logs, clock):
    output = folder.open("echo-1")
    output.feed(b"one ")
    output.feed(b"line\n\x00\xff")
    assert not logs.exists(), "it is not written at once"
    await written(folder, clock)
    assert (logs / "echo-1.log").read_bytes() == b"one line\n\x00\xff"
    assert (logs / "echo-1.log").stat().st_mode & 0o777 == 0o600
    assert logs.stat().st_mode & 0o777 == 0o700
    output.feed(b"more")
    await written(folder, clock)
    assert (logs / "echo-1.log").read_bytes() == b"one line\n\x00\xffmore"
    assert clock.armed == []


async def test_many_lines_are_one_write(folder, clock):
    outputs = [folder.open(str(n)) for n in range(10)]
    for output in outputs * 10:
        output.feed(b"x\n")
    assert len(clock.armed) == 1
    assert folder._writing is None


async def test_much_of_it_is_written_at_once(folder, logs, clock):
    output = folder.open("a")
    output.feed(bytes(OUTPUT_FLUSH_BYTES))
    assert folder._writing is not None
    output.feed(bytes(OUTPUT_FLUSH_BYTES))  # it comes while that is written
    await eventually(lambda: folder._writing is None and not folder._waiting)
    assert (logs / "a.log").stat().st_size == 2 * OUTPUT_FLUSH_BYTES
    assert clock.now == FakeClock().now


async def test_a_file_that_is_full_is_kept_beside_a_new_one(folder, logs, clock):
    output = folder.open("a")
    for letter in (b"a", b"b", b"c"):
        for _ in range(0, OUTPUT_FILE_BYTES, OUTPUT_WAITING_BYTES):
            output.feed(letter * OUTPUT_WAITING_BYTES)
            await written(folder, clock)
    output.feed(b"end")
    await written(folder, clock)
    assert names(logs) == ["a.log", "a.log.1"]
    assert (logs / "a.log").read_bytes() == b"end"
    assert set((logs / "a.log.1").read_bytes()) == set(b"c")
    assert (logs / "a.log.1").stat().st_size == OUTPUT_FILE_BYTES


async def test_a_file_that_somebody_has_removed_is_begun_anew(folder, logs, clock):
    output = folder.open("a")
    output.feed(b"one")
    await written(folder, clock)
    (logs / "a.log").unlink()
    output.feed(b"two")
    await written(folder, clock)
    assert (logs / "a.log").read_bytes() == b"two"


@pytest.mark.parametrize("there", ["link", "pipe"])
async def test_what_somebody_has_put_in_a_files_place_is_not_written_to(
    folder, logs, clock, caplog, there
):
    logs.mkdir(parents=True)
    if there == "link":
        (logs / "a.log").symlink_to(logs / "another's")
        (logs / "another's").write_bytes(b"as it was")
    else:
        os.mkfifo(logs / "a.log")
    folder.open("a").feed(b"one")
    folder.open("b").feed(b"two")
    await written(folder, clock)
    assert (logs / "b.log").read_bytes() == b"two"
    assert "output of instances is dropped" in caplog.text
    if there == "link":
        assert (logs / "another's").read_bytes() == b"as it was"


async def test_after_its_end_what_waits_is_written_and_no_more(folder, logs, clock):
    output = folder.open("a")
    output.feed(b"one")
    output.close()
    output.feed(b"two")
    await written(folder, clock)
    assert (logs / "a.log").read_bytes() == b"one"
    assert output.last_lines() == ("onetwo",)


async def test_closed_all_that_waits_is_written(folder, logs, clock):
    output = folder.open("a")
    output.feed(bytes(OUTPUT_FLUSH_BYTES))
    output.feed(b"one")
    await soon(folder.aclose())
    output.feed(b"two")
    assert (logs / "a.log").read_bytes() == bytes(OUTPUT_FLUSH_BYTES) + b"one"
    assert clock.armed == []
    await soon(folder.aclose())


async def test_of_instances_that_have_ended_some_logs_are_kept(folder, logs, clock):
    logs.mkdir(parents=True)
    for age in range(OUTPUTS_KEPT + 10):
        for suffix in (".log", ".log.1"):
            path = logs / f"old-{age}{suffix}"
            path.write_bytes(b"old")
            os.utime(path, (10_000 - age, 10_000 - age))
    for other in ("notes.txt", "notes.log.txt"):
        (logs / other).write_bytes(b"somebody's")
    living = folder.open("living")
    living.feed(b"x")
    await written(folder, clock)
    kept = {f"old-{age}{suffix}" for age in range(OUTPUTS_KEPT) for suffix in (".log", ".log.1")}
    assert names(logs) == sorted(kept | {"notes.txt", "notes.log.txt", "living.log"})


# --- A disk that is slow, full or away -----------------------------------------------------------


async def test_what_a_slow_disk_does_not_take_is_left_out_and_counted(
    folder, logs, clock, monkeypatch
):
    slow = threading.Event()
    write = os.write

    def write_slowly(descriptor: int, data: bytes) -> int:
        assert slow.wait(30)
        return write(descriptor, data)

    monkeypatch.setattr("partway.gateway.fleet.output.log_files.os.write", write_slowly)
    output = folder.open("a")
    output.feed(b"first")
    clock.advance(OUTPUT_FLUSH_INTERVAL)
    for _ in range(10):
        output.feed(b"x" * OUTPUT_WAITING_BYTES)
        output.feed(b"y")
        assert len(output._waiting) == OUTPUT_WAITING_BYTES
    slow.set()
    await written(folder, clock)
    output.feed(b"last")
    await written(folder, clock)
    left_out = 9 * OUTPUT_WAITING_BYTES + 10
    assert (logs / "a.log").read_bytes() == (
        b"first"
        + b"x" * OUTPUT_WAITING_BYTES
        + b"\n[partway: %d bytes of output were left out here: " % left_out
        + b"the disk did not take them in time]\nlast"
    )


async def test_a_disk_that_hangs_holds_the_end_up_for_a_time(folder, clock, monkeypatch, caplog):
    hangs = threading.Event()
    monkeypatch.setattr(
        "partway.gateway.fleet.output.log_files.os.write",
        lambda _, data: hangs.wait(30) and len(data),
    )
    folder.open("a").feed(b"first")
    closing = asyncio.create_task(folder.aclose())
    end = clock.now + OUTPUT_CLOSE_TIMEOUT
    await eventually(lambda: [each.due for each in clock.armed] == [end])
    clock.advance(OUTPUT_CLOSE_TIMEOUT)
    await soon(closing)
    hangs.set()
    assert caplog.messages == ["the disk has not taken all output of instances in time"]
    await eventually(lambda: not [t for t in threading.enumerate() if t.name == "output"])


async def test_a_disk_that_takes_parts_gets_the_rest(folder, logs, clock, monkeypatch):
    write = os.write
    monkeypatch.setattr(
        "partway.gateway.fleet.output.log_files.os.write", lambda at, data: write(at, data[:2])
    )
    folder.open("a").feed(b"seven!!")
    await written(folder, clock)
    assert (logs / "a.log").read_bytes() == b"seven!!"


async def test_a_full_disk_is_said_once_and_taken_up_again(
    folder, logs, clock, monkeypatch, caplog
):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    caplog.set_level("INFO")
    output = folder.open("a")
    with monkeypatch.context() as patch:
        patch.setattr("partway.gateway.fleet.output.log_files.os.write", full)
        for _ in range(3):
            output.feed(b"lost")
            await written(folder, clock)
    for _ in range(2):
        output.feed(b"kept")
        await written(folder, clock)
    assert (logs / "a.log").read_bytes() == b"keptkept"
    assert caplog.messages == [
        dropped(logs, "No space left on device"),
        "output of an instance is written again instance=a bytes_dropped=12",
    ]
    assert output.last_lines() == ("lostlostlostkeptkept",)


async def test_a_folder_that_cannot_be_made_is_said(folder, logs, clock, caplog):
    logs.parent.rmdir()
    logs.parent.write_text("this is a file")
    folder.open("a").feed(b"lost")
    await written(folder, clock)
    assert caplog.messages == [dropped(logs, "Not a directory")]


async def test_what_one_cannot_have_written_is_not_the_others_loss(folder, logs, clock, caplog):
    (logs / "a.log").mkdir(parents=True)
    outputs = [folder.open(name) for name in "abc"]
    for output in outputs * 2:
        output.feed(b"x")
        await written(folder, clock)
    assert (logs / "b.log").read_bytes() == (logs / "c.log").read_bytes() == b"xx"
    assert len(caplog.messages) == 1
    outputs[0].close()
    outputs[1].feed(b"x")
    await written(folder, clock)
    assert folder._writer._dropped == {}
