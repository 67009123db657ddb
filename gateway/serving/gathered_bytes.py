"""The bytes of bodies that are held whole: one budget for all requests of the process."""

from __future__ import annotations

from typing import Final

from partway.protocol.errors import ServiceUnavailable


class GatheredBytes:
    """The budget.

    Args:
        most: bytes of all that is held at a time.
        share: of it, what one owner may have: one address, or one access key.

    Attributes:
        most: bytes of all that is held at a time.
        share: of it, what one owner may have.
        held: bytes that are held now.
        of_owners: of these, those of each who has some.
    """

    __slots__ = ("held", "most", "of_owners", "share")

    def __init__(self, most: int, share: int) -> None:
        self.most = most
        self.share = share
        self.held = 0
        self.of_owners: dict[str, int] = {}

    def holding(self, *owners: str) -> HeldBytes:
        """Open one request's part of the budget, which has nothing in it yet.

        Args:
            owners: whose it is, each of whom has a share; none for a trusted proxy's.
        """
        return HeldBytes(self, owners)


class HeldBytes:
    """What one request holds of the budget.

    Args:
        budget: None for a budget without end.
        owners: as of :meth:`GatheredBytes.holding`.

    Attributes:
        size: how many bytes it holds.
    """

    __slots__ = ("_budget", "_owners", "size")

    def __init__(self, budget: GatheredBytes | None, owners: tuple[str, ...] = ()) -> None:
        self._budget = budget
        self._owners = owners
        self.size = 0

    def also_of(self, owner: str) -> None:
        """Have what is drawn from here on counted as another owner's too.

        Raises:
            AssertionError: something has been drawn.
        """
        assert not self.size, "owners are known before the first byte is drawn"
        if self._budget is not None:
            self._owners = *self._owners, owner

    def draw(self, size: int) -> None:
        """Hold so many bytes more.

        Raises:
            ServiceUnavailable: the budget, or the share of one of the owners, has no room for them.
        """
        budget = self._budget
        if budget is None or not size:
            return
        held, of_owners = budget.held + size, budget.of_owners
        if held > budget.most:
            raise ServiceUnavailable(
                f"the bodies of requests hold the {budget.most} bytes that this gateway has for "
                "them (max_gathered_bytes); try again, or on another gateway"
            )
        for owner in self._owners:
            if of_owners.get(owner, 0) + size > budget.share:
                raise ServiceUnavailable(
                    f"the bodies of the requests of {owner} hold the {budget.share} bytes that one "
                    "may have, half of max_gathered_bytes; try again when one of them has ended"
                )
        budget.held = held
        for owner in self._owners:
            of_owners[owner] = of_owners.get(owner, 0) + size
        self.size += size

    def give_back(self) -> None:
        """Hold nothing any more; said again, it means nothing."""
        size, budget = self.size, self._budget
        if not size or budget is None:
            return
        self.size = 0
        budget.held -= size
        of_owners = budget.of_owners
        for owner in self._owners:
            if left := of_owners.pop(owner) - size:
                of_owners[owner] = left


#: What is drawn from where nothing is counted.
UNCOUNTED: Final = HeldBytes(None)
