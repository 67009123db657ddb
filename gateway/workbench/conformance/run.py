"""The run of a container's checks, one after the other, and the result of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from partway.gateway.workbench.conformance.check import Check, Need
from partway.gateway.workbench.conformance.evidence import NotedExchange
from partway.gateway.workbench.conformance.probes import Probe
from partway.gateway.workbench.conformance.started_container import DEATH_TIMEOUT
from partway.gateway.workbench.conformance.subject import Subject
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried, Verdict

#: Seconds for a container that died in a check to be ready for the next check.
RESTART_TIMEOUT: Final = 60.0

#: Characters of a container's output in a report.
MAX_OUTPUT: Final = 2000


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one check.

    Attributes:
        said: the fault, or the reason why the check was not tried; empty for a pass.
        remedy: the advice; empty for a pass.
        exchanges: the bytes on the wire; kept only of a failure.
        output: the end of the container's output during the check.
    """

    check: Check
    verdict: Verdict
    seconds: float = 0.0
    said: str = ""
    remedy: str = ""
    exchanges: tuple[NotedExchange, ...] = ()
    output: str = ""


@dataclass(slots=True)
class Report:
    """The results of all checks of a run, in the order of trying."""

    results: list[Result] = field(default_factory=list)
    seconds: float = 0.0
    subject: str = ""
    probe: str = ""

    def count(self, verdict: Verdict, severity: Severity | None = None) -> int:
        """Count the checks of one verdict, and of one severity if ``severity`` is given."""
        return sum(
            each.verdict is verdict and severity in (None, each.check.severity)
            for each in self.results
        )

    @property
    def conformant(self) -> bool:
        """Whether every *must* that was tried is kept, and at least one was tried."""
        tried = self.count(Verdict.PASS, Severity.MUST)
        return bool(tried) and not self.count(Verdict.FAIL, Severity.MUST)

    @property
    def status(self) -> int:
        """The command's exit status: 0 if conformant, 1 if not."""
        return 0 if self.conformant else 1


class Run:
    """Checks against one container: all of them, or one by one.

    A caller that takes checks one by one must call :meth:`aclose` at the end. No check is tried
    twice.

    Args:
        checks: the checks, each after those that it requires.
        fast: whether long waits are cut short.
        only: ids of checks to try, with the checks that they require; None for all.
        on_result: called after each check.
        on_slow: called while the container starts slowly, with the seconds since the wait began and
            the reason.
    """

    def __init__(
        self,
        checks: Iterable[Check],
        probe: Probe,
        *,
        fast: bool = False,
        only: Collection[str] | None = None,
        on_result: Callable[[Result], object] = id,
        on_slow: Callable[[float, str], object] = lambda *_: None,
    ) -> None:
        self._checks = in_turn(chosen(list(checks), only), fast=fast)
        self._by_id = {check.id: check for check in self._checks}
        self._probe = probe
        self._fast = fast
        self._without = set() if probe.echo else {Need.ECHO}  # the needs that are not met
        self._on_result = on_result
        self._on_slow = on_slow
        self._results: dict[str, Result] = {}
        self._aside: dict[str, asyncio.Task[Result]] = {}
        # checks aside that may have failed because another check ended the container
        self._disturbed: set[str] = set()
        self._ended = False  # whether a check of the container's end has ended it

    @property
    def results(self) -> Mapping[str, Result]:
        """The results so far, by the checks' ids, in the order of trying."""
        return self._results

    async def run(self, subject: Subject) -> Report:
        """Try all checks; the container is left as the last check leaves it."""
        report = Report(probe=self._probe.name, subject=describe(subject))
        began = time.monotonic()
        try:
            for check in self._checks:
                report.results.append(await self.take(check, subject))
        finally:
            await self.aclose()
        report.seconds = time.monotonic() - began
        return report

    async def take(self, check: Check, subject: Subject) -> Result:
        """Try a check, after the checks that it requires.

        Checks may be taken in any order; the order of the run's checks is the fastest.
        """
        for required in check.requires:
            if required in self._by_id:
                await self.take(self._by_id[required], subject)
        if check.id in self._results:
            return self._results[check.id]
        self._begin_aside(subject)
        if check.id in self._aside:
            result = await self._from_aside(check, subject)
        else:
            if _may_end(check) and self._aside:
                await asyncio.wait(self._aside.values())
            elif self._ended and not _may_end(check):
                await self._start_again(subject)
            result = await self._try(check, subject)
        self._ended = self._ended or _may_end(check)
        self._results[check.id] = result
        self._on_result(result)
        return result

    async def aclose(self) -> None:
        """Cancel the checks that still run aside."""
        aside = list(self._aside.values())
        self._aside.clear()
        for task in aside:
            task.cancel()
        if aside:
            await asyncio.wait(aside)

    async def _from_aside(self, check: Check, subject: Subject) -> Result:
        """Take the result of a check aside, or try it again if the container died meanwhile."""
        result = await self._aside.pop(check.id)
        failed = result.verdict in (Verdict.FAIL, Verdict.NOTE)
        process = subject.process
        if process is not None and process.pid is None and not self._ended:
            await self._start_again(subject)
        elif not failed or check.id not in self._disturbed:
            return result
        return await self._try(check, subject)

    def _begin_aside(self, subject: Subject) -> None:
        """Begin the checks aside whose required checks have their results."""
        for check in self._checks:
            if (
                _waits_aside(check, self._fast)
                and check.id not in self._results
                and check.id not in self._aside
                and all(each in self._results for each in check.requires)
            ):
                trying = self._try(check, subject, aside=True)
                self._aside[check.id] = asyncio.create_task(trying, name=check.id)

    async def _start_again(self, subject: Subject) -> None:
        self._ended = False
        await subject.start_again(RESTART_TIMEOUT)
        ready = self._results.get("startup.ready")
        if ready is not None and ready.verdict is Verdict.PASS:  # else it may never be ready
            with suppress(Broken):  # the next check reports it
                await Trial(subject, self._probe).until_ready(RESTART_TIMEOUT)

    async def _try(self, check: Check, subject: Subject, *, aside: bool = False) -> Result:
        blocking = blocked_by(check, self._results)
        if blocking is not None:
            return Result(check, Verdict.BLOCKED, said=f"{blocking.check.id} did not pass")
        without = self._without | ({Need.PROCESS} if subject.process is None else set())
        missing = [need.value for need in check.needs & without]
        if missing:
            return Result(check, Verdict.SKIP, said=f"needs {missing[0]}")
        trial = Trial(subject, self._probe, self._fast, on_slow=self._on_slow)
        began = time.monotonic()
        broken = await attempted(check, check.body(trial))
        seconds = time.monotonic() - began
        if isinstance(broken, Untried):
            return Result(check, Verdict.SKIP, seconds, str(broken))
        if broken is not None:
            mark(trial.exchanges, broken.what)
        output = ""
        process = subject.process
        if process is not None and not _may_end(check):
            if broken is not None or trial.cut or not await process.accepts():
                await process.ended(DEATH_TIMEOUT)  # a late death would fail the next check
                output = process.output[-MAX_OUTPUT:]
            # a check aside leaves a death to the check in turn
            died = process.pid is None and not aside
            if died:
                ended = f"the container ended, with status {process.status}"
                broken = broken or Broken(ended, await process.death_remedy())
                mark(trial.exchanges, broken.what)
            if died or (check.wears and broken is not None):
                self._disturbed |= self._aside.keys()
                await self._start_again(subject)
        if broken is None:
            return Result(check, Verdict.PASS, seconds)
        return not_kept(check, broken, seconds, trial.exchanges, output)


