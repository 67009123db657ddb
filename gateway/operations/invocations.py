"""What operations on a container's ``/invocations`` share: to an instance, and its answer back.

An operation brings headers and a body, and gets a container's answer of 2xx; everything else has
become the error that its clients know (clause 4-5).
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from partway.gateway.access.authentication import Identity
from partway.gateway.arns import Arns
from partway.gateway.fleet.endpoints import Place
from partway.gateway.fleet.log_names import AskedNow, name_its_log
from partway.gateway.fleet.routing import Lease, Router
from partway.gateway.fleet.sticky_sessions import StickySession
from partway.gateway.operations.containers_asked import (
    containers_asked,
    first_headers,
    handed_on,
    next_headers,
)
from partway.gateway.operations.invocation_headers import TARGET_CONTAINER
from partway.gateway.requests.answers import AnswerHead
from partway.gateway.requests.connections import ContainerConnections, ContainerExchange
from partway.gateway.requests.container_answer import ContainerAnswer
from partway.gateway.requests.container_requests import ContainerRequest, Destination
from partway.gateway.requests.limits import REFUSAL_BODY_TIMEOUT, WHOLE_CHUNK_BYTES
from partway.gateway.requests.metrics import RequestMetrics
from partway.gateway.requests.under_way import RequestsUnderWay
from partway.gateway.serving.crowd import Visitor
from partway.gateway.serving.exchange import stated_length
from partway.gateway.serving.peers import peer_of
from partway.gateway.waiting import TimeLimit
from partway.protocol.errors import (
    ApiError,
    ContainerBroke,
    ContainerError,
    ContainerLate,
    ContainerUnreachable,
    UnknownEndpoint,
)
from partway.protocol.limits import KIB, MAX_PART_BYTES, REFUSAL_BODY_BYTES

#: Tells a container which request it is.
REQUEST_ID: Final = "X-Amzn-SageMaker-Request-Id"

_NOTHING: Final = nullcontext()

#: An unsigned body that is stated to be no longer than this goes along in one piece.
_AT_ONCE: Final = 64 * KIB


class Asking(Protocol):
    """A request for a container: an exchange's, or one whose client has its answer already."""

    peer: str
    visitor: Visitor
    request_id: str
    headers: Mapping[str, str]
    noted: dict[str, str]

    @property
    def gathered(self) -> bool:
        """Whether the whole body is there already."""

    async def body(self, limit: int) -> bytes:
        """Return the whole body, of so many bytes at most."""

    def chunks(self, limit: int) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes, of so many bytes at most."""

    def let_go_of_body(self) -> None:
        """Hold the body no more; nobody asks for it again."""


@dataclass(frozen=True, slots=True)
class AdmittedAlready:
    """Of a request that does not count as one under way: what holds in place of the settings.

    Attributes:
        most_bytes: of its body.
        within: seconds for the container's answer to begin, and for all of it to come.
    """

    most_bytes: int
    within: float


class _Along(NamedTuple):
    """What goes to each container of an instance.

    Attributes:
        target: the path at which it is asked; None for the container's own.
        headers: those of the request, checked.
        most_bytes: of the request's body.
    """

    target: str | None
    headers: Mapping[str, str]
    most_bytes: int

    def at(self, place: Place) -> str:
        """The path at which a container is asked."""
        return place.surface.requests if self.target is None else self.target


class Invoked(NamedTuple):
    """An instance's answer of 2xx, whose body is still to come.

    Attributes:
        lease: the place on the instance.
        head: the answer's.
        answer: whose body is to be taken.
    """

    lease: Lease
    head: AnswerHead
    answer: ContainerAnswer


class Invocations:
    """Asks instances.

    Args:
        router: chooses the instance.
        connections: by which instances are asked.
        under_way: where a request is admitted.
        metrics: where a request is counted.
        arns: makes the names of logs; its account is in AWS's words.
        most_bytes: of a request's body.
    """

    def __init__(
        self,
        router: Router,
        connections: ContainerConnections,
        under_way: RequestsUnderWay,
        metrics: RequestMetrics,
        arns: Arns,
        most_bytes: int,
    ) -> None:
        self.most_bytes = most_bytes
        self._router = router
        self._connections = connections
        self._under_way = under_way
        self._metrics = metrics
        self._arns = arns

    @asynccontextmanager
    async def answered(
        self,
        exchange: Asking,
        identity: Identity,
        endpoint: str,
        headers: Mapping[str, str],
        *,
        variant: str = "",
        session: str = "",
        as_stream: bool = False,
        admitted: AdmittedAlready | None = None,
        target: str | None = None,
        most_bytes: int | None = None,
    ) -> AsyncIterator[Invoked]:
        """Ask an instance, and have its answer for as long as the block lasts.

        Args:
            exchange: whose body is asked with.
            identity: who sends it.
            endpoint: the endpoint's name.
            headers: those that go along, checked.
            variant: the only one that will do; empty for any.
            session: the id of the session that it belongs to; empty for none.
            as_stream: whether the caller keeps it as a stream, and has admitted it as one: how it
                ends is the caller's, and a chunk of the answer is one piece, up to MAX_PART_BYTES.
            admitted: given by a caller that has requests of its own under way, with bounds of their
                own.
            target: the path at which its containers are asked; None for where each takes requests.
            most_bytes: of the request's body; None for those of all requests.

        Raises:
            ContainerError: an instance did not answer 2xx, or not in time, or not whole.
            ServiceUnavailable: no instance takes any now, or the gateway is full or draining.
            InputValidationError: no endpoint or variant has the name.
        """
        # One generator, and few contexts in it: each costs a request what ten calls do.
        began = time.monotonic()
        key = session_key(identity, session)
        counts = not as_stream and admitted is None
        with (
            self._admitted(exchange, identity) if counts else _NOTHING,
            self._leased(endpoint, variant, key, is_stream=as_stream) as lease,
        ):
            exchange.noted["endpoint"] = endpoint
            status, first, now = 0, None, AskedNow()
            policy = lease.place.policy
            longest = policy.request_lifetime if admitted is None else admitted.within
            along = _Along(target, headers, self._most_bytes(admitted, most_bytes))
            lifetime = TimeLimit(longest)
            try:
                with lifetime:
                    async with await self._asked(exchange, lease, along, admitted, now) as first:
                        answer, head = first, await _good(first, now)
                        async with AsyncExitStack() if now.further else _NOTHING as held:
                            while now.further:
                                assert held is not None, "more than one is asked"
                                answer = await held.enter_async_context(
                                    await self._asked_next(
                                        *(exchange, lease, along, admitted, now, answer, head)
                                    )
                                )
                                head = await _good(answer, now)
                            lease.answered()
                            exchange.let_go_of_body()  # the connection has it
                            if as_stream:
                                lifetime.lift()
                            yield Invoked(lease, head, answer)
                status = 200
            except TimeoutError:
                if not lifetime.expired:
                    raise
                error = self._for_clients(_too_long(longest), lease, now)
                status = error.status
                raise error from None
            except ContainerError as failure:
                error = self._for_clients(failure, lease, now)
                status = error.status
                raise error from None
            except ApiError as error:
                status = error.status
                raise
            finally:
                ended = time.monotonic()
                sent = None if first is None else first.began_at
                self._metrics.ended(
                    *(endpoint, lease.variant, status, ended - began),
                    None if sent is None else ended - sent,
                )

    def forget_session(self, identity: Identity, endpoint: str, session: str) -> None:
        """Let a session of a sender's that is over go to any instance."""
        self._router.forget_session(endpoint, session_key(identity, session))

    def _admitted(self, exchange: Asking, identity: Identity) -> AbstractContextManager[None]:
        peer = "" if exchange.visitor.trusted else peer_of(exchange.peer)
        return self._under_way.admitted(identity.principal, peer)

    def _for_clients(self, error: ContainerError, lease: Lease, now: AskedNow) -> ContainerError:
        """A container's failure as clients know it, with the name of the container's log."""
        error = _in_the_clients_words(error, now)
        name_its_log(error, self._arns, lease, now)
        return error

    def _leased(
        self, endpoint: str, variant: str, session: StickySession, *, is_stream: bool
    ) -> Lease:
        try:
            return self._router.lease(endpoint, variant, session, is_stream=is_stream)
        except UnknownEndpoint:
            words = f"Endpoint {endpoint} of account {self._arns.account} not found."
            raise UnknownEndpoint(words) from None

    def _most_bytes(self, admitted: AdmittedAlready | None, most_bytes: int | None) -> int:
        """How many bytes a request's body may have."""
        if most_bytes is not None:
            return most_bytes
        return self.most_bytes if admitted is None else admitted.most_bytes

    @staticmethod
    async def _request(
        exchange: Asking, sent: _Along, place: Place, headers: Mapping[str, str]
    ) -> ContainerRequest:
        """What a container is asked: headers, the id, and the body in one piece or as it comes."""
        along = (*headers.items(), (REQUEST_ID, exchange.request_id))
        most_bytes = sent.most_bytes
        length = stated_length(exchange.headers)
        at_once = length is not None and not _AT_ONCE < length <= most_bytes
        if exchange.gathered or at_once:  # or too large, which is said before a container hears
            return ContainerRequest(sent.at(place), along, await exchange.body(most_bytes))
        return ContainerRequest(sent.at(place), along, exchange.chunks(most_bytes), length)

    async def _asked(
        self,
        exchange: Asking,
        lease: Lease,
        sent: _Along,
        admitted: AdmittedAlready | None,
        now: AskedNow,
    ) -> ContainerExchange:
        """Ask the instance, its first container; another one if this takes no connection."""
        target = sent.headers.get(TARGET_CONTAINER, "")
        place, *now.further = containers_asked(lease.place, target)
        along = first_headers(sent.headers) if now.further else sent.headers
        request = await self._request(exchange, sent, place, along)
        try:
            return await self._ask(exchange, lease, request, admitted, now, place)
        except ContainerUnreachable:
            if not lease.move():
                raise
        place, *now.further = containers_asked(lease.place, target)
        request = request._replace(target=sent.at(place))
        return await self._ask(exchange, lease, request, admitted, now, place)

    async def _asked_next(
        self,
        exchange: Asking,
        lease: Lease,
        sent: _Along,
        admitted: AdmittedAlready | None,
        now: AskedNow,
        answer: ContainerAnswer,
        head: AnswerHead,
    ) -> ContainerExchange:
        """Ask the next container of the instance, with what the one before has answered."""
        before = now.place or lease.place
        place, *now.further = now.further
        handed = next_headers(sent.headers, head, is_last=not now.further)
        along = (*handed.items(), (REQUEST_ID, exchange.request_id))
        first = await answer.read()
        if answer.ended:
            request = ContainerRequest(sent.at(place), along, first)
        else:
            length = None if head.chunked else stated_length(head.headers)
            body = handed_on(first, answer, before, now)
            request = ContainerRequest(sent.at(place), along, body, length)
        try:
            return await self._ask(exchange, lease, request, admitted, now, place)
        except ContainerUnreachable:  # no other instance has what this one has answered so far
            lease.unreachable()
            raise

    async def _ask(
        self,
        exchange: Asking,
        lease: Lease,
        request: ContainerRequest,
        admitted: AdmittedAlready | None,
        now: AskedNow,
        place: Place,
    ) -> ContainerExchange:
        now.place = place
        # Where the container runs is for the operator to see, not for the client.
        exchange.noted["container"] = place.url
        tls = None if place.tls is None else place.tls.context()
        there = Destination(place.container, lease.instance.id, place.policy.connect_timeout, tls)
        is_relayed = lease.is_stream and not now.further
        whole_chunk = MAX_PART_BYTES if is_relayed else WHOLE_CHUNK_BYTES
        timeout = place.policy.invocation_timeout if admitted is None else admitted.within
        asked = await self._connections.ask(there, request, timeout, whole_chunk)
        lease.ends_by(lambda: asked.answer.fail(_stopped()))
        return asked


