"""rawPredict and streamRawPredict: any bytes to a container, and its own bytes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple

from multidict import CIMultiDict

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.prediction.errors import prediction_object
from partway.gateway.apis.prediction.predictions import whole_answer
from partway.gateway.apis.prediction.routes import (
    GRANTED_WITH,
    JSON,
    STREAM_GRANTED_WITH,
    answer_headers,
    of_endpoint,
    wants_http_body,
)
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.apis.runtime.invoke import pass_on
from partway.gateway.apis.runtime.response_stream import AnswerResponse, relay_answer
from partway.gateway.containers.container_requests import CONTENT_TYPE
from partway.gateway.containers.failures import model_error
from partway.gateway.containers.invocation import Invocation, Invocations
from partway.gateway.containers.invocation_headers import (
    INVOKE_HEADERS,
    NO_PAGE,
    passed_on,
)
from partway.gateway.containers.prepared_request import PreparedRequest
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import StreamedPayload
from partway.gateway.http.routes import Route
from partway.gateway.streams.registry import Streams
from partway.gateway.streams.response_relay import CHUNKS
from partway.protocol.errors import InputValidationError
from partway.protocol.http.content_codings import CONTENT_ENCODING, is_coded
from partway.protocol.parts import StreamError
from partway.protocol.prediction.http_body import HttpBody, read_http_body, write_http_body
from partway.protocol.prediction.work_cost import json_cost

OPERATION: Final = "RawPredict"
STREAM_OPERATION: Final = "StreamRawPredict"

_RULES: Final = {name: INVOKE_HEADERS[name] for name in (CONTENT_TYPE, CONTENT_ENCODING, "Accept")}
_HANDED_BACK: Final[Mapping[str, str]] = {CONTENT_TYPE: CONTENT_TYPE}
_OF_PLAIN: Final[Mapping[str, str]] = {CONTENT_ENCODING: CONTENT_ENCODING}


class RawAsked(NamedTuple):
    """A raw request.

    Attributes:
        is_wrapped: whether bodies are wrapped in JSON, both ways.
    """

    request: Exchange | PreparedRequest
    headers: Mapping[str, str]
    is_wrapped: bool


class RawPredict:
    """The operations rawPredict and streamRawPredict.

    Args:
        streams: admits and holds streamed responses, as all streams.
        most_bytes: the limit of a request's body, and of an answer that is not streamed, in bytes.
    """

    def __init__(
        self,
        invocations: Invocations,
        streams: Streams,
        policy_of: Callable[[str], PredictionPolicy],
        workers: PredictionWorkers,
        most_bytes: int,
    ) -> None:
        self._invocations = invocations
        self._streams = streams
        self._policy_of = policy_of
        self._workers = workers
        self._most_bytes = most_bytes

    @property
    def routes(self) -> tuple[Route, ...]:
        payload = StreamedPayload(self._most_bytes)
        return tuple(
            Route(
                *(name, frozenset({"POST"}), of_endpoint(verb), operation),
                access=Access.SIGNED_OR_BEARER,
                payload=payload,
                errors=prediction_object,
                granted_with=granted_with,
            )
            for name, verb, operation, granted_with in (
                (OPERATION, "rawPredict", self.raw, GRANTED_WITH),
                (STREAM_OPERATION, "streamRawPredict", self.stream, STREAM_GRANTED_WITH),
            )
        )

    async def raw(self, exchange: Exchange, identity: Identity, named: Mapping[str, str]) -> None:
        """Answer with the container's body, unchanged."""
        asked = await self._asked(exchange, identity)
        async with self.answered(asked, identity, named["endpoint"]) as invoked:
            back = answer_head(named["parent"], invoked)
            if not asked.is_wrapped:
                back |= invoked.head.handed_back(_OF_PLAIN)
                await pass_on(exchange, invoked, back, self._most_bytes)
                return
            wrapped = write_http_body(await self.whole(exchange, identity, invoked))
            exchange.respond(200, wrapped, {**back, **JSON})

    async def stream(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer with the container's chunks as they come."""
        asked = await self._asked(exchange, identity)

        def response(invoked: Invocation) -> AnswerResponse:
            back = answer_head(named["parent"], invoked)
            if not asked.is_wrapped:
                return AnswerResponse(back | invoked.head.handed_back(_OF_PLAIN), CHUNKS)
            check_chunks_uncoded(invoked)
            form = WrappedChunks(back.get("Content-Type", ""))
            return AnswerResponse({**back, **JSON}, form)

        await self.relay(exchange, asked, identity, named["endpoint"], response)

    # --- Shared parts ----------------------------------------------------------------------------

    def answered(
        self, asked: RawAsked, identity: Identity, endpoint: str, *, as_stream: bool = False
    ) -> AbstractAsyncContextManager[Invocation]:
        """Call an instance for an answer of any form; see :meth:`Invocations.answered`."""
        return self._invocations.answered(
            *(asked.request, identity, endpoint, asked.headers),
            as_stream=as_stream,
            target=self._policy_of(endpoint).route,
            most_bytes=self._most_bytes,
        )

    async def whole(self, exchange: Exchange, identity: Identity, invoked: Invocation) -> HttpBody:
        content_type = invoked.head.handed_back(_HANDED_BACK).get("Content-Type", "")
        share = self._workers.share_of(exchange, identity)
        return HttpBody(
            content_type, await whole_answer(exchange, invoked, self._most_bytes, share)
        )

    async def relay(
        self,
        exchange: Exchange,
        asked: RawAsked,
        identity: Identity,
        endpoint: str,
        response: Callable[[Invocation], AnswerResponse],
    ) -> None:
        """Pass on a container's answer, each chunk as it comes; see :func:`relay_answer`."""
        answered = self.answered(asked, identity, endpoint, as_stream=True)
        await relay_answer(self._streams, exchange, identity, answered, response)

    async def _asked(self, exchange: Exchange, identity: Identity) -> RawAsked:
        if not wants_http_body(exchange.query):
            return RawAsked(exchange, passed_on(exchange.headers, _RULES), is_wrapped=False)
        try:
            share = self._workers.share_of(exchange, identity)
            wrapped = await share.decoded_body(self._most_bytes)
            body = await share.run(json_cost(wrapped), read_http_body, wrapped)
        except ValueError as fault:
            raise InputValidationError(str(fault), "InvalidHttpBody") from None
        return asked_with(exchange, body)


def asked_with(exchange: Exchange, body: HttpBody) -> RawAsked:
    """Return the raw request of a client that has wrapped its body.

    Raises:
        InputValidationError: the body's type is not valid.
    """
    # The container's answer may have any type, since it is wrapped.
    headers = passed_on(CIMultiDict({"Content-Type": body.content_type}), _RULES)
    return RawAsked(PreparedRequest(body.data, of=exchange), headers, is_wrapped=True)


def check_chunks_uncoded(invoked: Invocation) -> None:
    """Raise ContainerError for a coded answer: messages have no member for a coding."""
    coding = invoked.head.headers.get(CONTENT_ENCODING, "")
    if is_coded(coding):
        raise model_error(
            0,
            f"the container's answer: its Content-Encoding is {coding[:64]!r}; it must have none, "
            "since it is streamed in messages",
            retries=False,
        )


class WrappedChunks:
    """A container's chunks as a JSON array, which is how Google's clients read a stream."""

    def __init__(self, content_type: str) -> None:
        self._content_type = content_type
        self._before = b"["

    def chunk(self, data: bytes) -> bytes:
        before, self._before = self._before, b",\n"
        return before + write_http_body(HttpBody(self._content_type, data))

    async def end(self, exchange: Exchange, error: StreamError | None) -> None:
        """End the array, unless the answer broke off."""
        if error is None:
            await exchange.end(b"[]" if self._before == b"[" else b"]")


def answer_head(parent: str, invoked: Invocation) -> dict[str, str]:
    """Return a response's headers: the type of the container's answer, and its origin."""
    return {
        **invoked.head.handed_back(_HANDED_BACK),
        **NO_PAGE,
        **answer_headers(parent, invoked),
    }
