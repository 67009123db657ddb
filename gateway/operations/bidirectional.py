"""InvokeEndpointWithBidirectionalStream: from a request to a running session (sections 3 and 4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from gateway.dialling import Upgraded
from gateway.fleet.endpoints import Endpoint
from gateway.serving.access import check_origin
from gateway.serving.exchange import Exchange
from gateway.streams.client_leg import LEGS, RAW
from gateway.streams.clock import LoopClock
from gateway.streams.container_leg import DEFAULT_PATH, WebSocketContainerLeg, dial
from gateway.streams.session import Session
from protocol.errors import InputValidationError, ModelError
from protocol.handshake import UpgradeError, check_upgrade, is_upgrade, tokens, upgrade_headers
from protocol.limits import (
    ENDPOINT_NAME,
    INVOCATION_PATH,
    MAX_ENDPOINT_NAME,
    MAX_INVOCATION_PATH,
    MAX_QUERY_STRING,
    QUERY_STRING,
)

if TYPE_CHECKING:
    from gateway.gateway import Gateway

log = logging.getLogger("partway.gateway")

PATH_HEADER = "X-Amzn-SageMaker-Model-Invocation-Path"
QUERY_HEADER = "X-Amzn-SageMaker-Model-Query-String"
VARIANT_HEADER = "X-Amzn-SageMaker-Target-Variant"


class BidirectionalStream:
    """The operation.

    Args:
        gateway: whose endpoints, sessions and settings it works with.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, exchange: Exchange, named: Mapping[str, str]) -> None:
        """Answer one request; returns when its stream is over."""
        if not is_upgrade(exchange.headers) or exchange.version != "1.1":
            raise InputValidationError(
                "this operation takes a WebSocket upgrade: "
                "send GET over HTTP/1.1 with Upgrade: websocket",
                "UpgradeRequired",
            )
        check_origin(exchange.headers, self._gateway.settings.allow_origins)
        endpoint = self._gateway.endpoints.find(named["endpoint"])
        try:
            key = check_upgrade(exchange.method, exchange.headers)
        except UpgradeError as error:
            refusal = InputValidationError(error.reason, "BadUpgrade")
            self._gateway.refused(exchange, refusal, error.status)
            exchange.respond(error.status, refusal.body(), {**_JSON_ERROR, **error.headers})
            return
        offered = tokens(exchange.headers.get("Sec-WebSocket-Protocol", ""))
        subprotocol = next((name for name in offered if name in LEGS), None)
        if offered and subprotocol is None:
            raise InputValidationError(
                f"none of the subprotocols offered is known; known are {', '.join(LEGS)}",
                "UnknownSubprotocol",
            )
        target = container_target(exchange)

        with self._gateway.opening():
            upgraded = await self._dial(endpoint, target, exchange.request_id)
            try:
                # Clause 2.2-2: the client's 101 follows the container's.
                await exchange.upgrade(
                    {
                        **upgrade_headers(key, subprotocol),
                        "x-amzn-invoked-production-variant": endpoint.variant,
                    }
                )
            except BaseException:
                upgraded.transport.abort()
                raise
            clock = LoopClock()
            session = Session(
                endpoint=endpoint.name,
                request_id=exchange.request_id,
                client=LEGS[subprotocol or RAW](exchange.hand_over, endpoint.policy, clock),
                container=WebSocketContainerLeg(upgraded, endpoint.policy, clock),
                policy=endpoint.policy,
                clock=clock,
                on_end=self._gateway.session_ended,
            )
            self._gateway.session_started(session)
        session.start()
        await session.closed()

    async def _dial(self, endpoint: Endpoint, target: str, request_id: str) -> Upgraded:
        try:
            return await dial(endpoint.container, target, request_id, endpoint.policy)
        except ModelError as error:
            # Where the container runs is for the operator to see, not for the client.
            log.warning(
                "no stream endpoint=%s container=%s request_id=%s: %s",
                endpoint.name,
                endpoint.container,
                request_id,
                error.message,
            )
            raise


_JSON_ERROR = {"Content-Type": "application/json", "x-amzn-ErrorType": InputValidationError.name}


def container_target(exchange: Exchange) -> str:
    """Path and query toward the container (clauses 1.6-1, 3-3, 4-7).

    Headers count; on an upgrade the query's ``path``, ``query`` and ``variant`` stand for those
    that a browser cannot set. An empty value counts as absent (clause 2.1-3).

    Raises:
        InputValidationError: a value is against its pattern; says which.
    """
    query = dict(parse_qsl(exchange.query))
    path = exchange.headers.get(PATH_HEADER) or query.get("path") or ""
    model_query = exchange.headers.get(QUERY_HEADER) or query.get("query") or ""
    variant = exchange.headers.get(VARIANT_HEADER) or query.get("variant") or ""
    if path:
        _check_path(path)
    if model_query and (
        len(model_query) > MAX_QUERY_STRING or not QUERY_STRING.fullmatch(model_query)
    ):
        raise InputValidationError(
            f"ModelQueryString is up to {MAX_QUERY_STRING} characters of key=value pairs joined "
            "by &, values not empty and percent-encoded",
            "InvalidModelQueryString",
        )
    if variant and (len(variant) > MAX_ENDPOINT_NAME or not ENDPOINT_NAME.fullmatch(variant)):
        raise InputValidationError(
            f"TargetVariant is up to {MAX_ENDPOINT_NAME} letters, digits and hyphens",
            "InvalidTargetVariant",
        )
    target = f"/{path}" if path else DEFAULT_PATH
    return f"{target}?{model_query}" if model_query else target


def _check_path(path: str) -> None:
    """Clause 4-7, and no way out of the container's tree: ``.`` and ``..`` match its pattern."""
    dotted = any(segment in (".", "..") for segment in path.split("/"))
    if len(path) > MAX_INVOCATION_PATH or dotted or not INVOCATION_PATH.fullmatch(path):
        raise InputValidationError(
            f"ModelInvocationPath is up to {MAX_INVOCATION_PATH} characters, segments of letters, "
            "digits, '-', '.' and '_' joined by '/', no leading slash, no '.' or '..'",
            "InvalidModelInvocationPath",
        )
