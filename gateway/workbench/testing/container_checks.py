"""A container's checks as pytest's tests: a file names a container, each check is a test."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, NoReturn

import pytest

from partway.gateway.plain_text import safe, safe_lines
from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.plan import AskedWrongly, Plan
from partway.gateway.workbench.conformance.report.text import failure
from partway.gateway.workbench.conformance.run import Result, Run, blocked_by, in_turn
from partway.gateway.workbench.conformance.subject import Subject
from partway.gateway.workbench.conformance.verdict import Severity, Verdict
from partway.gateway.workbench.testing.container_file import read_plan


class ConformanceFile(pytest.File):
    """A file that names the container to check.

    The container starts before the file's first test that runs, and ends after the last one.
    """

    _plan: Plan
    _trying: Trying | None = None

    #: Why the container cannot be started; empty unless a start has failed.
    unable = ""

    def collect(self) -> Iterable[pytest.Item]:
        try:
            self._plan = read_plan(self.path)
        except AskedWrongly as error:
            raise self.CollectError("\n".join(safe_lines(str(error)))) from error
        for check in in_turn(self._plan.checks, fast=self._plan.question.fast):
            yield ConformanceItem.from_parent(self, name=check.id, check=check)

    def setup(self) -> None:
        """Prepare the run, before the first of the file's tests that runs."""
        self._trying = Trying(self._plan, sorted(self._selected()))

    def teardown(self) -> None:
        """End the container, after the last of the file's tests or after Ctrl-C."""
        if self._trying is not None:
            self._trying.close()
        self._trying = None

    def result(self, check: Check) -> Result:
        """Try a check, after the checks that it requires, and return its result.

        Where the container cannot be started, the first test fails and says so.
        """
        assert self._trying is not None, "pytest sets collectors up before their tests"
        try:
            return self._trying.take(check)
        except AskedWrongly as error:
            self.unable = safe(str(error))
        pytest.fail(self.unable, pytrace=False)

    def blocking(self, check: Check) -> Result | None:
        """The failure that blocks a check, if no other test of this run reports it."""
        assert self._trying is not None, "pytest sets collectors up before their tests"
        blocking = blocked_by(check, self._trying.results)
        if blocking is None or blocking.check.id in self._selected():
            return None
        return blocking

    def _selected(self) -> set[str]:
        return {item.name for item in self.session.items if item.parent is self}


class ConformanceItem(pytest.Item):
    def __init__(self, *, check: Check, **others: Any) -> None:
        super().__init__(**others)
        self._check = check
        self.user_properties += [
            ("severity", check.severity.value),
            ("clauses", " ".join(check.clauses)),
        ]
        plugins = self.config.pluginmanager
        if plugins.hasplugin("xdist"):  # one container for all of them, with --dist loadgroup
            self.add_marker(pytest.mark.xdist_group(self.parent.nodeid if self.parent else ""))
        if plugins.hasplugin("timeout"):  # a check has a limit of its own, and some take a minute
            self.add_marker(pytest.mark.timeout(0))

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, f"{self.name}: {self._check.title}"

    def runtest(self) -> None:
        file = self.parent
        assert isinstance(file, ConformanceFile), "it is made by one"
        if file.unable:
            pytest.skip(f"blocked: {file.unable}")
        result = file.result(self._check)
        self.user_properties.append(("verdict", result.verdict.value))
        match result.verdict:
            case Verdict.FAIL if self._check.severity is Severity.MUST or self._strict:
                _fail(result)
            case Verdict.FAIL:
                self._remark(result)
                pytest.xfail(safe(f"{result.check.severity.value}: {result.said}"))
            case Verdict.NOTE:
                self._remark(result)
            case Verdict.BLOCKED:
                blocking = file.blocking(self._check)
                if blocking is not None:
                    _fail(blocking, f"blocked by {blocking.check.id}: ")
                pytest.skip(safe(f"blocked: {result.said}"))
            case Verdict.SKIP:
                pytest.skip(safe(result.said))

    @property
    def _strict(self) -> bool:
        """Whether an expected failure must fail like any other (pytest's ``--runxfail``)."""
        return bool(self.config.getoption("runxfail"))

    def _remark(self, result: Result) -> None:
        kind = self._check.severity.value
        text = safe(f"{kind}: {result.said}; remedy: {result.remedy}")
        self.add_report_section("call", "partway", text)


def _fail(result: Result, before: str = "") -> NoReturn:
    pytest.fail(before + "\n".join(failure(result)), pytrace=False)


class Trying:
    """A container under test, started at the first check and ended by :meth:`close`."""

    def __init__(self, plan: Plan, only: Sequence[str]) -> None:
        self._plan = plan
        self._run = Run(plan.checks, plan.probe, fast=plan.question.fast, only=only)
        # A loop of its own: the thread's event loop belongs to tests that use asyncio.
        self._loop = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._open = AsyncExitStack()
        self._subject: Subject | None = None
        self.results: dict[str, Result] = {}

    def take(self, check: Check) -> Result:
        """Try a check, and return its result.

        Raises:
            AskedWrongly: the container cannot be started, or the image cannot be read.
        """
        if self._plan.question.image is not None:
            if not self.results:
                report = self._plan.examined()
                self.results = {each.check.id: each for each in report.results}
            return self.results[check.id]
        result = self._loop.run(self._taken(check))  # Ctrl-C cancels the check, and is raised here
        self.results = dict(self._run.results)
        return result

    def close(self) -> None:
        try:
            self._loop.run(self._closed())
        finally:
            self._loop.close()

    async def _taken(self, check: Check) -> Result:
        if self._subject is None:
            self._subject = await self._open.enter_async_context(self._plan.subject())
        return await self._run.take(check, self._subject)

    async def _closed(self) -> None:
        try:
            await self._run.aclose()
        finally:
            await self._open.aclose()
