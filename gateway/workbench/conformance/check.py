"""Checks of a container: data, and one coroutine for each check."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Severity

#: The body of a check. It returns if the clause is kept, and raises :class:`Broken` if not.
Body = Callable[[Trial], Awaitable[None]]


class Need(enum.Enum):
    PROCESS = "the container's process: start it with --command"
    ECHO = "a model that echoes, and --probe echo"
    IMAGE = "an image archive: --image"


@dataclass(frozen=True, slots=True)
class Check:
    """One clause, or a part of one, as something that can be tried.

    Attributes:
        id: ``area.what``; reports and ``--only`` name the check by it.
        clauses: the clauses of the wire contract that the check claims.
        title: the rule, in one line.
        remedy: the advice after a failure, in one line.
        requires: ids of the checks that must pass before this check means anything.
        limit: seconds that the check may take.
        aside: whether the check runs beside the following checks, because it mostly waits.
        wears: whether a failure may leave the container unusable. A container that was started
            here is then started again for the following checks.
    """

    id: str
    clauses: tuple[str, ...]
    severity: Severity
    title: str
    remedy: str
    body: Body = field(repr=False)
    requires: tuple[str, ...] = ()
    needs: frozenset[Need] = frozenset()
    limit: float = 20.0
    aside: bool = False
    wears: bool = False


class Checks:
    """The checks of one area, in the order in which they are tried."""

    def __init__(self) -> None:
        self._checks: list[Check] = []

    def __iter__(self) -> Iterator[Check]:
        return iter(self._checks)

    def add(
        self,
        id: str,  # noqa: A002 (what a check calls it)
        *clauses: str,
        title: str,
        remedy: str,
        severity: Severity = Severity.MUST,
        requires: tuple[str, ...] = (),
        needs: tuple[Need, ...] = (),
        limit: float = 20.0,
        aside: bool = False,
        wears: bool = False,
    ) -> Callable[[Body], Body]:
        """Make a check of a coroutine function; the arguments are :class:`Check`'s."""

        def take(body: Body) -> Body:
            kept = (id, clauses, severity, title, remedy, body, requires, frozenset(needs))
            check = Check(*kept, limit, aside, wears)
            self._checks.append(check)
            return body

        return take
