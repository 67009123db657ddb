"""The quota of bytes in gathered bodies, for all requests of the process."""

from __future__ import annotations

from typing import Final

from partway.gateway.quota import NOBODY, Quota, QuotaFull
from partway.protocol.errors import ServiceUnavailable


class HeldBytes:
    """The bytes that one request holds.

    Args:
        quota: the quota of all requests; None for no limit.
        owners: the owners of the request, each of whom has a share; none for a trusted proxy's.
    """

    __slots__ = ("_owners", "_quota", "size")

    def __init__(self, quota: Quota | None, owners: tuple[str, ...] = ()) -> None:
        self._quota = quota
        self._owners = owners
        self.size = 0

    def also_of(self, owner: str) -> None:
        """Count the bytes that are drawn from here on for a further owner too.

        Raises:
            AssertionError: bytes have been drawn already.
        """
        assert not self.size, "owners are known before the first byte is drawn"
        self._owners = *self._owners, owner

    def draw(self, size: int) -> None:
        """Hold so many bytes more.

        Raises:
            ServiceUnavailable: the quota, or the share of one of the owners, has no room for them.
        """
        if self._quota is None or not size:
            return
        try:
            self._quota.take(size, *self._owners)
        except QuotaFull as full:
            raise _full(full) from None
        self.size += size

    def give_back(self) -> None:
        """Release all bytes; a second call has no effect."""
        if self._quota is not None and self.size:
            self._quota.give_back(self.size, *self._owners)
            self.size = 0


def _full(full: QuotaFull) -> ServiceUnavailable:
    if full.owner == NOBODY:
        return ServiceUnavailable(
            f"the bodies of requests hold the {full.most} bytes that this gateway has for them "
            "(max_gathered_bytes); try again, or on another gateway"
        )
    return ServiceUnavailable(
        f"the bodies of the requests of {full.owner} hold the {full.most} bytes that one sender "
        "may have, half of max_gathered_bytes; try again when one of them has ended"
    )


#: For requests without a quota.
UNCOUNTED: Final = HeldBytes(None)
