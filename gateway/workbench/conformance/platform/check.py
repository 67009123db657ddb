"""Checks of a platform: the same data as checks of a container, with another trial."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, cast

from partway.gateway.workbench.conformance.check import Body, Check
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Severity

#: The body of a check: a coroutine that raises ``Broken`` if the clause is not kept.
PlatformBody = Callable[[PlatformTrial], Awaitable[None]]

#: The first part of every platform check's id, which tells both sides apart in reports and
#: ``--only``.
AREA: Final = "platform"


class PlatformChecks:
    """The checks of one area, in the order of trying; ids name the area behind ``platform.``."""

    def __init__(self, area: str) -> None:
        self._area = area
        self._checks: list[Check] = []

    def __iter__(self) -> Iterator[Check]:
        return iter(self._checks)

    def add(
        self,
        name: str,
        *clauses: str,
        title: str,
        remedy: str,
        severity: Severity = Severity.MUST,
        requires: tuple[str, ...] = ("upgrade.asked",),
        limit: float = 30.0,
    ) -> Callable[[PlatformBody], PlatformBody]:
        """Make a check as :class:`Check` says; ``requires`` has names of the form ``area.name``."""

        def take(body: PlatformBody) -> PlatformBody:
            self._checks.append(
                Check(
                    id=f"{AREA}.{self._area}.{name}",
                    clauses=clauses,
                    severity=severity,
                    title=title,
                    remedy=remedy,
                    body=cast("Body", body),  # only PlatformRun calls it
                    requires=tuple(f"{AREA}.{each}" for each in requires),
                    limit=limit,
                )
            )
            return body

        return take


def body_of(check: Check) -> PlatformBody:
    return cast("PlatformBody", check.body)
