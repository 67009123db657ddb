"""partway.container.models.voice.engines.without_av: an import that would load PyAV."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from partway.container.models.voice.engines.without_av import without_av


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that imports av, and an av that cannot be loaded."""
    (tmp_path / "hears_with_av.py").write_text("import av")
    (tmp_path / "av.py").write_text("raise AssertionError('av is loaded')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("av", "hears_with_av"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_package_is_imported_without_av() -> None:
    with without_av():
        importlib.import_module("hears_with_av")
    with pytest.raises(AssertionError, match="av is loaded"):  # as anybody else imports it
        importlib.import_module("av")


def test_an_av_that_is_there_already_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    av = ModuleType("av")
    monkeypatch.setitem(sys.modules, "av", av)
    with without_av():
        found = importlib.import_module("hears_with_av")
    assert found.av is sys.modules["av"] is av
