"""Errors of a scikit-learn model that cannot be loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from partway.container.errors import LoadFailed
from partway.container.hosting.sklearn_model import SklearnModel
from partway.container.testing import serving


@pytest.mark.parametrize("missing", ["joblib", "sklearn.exceptions"])
async def test_the_extra_is_named_if_it_is_missing(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.joblib").write_bytes(b"")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(LoadFailed) as raised:
        async with serving(SklearnModel(tmp_path / "model.joblib")):
            pass
    assert str(raised.value.__cause__).startswith("a scikit-learn model needs scikit-learn, but ")
    assert str(raised.value.__cause__).endswith("pip install 'partway[sklearn]'")


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed) as raised:
        async with serving(SklearnModel(Path("model.joblib")), tmp_path):
            pass
    assert str(raised.value.__cause__).startswith("there is no file model.joblib in ")
