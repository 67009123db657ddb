"""InvokeEndpointWithResponseStream: a container's answer to a request as events (section 5).

The response begins when the container has answered with 2xx. Until then a failure is an HTTP error,
as in InvokeEndpoint. After that a failure is an exception event, followed by an orderly end: many
clients would take a cut connection for an orderly end (clause 2.3-6).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.runtime.errors import aws_runtime
from partway.gateway.containers.container_requests import CONTENT_TYPE, CUSTOM_ATTRIBUTES
from partway.gateway.containers.invocation import Invocation, Invocations
from partway.gateway.containers.invocation_headers import (
    ACCEPT,
    BEGIN_SESSION,
    EXPLANATIONS,
    INVOKE_HEADERS,
    INVOKED_VARIANT,
    NO_PAGE,
    PAYLOAD_CODING,
    PAYLOAD_TYPE,
    SESSION,
    TARGET_MODEL,
    passed_on,
    session_in,
)
from partway.gateway.fleet.routing.session_affinity import StickySession
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import StreamedPayload
from partway.gateway.http.routes import Route
from partway.gateway.streams.invocation_target import TARGET_CONTAINER, TARGET_VARIANT
from partway.gateway.streams.registry import Streams
from partway.gateway.streams.response_relay import EVENTS, AnswerForm, ResponseRelay
from partway.protocol.errors import InputValidationError
from partway.protocol.event_stream.writer import CONTENT_TYPE as EVENT_STREAM
from partway.protocol.http.content_codings import CONTENT_ENCODING

#: AWS's name of the operation, also in permissions.
OPERATION: Final = "InvokeEndpointWithResponseStream"

#: Clause 2.1-4 holds here too: a base path may stand in front.
PATH: Final = re.compile(r"(?:/.*)?/endpoints/(?P<endpoint>[^/]+)/invocations-response-stream")

_NOT_OF_THIS: Final = frozenset({TARGET_MODEL, EXPLANATIONS})
_HEADERS: Final = {
    ACCEPT if name == "Accept" else name: rule
    for name, rule in INVOKE_HEADERS.items()
    if name not in _NOT_OF_THIS
}

#: Headers of a container's answer, with the names that the client gets; sessions are left out.
_HANDED_BACK: Final[Mapping[str, str]] = {
    CONTENT_TYPE: PAYLOAD_TYPE,
    CONTENT_ENCODING: PAYLOAD_CODING,
    CUSTOM_ATTRIBUTES: CUSTOM_ATTRIBUTES,
}


class ResponseStream:
    def __init__(self, invocations: Invocations, streams: Streams) -> None:
        self._invocations = invocations
        self._streams = streams

    @property
    def routes(self) -> tuple[Route, ...]:
        payload = StreamedPayload(self._invocations.most_bytes)
        return (
            Route(
                *(OPERATION, frozenset({"POST"}), PATH, self), payload=payload, errors=aws_runtime
            ),
        )

    async def __call__(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer one request; return when the response is over."""
        headers = _passed_on(exchange.headers)
        answered = self._invocations.answered(
            *(exchange, identity, named["endpoint"], headers),
            variant=headers.get(TARGET_VARIANT, ""),
            container=headers.get(TARGET_CONTAINER, ""),
            session=session_of(headers),
            as_stream=True,
        )
        await relay_answer(self._streams, exchange, identity, answered, _as_events)


class AnswerResponse(NamedTuple):
    """The response for an invocation.

    Attributes:
        headers: the headers of the response.
        form: the form of its body.
        status: the status of the response.
    """

    headers: Mapping[str, str]
    form: AnswerForm
    status: int = 200


async def relay_answer(
    streams: Streams,
    exchange: Exchange,
    identity: Identity,
    answered: AbstractAsyncContextManager[Invocation],
    response: Callable[[Invocation], AnswerResponse],
) -> None:
    """Pass on a container's answer as a stream; return when the response is over.

    Args:
        answered: calls the container, as a stream.
    """
    with streams.opening(identity.principal) as opening:
        async with answered as invoked:
            head, form, status = response(invoked)
            answer = invoked.answer
            # The client gets the first part before all other work for the stream.
            piece = answer.piece_at_hand()
            first = b"" if piece is None else piece.data
            await exchange.begin(status, head, form.chunk(first) if first else b"")
            place = invoked.lease.place
            longest = place.policy.response_lifetime
            relay = ResponseRelay(
                *(place.endpoint, answer, exchange, streams.timers, longest, form),
                *(len(first), status),
            )
            opening.started(relay, lambda: identity.stands(None))
            try:
                invoked.kept_as_stream(relay.drain)
                await relay.run()
            finally:
                streams.ended(relay)


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers for the container, under the names that it knows."""
    found = passed_on(headers, _HEADERS)
    if (accept := found.pop(ACCEPT, None)) is not None:
        found["Accept"] = accept
    return found


def session_of(headers: dict[str, str]) -> StickySession:
    """Return the session that a request names, and name it to the container by its own id.

    Raises:
        InputValidationError: a session would begin, whose id the response cannot carry.
    """
    if headers.get(SESSION) == BEGIN_SESSION:
        raise InputValidationError(
            f"SessionId (header {SESSION}) must be the id of a session; only InvokeEndpoint "
            "begins a session",
            "InvalidHeader",
        )
    return session_in(headers)


def _as_events(invoked: Invocation) -> AnswerResponse:
    own = {"Content-Type": EVENT_STREAM, INVOKED_VARIANT: invoked.lease.variant, **NO_PAGE}
    return AnswerResponse({**own, **invoked.head.handed_back(_HANDED_BACK)}, EVENTS)
