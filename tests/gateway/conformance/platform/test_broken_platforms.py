"""Each broken platform fails the checks that it names, and no other of their areas."""

from __future__ import annotations

import asyncio

import pytest

from gateway.conformance.check import Verdict
from gateway.conformance.platform.checks import ALL
from tests.gateway.conformance.platform.broken.catalogue import BROKEN
from tests.gateway.conformance.platform.relay import Distortion
from tests.gateway.conformance.platform.trying import failed, tried

pytestmark = pytest.mark.usefixtures("no_leaks")

#: For what does not come, which a broken platform makes some checks wait for.
PATIENCE = 2.0


@pytest.fixture(scope="module")
def anyio_backend():
    """One loop is enough: what is tried here is the checks, and both ends are in it."""
    return "asyncio"


async def test_a_relay_that_changes_nothing_is_not_noticed():
    """Else the distortions' verdicts would be those of the relay."""
    report = await tried(distortion=Distortion)
    assert failed(report) == {}
    assert report.count(Verdict.PASS) == len(ALL) - 1


AREAS = sorted({min(broken.root).partition(".")[0] for broken in BROKEN.values()})


@pytest.mark.parametrize("area", AREAS)
async def test_a_broken_platform_fails_where_it_is_broken(area):
    names = [name for name, broken in BROKEN.items() if min(broken.root).startswith(f"{area}.")]
    turns = asyncio.Semaphore(6)  # they wait, more than they compute

    async def fails(name):
        broken = BROKEN[name]
        async with turns:
            report = await tried(
                distortion=broken.distortion,
                hurried=broken.hurried,
                only=[f"platform.{area}"],
                patience=PATIENCE,
            )
        return {check.removeprefix("platform."): said for check, said in failed(report).items()}

    found = dict(zip(names, await asyncio.gather(*map(fails, names)), strict=True))
    assert {name: set(said) for name, said in found.items()} == {
        name: BROKEN[name].root for name in names
    }, found


def test_there_are_many_and_each_check_can_fail():
    known = {check.id.removeprefix("platform.") for check in ALL}
    roots = set().union(*(broken.root for broken in BROKEN.values()))
    assert roots == known
    assert len(BROKEN) >= 60
