"""docs/reference/kmeans.md: its commands do what it shows, its numbers are those of the code."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from partway.container.limits import MAX_HELD_BODIES
from partway.container.models.arrays import MAX_ARRAY_BYTES
from partway.container.models.kmeans import KMeans
from partway.container.models.kmeans.centroids import LARGEST, MAX_CENTROIDS
from partway.container.models.kmeans.nearest import GPU_FROM
from partway.container.testing import serving
from partway.protocol.limits import MAX_RECORDS
from tests.conftest import ROOT
from tests.container.page_commands import assert_answers, shown

PAGE = (ROOT / "docs" / "reference" / "kmeans.md").read_text("utf-8")
EXAMPLES = shown(PAGE)
MIB = 1 << 20


@pytest.mark.usefixtures("no_leaks")
async def test_the_commands(tmp_path: Path) -> None:
    assert len(EXAMPLES) == 3
    (saved,) = re.findall(r"numpy\.array\((\[\[.*?\]\])\)", PAGE)
    np.save(tmp_path / "centroids.npy", np.array(json.loads(saved)))
    async with serving(KMeans(), tmp_path) as served:
        await assert_answers(served, EXAMPLES)
        block = r"```sh\n[^`]*?partway invoke (.*?)```\n\n```\n(.*?)```"
        (lines,) = re.findall(block, PAGE, re.DOTALL)
        async with served.stream() as client:
            for message, output in zip(
                shlex.split(lines[0])[2::2], lines[1].splitlines(), strict=True
            ):
                await client.send(message)
                assert await client.recv() == output


def test_the_numbers() -> None:
    assert f"{MAX_CENTROIDS:,} centroids" in PAGE
    assert f"more than {MAX_RECORDS:,} records" in PAGE
    assert f"{GPU_FROM:,} multiplications" in PAGE
    assert f"{MAX_HELD_BODIES // MIB} MiB of bodies" in PAGE
    assert f"and {MAX_ARRAY_BYTES >> 30} GiB as float64" in PAGE
    assert KMeans.runs_on is not None
    assert f"{KMeans.runs_on.queue} requests wait" in PAGE
    assert LARGEST == 1e140
    assert "beyond 1e140" in PAGE
    assert f"of {KMeans.max_payload_mb} MB each" in PAGE
