"""Quotas: a total that owners share, of which none may have all, and a fair line for claims."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

#: The owner that has no share of its own and may use the whole quota.
NOBODY: Final = ""

#: The length of a line that something else bounds, such as the number of connections.
ANY_NUMBER: Final = sys.maxsize


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """The limits of a quota, in its own unit: bytes, files, threads.

    Attributes:
        total: the limit for all owners together.
        of_one: the limit for each owner.
        waiting: waiting claims of all owners together; 0 if no claim may wait.
        waiting_of_one: waiting claims of one owner.
    """

    total: int
    of_one: int
    waiting: int = 0
    waiting_of_one: int = 0


class NamedCounts(Protocol):
    """Counts by name, which several processes of a gateway share."""

    def add(self, name: str, number: int) -> None:
        """Change this process's count."""

    def others(self, name: str) -> int:
        """Return the sum of all other processes' counts."""

    def total(self, name: str) -> int:
        """Return the sum of all processes' counts."""


class LiveGateways:
    """The gateways of a cluster that serve now: each admits its part of an owner's share.

    Attributes:
        number: how many there are, this one included.
        on_change: called when the number has changed.
    """

    def __init__(self) -> None:
        self.number = 1
        self.on_change: Callable[[], object] = lambda: None

    def count(self, number: int) -> None:
        """Take note of their number; 0 says nothing, since this gateway is there."""
        if number not in (0, self.number):
            self.number = number
            self.on_change()

    def part_of(self, share: int) -> int:
        """Return this gateway's part of a share, rounded up, so that it is never 0."""
        return -(-share // self.number)


class QuotaFull(Exception):
    """A claim is refused. The caller words the error for its own clients.

    Attributes:
        owner: the owner whose limit is reached; empty for the limit of all owners together.
        used: how much is used of that limit.
        in_line: whether the limit is the length of the line.
    """

    def __init__(self, owner: str, used: int, most: int, *, in_line: bool) -> None:
        super().__init__(
            f"{repr(owner) if owner else 'all owners'}: {used} of {most} "
            f"{'places in line' if in_line else 'units'} are used"
        )
        self.owner = owner
        self.used = used
        self.most = most
        self.in_line = in_line


class _Claim(NamedTuple):
    """A claim that waits.

    Attributes:
        granted: gets its result when the claim is granted.
    """

    size: int
    granted: asyncio.Future[None]


class Quota:
    """Counts the use of owners, refuses excess, and grants claims in turn.

    1. The total bounds all owners together, and its share bounds each owner.
    2. Waiting claims are granted in turn: one of each owner, and the oldest of an owner first.
    3. A claim that must wait for its owner's share lets other owners pass.
    4. A claim that must wait for the total lets none pass: small claims never starve a large one.
    5. :meth:`take` does not wait and ignores the line.
    6. A claim without a wait may count in several shares, such as an address's and a key's.

    It belongs to one event loop: no other thread may call it.

    Args:
        counts: shared with the same quota of other processes; None for a quota of one process. No
            claim may wait in a shared quota.
        name: the quota's name among these counts.
        gateways: those among which the share of each owner is divided; None for this one alone.
    """

    def __init__(
        self,
        limits: QuotaLimits,
        counts: NamedCounts | None = None,
        name: str = "",
        gateways: LiveGateways | None = None,
    ) -> None:
        self._limits = limits
        self._gateways = gateways
        self._counts = counts
        self._name = name
        self._used = 0
        self._of_owners: dict[str, int] = {}
        self._waiting = 0
        #: Claims by owner, in the order of the owners' turns; no line is empty.
        self._lines: dict[str, deque[_Claim]] = {}

    @property
    def most_of_one(self) -> int:
        """How much one owner may use now; a subclass may compute it from the use."""
        of_one = self._limits.of_one
        return of_one if self._gateways is None else self._gateways.part_of(of_one)

    @property
    def used(self) -> int:
        return self._used

    @property
    def waiting(self) -> int:
        return self._waiting

    def used_by(self, owner: str) -> int:
        return self._of_owners.get(owner, 0)

    def take(self, size: int, *owners: str) -> None:
        """Use more, at once.

        Args:
            owners: the owners whose shares it counts in, each at most once; :data:`NOBODY` has
                none.

        Raises:
            QuotaFull: there is not as much left.
        """
        total, of_one, of_owners = self._limits.total, self.most_of_one, self._of_owners
        shares = self._counts is not None
        used = self._used + (self._of_others(NOBODY) if shares else 0)
        if used + size > total:
            raise QuotaFull(NOBODY, used, total, in_line=False)
        for owner in owners:
            used = of_owners.get(owner, 0) + (self._of_others(owner) if shares else 0)
            if used + size > of_one and owner != NOBODY:
                raise QuotaFull(owner, used, of_one, in_line=False)
        self._count(size, owners)

    def check(self, size: int, *owners: str) -> None:
        """Raise the error that :meth:`take` would raise, and use nothing.

        Raises:
            QuotaFull: there is not as much left.
        """
        self.take(size, *owners)
        self._count(-size, owners)

    def count(self, size: int, *owners: str) -> None:
        """Use more without a check: :meth:`check` was called, or the use exists already."""
        self._count(size, owners)

    def give_back(self, size: int, *owners: str) -> None:
        """Use less again, and grant the claims that this makes room for."""
        self._count(-size, owners)
        if self._lines:
            self._grant()

    async def claim(self, size: int, owner: str) -> None:
        """Use more as soon as it is this claim's turn; a claim that is cancelled uses nothing.

        Args:
            owner: the owner whose share it counts in.

        Raises:
            QuotaFull: the line is full, or the size is over a limit even when nothing is used.
        """
        Quota(self._limits).check(size, owner)  # one over these limits has no turn
        claim = _Claim(size, asyncio.get_running_loop().create_future())
        self._stand_in_line(owner, claim)
        try:
            await claim.granted
        except asyncio.CancelledError:
            if claim.granted.cancelled():
                with suppress(KeyError, ValueError):  # its turn may have come meanwhile
                    self._leave_line(owner, claim)
            else:
                self._count(-size, (owner,))
            self._grant()
            raise

    # --- Limits ----------------------------------------------------------------------------------

    def _count(self, size: int, owners: tuple[str, ...]) -> None:
        self._used += size
        of_owners = self._of_owners
        for owner in owners:
            if left := of_owners.pop(owner, 0) + size:
                of_owners[owner] = left
        if self._counts is not None:
            for owner in {NOBODY, *owners}:
                self._counts.add(f"{self._name} {owner}", size)

    def _of_others(self, owner: str) -> int:
        assert self._counts is not None, "it is shared"
        return self._counts.others(f"{self._name} {owner}")

    # --- The line --------------------------------------------------------------------------------

    def _stand_in_line(self, owner: str, claim: _Claim) -> None:
        """Put a claim at the end of its owner's line; a first claim with room is granted at once.

        Raises:
            QuotaFull: the claim would have to wait, and the line is full.
        """
        line = self._lines.setdefault(owner, deque())
        line.append(claim)
        self._waiting += 1
        self._grant()
        if claim.granted.done():
            return
        of_owner, limits = len(line), self._limits
        full = None
        if self._waiting > limits.waiting:
            full = QuotaFull(NOBODY, self._waiting - 1, limits.waiting, in_line=True)
        elif owner != NOBODY and of_owner > limits.waiting_of_one:
            full = QuotaFull(owner, of_owner - 1, limits.waiting_of_one, in_line=True)
        if full is not None:
            self._leave_line(owner, claim)
            raise full

    def _leave_line(self, owner: str, claim: _Claim) -> None:
        line = self._lines[owner]
        line.remove(claim)
        self._waiting -= 1
        if not line:
            del self._lines[owner]

    def _grant(self) -> None:
        """Grant claims until the next one in turn has no room."""
        while self._used < self._limits.total and (owner := self._next()) is not None:
            line = self._lines.pop(owner)
            claim = line.popleft()
            if line:
                self._lines[owner] = line  # after all other owners
            self._waiting -= 1
            if not claim.granted.cancelled():
                self._count(claim.size, (owner,))
                claim.granted.set_result(None)

    def _next(self) -> str | None:
        """Return the owner whose oldest claim may be granted now."""
        total, of_one = self._limits.total, self.most_of_one
        for owner, line in self._lines.items():
            size = line[0].size
            if owner == NOBODY or self.used_by(owner) + size <= of_one:
                return owner if self._used + size <= total else None
        return None
