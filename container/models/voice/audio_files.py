"""Reading audio files of clients: WAV here, other kinds by ``ffmpeg``, a separate program.

https://ffmpeg.org/ffmpeg.html (its licence depends on its build; never loaded into this process)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from typing import Final

import numpy as np

from partway.container.errors import ModelError
from partway.container.models.voice.interfaces import HEARING_RATE, Samples
from partway.container.models.voice.limits import DECODING, MAX_FILE_SECONDS
from partway.container.models.voice.wav_files import WavFault, is_wav, read_wav

#: The kinds of files that ffmpeg may take a file for. Playlists are left out: a playlist may name
#: any file of this machine.
_DEMUXERS: Final = "aac,aiff,amr,caf,flac,matroska,webm,mov,mp4,m4a,mp3,ogg,wav,w64"


def read_audio(data: bytes) -> Samples:
    """Return a file's audio, mono at ``HEARING_RATE``; the call blocks.

    Raises:
        ModelError: the file cannot be read, or is too long; the status is 400.
    """
    if not data:
        raise ModelError("file is empty; it must be an audio file", status=400)
    program = shutil.which("ffmpeg")
    if is_wav(data):
        try:
            return read_wav(data, MAX_FILE_SECONDS)
        except WavFault as fault:
            raise ModelError(f"file: {fault}", status=400) from None
    if program is None:
        raise ModelError(
            "file is no WAV file, and reading other kinds needs ffmpeg, which is not installed "
            "here; it must be a WAV file",
            status=400,
        )
    return _decoded(program, data)


def _decoded(program: str, data: bytes) -> Samples:
    # A file that can be searched: in many of them the index comes last.
    with tempfile.NamedTemporaryFile(prefix="partway-") as file:
        file.write(data)
        file.flush()
        try:
            done = subprocess.run(  # noqa: S603  # nothing of the client is on the command line
                [
                    *(program, "-hide_banner", "-loglevel", "error", "-nostdin"),
                    *("-protocol_whitelist", "file", "-format_whitelist", _DEMUXERS),
                    *("-i", f"file:{file.name}", "-vn", "-t", str(MAX_FILE_SECONDS + 1)),
                    *("-f", "s16le", "-ac", "1", "-ar", str(HEARING_RATE), "pipe:1"),
                ],
                capture_output=True,
                timeout=DECODING,
                check=False,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            raise ModelError(
                f"file: ffmpeg has not read it within {DECODING:g} s", status=400
            ) from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").replace(file.name, "file").splitlines()
        raise ModelError(
            f"file is no audio file that ffmpeg reads: {' '.join(lines)[-200:]}", status=400
        )
    audio = np.frombuffer(done.stdout, "<i2").astype(np.int16)
    if len(audio) > MAX_FILE_SECONDS * HEARING_RATE:
        raise ModelError(f"the audio has over {MAX_FILE_SECONDS:.0f} s", status=400)
    return audio
