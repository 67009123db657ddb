"""rawPredict and streamRawPredict: any bytes to a container, and its own straight back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from multidict import CIMultiDict

from partway.gateway.access.authentication import Identity
from partway.gateway.operations.invocation_headers import (
    INVOKE_HEADERS,
    NO_PAGE,
    handed_back,
    passed_on,
)
from partway.gateway.operations.invocations import Asking, Invocations, Invoked
from partway.gateway.operations.invoke import pass_on
from partway.gateway.operations.predict import whole_answer
from partway.gateway.operations.prediction_routes import (
    GRANTED_WITH,
    JSON,
    STREAM_GRANTED_WITH,
    answer_headers,
    of_endpoint,
    wants_http_body,
)
from partway.gateway.operations.prepared_body import PreparedBody
from partway.gateway.operations.response_relay import AnswerForm
from partway.gateway.operations.response_stream import relay_answer
from partway.gateway.requests.prediction import PredictionPolicy
from partway.gateway.serving.error_dialects import prediction_object
from partway.gateway.serving.exchange import Exchange
from partway.gateway.serving.payloads import StreamedPayload
from partway.gateway.serving.routes import Access, Route
from partway.gateway.streams.registry import Streams
from partway.protocol.errors import InputValidationError
from partway.protocol.http_body import HttpBody, read_http_body, write_http_body
from partway.protocol.parts import StreamError

OPERATION: Final = "RawPredict"
STREAM_OPERATION: Final = "StreamRawPredict"

_RULES: Final = {name: INVOKE_HEADERS[name] for name in ("Content-Type", "Accept")}
_HANDED_BACK: Final = {"Content-Type": "Content-Type"}


class _Asked(NamedTuple):
    """What a client asks with.

    Attributes:
        asking: whose body a container gets.
        headers: those that a container gets.
        is_wrapped: whether bodies are within JSON, both ways.
    """

    asking: Asking
    headers: Mapping[str, str]
    is_wrapped: bool


class RawPredict:
    """The operations rawPredict and streamRawPredict.

    Args:
        invocations: asks instances.
        streams: where a response that streams is admitted and kept, as any stream.
        policy_of: how an endpoint's containers are asked.
        most_bytes: of a request's body, and of an answer's that does not stream.
    """

    def __init__(
        self,
        invocations: Invocations,
        streams: Streams,
        policy_of: Callable[[str], PredictionPolicy],
        most_bytes: int,
    ) -> None:
        self._invocations = invocations
        self._streams = streams
        self._policy_of = policy_of
        self._most_bytes = most_bytes

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of both."""
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
        """Answer with the container's body, as it is."""
        asked = await self._asked(exchange)
        async with self._invocations.answered(
            *(asked.asking, identity, named["endpoint"], asked.headers),
            target=self._policy_of(named["endpoint"]).route,
            most_bytes=self._most_bytes,
        ) as invoked:
            back = _headers(named, invoked)
            if not asked.is_wrapped:
                await pass_on(exchange, invoked, back, self._most_bytes)
                return
            answer = await whole_answer(exchange, invoked, self._most_bytes)
            wrapped = write_http_body(HttpBody(back.get("Content-Type", ""), answer))
            exchange.respond(200, wrapped, {**back, **JSON})

    async def stream(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer with the container's chunks, each at once."""
        asked = await self._asked(exchange)

        def response(invoked: Invoked) -> tuple[Mapping[str, str], AnswerForm]:
            back = _headers(named, invoked)
            if not asked.is_wrapped:
                return back, Chunks()
            return {**back, **JSON}, WrappedChunks(back.get("Content-Type", ""))

        answered = self._invocations.answered(
            *(asked.asking, identity, named["endpoint"], asked.headers),
            as_stream=True,
            target=self._policy_of(named["endpoint"]).route,
            most_bytes=self._most_bytes,
        )
        await relay_answer(self._streams, exchange, identity, answered, response)

    async def _asked(self, exchange: Exchange) -> _Asked:
        if not wants_http_body(exchange.query):
            return _Asked(exchange, passed_on(exchange.headers, _RULES), is_wrapped=False)
        try:
            body = read_http_body(await exchange.body(self._most_bytes))
        except ValueError as fault:
            raise InputValidationError(str(fault), "InvalidHttpBody") from None
        # The container's answer may be of any type, whatever it is wrapped in.
        headers = passed_on(CIMultiDict({"Content-Type": body.content_type}), _RULES)
        return _Asked(PreparedBody(exchange, body.data), headers, is_wrapped=True)


class Chunks:
    """A container's chunks as they are; where the answer breaks off, so does the response."""

    def chunk(self, data: bytes) -> bytes:
        """The chunk itself."""
        return data

    async def end(self, exchange: Exchange, error: StreamError | None) -> None:
        """End the response, if the answer is whole."""
        if error is None:
            await exchange.end()


class WrappedChunks:
    """A container's chunks as an array of JSON, as clients of Google's read a stream.

    Args:
        content_type: the answer's.
    """

    def __init__(self, content_type: str) -> None:
        self._content_type = content_type
        self._before = b"["

    def chunk(self, data: bytes) -> bytes:
        """An element of the array."""
        before, self._before = self._before, b",\n"
        return before + write_http_body(HttpBody(self._content_type, data))

    async def end(self, exchange: Exchange, error: StreamError | None) -> None:
        """End the array, if the answer is whole."""
        if error is None:
            await exchange.end(b"[]" if self._before == b"[" else b"]")


def _headers(named: Mapping[str, str], invoked: Invoked) -> dict[str, str]:
    return {
        **handed_back(invoked.head.headers, _HANDED_BACK),
        **NO_PAGE,
        **answer_headers(named["parent"], invoked),
    }
