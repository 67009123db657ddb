"""partway.container.models.voice.engines.kokoro_phonemes, with a program for espeak-ng."""

from __future__ import annotations

import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.engines import kokoro_phonemes
from partway.container.models.voice.engines.kokoro_phonemes import EspeakPhonemes
from partway.container.models.voice.engines.piped_program import PipedProgram
from tests.container.models.voice.programs import install

#: Each line comes back, after the program's language where a line asks for it.
IPA = """
import sys
assert sys.argv[1:6] == ["-q", "--ipa", "--tie=^", "-b", "1"]
for line in sys.stdin:
    CODE
    print(" " + line.strip().replace("LANGUAGE", sys.argv[-1]))
"""


@pytest.fixture
def phonemes(tmp_path, monkeypatch):
    def make(code: str = "pass") -> EspeakPhonemes:
        install(tmp_path, monkeypatch, "espeak-ng", IPA, code)
        return EspeakPhonemes()

    return make


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("one, two. three?! four", "one, two. thɹee? fouɹ"),
        ("", ""),
        ("...", "."),
        ("3.14 a,b it's", "3.14 a,b it's"),
        ("Mr. Smith, J. Doe", "Mɹ Smith, J Doe"),
        ("two\nlines [[x]]", "two lines [ x ]"),
        ("a^ɪ d^ʒ o^ʊ (fr)bɔ̃(en)", "I ʤ O bɔ̃"),
        ("wˈɔːɾɚ bˈɜːd bˈɑːɾə^l bˈʌʔn̩ nˈɪ^ɹ", "wˈɔTəɹ bˈɜɹd bˈɑTᵊl bˈʌtᵊn nˈiɹ"),
    ],
)
def test_american(text, written, phonemes):
    assert phonemes().of(text, "af_heart") == written


def test_others_keep_their_lengths(phonemes):
    assert phonemes().of("ɜː ə^ʊ ɚ", "bf_emma") == "ɜː Q əɹ"
    assert phonemes().of("ɜː ɾ", "ff_siwis") == "ɜː ɾ"


@pytest.mark.parametrize(
    ("voice", "language", "spoken"),
    [
        ("af_heart", "", "en-us"),
        ("bf_emma", "en", "en-gb"),
        ("jf_alpha", "", "en-us"),
        ("jf_alpha", "de", "en-us"),
        ("af_heart", "PT", "pt-br"),
        ("pf_dora", "", "pt-br"),
        ("af_heart", "en-gb", "en-gb"),
        ("", "", "en-us"),
    ],
)
def test_languages(voice, language, spoken, phonemes):
    assert phonemes().of("LANGUAGE", voice, language).replace("ɹ", "r") == spoken


def test_lines_that_do_not_match(phonemes):
    with pytest.raises(ModelError, match="wrote 0 lines of phonemes for 1 lines: no such voice"):
        phonemes("sys.exit('no such voice')").of("text", "af_heart")


def test_the_program_is_killed(phonemes, monkeypatch):
    programs = []

    class Noted(PipedProgram):
        def __init__(self, command):
            super().__init__(command)
            programs.append(self)

    monkeypatch.setattr(kokoro_phonemes, "PipedProgram", Noted)
    monkeypatch.setattr(kokoro_phonemes, "PROGRAM_SILENCE", 0.3)
    with pytest.raises(ModelError, match="given nothing in time"):
        phonemes("import time; time.sleep(1000)").of("text", "af_heart")
    assert not programs[0].running
