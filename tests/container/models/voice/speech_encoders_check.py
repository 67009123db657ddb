"""partway.container.models.voice.speech_encoders with ffmpeg itself."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pytest

from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.speech_encoders import COMPRESSED, encoded
from tests.container.models.voice.voices import nothing_leaks, package

FORM = AudioFormat("linear16", 24_000)
TONE = (np.sin(np.arange(48_000) * 0.1) * 9_000).astype("<i2").tobytes()


@pytest.fixture
async def ffmpeg(anyio_backend) -> str:
    """ffmpeg; a loop opens a descriptor for its first process, and keeps it."""
    (program,) = package("imageio_ffmpeg").glob("binaries/ffmpeg-*")
    await compressed(str(program), "flac")
    return str(program)


async def compressed(program: str, name: str) -> bytes:
    async with aclosing(encoded(program, tone(), FORM, COMPRESSED[name])) as pieces:
        return b"".join([piece async for piece in pieces])


async def tone() -> AsyncGenerator[bytes]:
    for start in range(0, len(TONE), 4_800):
        yield TONE[start : start + 4_800]


async def endless() -> AsyncGenerator[bytes]:
    while True:
        yield TONE
        await asyncio.sleep(0)


def decoded(program: str, folder: Path, data: bytes) -> bytes:
    (folder / "audio").write_bytes(data)
    command = [program, "-loglevel", "error", "-i", str(folder / "audio")]
    command += ["-f", "s16le", "-ar", "24000", "pipe:1"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("name", COMPRESSED)
async def test_audio_comes_back(name, ffmpeg, tmp_path):
    with nothing_leaks():
        data = await compressed(ffmpeg, name)
    assert len(data) < len(TONE)
    audio = decoded(ffmpeg, tmp_path, data)
    assert len(audio) == pytest.approx(len(TONE), abs=0.12 * 48_000)
    assert 8_000 < np.abs(np.frombuffer(audio, "<i2").astype(int)).max() < 10_000


async def test_a_client_that_leaves_ends_the_program(ffmpeg):
    with nothing_leaks():
        for _ in range(20):
            async with aclosing(encoded(ffmpeg, endless(), FORM, COMPRESSED["mp3"])) as pieces:
                assert await anext(pieces)
