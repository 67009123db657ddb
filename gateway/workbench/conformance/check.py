"""What a check of a container is: data, and one coroutine."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Severity

#: What a check does. It returns if the clause is kept, and raises :class:`Broken` if not.
Body = Callable[[Trial], Awaitable[None]]


class Need(enum.Enum):
    """What must be at hand for a check to be tried."""

    PROCESS = "the container's process: start it with --command"
    ECHO = "a model that echoes, and --probe echo"
    IMAGE = "an image archive: --image"


@dataclass(frozen=True, slots=True)
class Check:
    """One clause, or a part of one, as something that can be tried.

    Attributes:
        id: ``area.what``; reports and ``--only`` name the check by it.
        clauses: of the wire contract, that the check claims.
        severity: what a failure of the check means.
        title: what must be so, in one line.
        remedy: what to do when it is not so, in one line.
        body: tries the check.
        requires: ids of the checks that must pass for this one to say anything.
        needs: what must be at hand.
        limit: seconds that the check may take.
        aside: whether the check is tried beside those that follow: it waits, and does little else.
        wears: whether a container that fails the check may be of no use any more, so that one that
            was started here is started again for those that follow.
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
