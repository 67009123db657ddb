"""docs/reference/linear.md and pca.md: their commands do what they show."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from partway import TabularModel
from partway.container.models.linear import Linear
from partway.container.models.pca import PCA
from partway.container.testing import serving
from tests.conftest import ROOT
from tests.container.page_commands import assert_answers, shown


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize(("name", "model"), [("linear", Linear), ("pca", PCA)])
async def test_the_commands(tmp_path: Path, name: str, model: type[TabularModel]) -> None:
    page = (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")
    (saved,) = re.findall(rf'numpy\.(savez\("model/{name}.npz".*?\))\'', page)
    (tmp_path / "model").mkdir()
    exec(f"numpy.{saved.replace('model/', f'{tmp_path}/model/')}", {"numpy": np})
    examples = shown(page)
    assert len(examples) == 2
    async with serving(model(), tmp_path / "model") as served:
        await assert_answers(served, examples)
