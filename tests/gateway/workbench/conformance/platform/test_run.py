"""How a platform's checks are tried, and what is reported of them."""

from __future__ import annotations

import pytest

from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.container import InstrumentedContainer
from partway.gateway.workbench.conformance.platform.run import PlatformRun
from partway.gateway.workbench.conformance.platform.trial import Platform, PlatformTrial, Times
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried, Verdict
from tests.gateway.workbench.conformance.platform.trying import tried

pytestmark = pytest.mark.usefixtures("no_leaks")

NOWHERE = "http://127.0.0.1:1"


def some_checks():
    checks = PlatformChecks("some")

    @checks.add("kept", "1.2-1", title="t", remedy="r", requires=())
    async def kept(trial):
        pass

    @checks.add("broken", "1.2-1", title="t", remedy="mend it", requires=("some.kept",))
    async def broken(trial):
        raise Broken("it is not so")

    @checks.add("behind", "1.2-1", title="t", remedy="r", requires=("some.broken",))
    async def behind(trial):
        raise AssertionError("not to be tried")

    @checks.add("untried", "1.2-1", title="t", remedy="r", requires=())
    async def untried(trial):
        raise Untried("not here")

    @checks.add(
        "noted", "1.2-1", title="t", remedy="r", requires=("some.untried",), severity=Severity.NOTE
    )
    async def noted(trial):
        raise Broken("worth knowing")

    return checks


async def run(checks, **options):
    async with InstrumentedContainer() as container:
        return await PlatformRun(checks, **options).run(Platform(NOWHERE, "model"), container)


async def test_each_check_has_its_verdict_and_what_was_said():
    told = []
    report = await run(some_checks(), on_result=told.append)
    assert told == report.results
    assert [(each.check.id, each.verdict, each.said, each.remedy) for each in told] == [
        ("platform.some.kept", Verdict.PASS, "", ""),
        ("platform.some.broken", Verdict.FAIL, "it is not so", "mend it"),
        ("platform.some.behind", Verdict.BLOCKED, "platform.some.broken did not pass", ""),
        ("platform.some.untried", Verdict.SKIP, "not here", ""),
        ("platform.some.noted", Verdict.NOTE, "worth knowing", "r"),
    ]
    assert not report.conformant


async def test_some_can_be_chosen_with_what_they_require():
    report = await run(some_checks(), only=["platform.some.broken"])
    assert [each.check.id for each in report.results] == [
        "platform.some.kept",
        "platform.some.broken",
    ]


async def test_a_check_that_does_not_end_is_ended():
    checks = PlatformChecks("some")

    @checks.add("endless", "1.2-1", title="t", remedy="r", requires=(), limit=0.01)
    async def endless(trial):
        await trial.container.stream(60.0)

    async with InstrumentedContainer() as container:
        platform = Platform(NOWHERE, "model", times=Times(ping_interval=0.001))
        report = await PlatformRun(checks).run(platform, container)
    assert report.results[0].said == "the check did not end within 0.01 s"


async def test_a_platform_that_is_not_there_is_said_to_be_so():
    report = await tried(only=["platform.upgrade.asked"])
    assert report.conformant
    checks = PlatformChecks("some")

    @checks.add("asked", "1.2-1", title="t", remedy="r", requires=())
    async def asked(trial):
        async with trial.stream("a stream"):
            pass

    report = await run(checks)
    assert report.results[0].said.startswith("no gateway answers: cannot open a stream to http://")


async def test_what_takes_minutes_is_left_out_where_it_should_be_fast():
    async with InstrumentedContainer() as container:
        trial = PlatformTrial(Platform(NOWHERE, "model"), container, fast=True)
        with pytest.raises(Untried, match="minutes"):
            trial.hurried()
        assert PlatformTrial(trial.platform, container).hurried() == "model"
        hasty = Platform(NOWHERE, "model", "hurried")
        assert PlatformTrial(hasty, container, fast=True).hurried() == "hurried"


async def test_a_failure_has_its_evidence_an_observation_too_that_was_made_before():
    checks = PlatformChecks("some")

    async def observe(trial):
        async with trial.stream("observed once") as (_, seen):
            return seen

    for name in ("first", "second"):

        @checks.add(name, "1.2-1", title="t", remedy="r", requires=())
        async def look(trial):
            seen = await trial.once(observe)
            raise Broken(f"seen {seen.head.target}")

    report = await tried(checks=checks)
    assert {each.said for each in report.results} == {"seen /invocations-bidirectional-stream"}
    first, second = (each.exchanges for each in report.results)
    assert [exchange.title for exchange in first] == ["observed once"]
    assert first == second
