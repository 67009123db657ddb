"""The requests that are worked on: how many there may be, of whom, and at which endpoint."""

from __future__ import annotations

from collections import Counter

from partway.gateway.apis.asynchronous.limits import AT_ONCE, AT_ONCE_OF_ONE, FIRST_AT_ONCE


class RunningRequests:
    """Counts requests that are worked on, by endpoint and by sender.

    A container may be silent for as long as a try may take, and its sender have many: so neither
    an endpoint nor a sender has all places, and who has none finds one free.
    """

    def __init__(self) -> None:
        self._total = 0
        self._of_endpoints: Counter[str] = Counter()
        self._of_senders: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """How many there are."""
        return self._total

    def begin(self, endpoint: str, sender: str) -> None:
        """Count one more."""
        self._total += 1
        self._of_endpoints[endpoint] += 1
        self._of_senders[sender] += 1

    def end(self, endpoint: str, sender: str) -> None:
        """Count one less."""
        self._total -= 1
        for counter, key in ((self._of_endpoints, endpoint), (self._of_senders, sender)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def may_have_one_more(self, endpoint: str, most: int) -> bool:
        """Whether an endpoint may have one more.

        Args:
            endpoint: its name.
            most: how many its instances have at a time.
        """
        of_all, of_it = AT_ONCE + FIRST_AT_ONCE, min(AT_ONCE_OF_ONE, most)
        return self._total < of_all and self._of_endpoints[endpoint] < of_it

    def may_send_one_more(self, endpoint: str, sender: str) -> bool:
        """Whether a sender may have one more at an endpoint that may have one.

        Args:
            endpoint: its name.
            sender: whose share it counts in; empty for nobody's.
        """
        of_sender = self._of_senders[sender] if sender else 0
        if self._total < AT_ONCE:
            return of_sender < AT_ONCE_OF_ONE
        return not (of_sender if sender else self._of_endpoints[endpoint])
