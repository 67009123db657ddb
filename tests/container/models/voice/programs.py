"""Programs that behave like espeak-ng and piper, so that tests need neither."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

#: Speaks each character of its input as 100 samples; its rate is 16 kHz.
ESPEAK = """
import struct, sys
if "--voices" in sys.argv:
    print("Pty Language       Age/Gender VoiceName          File                 Other Languages")
    print(" 5  en-gb           --/M      English            gmw/en               (en 2)")
    print(" 5  de              --/M      German             gmw/de")
    print(" 5  en-us           --/F      us-mbrola-1        mb/mb-us1            (en 8)")
    raise SystemExit
text = sys.stdin.read()
out = sys.stdout.buffer
out.write(b"RIFF" + struct.pack("<I", 0) + b"WAVEfmt ")
out.write(struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data" + b"\\xff" * 4)
CODE
for character in text:
    out.write(struct.pack("<h", ord(character)) * 100)
"""

#: Speaks each character of a line as 100 samples.
PIPER = """
import os, struct, sys
def log(text):
    print("DEBUG:" + text, file=sys.stderr, flush=True)
log("__main__:" + " ".join(sys.argv))
for line in sys.stdin:
    line = line.strip()
    log("piper.voice:text=" + line + ", phonemes=[]")
    if line == "[[]]":
        continue
    CODE
    for sentence in line.split("."):
        audio = b"".join(struct.pack("<h", ord(each)) * 100 for each in sentence)
        os.write(1, audio)
"""


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, program: str, code: str = "pass"
) -> str:
    """Put a program on the path, and return its place; ``code`` runs before each text is spoken."""
    place = folder / name
    place.write_text(f"#!{sys.executable}\n{program.replace('CODE', code)}")
    place.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return str(place)
