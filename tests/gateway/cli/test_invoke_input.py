"""partway.gateway.cli.invoke_input: what is sent is opened before there is a stream, or refused."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from partway.gateway.cli import invoke_input
from partway.gateway.cli.invoke_input import opened_input
from partway.gateway.client import CompletionState, DataType, PayloadPart
from tests.gateway.cli.sounds import write_tone
from tests.wire.peers import soon

PARTIAL, COMPLETE = CompletionState.PARTIAL, CompletionState.COMPLETE


def options(**given: object) -> argparse.Namespace:
    """The command's, as argparse leaves them."""
    none = dict.fromkeys(("text", "file", "wav", "rate", "channels", "query"))
    return argparse.Namespace(**none | {"pace": "none", "partial": False} | given)


def refusal(**given: object) -> str:
    with pytest.raises(ValueError) as caught, opened_input(options(**given), pytest.fail):
        pytest.fail("it was opened")
    return str(caught.value)


async def sent(**given: object) -> list[PayloadPart]:
    with opened_input(options(**given), lambda said: None) as parts:
        return [part async for part in parts]


async def test_texts():
    assert await sent(text=["a", "ü"]) == [
        PayloadPart(b"a", DataType.UTF8),
        PayloadPart("ü".encode(), DataType.UTF8),
    ]
    assert await sent(text=["a", "b"], partial=True) == [
        PayloadPart(b"a", DataType.UTF8, PARTIAL),
        PayloadPart(b"b", DataType.UTF8, COMPLETE),
    ]


async def test_a_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(bytes(65_537))
    assert await sent(file=path) == [PayloadPart(bytes(65_536)), PayloadPart(b"\0")]


async def test_sound_in_realtime_is_due_by_the_clock_so_late_parts_do_not_add_up(
    tmp_path, monkeypatch
):
    path = tmp_path / "a.wav"
    write_tone(path, rate=8_000, channels=1, seconds=0.1)
    now = 100.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(invoke_input, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(
        invoke_input, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep})
    )
    times = []
    with opened_input(options(wav=path, pace="realtime"), pytest.fail) as parts:
        async for _ in parts:
            times.append(round(now - 100.0, 3))
            if len(times) == 2:
                now += 0.05  # which is what sending this one takes
    assert times == [0.0, 0.02, 0.07, 0.07, 0.08]


async def test_sound_that_has_to_be_another_is_told_of(tmp_path):
    path = tmp_path / "a.wav"
    write_tone(path, rate=48_000, channels=2, seconds=0.1)
    told: list[str] = []
    with opened_input(options(wav=path, rate=16_000, channels=1), told.append) as parts:
        sizes = [len(part.payload) async for part in parts]
    assert sizes == [640] * 5
    assert told == [f"{path}: 48000 Hz, 2 channels, 16 bits; sent as 16000 Hz, 1 channel, 16 bits"]


async def test_sound_that_is_cut_is_said(tmp_path):
    path = tmp_path / "a.wav"
    write_tone(path, rate=16_000, seconds=0.1)
    path.write_bytes(path.read_bytes()[:-1])
    told: list[str] = []
    with opened_input(options(wav=path), told.append) as parts:
        assert sum([len(part.payload) async for part in parts]) == 3198
    cut = "it is cut: it has 3199 of 3200 bytes of samples"
    assert told == [f"{path}: {cut}; its last 1 bytes are not a whole frame and are left out"]


@pytest.mark.parametrize("flag", ["file", "wav"])
def test_a_file_that_is_not_there(flag, tmp_path):
    path = tmp_path / "none"
    assert refusal(**{flag: path}) == f"--{flag} {path}: No such file or directory"
    assert refusal(**{flag: tmp_path}) == f"--{flag} {tmp_path}: Is a directory"


def test_a_file_that_is_no_sound(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"ID3\x03 and so on")
    assert refusal(wav=path).startswith(f"--wav {path}: it does not begin with RIFF and WAVE; ")


@pytest.mark.parametrize("flag", ["rate", "channels"])
def test_flags_of_sound_alone(flag):
    assert refusal(text=["a"], **{flag: 1}) == (
        f"--{flag} was given alone; it works only with --wav FILE"
    )


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert refusal() == "standard input is closed; give --text, --file or --wav"


async def test_standard_input_that_cannot_be_read(monkeypatch, tmp_path):
    """Opened to be written, as by a shell's ``0>file``."""
    with (tmp_path / "a").open("wb") as writable:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=writable))
        with pytest.raises(ValueError, match="standard input cannot be read: Bad file descriptor"):
            await soon(sent(), "the end of what is sent")


@pytest.mark.parametrize("flag", ["file", "wav"])
def test_a_pipe_that_nobody_may_ever_write_to(flag, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)  # so that who opens it all the same does not wait for ever
    try:
        os.write(writer, bytes(100))
        why = "this is a pipe; it must be a regular file"
        assert refusal(**{flag: path}) == f"--{flag} {path}: {why}"
    finally:
        os.close(writer)


@pytest.mark.parametrize("flag", ["file", "wav"])
async def test_a_file_is_read_beside_the_stream(flag, tmp_path, monkeypatch):
    """In a thread of its own, so that what comes meanwhile is heard."""
    path = tmp_path / "a.wav"
    write_tone(path, rate=16_000, seconds=0.1)
    threads: list[threading.Thread] = []
    made = invoke_input._as_parts

    def noting(*arguments: object) -> Iterator[PayloadPart]:
        for part in made(*arguments):
            threads.append(threading.current_thread())
            yield part

    monkeypatch.setattr(invoke_input, "_as_parts", noting)
    assert await sent(**{flag: path})
    assert threads
    assert threading.main_thread() not in threads
