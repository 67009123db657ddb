"""All checks on a container that is started for them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from partway.gateway.workbench.conformance.checks import ALL
from partway.gateway.workbench.conformance.probes import BUILT_IN
from partway.gateway.workbench.conformance.run import Report, Run
from partway.gateway.workbench.conformance.subject import Launched, Subject
from partway.gateway.workbench.conformance.verdict import Verdict
from tests.conftest import ROOT


async def tried(
    command: tuple[str, ...],
    environment: Mapping[str, str] | None = None,
    *,
    fast: bool = True,
    only: Collection[str] | None = None,
) -> Report:
    """What the checks say of a container that echoes; how it ended is printed.

    Args:
        command: that starts it in the repository's folder as an ENTRYPOINT, without ``serve``.
        environment: further variables.
        fast: whether long waits are cut short.
        only: ids of checks to try, with what they require; all by default.
    """
    process = Launched((*command, "serve"), environment, cwd=ROOT)
    try:
        address = await process.start()
        run = Run(ALL, BUILT_IN["echo"], fast=fast, only=only)
        return await run.run(Subject(address, process=process))
    finally:
        status = process.status
        await process.aclose()
        print(f"the container's status was {status}, and it printed:\n{process.output}")


#: Seconds for a fast run of a container that is quick, on a machine that has nothing else to do.
FAST = 25.0


async def is_fast(
    report: Report, command: tuple[str, ...], environment: Mapping[str, str] | None = None
) -> bool:
    """Whether a run was as short as it must be, or else another one is: a machine may be busy."""
    if report.seconds < FAST:
        return True
    again = await tried(command, environment)
    share = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # of the time is spent elsewhere
    return again.seconds < FAST * share


def failed(report: Report) -> dict[str, str]:
    """What has failed, by the checks' ids, and what was said of it; notes count too."""
    wrong = (Verdict.FAIL, Verdict.NOTE)
    return {each.check.id: each.said for each in report.results if each.verdict in wrong}
