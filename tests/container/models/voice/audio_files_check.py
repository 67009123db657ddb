"""partway.container.models.voice.audio_files with ffmpeg itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.audio_files import read_audio
from partway.container.models.voice.interfaces import HEARING_RATE
from tests.container.models.voice.sounds import tone
from tests.container.models.voice.test_wav_files import written
from tests.container.models.voice.voices import package

WAV = written(tone(2.0, 24_000).tobytes(), 2, 24_000)


@pytest.fixture
def ffmpeg() -> str:
    (program,) = package("imageio_ffmpeg").glob("binaries/ffmpeg-*")
    return str(program)


@pytest.mark.parametrize("kind", ["mp3", "m4a", "mp4", "ogg", "webm", "flac", "aac", "mkv", "aiff"])
def test_each_kind_of_file_is_read(kind: str, ffmpeg: str, tmp_path: Path) -> None:
    (tmp_path / "in.wav").write_bytes(WAV)
    out = tmp_path / f"out.{kind}"
    words = [ffmpeg, "-loglevel", "error", "-i", tmp_path / "in.wav", "-strict", "-2", out]
    subprocess.run([str(word) for word in words], check=True, timeout=60)
    audio = read_audio(out.read_bytes(), ffmpeg)
    assert len(audio) == pytest.approx(2 * HEARING_RATE, rel=0.1)
    middle = audio[HEARING_RATE // 2 : HEARING_RATE]
    assert abs(int(middle.max()) - 8_000) < 2_000


@pytest.mark.parametrize(
    "playlist",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {}\n",
    ],
)
def test_a_file_that_names_another_one_is_not_read(
    playlist: str, ffmpeg: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.wav"
    secret.write_bytes(WAV)
    with pytest.raises(ModelError, match="file is no audio file that ffmpeg reads"):
        read_audio(playlist.format(secret).encode(), ffmpeg)
