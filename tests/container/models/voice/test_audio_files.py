"""partway.container.models.voice.audio_files: bounds of reading, with a program like ffmpeg."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from partway.container.errors import Busy, ModelError
from partway.container.models.voice import audio_files
from partway.container.models.voice.audio_files import AudioFiles, read_audio
from partway.container.models.voice.interfaces import Samples
from partway.protocol.limits import MIB
from tests.container.models.voice.programs import install

CHATTY = """
import sys
for _ in range(128):
    sys.stderr.write("x" * 65536)
sys.exit("the last words")
"""


class Reads:
    """Stands in for the reading of a file: each one waits until it may end."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.may = threading.Semaphore(0)

    def __call__(self, data: bytes, ffmpeg: str | None) -> Samples:
        self.begun.append(data)
        assert self.may.acquire(timeout=30)
        return np.zeros(len(data), np.int16)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    found = Reads()
    monkeypatch.setattr(audio_files, "read_audio", found)
    return found


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (another thread's)
            await asyncio.sleep(0.001)


async def test_two_files_are_read_at_once(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    files = AudioFiles("ffmpeg")
    first, second = (asyncio.create_task(files.read(data)) for data in (b"1", b"22"))
    await until(lambda: len(reads.begun) == 2)
    first.cancel()  # its thread goes on, and holds its place
    await asyncio.wait((first,))
    with monkeypatch.context() as patch:
        patch.setattr(audio_files, "FILE_WAIT", 0.0)
        with pytest.raises(Busy, match="2 files are being read, and none has ended within 0 s"):
            await files.read(b"4444")
    assert len(reads.begun) == 2
    third = asyncio.create_task(files.read(b"333"))
    for _ in range(3):
        reads.may.release()
    assert [len(await each) for each in (second, third)] == [2, 3]
    assert reads.begun[2:] == [b"333"]


def test_of_many_messages_the_last_ones_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install(tmp_path, monkeypatch, "ffmpeg", CHATTY)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=r"xthe last words$"):
            read_audio(b"junk", program)
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()


def test_a_program_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install(tmp_path, monkeypatch, "ffmpeg", "import time\ntime.sleep(60)\n")
    monkeypatch.setattr(audio_files, "DECODING", 0.1)
    with pytest.raises(ModelError, match=r"ffmpeg has not read it within 0\.1 s"):
        read_audio(b"junk", program)
