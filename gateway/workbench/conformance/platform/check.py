"""What a check of a platform is: the same data as one of a container."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final, cast

from partway.gateway.workbench.conformance.check import Body, Check
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Severity

#: What a check does; it raises ``Broken`` if its clause is not kept.
PlatformBody = Callable[[PlatformTrial], Awaitable[None]]

#: Every check's id begins with it, so that reports and ``--only`` tell the two sides apart.
AREA: Final = "platform"


class PlatformChecks:
    """The checks of one area, in the order in which they are tried.

    Args:
        area: behind ``platform.``.
    """

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
        """Make a check of a coroutine function; the arguments are :class:`Check`'s.

        Args:
            name: of the check in its area.
            clauses: of the wire contract.
            title: what must be so.
            remedy: what to do when it is not.
            severity: what it means.
            requires: ``area.name`` of other checks.
            limit: seconds.
        """

        def take(body: PlatformBody) -> PlatformBody:
            self._checks.append(
                Check(
                    id=f"{AREA}.{self._area}.{name}",
                    clauses=clauses,
                    severity=severity,
                    title=title,
                    remedy=remedy,
                    body=cast("Body", body),  # it is PlatformRun alone that calls it
                    requires=tuple(f"{AREA}.{each}" for each in requires),
                    limit=limit,
                )
            )
            return body

        return take


def body_of(check: Check) -> PlatformBody:
    """A platform check's own body, as it was added."""
    return cast("PlatformBody", check.body)
