"""Phonemes for Kokoro, made by ``espeak-ng``, a separate program.

Kokoro has one letter for each diphthong and affricate, and marks for punctuation. espeak-ng writes
the letters of the IPA, with a tie between those of one sound, and drops punctuation.

https://github.com/hexgrad/misaki/blob/main/EN_PHONES.md
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from partway.container.errors import ModelError
from partway.container.models.voice.engines.piped_program import (
    PipedProgram,
    one_line,
    program_at,
)
from partway.container.models.voice.limits import PROGRAM_SILENCE

#: The language of a voice, by the first letter of its name. espeak-ng has no good phonemes for
#: Japanese and Chinese, so their voices speak English unless a client names a language.
_LANGUAGES: Final[Mapping[str, str]] = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "p": "pt-br",
}
_USUAL: Final = "en-us"

#: Sounds with a letter of their own.
_LETTERS: Final = {
    "a^ɪ": "I",
    "a^ʊ": "W",
    "e^ɪ": "A",
    "ɔ^ɪ": "Y",
    "o^ʊ": "O",
    "ə^ʊ": "Q",
    "d^ʒ": "ʤ",
    "t^ʃ": "ʧ",
    "d^z": "ʣ",
    "t^s": "ʦ",
}
#: How Kokoro's English is written beyond that.
_ENGLISH: Final = {"ə^l": "ᵊl", "n̩": "ᵊn", "l̩": "ᵊl", "ɚ": "əɹ", "r": "ɹ", "ɐ": "ə", "ʔ": "t"}
_AMERICAN: Final = {**_ENGLISH, "ɾ": "T", "ɜː": "ɜɹ", "ɪ^ɹ": "iɹ", "ː": ""}
_DIALECTS: Final[Mapping[str, Mapping[str, str]]] = {"en-us": _AMERICAN, "en-gb": _ENGLISH}

#: Punctuation that is heard, where a space or the end follows it.
_MARK: Final = re.compile(r"([;:,.!?—…]+)(?=\s|$)")
#: A full stop of a word that is cut short ends nothing, and is not heard.
_SHORT_FORM: Final = re.compile(
    r"\b([^\W\d_]|dr|jr|mr|mrs|ms|prof|sr|st|vs)\.(?=\s)", re.IGNORECASE
)
#: A note of espeak-ng that a word is of another language.
_SWITCH: Final = re.compile(r"\([a-z-]+\)")


class EspeakPhonemes:
    """Phonemes of any text, by a process for each phrase."""

    def __init__(self) -> None:
        self._program = program_at(None, "espeak-ng")

    def of(self, text: str, voice: str, language: str = "") -> str:
        """Return the phonemes of a phrase, with its punctuation.

        Args:
            text: the phrase.
            voice: the voice's name; its first letter is its language.
            language: a code such as ``fr``; empty for the voice's own.

        Raises:
            ModelError: the program fails.
        """
        spoken = _language(voice, language)
        parts = _MARK.split(_SHORT_FORM.sub(r"\1", one_line(text)))  # words, marks, words, …, words
        lines = self._ask([part.strip() for part in parts[::2]], spoken)
        phonemes = [_written(line, spoken) for line in lines]
        marks = [*(part[0] for part in parts[1::2]), ""]
        joined = (f"{each}{mark}" for each, mark in zip(phonemes, marks, strict=True))
        return " ".join(filter(None, joined))

    def _ask(self, words: list[str], language: str) -> list[str]:
        """Return the program's line for each line of words."""
        options = ["-q", "--ipa", "--tie=^", "-b", "1", "-v", language]
        program = PipedProgram([self._program, *options])
        try:
            program.write("".join(f"{each}\n" for each in words), last=True)
            output = b"".join(program.outputs(PROGRAM_SILENCE))
        finally:
            program.kill()
        lines = output.decode("utf-8", "replace").split("\n")[:-1]
        if len(lines) != len(words):
            name = Path(self._program).name
            raise ModelError(
                f"{name} wrote {len(lines)} lines of phonemes for {len(words)} lines: "
                f"{program.said}"
            )
        return lines


def _language(voice: str, language: str) -> str:
    own = _LANGUAGES.get(voice[:1], _USUAL)
    wanted = language.lower()
    known = set(_LANGUAGES.values())
    if wanted in known:
        return wanted
    # A code without a country, such as en: the voice's own is best, if it is one of them.
    return next((each for each in (own, *sorted(known)) if each[:2] == wanted[:2]), own)


def _written(line: str, language: str) -> str:
    phonemes = _SWITCH.sub("", line.strip())
    for sounds in (_LETTERS, _DIALECTS.get(language, {})):
        for sound, letters in sounds.items():
            phonemes = phonemes.replace(sound, letters)
    return phonemes.replace("^", "")
