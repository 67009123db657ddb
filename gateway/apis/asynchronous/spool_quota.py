"""Quotas of bodies and answers on disk: in all, by endpoint and by sender."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from partway.gateway.apis.asynchronous.limits import SPOOL_OF_BODIES, SPOOL_SHARE
from partway.gateway.quota import NOBODY, Quota, QuotaFull, QuotaLimits

#: The owner of all answers; its share leaves a part of the quota to bodies.
_ANSWERS: Final = "answers to asynchronous requests"


class SpoolFull(Exception):
    """The spool has no room for more bytes; the message gives the remedy."""


@dataclass(frozen=True, slots=True)
class SpoolShare:
    """The shares that a body or an answer counts in.

    Attributes:
        sender: the sender of the request; empty for none.
    """

    endpoint: str
    sender: str
    is_answer: bool


class SpoolQuota:
    """Counts bytes, and refuses bytes beyond a quota.

    Args:
        quota: the limit of all bytes.
    """

    def __init__(self, quota: int) -> None:
        of_answers = quota - int(quota * SPOOL_OF_BODIES)
        self._files = Quota(QuotaLimits(quota, int(quota * SPOOL_SHARE)))
        self._answers = Quota(QuotaLimits(quota, of_answers))

    @property
    def used(self) -> int:
        return self._files.used

    def check(self, share: SpoolShare, size: int) -> None:
        """Raise SpoolFull, which names the quota, if there is no room for more bytes."""
        try:
            for quota, owners in self._shares(share):
                quota.check(size, *owners)
        except QuotaFull as full:
            whose = full.owner or "bodies and answers of asynchronous requests"
            part = "a part of " if full.owner else ""
            raise SpoolFull(
                f"{whose} have {full.used} bytes on disk; they may have at most {full.most} "
                f"({part}async_quota); try again when some requests are done"
            ) from None

    def count(self, share: SpoolShare, size: int) -> None:
        """Count more bytes, or fewer if the size is negative."""
        for quota, owners in self._shares(share):
            quota.count(size, *owners)

    def _shares(self, share: SpoolShare) -> Iterator[tuple[Quota, tuple[str, ...]]]:
        """Yield the quotas that count the bytes, each with its owners as refusals name them."""
        sender = f"bodies and answers of {share.sender!r}" if share.sender else NOBODY
        yield self._files, (f"bodies and answers of endpoint {share.endpoint!r}", sender)
        if share.is_answer:
            yield self._answers, (_ANSWERS,)
