"""The requests that wait and those that are worked on: how many, of whom, and whose turn it is."""

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
    """How many requests there may be that have not come to their end.

    Attributes:
        most: of all.
        of_one: of one endpoint, and of one sender.
    """

    most: int
    of_one: int

    @property
    def of_one_at_one(self) -> int:
        """Of one sender at one endpoint: who may invoke an endpoint must not close it to others."""
        return (self.of_one + 1) // 2


class WaitingRequests:
    """Requests from their coming to their end.

    Endpoints take turns, of one endpoint its senders do, and of one sender the first goes.

    A request takes a place before it is written down, and leaves it once its end is.

    Args:
        limits: how many there may be.
    """

    def __init__(self, limits: WaitingLimits) -> None:
        self._of_endpoints = Quota(QuotaLimits(limits.most, limits.of_one))
        self._of_senders = Quota(QuotaLimits(limits.most, limits.of_one))
        self._of_both = Quota(QuotaLimits(limits.most, limits.of_one_at_one))
        #: By endpoint and sender, both in the order in which their turns come; none is empty.
        self._ready: dict[str, dict[str, deque[AsyncRequest]]] = {}
        self._later: list[tuple[float, int, AsyncRequest]] = []
        self._number = count()
        self._waiting: dict[str, AsyncRequest] = {}

    def __len__(self) -> int:
        """How many wait, those for a further try too."""
        return len(self._waiting)

    @property
    def places(self) -> int:
        """How many have not come to their end."""
        return self._of_endpoints.used

    def take_place(self, endpoint: str, sender: str) -> None:
        """Have a place for one more.

        Raises:
            ServiceUnavailable: there are as many as there may be.
        """
        for quota, owner, limit in self._shares(endpoint, sender):
            try:
                quota.check(1, owner)
            except QuotaFull as full:
                raise _full(full, limit) from None
        self.found(endpoint, sender)

    def found(self, endpoint: str, sender: str) -> None:
        """Have a place for one that another gateway has taken already."""
        for quota, owner, _ in self._shares(endpoint, sender):
            quota.count(1, owner)

    def leave_place(self, endpoint: str, sender: str) -> None:
        """Let another one have the place."""
        for quota, owner, _ in self._shares(endpoint, sender):
            quota.give_back(1, owner)

    def _shares(self, endpoint: str, sender: str) -> Iterator[tuple[Quota, str, str]]:
        """The quotas in which a request counts, each with its owner and the words of refusals."""
        at, of = f"endpoint {endpoint!r}", repr(sender) if sender else NOBODY
        both = f"{of} of {at}" if sender else NOBODY
        address = "or one address where nobody is asked who they are"
        yield self._of_endpoints, at, "one endpoint may have"
        yield self._of_senders, of, f"one principal may have, {address}"
        yield self._of_both, both, f"one principal may have at one endpoint, {address}"

    def add(self, request: AsyncRequest) -> None:
        """Have a request wait for its turn."""
        self._waiting[request.id] = request
        self._line_of(request).append(request)

    def add_later(self, request: AsyncRequest, moment: float) -> None:
        """Have a request wait for its turn from a moment on, ahead of those that came behind it."""
        self._waiting[request.id] = request
        heapq.heappush(self._later, (moment, next(self._number), request))

    def next(
        self,
        now: float,
        may_have: Callable[[str], bool],
        may_send: Callable[[str, str], bool],
    ) -> AsyncRequest | None:
        """Take the request whose turn it is.

        Args:
            now: the moment.
            may_have: whether an endpoint may have one more now.
            may_send: whether such an endpoint may have it of a sender.
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
        """Take a sender's first, and have both go behind all others if they have more."""
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
        """Take out all requests of a kind, which wait no more."""
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
        """The endpoints that have requests waiting."""
        return {request.endpoint for request in self._waiting.values()}


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


def _full(full: QuotaFull, limit: str) -> ServiceUnavailable:
    whose = f" of {full.owner}"
    if full.owner == NOBODY:
        whose, limit = "", "this gateway takes (max_async_requests)"
    return ServiceUnavailable(
        f"{full.most} requests{whose} wait for their answers, as many as {limit}; try again when "
        "some are done"
    )
