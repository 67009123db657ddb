"""Settings by environment, and a machine without the packages."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from partway.container.models.text.model import Text
from partway.container.models.text.settings import TextSettings
from tests.conftest import ROOT


def test_each_is_a_variable() -> None:
    environment = {
        "PARTWAY_TEXT_DEVICE": "cpu",
        "PARTWAY_TEXT_CONTEXT": "100",
        "PARTWAY_TEXT_MAX_NEW_TOKENS": "",
        "PARTWAY_TEXT_THREADS": "2",
    }
    assert TextSettings.from_environment(environment) == TextSettings(
        device="cpu", context=100, threads=2
    )


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "１", "9" * 30])
def test_one_that_is_no_number(value: str) -> None:
    with pytest.raises(ValueError, match=r"PARTWAY_TEXT_CONTEXT is .*; it must be a whole number"):
        TextSettings.from_environment({"PARTWAY_TEXT_CONTEXT": value})


@pytest.mark.parametrize("name", ["MAX_NEW_TOKENS", "GENERATIONS", "QUEUED"])
def test_one_that_must_not_be_none(name: str) -> None:
    with pytest.raises(
        ValueError, match=f"PARTWAY_TEXT_{name} is '0'; it must be a whole number from 1"
    ):
        TextSettings.from_environment({f"PARTWAY_TEXT_{name}": "0"})


def test_the_page_has_each_of_them() -> None:
    page = (ROOT / "docs" / "reference" / "text.md").read_text()
    named = set(re.findall(r"`PARTWAY_TEXT_(\w+)`", page))
    assert named == {name.upper() for name in TextSettings.model_fields}
    for name, field in TextSettings.model_fields.items():
        if isinstance(field.default, int) and field.default:
            assert re.search(rf"`PARTWAY_TEXT_{name.upper()}` \| {field.default} \|", page)


def test_without_torch_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("engine", "loading", "batching"):
        monkeypatch.delitem(sys.modules, f"partway.container.models.text.{name}", raising=False)
    with pytest.raises(RuntimeError, match="text needs torch and transformers, "):
        Text().load(tmp_path)
