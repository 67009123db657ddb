"""The queue of asynchronous requests: waiting and running requests, quotas and fair order."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from partway.gateway.apis.asynchronous.limits import AT_ONCE, AT_ONCE_OF_ONE, FIRST_AT_ONCE
from partway.gateway.apis.asynchronous.requests import AsyncRequest
from partway.gateway.quota import NOBODY, Quota, QuotaFull, QuotaLimits
from partway.protocol.errors import ServiceUnavailable


@dataclass(frozen=True, slots=True)
class WaitingLimits:
    """The limits of requests that have not ended.

    Attributes:
        most: requests of all endpoints.
        of_one: requests of one endpoint, and of one sender.
    """

    most: int
    of_one: int

    @property
    def of_one_at_one(self) -> int:
        """Requests of one sender at one endpoint, so that the sender cannot block the others."""
        return (self.of_one + 1) // 2


class WaitingRequests:
    """Requests from their acceptance to their end.

    Endpoints take turns, and the senders of an endpoint take turns. The oldest request of a sender
    is first.

    A request takes a place before it is stored, and frees the place once its end is stored.
    """

    def __init__(self, limits: WaitingLimits) -> None:
        self._of_endpoints = Quota(QuotaLimits(limits.most, limits.of_one))
        self._of_senders = Quota(QuotaLimits(limits.most, limits.of_one))
        self._of_both = Quota(QuotaLimits(limits.most, limits.of_one_at_one))
        #: Queues by endpoint and sender, in the order of their turns; no queue is empty.
        self._ready: dict[str, dict[str, deque[AsyncRequest]]] = {}
        self._later: list[tuple[float, int, AsyncRequest]] = []
        self._number = count()
        self._waiting: dict[str, AsyncRequest] = {}

    def __len__(self) -> int:
        """Return the number of waiting requests, including those that wait for a retry."""
        return len(self._waiting)

    @property
    def places(self) -> int:
        """Return the number of requests that have not ended."""
        return self._of_endpoints.used

    def take_place(self, endpoint: str, sender: str) -> None:
        """Take a place for a new request, or raise ServiceUnavailable at a limit."""
        for quota, owner, limit in self._shares(endpoint, sender):
            try:
                quota.check(1, owner)
            except QuotaFull as full:
                raise _full(full, limit) from None
        self.found(endpoint, sender)

    def found(self, endpoint: str, sender: str) -> None:
        """Take a place for a request that an earlier gateway accepted, regardless of limits."""
        for quota, owner, _ in self._shares(endpoint, sender):
            quota.count(1, owner)

    def leave_place(self, endpoint: str, sender: str) -> None:
        for quota, owner, _ in self._shares(endpoint, sender):
            quota.give_back(1, owner)

    def _shares(self, endpoint: str, sender: str) -> Iterator[tuple[Quota, str, str]]:
        """Yield the quotas that count a request, each with its owner and the words of refusals."""
        at, of = f"endpoint {endpoint!r}", repr(sender) if sender else NOBODY
        both = f"{of} at {at}" if sender else NOBODY
        address = "or one address without authentication"
        yield self._of_endpoints, at, "one endpoint may have"
        yield self._of_senders, of, f"one principal may have, {address}"
        yield self._of_both, both, f"one principal may have at one endpoint, {address}"

    def add(self, request: AsyncRequest) -> None:
        self._waiting[request.id] = request
        self._line_of(request).append(request)

    def add_later(self, request: AsyncRequest, moment: float) -> None:
        """Queue a request from a moment on, ahead of the sender's later requests."""
        self._waiting[request.id] = request
        heapq.heappush(self._later, (moment, next(self._number), request))

    def next(
        self,
        now: float,
        may_have: Callable[[str], bool],
        may_send: Callable[[str, str], bool],
    ) -> AsyncRequest | None:
        """Take the next request out of the queue; None if none may begin.

        Args:
            may_have: whether an endpoint may begin one more request now.
            may_send: whether such an endpoint may begin a request of this sender.
        """
        while self._later and self._later[0][0] <= now:
            request = heapq.heappop(self._later)[2]
            if request.id in self._waiting:
                self._line_of(request).appendleft(request)
        for endpoint, lines in self._ready.items():
            if may_have(endpoint):
                for sender in lines:
                    if may_send(endpoint, sender):
                        return self._taken(endpoint, sender)
        return None

    def _line_of(self, request: AsyncRequest) -> deque[AsyncRequest]:
        return self._ready.setdefault(request.endpoint, {}).setdefault(request.sender, deque())

    def _taken(self, endpoint: str, sender: str) -> AsyncRequest:
        """Take a sender's first request; endpoint and sender go to the end of the order."""
        lines = self._ready.pop(endpoint)
        line = lines.pop(sender)
        request = line.popleft()
        if line:
            lines[sender] = line
        if lines:
            self._ready[endpoint] = lines
        del self._waiting[request.id]
        return request

    def taken_out(self, which: Callable[[AsyncRequest], bool]) -> list[AsyncRequest]:
        found = [request for request in self._waiting.values() if which(request)]
        for request in found:
            del self._waiting[request.id]
        if found:
            ready = [each for of in self._ready.values() for line in of.values() for each in line]
            self._ready = {}
            for request in ready:
                if request.id in self._waiting:
                    self._line_of(request).append(request)
        return found

    @property
    def endpoints(self) -> Iterable[str]:
        return {request.endpoint for request in self._waiting.values()}


class RunningRequests:
    """Counts running requests by endpoint and by sender.

    A container may be silent for the whole time of a try, and its sender may have many requests. So
    no endpoint and no sender can take all slots, and a sender without a running request finds one.
    """

    def __init__(self) -> None:
        self._total = 0
        self._of_endpoints: Counter[str] = Counter()
        self._of_senders: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self._total

    def begin(self, endpoint: str, sender: str) -> None:
        self._total += 1
        self._of_endpoints[endpoint] += 1
        self._of_senders[sender] += 1

    def end(self, endpoint: str, sender: str) -> None:
        self._total -= 1
        for counter, key in ((self._of_endpoints, endpoint), (self._of_senders, sender)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def may_have_one_more(self, endpoint: str, most: int) -> bool:
        """Whether an endpoint may begin one more request.

        Args:
            most: the number of requests that its instances take at a time.
        """
        of_all, of_it = AT_ONCE + FIRST_AT_ONCE, min(AT_ONCE_OF_ONE, most)
        return self._total < of_all and self._of_endpoints[endpoint] < of_it

    def may_send_one_more(self, endpoint: str, sender: str) -> bool:
        """Whether a sender may begin a request at an endpoint that may begin one.

        Args:
            sender: the name of the sender; empty if senders have no names.
        """
        of_sender = self._of_senders[sender] if sender else 0
        if self._total < AT_ONCE:
            return of_sender < AT_ONCE_OF_ONE
        return not (of_sender if sender else self._of_endpoints[endpoint])


def _full(full: QuotaFull, limit: str) -> ServiceUnavailable:
    whose = f" of {full.owner}"
    if full.owner == NOBODY:
        whose, limit = "", "this gateway takes (max_async_requests)"
    return ServiceUnavailable(
        f"{full.most} requests{whose} wait for their answers, as many as {limit}; try again when "
        "some are done"
    )
