"""Compressed audio by ``ffmpeg``, a separate program for each answer.

https://ffmpeg.org/ffmpeg.html (its licence depends on its build; never loaded into this process)
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from partway.container.errors import ModelError, TooSlow
from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.limits import ENCODER_SILENCE

_READ: Final = 65_536

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CompressedFormat:
    """A format that ffmpeg writes.

    Attributes:
        content_type: its media type.
        options: those of ffmpeg, for the output.
    """

    content_type: str
    options: tuple[str, ...]


#: The formats, by OpenAI's names.
COMPRESSED: Final[Mapping[str, CompressedFormat]] = {
    "mp3": CompressedFormat("audio/mpeg", ("-f", "mp3")),
    "opus": CompressedFormat("audio/ogg", ("-c:a", "libopus", "-f", "ogg")),
    "aac": CompressedFormat("audio/aac", ("-c:a", "aac", "-f", "adts")),
    "flac": CompressedFormat("audio/flac", ("-f", "flac")),
}


async def encoded(
    program: str, audio: AsyncGenerator[bytes], form: AudioFormat, into: CompressedFormat
) -> AsyncGenerator[bytes]:
    """Yield audio in another format, as it is encoded; closing the generator kills the program.

    Args:
        program: ffmpeg.
        audio: 16-bit PCM of one channel; it is closed with the generator.
        form: its format.
        into: the format of the result.

    Raises:
        ModelError: ffmpeg fails.
        TooSlow: nothing came for too long.
        Exception: any exception of the audio.
    """
    process = await asyncio.create_subprocess_exec(
        *(program, "-hide_banner", "-loglevel", "error"),
        *("-f", "s16le", "-ar", str(form.rate), "-ac", "1", "-i", "pipe:0"),
        *(*into.options, "pipe:1"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        cwd="/",
    )
    feeding = asyncio.create_task(_feed(process, audio), name="audio for ffmpeg")
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        while data := await _in_time(process.stdout.read(_READ)):
            yield data
        await feeding
        await _check_end(process)
    finally:
        feeding.cancel()
        await asyncio.wait((feeding,))
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()  # with what its pipes still have, so that they close
        with suppress(BrokenPipeError, ConnectionResetError):
            await process.stdin.wait_closed()  # an unread exception is logged by Python 3.11.2


async def _feed(process: Process, audio: AsyncGenerator[bytes]) -> None:
    """Write the audio, and end the program's input, whatever happens."""
    assert process.stdin is not None
    try:
        async for piece in audio:
            if process.stdin.is_closing():  # uvloop refuses to write then
                break
            process.stdin.write(piece)
            await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        pass  # it has ended, and says why
    finally:
        process.stdin.close()
        await audio.aclose()


async def _check_end(process: Process) -> None:
    assert process.stderr is not None
    said = await _in_time(process.stderr.read())
    if status := await _in_time(process.wait()):
        reason = said.decode("utf-8", "replace").strip()[-200:]
        raise ModelError(f"ffmpeg has ended with status {status}: {reason}")


async def _in_time(result: Awaitable[_T]) -> _T:
    try:
        async with asyncio.timeout(ENCODER_SILENCE):
            return await result
    except TimeoutError:
        raise TooSlow(f"ffmpeg gave nothing for {ENCODER_SILENCE:g} s") from None