def session_key(identity: Identity, session: str) -> StickySession:
    """The name by which a session of a sender's is known here; without an id it is no session."""
    return StickySession(identity.principal or "", session)


def _too_long(seconds: float) -> ContainerLate:
    return ContainerLate(
        f"request and answer were not over within {seconds:g} s (request_lifetime)"
    )


def _in_the_clients_words(error: ContainerError, now: AskedNow) -> ContainerError:
    """What went wrong between gateway and container as AWS says it, with a status of 0."""
    match error:
        case ContainerLate():
            waited = "Your invocation timed out while waiting for a response from container"
            return _failed(error, f"{waited} {now.name}: {error.message}", now.name)
        case ContainerBroke() | ContainerUnreachable():
            return _failed(error, error.message, now.name)
        case _:  # it has answered, and is in these words already
            return error


def _failed(error: ContainerError, why: str, name: str) -> ContainerError:
    retries = "x-partway-retry" not in error.headers
    return model_error(0, why, error.for_operator, retries=retries, name=name)


async def _good(answer: ContainerAnswer, now: AskedNow) -> AnswerHead:
    """Wait for the head of an answer of 2xx; 3xx is not followed.

    Raises:
        ContainerError: it has another status, or does not come.
    """
    head = await answer.head()
    if 200 <= head.status < 300:
        return head
    said = await answer.so_far(REFUSAL_BODY_BYTES, REFUSAL_BODY_TIMEOUT)
    raise model_error(head.status, said.decode("utf-8", "replace"), name=now.name)


def model_error(
    status: int,
    said: str,
    for_operator: str | None = None,
    *,
    retries: bool = True,
    name: str = "primary",
) -> ContainerError:
    """A container's failure in AWS's words, by which clients know it (section 5).

    Args:
        status: the container's own; 0 if it gave none.
        said: what it said itself, or what is said of it.
        for_operator: the same for the log, where that names the container's place.
        retries: whether another attempt may fare better.
        name: of the container: its host name, where its instance has several.
    """
    whose = "client" if 400 <= status < 500 else "server"
    message = f'Received {whose} error ({status}) from {name} with message "{said}"'
    return ContainerError(message, status, said, for_operator or message, passing=retries)


def answer_too_large(most_bytes: float) -> ContainerError:
    """A container's answer is longer than its client gets."""
    return model_error(0, f"the container's answer is over {most_bytes} bytes", retries=False)


def _stopped() -> ContainerBroke:
    return ContainerBroke("the instance was stopped before it had answered")
