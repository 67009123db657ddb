"""An invocation: one request to an instance, and its answer.

An operation gives headers and a body, and gets a container's answer with 2xx. Any other outcome is
an error in AWS's words for clients (clause 4-5).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from partway.gateway.access.authentication import Identity
from partway.gateway.arns import Arns
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.connections import ContainerConnections
from partway.gateway.containers.container_answer import ContainerAnswer
from partway.gateway.containers.container_requests import (
    CONTENT_TYPE,
    CUSTOM_ATTRIBUTES,
    REQUEST_ID,
    ContainerRequest,
    Destination,
    header_lines,
)
from partway.gateway.containers.failures import in_the_clients_words, refusal, stopped, too_long
from partway.gateway.containers.limits import WHOLE_CHUNK_BYTES
from partway.gateway.containers.metrics import RequestMetrics
from partway.gateway.containers.multi_container import containers_asked
from partway.gateway.containers.prepared_request import PreparedRequest
from partway.gateway.containers.requests_in_progress import RequestsUnderWay
from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.output.log_names import name_its_log
from partway.gateway.fleet.routing.router import Lease, Router
from partway.gateway.fleet.routing.session_affinity import NO_SESSION, StickySession
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.peers import peer_of
from partway.gateway.timing.deadlines import TimeLimit
from partway.protocol.errors import ApiError, ContainerError, ContainerUnreachable, UnknownEndpoint
from partway.protocol.http.content_codings import CONTENT_ENCODING
from partway.protocol.limits import KIB, MAX_PART_BYTES

#: An unsigned body with a stated length of at most this is sent in one piece.
_AT_ONCE: Final = 64 * KIB

#: A body, whole or in pieces; and the length of a body in pieces, if it is known.
_Body: TypeAlias = tuple[bytes | AsyncGenerator[bytes, None], int | None]

#: Headers of a container's answer that are passed to the next container.
_HANDED_ON: Final[Mapping[str, str]] = {
    name: name for name in (CONTENT_TYPE, CONTENT_ENCODING, CUSTOM_ATTRIBUTES)
}


class Invocations:
    """Sends requests to instances.

    Args:
        arns: makes the names of logs; its account is in AWS's words.
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
        self.router = router
        self.connections = connections
        self.under_way = under_way
        self.metrics = metrics
        self.arns = arns
        self.most_bytes = most_bytes

    def answered(
        self,
        request: Exchange | PreparedRequest,
        identity: Identity,
        endpoint: str,
        headers: Mapping[str, str],
        *,
        variant: str = "",
        container: str = "",
        session: StickySession = NO_SESSION,
        target: str | None = None,
        method: str = "POST",
        most_bytes: int | None = None,
        within: float | None = None,
        as_stream: bool = False,
        any_status: bool = False,
    ) -> Invocation:
        """Send a request to an instance, and have its answer for as long as the block lasts.

        Args:
            request: the request with the body.
            identity: its sender.
            endpoint: the endpoint's name.
            headers: headers for each container, already checked.
            variant: the required variant; empty for any.
            container: the host name of the required container; empty for those of the endpoint.
            session: the request's session.
            target: the path to request; None for each container's own path for requests.
            method: the request's; see :class:`ContainerRequest`.
            most_bytes: the most bytes of the request's body; None for the limit of all requests.
            within: seconds for the container's answer to begin, and for all of it to come, from a
                caller that counts its requests itself; None for the endpoint's limits.
            as_stream: whether the caller keeps the answer as a stream, and has admitted it as one.
                The caller then logs its end, and a chunk of the answer is one piece, up to
                MAX_PART_BYTES. The caller reports this by :meth:`.Invocation.kept_as_stream`; until
                then the request's time runs, and its body is held.
            any_status: whether an answer with any status is an answer; by default, every status but
                2xx is a ContainerError.

        Returns:
            The block, which raises errors in the words for clients:

            - ContainerError: an instance did not answer 2xx, or not in time, or not completely.
            - ServiceUnavailable: no instance takes any now, or the gateway is full or draining.
            - InputValidationError: no endpoint, variant or container has the name.
        """
        return Invocation(
            self,
            request,
            identity,
            endpoint,
            headers,
            variant,
            container,
            session,
            target,
            method,
            self.most_bytes if most_bytes is None else most_bytes,
            within,
            as_stream=as_stream,
            any_status=any_status,
        )


