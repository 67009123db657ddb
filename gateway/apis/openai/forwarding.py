"""Requests of OpenAI's API, forwarded to a container.

Each request counts as a stream, since its answer may take as long as one. Until the container has
answered, the time limit of a request holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.openai.errors import openai_object
from partway.gateway.apis.openai.headers import client_headers, container_headers
from partway.gateway.apis.openai.paths import OF_ENDPOINT, OF_MODEL
from partway.gateway.apis.openai.server_sent_events import ServerSentEvents
from partway.gateway.apis.runtime.response_stream import AnswerResponse, relay_answer, session_of
from partway.gateway.arns import Arns
from partway.gateway.containers.container_requests import CONTENT_TYPE
from partway.gateway.containers.invocation import Invocation, Invocations
from partway.gateway.containers.invocation_headers import INVOKED_VARIANT, NO_PAGE
from partway.gateway.containers.prepared_request import PreparedRequest
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import StreamedPayload
from partway.gateway.http.routes import Leave, Route
from partway.gateway.streams.bidirectional import BidirectionalStream
from partway.gateway.streams.invocation_target import TARGET_CONTAINER, TARGET_VARIANT
from partway.gateway.streams.path_target import container_target, raw_part
from partway.gateway.streams.registry import Streams
from partway.gateway.streams.response_relay import CHUNKS
from partway.protocol.errors import AccessDenied, InputValidationError
from partway.protocol.http.content_codings import coding_of, is_coded
from partway.protocol.http.content_types import media_type_of
from partway.protocol.http1.response import BODILESS
from partway.protocol.openai.request_model import (
    ModelUnknown,
    Taken,
    from_form,
    from_json,
    from_query,
)
from partway.protocol.websocket.handshake import is_upgrade

#: A caller who may invoke an endpoint may do so by this API too.
GRANTED_WITH: Final = "InvokeEndpoint"
ACTION: Final = f"sagemaker:{GRANTED_WITH}"

OF_ENDPOINT_OPERATION: Final = "ForwardToOpenAiPath"
OF_MODEL_OPERATION: Final = "ForwardToModel"

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
#: Methods whose requests have no body (RFC 9110 §9.3).
_BODILESS: Final = frozenset({"GET", "DELETE"})


class Forwarding:
    """Forwards requests to the endpoint that the path names, or the request's model.

    Args:
        invocations: calls instances.
        streams: admits and holds answers, as all streams.
        bidirectional: opens streams for WebSockets.
        arns: makes the ARN of an endpoint that the model names.
    """

    def __init__(
        self,
        invocations: Invocations,
        streams: Streams,
        bidirectional: BidirectionalStream,
        arns: Arns,
    ) -> None:
        self._invocations = invocations
        self._streams = streams
        self._bidirectional = bidirectional
        self._arns = arns

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of both kinds of requests."""
        return (
            Route(
                *(OF_ENDPOINT_OPERATION, _METHODS, OF_ENDPOINT, self.to_endpoint),
                access=Access.SIGNED_BEARER_OR_API_KEY,
                payload=StreamedPayload(self._invocations.most_bytes),
                errors=openai_object,
                granted_with=GRANTED_WITH,
            ),
            Route(
                *(OF_MODEL_OPERATION, _METHODS, OF_MODEL, self.to_model),
                access=Access.SIGNED_BEARER_OR_API_KEY,
                payload=StreamedPayload(self._invocations.most_bytes),
                errors=openai_object,
                leave=Leave.OF_OPERATION,
                granted_with=GRANTED_WITH,
            ),
        )

    async def to_endpoint(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Forward a request to the endpoint in its path; a body goes as it comes."""
        check_not_a_page(exchange, identity)
        target = container_target(_v1_path(exchange, OF_ENDPOINT), exchange.query)
        if is_upgrade(exchange.headers):
            if named["component"]:
                raise InputValidationError(
                    "an inference component takes requests alone; open the stream below the "
                    "endpoint's own path",
                    "InvalidPath",
                )
            await self._stream(exchange, identity, named["endpoint"], target)
            return
        request: Exchange | PreparedRequest = exchange
        if exchange.method in _BODILESS:
            request = PreparedRequest(b"", of=exchange)
        component = named["component"]
        await self._forward(exchange, identity, named["endpoint"], request, target, component)

    async def to_model(self, exchange: Exchange, identity: Identity, *_: object) -> None:
        """Forward a request to the endpoint that its model names; the model becomes empty."""
        check_not_a_page(exchange, identity)
        endpoint, query, request = await self._by_model(exchange)
        resource = self._arns.of("endpoint", endpoint)
        identity.check(ACTION, resource)
        watched = identity.watched(ACTION, resource)
        target = container_target(_v1_path(exchange, OF_MODEL), query)
        if is_upgrade(exchange.headers):
            await self._stream(exchange, watched, endpoint, target)
            return
        await self._forward(exchange, watched, endpoint, request, target)

    async def _by_model(self, exchange: Exchange) -> tuple[str, str, PreparedRequest]:
        """Return the endpoint that a request's model names, its query, and the request without it.

        The request alone refers to the body from here on, and releases it with the quota.

        Raises:
            InputValidationError: the request names no model.
        """
        try:
            if exchange.method in _BODILESS:
                model, query = from_query(exchange.query)
                return model, query.decode(), PreparedRequest(b"", of=exchange)
            model, body = await self._taken_from_body(exchange)
        except ModelUnknown as fault:
            raise InputValidationError(str(fault), "InvalidModel") from None
        exchange.let_go_of_body()
        exchange.holding.draw(len(body))
        return model, exchange.query, PreparedRequest(body, of=exchange)

    async def _taken_from_body(self, exchange: Exchange) -> Taken:
        body = await exchange.body(self._invocations.most_bytes)
        content_type = exchange.headers.get(CONTENT_TYPE, "")
        if media_type_of(content_type) == "multipart/form-data":
            return from_form(body, content_type)
        return from_json(body)

    async def _stream(
        self, exchange: Exchange, identity: Identity, endpoint: str, target: str
    ) -> None:
        from partway.gateway.apis.openai.realtime import RealtimeFront

        front = RealtimeFront(exchange, target)
        await self._bidirectional.serve(exchange, identity, endpoint, front)

    async def _forward(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        request: Exchange | PreparedRequest,
        target: str,
        component: str = "",
    ) -> None:
        def response(invoked: Invocation) -> AnswerResponse:
            head = invoked.head
            headers = {
                **client_headers(head, exchange.request_id),
                INVOKED_VARIANT: invoked.lease.variant,
                **NO_PAGE,
            }
            media_type = media_type_of(head.headers.get(CONTENT_TYPE, ""))
            if media_type == "text/event-stream" and not is_coded(coding_of(head.headers)):
                # No length: an event with an error may follow.
                return AnswerResponse(headers, ServerSentEvents(), head.status)
            if head.length is not None and head.status not in BODILESS:
                headers["Content-Length"] = str(head.length)
            return AnswerResponse(headers, CHUNKS, head.status)

        headers = container_headers(exchange.headers, component)
        answered = self._invocations.answered(
            *(request, identity, endpoint, headers),
            variant=headers.get(TARGET_VARIANT, ""),
            container=headers.get(TARGET_CONTAINER, ""),
            session=session_of(headers),
            target=target,
            method=exchange.method,
            as_stream=True,
            any_status=True,
        )
        await relay_answer(self._streams, exchange, identity, answered, response)


def check_not_a_page(exchange: Exchange, identity: Identity) -> None:
    """Refuse a web page's request without Origin, such as an image's, to an open gateway.

    Such a request needs no answer to do harm, and a page whose name was pointed here may read the
    answer (DNS rebinding). The dispatcher checks requests with Origin (clause 3-4).

    Raises:
        AccessDenied: a page sends it, and the gateway does not authenticate.
    """
    headers = exchange.headers
    site = headers.get("Sec-Fetch-Site", "none")
    if identity.principal is None and site != "none" and "Origin" not in headers:
        raise AccessDenied("web pages may not send this request to a gateway without --auth sigv4")


def _v1_path(exchange: Exchange, pattern: re.Pattern[str]) -> str:
    """Return the container's path; some Realtime clients upgrade at ``/openai/v1`` itself."""
    rest = raw_part(exchange.path, pattern, "rest")
    return f"v1/{rest or ('realtime' if is_upgrade(exchange.headers) else '')}"
