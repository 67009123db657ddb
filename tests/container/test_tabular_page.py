"""docs/how-to/from-your-model-to-every-format.md: its model answers its commands as it shows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from urllib.parse import parse_qsl

import numpy as np
import pytest

from partway import TabularModel
from partway.container.testing import serving
from tests.conftest import ROOT
from tests.container.page_commands import assert_answers, shown

PAGE = (ROOT / "docs" / "how-to" / "from-your-model-to-every-format.md").read_text("utf-8")
EXAMPLES = shown(PAGE)


@pytest.mark.usefixtures("no_leaks")
async def test_the_commands(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, type[TabularModel]] = {}
    exec(program, names)
    (saved,) = re.findall(r"numpy\.array\((\[\[.*?\]\])\)", PAGE)
    np.save(tmp_path / "weights.npy", np.array(json.loads(saved)))
    assert len(EXAMPLES) == 5
    async with serving(names["Iris"](), tmp_path) as served:
        await assert_answers(served, EXAMPLES)
        asked = r"partway invoke iris --query (\S+) (.*?)\n```\n\n```\n(.*?)```"
        ((query, messages, outputs),) = re.findall(asked, PAGE, re.DOTALL)
        async with served.stream(query=parse_qsl(query)) as client:
            texts = shlex.split(messages)[1::2]
            for message, output in zip(texts, outputs.splitlines(), strict=True):
                await client.send(message)
                assert await client.recv() == output
