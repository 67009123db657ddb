"""That broken platforms can be told: ``make mutants`` tries each of them."""

from __future__ import annotations

import pytest

from partway.gateway.workbench.conformance.platform.checks import ALL
from partway.gateway.workbench.conformance.verdict import Verdict
from tests.gateway.workbench.conformance.platform.broken.catalogue import BROKEN
from tests.gateway.workbench.conformance.platform.relay import Distortion
from tests.gateway.workbench.conformance.platform.trying import failed, tried

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture(scope="module")
def anyio_backend():
    """One loop is enough: what is tried here is the checks, and both ends are in it."""
    return "asyncio"


async def test_a_relay_that_changes_nothing_is_not_noticed():
    """Else the distortions' verdicts would be those of the relay."""
    report = await tried(distortion=Distortion)
    assert failed(report) == {}
    assert report.count(Verdict.PASS) == len(ALL) - 1


def test_there_are_many_and_each_check_can_fail():
    known = {check.id.removeprefix("platform.") for check in ALL}
    roots = set().union(*(broken.root for broken in BROKEN.values()))
    assert roots == known
    assert len(BROKEN) >= 60
