"""Reading audio files of clients: WAV here, other kinds by ``ffmpeg``, a separate program.

https://ffmpeg.org/ffmpeg.html (its licence depends on its build; never loaded into this process)
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import threading
from typing import IO, Final

import numpy as np

from partway.container.errors import Busy, ModelError
from partway.container.models.voice.interfaces import HEARING_RATE, Samples
from partway.container.models.voice.limits import (
    DECODING,
    FILE_WAIT,
    FILES_AT_ONCE,
    MAX_FILE_SECONDS,
)
from partway.container.models.voice.wav_files import WavFault, is_wav, read_wav
from partway.container.threads import in_thread

#: The kinds of files that ffmpeg may take a file for. Playlists are left out: a playlist may name
#: any file of this machine.
_DEMUXERS: Final = "aac,aiff,amr,caf,flac,matroska,webm,mov,mp4,m4a,mp3,ogg,wav,w64"
#: Bytes of ffmpeg's messages that are read at once, and kept.
_MESSAGES: Final = 4_096


class AudioFiles:
    """Reads the files of all requests, a few at once.

    Args:
        ffmpeg: the program; None where it is not installed.
    """

    def __init__(self, ffmpeg: str | None) -> None:
        self._ffmpeg = ffmpeg
        self._free = asyncio.Semaphore(FILES_AT_ONCE)

    async def read(self, data: bytes | memoryview) -> Samples:
        """Return a file's audio, as :func:`read_audio` does, on a thread.

        Raises:
            Busy: no thread is free in time.
            ModelError: as :func:`read_audio`.
        """
        try:
            async with asyncio.timeout(FILE_WAIT):
                await self._free.acquire()
        except TimeoutError:
            raise Busy(
                f"{FILES_AT_ONCE} files are being read, and none has ended within {FILE_WAIT:g} s"
            ) from None
        reading = in_thread(read_audio, data, self._ffmpeg, name="partway-audio-file")
        # Giving up does not end the thread, which holds its place until its end.
        reading.add_done_callback(lambda _: self._free.release())
        return await asyncio.shield(reading)


def read_audio(data: bytes | memoryview, ffmpeg: str | None) -> Samples:
    """Return a file's audio, mono at ``HEARING_RATE``; the call blocks.

    Args:
        data: the file.
        ffmpeg: reads all but WAV files; None where it is not installed.

    Raises:
        ModelError: the file cannot be read, or is too long; the status is 400.
    """
    if not data:
        raise ModelError("file is empty; it must be an audio file", status=400)
    if is_wav(data):
        try:
            return read_wav(data, MAX_FILE_SECONDS)
        except WavFault as fault:
            raise ModelError(f"file: {fault}", status=400) from None
    if ffmpeg is None:
        raise ModelError(
            "file is no WAV file, and reading other kinds needs ffmpeg, which is not installed "
            "here; it must be a WAV file",
            status=400,
        )
    return _decoded(ffmpeg, data)


def _decoded(program: str, data: bytes | memoryview) -> Samples:
    # A file that can be searched: in many of them the index comes last.
    with tempfile.NamedTemporaryFile(prefix="partway-") as file, tempfile.TemporaryFile() as made:
        file.write(data)
        file.flush()
        words = [
            *(program, "-hide_banner", "-loglevel", "error", "-nostdin"),
            *("-protocol_whitelist", "file", "-format_whitelist", _DEMUXERS),
            *("-i", f"file:{file.name}", "-vn", "-t", str(MAX_FILE_SECONDS + 1)),
            *("-f", "s16le", "-ac", "1", "-ar", str(HEARING_RATE), "pipe:1"),
        ]
        status, said = _run(words, made)
        if status:
            reason = " ".join(said.replace(file.name, "file").splitlines())[-200:]
            raise ModelError(f"file is no audio file that ffmpeg reads: {reason}", status=400)
        made.seek(0)
        audio = np.fromfile(made, "<i2").astype(np.int16, copy=False)
    if len(audio) > MAX_FILE_SECONDS * HEARING_RATE:
        raise ModelError(f"the audio has over {MAX_FILE_SECONDS:.0f} s", status=400)
    return audio


def _run(words: list[str], out: IO[bytes]) -> tuple[int, str]:
    """Run a program; return its status, and the end of its messages.

    A file of junk has hundreds of MB of messages, so only their end is kept.
    """
    late = threading.Event()
    said = b""
    with subprocess.Popen(  # noqa: S603  # nothing of the client is on the command line
        words,
        stdout=out,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath)},
        cwd="/",
    ) as running:

        def end() -> None:
            late.set()
            running.kill()

        timer = threading.Timer(DECODING, end)
        timer.daemon = True
        timer.start()
        assert running.stderr is not None
        try:
            while piece := os.read(running.stderr.fileno(), _MESSAGES):
                said = (said + piece)[-_MESSAGES:]
            status = running.wait()
        finally:
            timer.cancel()
    if late.is_set():
        raise ModelError(f"file: ffmpeg has not read it within {DECODING:g} s", status=400)
    return status, said.decode("utf-8", "replace")
