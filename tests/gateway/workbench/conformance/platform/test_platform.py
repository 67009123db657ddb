"""The checks of a platform: the gateway keeps them all."""

from __future__ import annotations

import pytest

from partway.gateway.workbench.conformance.platform.checks import ALL, UNCLAIMED
from partway.gateway.workbench.conformance.report.matrix import CLAUSES
from partway.gateway.workbench.conformance.verdict import Severity, Verdict
from tests.gateway.workbench.conformance.platform.trying import failed, tried

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.mark.clause("1.1-2", "1.1-4", "1.2-6", "1.6-1")
@pytest.mark.clause("1.2-1", "1.2-2", "1.2-3", "1.2-4", "1.2-5", "1.2-7")
@pytest.mark.clause("1.3-1", "1.3-2", "1.3-3", "1.4-1", "1.4-3")
@pytest.mark.clause("1.5-1", "1.5-2", "1.5-3", "1.5-4", "1.5-5", "1.5-6", "1.5-7", "1.5-8")
@pytest.mark.clause("1.5-9", "1.5-10", "1.5-11", "1.5-12")
async def test_the_gateway_keeps_every_clause():
    report = await tried()
    assert failed(report) == {}
    assert {each.verdict for each in report.results} == {Verdict.PASS}
    assert len(report.results) == len(ALL)
    assert report.conformant


async def test_it_does_whatever_its_clients_speak():
    """Pings are nothing of theirs, and take their time."""
    areas = {check.id.rpartition(".")[0] for check in ALL} - {"platform.pings"}
    report = await tried(only=areas, transport="http2")
    assert failed(report) == {}
    assert {each.verdict for each in report.results} == {Verdict.PASS}


def test_each_clause_is_claimed_or_said_to_be_out_of_reach():
    claimed = {clause for check in ALL for clause in check.clauses}
    assert set(CLAUSES) - claimed == set(UNCLAIMED)


def test_checks_are_whole_and_stand_behind_what_they_require():
    seen = set()
    for check in ALL:
        assert check.id.startswith("platform.")
        assert check.title
        assert check.remedy
        assert check.clauses
        assert check.severity in (Severity.MUST, Severity.SHOULD)
        assert set(check.requires) <= seen, check.id
        assert check.id not in seen
        seen.add(check.id)
