"""How much bodies and answers may have on disk: all of them, one endpoint's, one sender's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from partway.gateway.asynchronous.limits import SPOOL_OF_BODIES, SPOOL_SHARE


class SpoolFull(Exception):
    """The spool has no room for more bytes; says what to do."""


@dataclass(frozen=True, slots=True)
class SpoolShare:
    """In whose share a file counts.

    Attributes:
        endpoint: the name of the request's endpoint.
        sender: who sent the request; empty for nobody's share.
        is_answer: whether it is no body.
    """

    endpoint: str
    sender: str
    is_answer: bool


class SpoolRoom:
    """Counts bytes, and refuses those that are too many.

    Args:
        quota: bytes of all files.
    """

    def __init__(self, quota: int) -> None:
        self._quota = quota
        self._used = 0
        self._of_answers = 0
        self._of_endpoints: Counter[str] = Counter()
        self._of_senders: Counter[str] = Counter()

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return self._used

    def check(self, share: SpoolShare, size: int) -> None:
        """Go on if there is room for more bytes.

        Raises:
            SpoolFull: there is none; the message says of what there is too much.
        """
        of_all, of_one = self._quota, int(self._quota * SPOOL_SHARE)
        of_answers = of_all - int(of_all * SPOOL_OF_BODIES)
        endpoint, sender = share.endpoint, share.sender
        limits = [
            ("bodies and answers of asynchronous requests", self._used, of_all),
            (f"those of endpoint {endpoint!r}", self._of_endpoints[endpoint], of_one),
        ]
        if sender:
            limits.append((f"those of {sender!r}", self._of_senders[sender], of_one))
        if share.is_answer:
            limits.append(("answers to asynchronous requests", self._of_answers, of_answers))
        for whose, used, most in limits:
            if used + size > most:
                part = "" if most == of_all else "a part of "
                raise SpoolFull(
                    f"{whose} have {used} bytes on disk, and {most} at most ({part}async_quota); "
                    "try again when some of them are done"
                )

    def count(self, share: SpoolShare, size: int) -> None:
        """Count more bytes, or less where it is negative."""
        self._used += size
        self._of_answers += size * share.is_answer
        for counter, key in (
            (self._of_endpoints, share.endpoint),
            (self._of_senders, share.sender),
        ):
            counter[key] += size
            if not counter[key]:
                del counter[key]