async def attempted(
    check: Check, trying: Awaitable[None], more: float = 0.0
) -> Broken | Untried | None:
    """Try a check, for ``more`` seconds beyond its limit.

    Returns:
        The check's exception; None if its clause is kept.
    """
    try:
        async with asyncio.timeout(check.limit + more):
            await trying
    except (Broken, Untried) as raised:
        return raised
    except TimeoutError:
        return Broken(f"the check did not end within {check.limit:g} s")
    return None


def not_kept(
    check: Check,
    broken: Broken,
    seconds: float,
    exchanges: Iterable[NotedExchange],
    output: str = "",
) -> Result:
    verdict = Verdict.NOTE if check.severity is Severity.NOTE else Verdict.FAIL
    remedy = broken.remedy or check.remedy
    return Result(check, verdict, seconds, broken.what, remedy, tuple(exchanges), output)


def blocked_by(check: Check, results: Mapping[str, Result]) -> Result | None:
    """The failed check that blocks ``check``: one that it requires, directly or indirectly.

    A check that was skipped blocks nothing.
    """
    for required in check.requires:
        result = results.get(required)
        if result is not None and result.verdict in (Verdict.FAIL, Verdict.NOTE):
            return result
        if result is not None and result.verdict is Verdict.BLOCKED:
            return blocked_by(result.check, results)
    return None


def mark(exchanges: Sequence[NotedExchange], what: str) -> None:
    """Record the fault on the connection where the last event happened, unless one has it."""
    if exchanges and not any(each.failed for each in exchanges):
        max(exchanges, key=lambda each: each.latest).fail(what)


def in_turn(checks: Sequence[Check], *, fast: bool) -> list[Check]:
    """Order the checks: those aside late, and those of the container's end last."""
    ending = [check for check in checks if _may_end(check)]
    aside = [check for check in checks if _waits_aside(check, fast)]
    return [check for check in checks if check not in (*aside, *ending)] + aside + ending


def chosen(checks: Sequence[Check], only: Collection[str] | None) -> list[Check]:
    """Choose the checks to try, with all that they require; an area's name stands for its checks.

    Raises:
        ValueError: a check is named that does not exist.
    """
    if only is None:
        return list(checks)
    by_id = {check.id: check for check in checks}
    wanted: set[str] = set()
    for name in only:
        found = {check.id for check in checks if is_named(check, name)}
        if not found:
            raise ValueError(
                f"there is no check {name!r}; partway conform --matrix lists all checks"
            )
        wanted |= found
    queue = list(wanted)
    while queue:
        for required in by_id[queue.pop()].requires:
            if required not in wanted:
                wanted.add(required)
                queue.append(required)
    return [check for check in checks if check.id in wanted]


def is_named(check: Check, name: str) -> bool:
    """Whether a name is a check's id, or the name of the check's area."""
    return check.id == name or check.id.startswith(f"{name}.")


def describe(subject: Subject) -> str:
    """Name a container in a report: by its command and address."""
    process = subject.process
    where = f"http://{subject.address}{subject.target}"
    return f"{' '.join(process.command)}, at {where}" if process is not None else where


def _waits_aside(check: Check, fast: bool) -> bool:
    return check.aside and not fast


def _may_end(check: Check) -> bool:
    return check.id.startswith("shutdown.")