class Invocation:
    """One request to an instance: a block that lasts as long as its answer does.

    It takes a place among the requests under way, and one on an instance. It asks the container,
    and then the instance's next ones with its answer. Then the block runs. At its end, everything
    is given back, and the request is counted.

    Args: those of :meth:`.Invocations.answered`, which makes it.

    Attributes:
        answer: the answer, whose body is taken in the block.
    """

    __slots__ = (
        *("_answers", "_any_status", "_as_stream", "_asked_at", "_began_at", "_container"),
        *("_endpoint", "_further", "_headers", "_identity", "_limit", "_means", "_method"),
        *("_most_bytes", "_place"),
        *("_request", "_sender", "_session", "_target", "_task", "_variant", "_within"),
        *("answer", "head", "lease"),
    )

    def __init__(
        self,
        means: Invocations,
        request: Exchange | PreparedRequest,
        identity: Identity,
        endpoint: str,
        headers: Mapping[str, str],
        variant: str,
        container: str,
        session: StickySession,
        target: str | None,
        method: str,
        most_bytes: int,
        within: float | None,
        *,
        as_stream: bool,
        any_status: bool,
    ) -> None:
        self._means = means
        self._request = request
        self._identity = identity
        self._endpoint = endpoint
        self._headers = headers
        self._variant = variant
        self._container = container
        self._session = session
        self._target = target
        self._method = method
        self._most_bytes = most_bytes
        self._within = within
        self._as_stream = as_stream
        self._any_status = any_status
        self._began_at = time.monotonic()
        self._task: asyncio.Task[Any]
        #: The owner of its share of the requests under way; None if it does not count as one.
        self._sender: str | None = None
        #: Of the whole request; for a stream, until it is kept.
        self._limit: TimeLimit
        #: The current container, and those to ask after it.
        self._place: Place | None = None
        self._further: Sequence[Place] = ()
        #: The answers of the containers that have been asked, in order.
        self._answers: list[ContainerAnswer] = []
        #: When the first container was asked.
        self._asked_at: float | None = None
        self.lease: Lease
        self.head: AnswerHead
        self.answer: ContainerAnswer

    async def __aenter__(self) -> Self:
        self._admit()
        try:
            await self._ask_first()
            while self._further:
                await self._ask_next()
            if not self._as_stream:
                self._request.let_go_of_body()
        except BaseException as error:
            await self._over(error)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._over(error)

    def kept_as_stream(self, end: Callable[[], object]) -> None:
        """Note that the answer is a stream from here on, which may take any time.

        The request's time limit is lifted, and its body released. Must be called once, and before
        any wait in the block, since the request's limit would otherwise end the stream.

        Args:
            end: called if the instance stops, in place of the usual end of a request.
        """
        self._limit.lift()
        self._request.let_go_of_body()
        self.lease.ends_by(end)

    # --- Admission -------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Take a place among the requests under way and on an instance; start the time limit."""
        means, endpoint = self._means, self._endpoint
        task = asyncio.current_task()
        assert task is not None, "a block is in a task"
        self._task = task
        if self._within is None and not self._as_stream:
            principal, request = self._identity.principal, self._request
            has_name = principal is not None or request.visitor.trusted
            peer = "" if has_name else peer_of(request.peer)
            self._sender = means.under_way.admit(task, principal, peer)
        try:
            self.lease = means.router.lease(
                endpoint, self._variant, self._session, is_stream=self._as_stream
            )
        except BaseException as error:
            if self._sender is not None:
                means.under_way.ended(task, self._sender, error)
            if isinstance(error, UnknownEndpoint):
                words = f"Endpoint {endpoint} of account {means.arns.account} not found."
                raise UnknownEndpoint(words) from None
            raise
        self._limit = TimeLimit(self._longest, means.connections.timers)
        self._limit.begin(task)

    @property
    def _longest(self) -> float:
        policy = self.lease.place.policy
        return policy.request_lifetime if self._within is None else self._within

    # --- Containers ------------------------------------------------------------------------------

    async def _ask_first(self) -> None:
        """Ask the first container of the instance; if it takes no connection, another instance's.

        A request that is on a connection goes nowhere else.
        """
        lease = self.lease
        place, *self._further = containers_asked(lease.place, self._container)
        lines = self._lines(first_headers(self._headers) if self._further else self._headers)
        body = await self._body()
        answer = None
        while answer is None:
            try:
                answer = await self._ask(place, lines, body)
            except ContainerUnreachable:
                if not lease.move():
                    raise
                place, *self._further = containers_asked(lease.place, self._container)
        await self._take_head(answer)

    async def _ask_next(self) -> None:
        """Ask the next container of the instance, with the answer of the one before."""
        before, answer, head = self._place, self.answer, self.head
        place, *self._further = self._further
        lines = self._lines(next_headers(self._headers, head, is_last=not self._further))
        first = await answer.read()
        body: _Body = first, None
        if not answer.ended:
            body = self._handed_on(first, answer, before), head.length
        try:
            answer = await self._ask(place, lines, body)
        except ContainerUnreachable:  # no other instance has the earlier answers
            self.lease.unreachable()
            raise
        await self._take_head(answer)

    def _lines(self, headers: Mapping[str, str]) -> str:
        return f"{header_lines(headers.items())}{REQUEST_ID}: {self._request.request_id}\r\n"

    async def _body(self) -> _Body:
        """Return the client's body: whole if it is short, or too long to accept; else in pieces."""
        request, most_bytes = self._request, self._most_bytes
        length = request.stated_length
        goes_whole = length is not None and not _AT_ONCE < length <= most_bytes
        if goes_whole or request.gathered:
            return await request.body(most_bytes), None
        return request.chunks(most_bytes), length

    async def _handed_on(
        self, first: bytes, answer: ContainerAnswer, place: Place | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield an answer's body as it comes: at most what the next container takes is held.

        ``place`` is at fault if the body breaks off.
        """
        try:
            while first:
                yield first
                first = await answer.read()
        except ContainerError:
            self._place = place
            raise

    async def _ask(self, place: Place, lines: str, body: _Body) -> ContainerAnswer:
        self._place = place
        policy, lease = place.policy, self.lease
        tls = None if place.tls is None else place.tls.context()  # its files may be renewed
        there = Destination(place.container, lease.instance.id, policy.connect_timeout, tls)
        target = place.surface.requests if self._target is None else self._target
        is_relayed = self._as_stream and not self._further
        answer = await self._means.connections.ask(
            there,
            ContainerRequest(target, lines, *body, self._method),
            policy.invocation_timeout if self._within is None else self._within,
            MAX_PART_BYTES if is_relayed else WHOLE_CHUNK_BYTES,
        )
        if self._asked_at is None:
            self._asked_at = answer.began_at
        self._answers.append(answer)
        lease.ends_by(self._stop)
        return answer

    async def _take_head(self, answer: ContainerAnswer) -> None:
        """Wait for an answer's head; refuse a status that is no answer. 3xx is not followed."""
        head = await answer.head()
        takes_any = self._any_status and not self._further
        if not (takes_any or 200 <= head.status < 300):
            raise await refusal(answer, head, self._name)
        self.head, self.answer = head, answer

    def _stop(self) -> None:
        if self._answers:  # else they are being ended
            self._answers[-1].fail(stopped())

    # --- The end ---------------------------------------------------------------------------------

    async def _over(self, error: BaseException | None) -> None:
        """Release everything, and raise errors in the words for clients."""
        try:
            if self._answers:
                await self._close()
        except BaseException as failure:
            self._end(failure)
            raise
        self._end(error)

    async def _close(self) -> None:
        try:
            await self._answers.pop().close()
        finally:
            if self._answers:
                await self._close()

    def _end(self, error: BaseException | None) -> None:
        means, lease, noted = self._means, self.lease, self._request.noted
        noted["endpoint"] = self._endpoint
        if self._place is not None:  # for the operator, not for the client
            noted["container"] = self._place.url
        known = self._as_clients_know(error)
        if known is None:
            status = self.head.status if self._any_status else 200
        else:
            status = known.status if isinstance(known, ApiError) else 0
        now, asked_at = time.monotonic(), self._asked_at
        of_model = None if asked_at is None else now - asked_at
        means.metrics.ended(self._endpoint, lease.variant, status, now - self._began_at, of_model)
        lease.give_back()
        if self._sender is not None:
            means.under_way.ended(self._task, self._sender, known)
        if known is not None and known is not error:
            raise known from None

    def _as_clients_know(self, error: BaseException | None) -> BaseException | None:
        """Return a container's failure in the words for clients; other errors unchanged."""
        try:
            self._limit.end(error)
        except TimeoutError as late:
            error = late
        if isinstance(error, TimeoutError) and self._limit.expired:
            error = too_long(self._longest)
        if isinstance(error, ContainerError):
            error = in_the_clients_words(error, self._name)
            name_its_log(error, self._means.arns, self.lease, self._place)
        return error

    @property
    def _name(self) -> str:
        return (self._place and self._place.hostname) or "primary"


def first_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers for the first of several containers; ``Accept`` is for the last."""
    return {name: value for name, value in headers.items() if name != "Accept"}


def next_headers(
    headers: Mapping[str, str], head: AnswerHead, *, is_last: bool
) -> Mapping[str, str]:
    """Return the headers for a container that gets the answer of the one before.

    ``is_last`` says whether the container's own answer is the client's.
    """
    found = dict(headers if is_last else first_headers(headers))
    for name in (CONTENT_TYPE, CONTENT_ENCODING):  # they describe the first container's body
        found.pop(name, None)
    return found | head.handed_back(_HANDED_ON)
