"""The requests under way: their limit, and how they end at the gateway's stop."""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from typing import Final

from partway.gateway.containers.limits import REQUEST_END_TIMEOUT
from partway.gateway.quota import NOBODY, LiveGateways, NamedCounts, Quota, QuotaFull, QuotaLimits
from partway.gateway.timing.clock import Clock, LoopClock
from partway.gateway.timing.deadlines import first_of, set_or_over
from partway.log_lines import LogLine
from partway.protocol.errors import ServiceUnavailable

log = logging.getLogger("partway.gateway")

#: Cached names of senders: each request looks up its own.
_REMEMBERED_SENDERS: Final = 1024


class RequestsUnderWay:
    """Admission of requests, and their drain.

    Args:
        most: requests under way at once.
        per_principal: requests of one principal under way at once; of one address without
            authentication.
        counts: shared with other processes, whose requests count too.
        gateways: those among which a principal's share is divided; None for this one alone.

    Attributes:
        draining: whether requests are refused from now on.
    """

    def __init__(
        self,
        most: int,
        per_principal: int,
        clock: Clock | None = None,
        counts: NamedCounts | None = None,
        gateways: LiveGateways | None = None,
    ) -> None:
        self.draining = False
        self._quota = Quota(QuotaLimits(most, per_principal), counts, "requests", gateways)
        self._clock = clock or LoopClock()
        self._tasks: set[asyncio.Task[object]] = set()
        self._ending = False
        self._idle = asyncio.Event()  # during the drain
        self._hastened = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tasks)

    def admit(
        self, task: asyncio.Task[object], principal: str | None = None, peer: str = ""
    ) -> str:
        """Admit a request, which is under way until :meth:`ended`.

        Args:
            task: the running one, which answers it.
            principal: its sender; None without authentication.
            peer: its address, which counts without authentication; empty for a trusted proxy's.

        Returns:
            The owner of the request's share; ``NOBODY`` for a sender without one.

        Raises:
            ServiceUnavailable: the gateway is full, or draining, or the sender has its share.
        """
        if self.draining:
            raise _draining()
        sender = _sender(principal, peer)
        try:
            self._quota.take(1, sender)
        except QuotaFull as full:
            raise _full(full) from None
        self._tasks.add(task)
        return sender

    def ended(self, task: asyncio.Task[object], sender: str, error: BaseException | None) -> None:
        """Note that a request has ended.

        ``sender`` is the return value of :meth:`admit`.

        Raises:
            ServiceUnavailable: the drain alone has broken it off.
        """
        self._tasks.discard(task)
        self._quota.give_back(1, sender)
        if self.draining and not self._tasks:
            self._idle.set()
        if self._ending and isinstance(error, asyncio.CancelledError) and not task.uncancel():
            raise _draining() from None  # else the client has left as well

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self._hastened.set()

    async def drain(self, grace: float) -> None:
        """Refuse new requests; return once none is under way, or those broken off do not end.

        Args:
            grace: seconds for requests to end by themselves. The rest are broken off then, and have
                REQUEST_END_TIMEOUT to end.
        """
        self.draining = True
        if not self._tasks:
            self._idle.set()
        timer = self._clock.call_later(grace, self._hastened.set)
        try:
            await first_of(self._idle, self._hastened)
        finally:
            timer.cancel()
        self._ending = True
        for task in self._tasks:
            task.cancel()
        await set_or_over(self._idle, self._clock, REQUEST_END_TIMEOUT)
        if self._tasks:
            line = "requests to containers did not end after they were broken off"
            log.error(LogLine(line, requests=len(self._tasks)))


@lru_cache(maxsize=_REMEMBERED_SENDERS)
def _sender(principal: str | None, peer: str) -> str:
    """Return the owner of a share of the requests under way, as refusals name it."""
    if principal is not None:
        return repr(principal)
    return f"address {peer}" if peer else NOBODY


def _full(full: QuotaFull) -> ServiceUnavailable:
    if full.owner == NOBODY:
        return ServiceUnavailable(
            f"{full.most} requests are under way, as many as this gateway takes (max_requests)"
        )
    return ServiceUnavailable(
        f"{full.owner} has {full.most} requests under way, as many as one principal may have, or "
        "one address without authentication (max_requests_per_principal); try again when one of "
        "them has ended"
    )


def _draining() -> ServiceUnavailable:
    return ServiceUnavailable("the gateway is draining; another one may take the request")
