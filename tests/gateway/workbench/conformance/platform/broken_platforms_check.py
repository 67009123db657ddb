"""Each broken platform fails the checks that it names, and no other at all."""

from __future__ import annotations

import pytest

from tests.gateway.workbench.conformance.platform.broken.catalogue import BROKEN
from tests.gateway.workbench.conformance.platform.trying import failed, tried


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: what is tried here is the checks."""
    return "asyncio"


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_platform_fails_nowhere_else(name: str) -> None:
    broken = BROKEN[name]
    report = await tried(distortion=broken.distortion, hurried=broken.hurried, patience=2.0)
    found = {check.removeprefix("platform."): said for check, said in failed(report).items()}
    assert set(found) == broken.root, f"{broken.breaks} {found}"
