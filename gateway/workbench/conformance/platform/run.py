"""The run of a platform's checks, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.platform.check import body_of
from partway.gateway.workbench.conformance.platform.container import (
    ContainerStream,
    InstrumentedContainer,
)
from partway.gateway.workbench.conformance.platform.trial import Platform, PlatformTrial
from partway.gateway.workbench.conformance.run import (
    Report,
    Result,
    attempted,
    blocked_by,
    chosen,
    mark,
    not_kept,
)
from partway.gateway.workbench.conformance.verdict import Untried, Verdict


class PlatformRun:
    """All checks against one platform; its arguments and reports are those of a container's run.

    Args:
        fast: whether checks that take minutes are left out.
    """

    def __init__(
        self,
        checks: Iterable[Check],
        *,
        fast: bool = False,
        only: Collection[str] | None = None,
        on_result: Callable[[Result], object] = id,
    ) -> None:
        self._checks = chosen(list(checks), only)
        self._fast = fast
        self._on_result = on_result
        self._results: dict[str, Result] = {}
        self._kept: dict[str, ContainerStream] = {}

    async def run(self, platform: Platform, container: InstrumentedContainer) -> Report:
        """Try all checks; the container listens where the gateway's endpoint expects one."""
        subject = f"{platform.url}, endpoint {platform.endpoint}, container {container.address}"
        report = Report(subject=subject, probe="instruments")
        began = time.monotonic()
        for check in self._checks:
            result = await self._try(check, platform, container)
            self._results[check.id] = result
            report.results.append(result)
            self._on_result(result)
        report.seconds = time.monotonic() - began
        return report

    async def _try(
        self, check: Check, platform: Platform, container: InstrumentedContainer
    ) -> Result:
        blocking = blocked_by(check, self._results)
        if blocking is not None:
            return Result(check, Verdict.BLOCKED, said=f"{blocking.check.id} did not pass")
        container.forget()
        trial = PlatformTrial(platform, container, self._fast, self._kept)
        began = time.monotonic()
        more = platform.times.until_lost * 2
        broken = await attempted(check, body_of(check)(trial), more)
        seconds = time.monotonic() - began
        if isinstance(broken, Untried):
            return Result(check, Verdict.SKIP, seconds, str(broken))
        if broken is None:
            return Result(check, Verdict.PASS, seconds)
        mark(trial.exchanges, broken.what)
        return not_kept(check, broken, seconds, trial.exchanges)
