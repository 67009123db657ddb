"""One request that an instance is asked with, and its answer back.

An operation brings headers and a body, and gets a container's answer of 2xx; everything else has
become the error that its clients know (clause 4-5).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from partway.gateway.access.authentication import Identity
from partway.gateway.arns import Arns
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.connections import ContainerConnections, ContainerExchange
from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.containers.container_requests import (
    ContainerRequest,
    Destination,
    header_lines,
)
from partway.gateway.containers.limits import REFUSAL_BODY_TIMEOUT, WHOLE_CHUNK_BYTES
from partway.gateway.containers.metrics import RequestMetrics
from partway.gateway.containers.under_way import RequestsUnderWay
from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.output.log_names import AskedNow, name_its_log
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.routing.sticky_sessions import StickySession
from partway.gateway.http.content_codings import decoded_beginning
from partway.gateway.http.peers import peer_of
from partway.gateway.operations.asking import AdmittedAlready, Asking
from partway.gateway.operations.container_failures import (
    in_the_clients_words,
    model_error,
    stopped,
    too_long,
)
from partway.gateway.operations.containers_asked import containers_asked
from partway.gateway.operations.invocation_headers import handed_back
from partway.gateway.operations.invocation_target import TARGET_CONTAINER
from partway.gateway.operations.serial_containers import first_headers, handed_on, next_headers
from partway.gateway.timing.deadlines import RunningTask, TimeLimit
from partway.protocol.errors import (
    ApiError,
    ContainerError,
    ContainerUnreachable,
    UnknownEndpoint,
)
from partway.protocol.http.content_codings import CONTENT_ENCODING
from partway.protocol.limits import KIB, MAX_PART_BYTES, REFUSAL_BODY_BYTES

#: Tells a container which request it is.
REQUEST_ID: Final = "X-Amzn-SageMaker-Request-Id"

_RETRY_AFTER: Final = {"Retry-After": "Retry-After"}

#: An unsigned body that is stated to be no longer than this goes along in one piece.
_AT_ONCE: Final = 64 * KIB


@dataclass(slots=True, eq=False)
class MeansOfAsking:
    """What all instances are asked with; see :class:`.Invocations`."""

    router: Router
    connections: ContainerConnections
    under_way: RequestsUnderWay
    metrics: RequestMetrics
    arns: Arns
    running: RunningTask = field(default_factory=RunningTask)


class Invocation(AskedNow):
    """One request that an instance is asked with: a block that lasts as long as its answer does.

    It knows which container of the instance is asked now, as errors name it.

    What most requests need is at hand, and is done without a coroutine of its own. What can wait
    until a container works on the request, or its client has the answer's first part, does. In the
    block it is an :class:`Invoked`.

    Args:
        means: what it is asked with.
        exchange: whose body it is.
        identity: who sends it.
        endpoint: as of :meth:`.Invocations.answered`, and so are the others.
        headers: those that go along to each container, checked.
        variant: empty for any.
        session: what it belongs to.
        admitted: None for a request that counts as one under way.
        target: the path at which each container is asked; None for the container's own.
        most_bytes: of the request's body.
        as_stream: whether the caller keeps it as a stream, and says so (:meth:`kept_as_stream`).
    """

    __slots__ = (
        "_admitted",
        "_as_stream",
        "_began",
        "_endpoint",
        "_exchange",
        "_exchanges",
        "_headers",
        "_identity",
        "_lifetime",
        "_longest",
        "_means",
        "_most_bytes",
        "_sender",
        "_session",
        "_target",
        "_task",
        "_variant",
        "answer",
        "head",
        "lease",
    )

    def __init__(
        self,
        means: MeansOfAsking,
        exchange: Asking,
        identity: Identity,
        endpoint: str,
        headers: Mapping[str, str],
        variant: str,
        session: StickySession,
        admitted: AdmittedAlready | None,
        target: str | None,
        most_bytes: int,
        *,
        as_stream: bool,
    ) -> None:
        # super() would make an object for each request.
        AskedNow.__init__(self)
        self._means = means
        self._exchange = exchange
        self._identity = identity
        self._endpoint = endpoint
        self._headers = headers
        self._variant = variant
        self._session = session
        self._admitted = admitted
        self._target = target
        self._most_bytes = most_bytes
        self._as_stream = as_stream
        #: Those of the containers that have been asked, in their order.
        self._exchanges: list[ContainerExchange] = []
        #: Who has a share of the requests under way; None where it does not count as one.
        self._sender: str | None = None
        self._task: asyncio.Task[Any]
        #: Of the whole, from when a container is asked; of a stream, until that is kept.
        self._lifetime: TimeLimit | None = None
        self._longest = inf
        self._began = 0.0

    # A class, and few blocks in it: a generator costs a request as much as twenty calls.

    async def __aenter__(self) -> Self:
        self._begin()
        try:
            place, lines = self._first()
            answer = self._asked_at_once(place, lines)
            self._limit_time()
            if answer is None:
                answer = await self._asked(place, lines)
            head = await answer.head()
            if not 200 <= head.status < 300:  # 3xx is not followed
                await _refuse(answer, head, self)
            while self.further:
                answer, head = await self._next_answer(answer, head)
            if self._session.id:
                self.lease.answered()
            if not self._as_stream:
                self._let_go_of_body()
        except BaseException as error:
            await self._over(error)
            raise
        self.head, self.answer = head, answer
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        exchanges = self._exchanges
        if len(exchanges) == 1 and (first := exchanges[0]).close_at_once():
            self._end(error, first.answer)
        else:
            await self._over(error)

    def _begin(self) -> None:
        """Take a place among the requests under way, and one on an instance."""
        means, admitted = self._means, self._admitted
        self._began = time.monotonic()
        endpoint, as_stream = self._endpoint, self._as_stream
        if admitted is None and not as_stream:
            visitor, principal = self._exchange.visitor, self._identity.principal
            anybody = principal is None and not visitor.trusted
            peer = peer_of(self._exchange.peer) if anybody else ""
            task = self._task = means.running.get()
            self._sender = means.under_way.admit(task, principal, peer)
        try:
            lease = means.router.lease(endpoint, self._variant, self._session, is_stream=as_stream)
        except BaseException as error:
            if self._sender is not None:
                means.under_way.ended(self._task, self._sender, error)
            if isinstance(error, UnknownEndpoint):
                words = f"Endpoint {endpoint} of account {means.arns.account} not found."
                raise UnknownEndpoint(words) from None
            raise
        self.lease = lease

    def _limit_time(self) -> None:
        """Have the request's time begin."""
        means, admitted, policy = self._means, self._admitted, self.lease.place.policy
        self._longest = policy.request_lifetime if admitted is None else admitted.within
        task = means.running.get() if self._sender is None else self._task
        limit = self._lifetime = TimeLimit(self._longest, means.connections.timers)
        limit.begin(task)

    def kept_as_stream(self, end: Callable[[], object]) -> None:
        lifetime = self._lifetime
        assert lifetime is not None, "it has begun"
        lifetime.lift()
        self._let_go_of_body()
        self.lease.ends_by(end)

    def _let_go_of_body(self) -> None:
        """Hold the request's body no more: the container has it.

        Until it has answered, the body is held here, or waits in the connection's buffer.
        """
        self._exchange.let_go_of_body()

    # --- Containers ------------------------------------------------------------------------------

    def _first(self) -> tuple[Place, str]:
        """The first container that is asked, and the headers that go along, as lines."""
        place, headers = self.lease.place, self._headers
        named = headers.get(TARGET_CONTAINER, "")
        if named or place.containers:
            place, *self.further = containers_asked(place, named)
            if self.further:
                headers = first_headers(headers)
        lines = header_lines(headers.items())
        return place, f"{lines}{REQUEST_ID}: {self._exchange.request_id}\r\n"

    def _asked_at_once(self, place: Place, lines: str) -> ContainerAnswer | None:
        """Ask it, if a connection is there and so is the body, as most are; else ask nobody."""
        body = self._exchange.body_at_hand(self._most_bytes) if self._goes_whole() else None
        if body is None:
            return None
        return self._ask_at_once(place, ContainerRequest(self._at(place), lines, body))

    def _goes_whole(self) -> bool:
        """Whether the body is sent in one piece, or refused before a container hears of it."""
        length = self._exchange.stated_length
        if length is not None and not _AT_ONCE < length <= self._most_bytes:
            return True
        return self._exchange.gathered

    async def _asked(self, place: Place, lines: str) -> ContainerAnswer:
        """Ask it in any case; another one if this takes no connection."""
        lease, exchange, most_bytes = self.lease, self._exchange, self._most_bytes
        if self._goes_whole():
            request = ContainerRequest(self._at(place), lines, await exchange.body(most_bytes))
        else:
            length, chunks = exchange.stated_length, exchange.chunks(most_bytes)
            request = ContainerRequest(self._at(place), lines, chunks, length)
        try:
            return self._ask_at_once(place, request) or await self._ask(place, request)
        except ContainerUnreachable:
            if not lease.move():
                raise
            named = self._headers.get(TARGET_CONTAINER, "")
            place, *self.further = containers_asked(lease.place, named)
            request = replace(request, target=self._at(place))
            return self._ask_at_once(place, request) or await self._ask(place, request)

    def _at(self, place: Place) -> str:
        """The path at which a container is asked."""
        return place.surface.requests if self._target is None else self._target

    async def _next_answer(
        self, answer: ContainerAnswer, head: AnswerHead
    ) -> tuple[ContainerAnswer, AnswerHead]:
        """Ask the next container of the instance, with what the one before has answered."""
        exchange = self._exchange
        before = self.place or self.lease.place
        place, *self.further = self.further
        handed = next_headers(self._headers, head, is_last=not self.further)
        along = f"{header_lines(handed.items())}{REQUEST_ID}: {exchange.request_id}\r\n"
        first = await answer.read()
        if answer.ended:
            request = ContainerRequest(self._at(place), along, first)
        else:
            body = handed_on(first, answer, before, self)
            request = ContainerRequest(self._at(place), along, body, head.length)
        try:
            answer = self._ask_at_once(place, request) or await self._ask(place, request)
        except ContainerUnreachable:  # no other instance has what this one has answered so far
            self.lease.unreachable()
            raise
        head = await answer.head()
        if not 200 <= head.status < 300:
            await _refuse(answer, head, self)
        return answer, head

    def _ask_at_once(self, place: Place, request: ContainerRequest) -> ContainerAnswer | None:
        """Ask a container by a connection that is there; None if there is none."""
        self.place = place
        asked = self._means.connections.ask_at_once(*self._where_and_how(place, request))
        return None if asked is None else self._begun(asked)

    async def _ask(self, place: Place, request: ContainerRequest) -> ContainerAnswer:
        """Ask a container by a connection that is dialled for it."""
        asked = await self._means.connections.ask(*self._where_and_how(place, request))
        return self._begun(asked)

    def _where_and_how(
        self, place: Place, request: ContainerRequest
    ) -> tuple[Destination, ContainerRequest, float, int]:
        """What :meth:`ContainerConnections.ask` is given."""
        lease, admitted = self.lease, self._admitted
        tls = None if place.tls is None else place.tls.context()  # its files may be renewed
        timeout = place.policy.connect_timeout
        there = Destination(place.container, lease.instance.id, timeout, tls)
        silence = place.policy.invocation_timeout if admitted is None else admitted.within
        is_relayed = self._as_stream and not self.further
        return there, request, silence, MAX_PART_BYTES if is_relayed else WHOLE_CHUNK_BYTES

    def _begun(self, asked: ContainerExchange) -> ContainerAnswer:
        self._exchanges.append(asked)
        self.lease.ends_by(self._stop)
        return asked.answer

    def _stop(self) -> None:
        """The instance ends: what it is asked has no answer."""
        if self._exchanges:  # else they are being ended
            self._exchanges[-1].answer.fail(stopped())

    # --- The end ---------------------------------------------------------------------------------

    async def _over(self, error: BaseException | None) -> None:
        """Give all back, and raise what clients know in place of what has gone wrong."""
        first = self._exchanges[0].answer if self._exchanges else None
        if first is not None:
            try:
                await self._close()
            except BaseException as failure:
                self._end(failure, first)
                raise
        self._end(error, first)

    async def _close(self) -> None:
        """End the exchanges with containers, the last one first."""
        try:
            await self._exchanges.pop().close()
        finally:
            if self._exchanges:
                await self._close()

    def _end(self, error: BaseException | None, first: ContainerAnswer | None) -> None:
        means, lease = self._means, self.lease
        noted = self._exchange.noted
        noted["endpoint"] = self._endpoint
        if self.place is not None:  # for the operator to see, not for the client
            noted["container"] = self.place.url
        if error is None:
            known, status = None, 200
            assert self._lifetime is not None, "it has been asked"
            self._lifetime.end(None)
        else:
            known = self._as_clients_know(error)
            status = known.status if isinstance(known, ApiError) else 0
        ended = time.monotonic()
        sent = None if first is None else first.began_at
        took, model = ended - self._began, None if sent is None else ended - sent
        means.metrics.ended(self._endpoint, lease.variant, status, took, model)
        lease.give_back()
        if self._sender is not None:
            means.under_way.ended(self._task, self._sender, known)
        if known is not None and known is not error:
            raise known from None

    def _as_clients_know(self, error: BaseException) -> BaseException:
        lifetime = self._lifetime
        if lifetime is not None:
            try:
                lifetime.end(error)
            except TimeoutError as late:
                error = late
            if isinstance(error, TimeoutError) and lifetime.expired:
                return self._named(too_long(self._longest))
        return self._named(error) if isinstance(error, ContainerError) else error

    def _named(self, error: ContainerError) -> ContainerError:
        """A container's failure as clients know it, with the name of the container's log."""
        error = in_the_clients_words(error, self)
        name_its_log(error, self._means.arns, self.lease, self)
        return error


async def _refuse(answer: ContainerAnswer, head: AnswerHead, now: AskedNow) -> NoReturn:
    """Raise what clients know of an answer that has another status than 2xx."""
    said = await answer.so_far(REFUSAL_BODY_BYTES, REFUSAL_BODY_TIMEOUT)
    coding = head.headers.get(CONTENT_ENCODING, "")
    said = decoded_beginning(said, coding, REFUSAL_BODY_BYTES)
    raise model_error(
        head.status,
        said.decode("utf-8", "replace"),
        name=now.name,
        retry_after=handed_back(head.headers, _RETRY_AFTER).get("Retry-After", ""),
    )
