"""predict: instances in JSON to a container, and its predictions back, one for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeVar

import orjson

from partway.gateway.access.authentication import Identity
from partway.gateway.access.origins import asked_host
from partway.gateway.arns import Arns
from partway.gateway.fleet.routing import RoutingTable
from partway.gateway.operations.invocation_headers import NO_PAGE
from partway.gateway.operations.invocations import (
    Invocations,
    Invoked,
    answer_too_large,
    model_error,
)
from partway.gateway.operations.prediction_routes import (
    GRANTED_WITH,
    HOST_PREDICT,
    JSON,
    MODEL_PREDICT,
    VERSION,
    answer_headers,
    endpoint_of_host,
    model_name,
    of_endpoint,
)
from partway.gateway.operations.prepared_body import PreparedBody
from partway.gateway.requests.prediction import PredictionPolicy
from partway.gateway.serving.error_dialects import prediction_object, prediction_text
from partway.gateway.serving.exchange import Exchange
from partway.gateway.serving.payloads import GatheredPayload
from partway.gateway.serving.routes import Access, Leave, Route
from partway.protocol.errors import InputValidationError, UnknownEndpoint
from partway.protocol.limits import KIB
from partway.protocol.prediction import (
    PredictionFault,
    PredictRequest,
    read_answer,
    read_request,
)

OPERATION: Final = "Predict"

_T = TypeVar("_T")

_POST: Final = frozenset({"POST"})
_TO_CONTAINER: Final = {**JSON, "Accept": "application/json"}

#: A longer body is read on a thread: that takes milliseconds.
_AT_ONCE: Final = 64 * KIB


class _Predicted(NamedTuple):
    """What a container has answered.

    Attributes:
        predictions: an array's text.
        variant: the name of the variant that has answered.
        headers: what the response says of it.
    """

    predictions: bytes
    variant: str
    headers: Mapping[str, str]


class Predict:
    """The operation predict, by each of its paths.

    Args:
        invocations: asks instances.
        table: the endpoints that there are.
        policy_of: how an endpoint's containers are asked.
        arns: makes the names of what leave is asked for.
        most_bytes: of a request's body, and of an answer's.
    """

    def __init__(
        self,
        invocations: Invocations,
        table: Callable[[], RoutingTable],
        policy_of: Callable[[str], PredictionPolicy],
        arns: Arns,
        most_bytes: int,
    ) -> None:
        self._invocations = invocations
        self._table = table
        self._policy_of = policy_of
        self._arns = arns
        self._most_bytes = most_bytes

    @property
    def routes(self) -> tuple[Route, ...]:
        """The operation's routes."""
        payload, access = GatheredPayload(self._most_bytes), Access.SIGNED_OR_BEARER
        return (
            Route(
                *(OPERATION, _POST, of_endpoint("predict"), self.of_endpoint, access, payload),
                errors=prediction_object,
                granted_with=GRANTED_WITH,
            ),
            Route(
                *(OPERATION, _POST, HOST_PREDICT, self.of_host, access, payload),
                errors=prediction_text,
                leave=Leave.OF_OPERATION,
            ),
            Route(
                *(OPERATION, _POST, MODEL_PREDICT, self.of_model, access, payload),
                errors=prediction_text,
                granted_with=GRANTED_WITH,
            ),
        )

    async def of_endpoint(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer as the platform does, by whose name of the endpoint it is asked."""
        parent, endpoint = named["parent"], named["endpoint"]
        found = await self._predicted(exchange, identity, endpoint, parent)
        model = orjson.dumps(model_name(parent, endpoint))
        further = _deployed(found) + b', "model": %b' % model
        exchange.respond(200, _body(found, further), {**JSON, **NO_PAGE, **found.headers})

    async def of_host(
        self, exchange: Exchange, identity: Identity, _named: Mapping[str, str]
    ) -> None:
        """Answer as the document has it: the host names the endpoint."""
        host = asked_host(exchange.headers)
        endpoints = self._table()
        endpoint = endpoint_of_host(host, endpoints)
        if endpoint:  # who may not ask it does not learn whether it is there
            identity.check(f"sagemaker:{GRANTED_WITH}", self._arns.of("endpoint", endpoint))
        if endpoint not in endpoints:
            raise UnknownEndpoint(
                "the request names no endpoint: the first label of its host must be an endpoint's "
                "name, as in http://NAME.example/v1/model:predict; or ask /v1/models/NAME:predict"
            )
        found = await self._predicted(exchange, identity, endpoint)
        exchange.respond(200, _body(found, _deployed(found)), {**JSON, **NO_PAGE})

    async def of_model(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer as KServe and TF Serving do."""
        check_version(named)
        found = await self._predicted(exchange, identity, named["endpoint"])
        exchange.respond(200, _body(found), {**JSON, **NO_PAGE})

    # --- To the container, and back --------------------------------------------------------------

    async def _predicted(
        self, exchange: Exchange, identity: Identity, endpoint: str, parent: str = ""
    ) -> _Predicted:
        policy = self._policy_of(endpoint)
        request = await self._request(exchange, policy)
        async with self._invocations.answered(
            *(PreparedBody(exchange, request.body), identity, endpoint, _TO_CONTAINER),
            target=policy.route,
            most_bytes=self._most_bytes,
        ) as invoked:
            answer = await whole_answer(exchange, invoked, self._most_bytes)
            try:
                predictions = await _read(answer, read_answer, request.instances)
            except PredictionFault as fault:
                raise model_error(0, f"the container's answer: {fault}", retries=False) from None
            headers = answer_headers(parent, invoked)
            return _Predicted(predictions, invoked.lease.variant, headers)

    async def _request(self, exchange: Exchange, policy: PredictionPolicy) -> PredictRequest:
        body = await exchange.body(self._most_bytes)
        wraps = policy.wrap == "data"
        try:
            return await _read(body, lambda text, _: read_request(text, wrap=wraps), 0)
        except PredictionFault as fault:
            raise InputValidationError(str(fault), "InvalidInstances") from None


def check_version(named: Mapping[str, str]) -> None:
    """Refuse a version that a path names, if it is not the one that there is.

    Raises:
        UnknownEndpoint: it is another one.
    """
    if named["version"] not in ("", VERSION):
        raise UnknownEndpoint(f"the model has no version {named['version']}; it has {VERSION}")


async def whole_answer(exchange: Exchange, invoked: Invoked, most_bytes: int) -> bytes:
    """A container's answer, all of it; what of it is held counts as the request's.

    Raises:
        ContainerError: it does not come, or not whole, or has more bytes.
        ServiceUnavailable: the gateway has no room for it.
    """
    whole = bytearray()
    while piece := await invoked.answer.read():
        if len(whole) + len(piece) > most_bytes:
            raise answer_too_large(most_bytes)
        exchange.holding.draw(len(piece))
        whole += piece
    return bytes(whole)


async def _read(body: bytes, read: Callable[[bytes, int], _T], instances: int) -> _T:
    """Read a body; a long one on a thread, so that nobody else waits for it."""
    if len(body) <= _AT_ONCE:
        return read(body, instances)
    return await asyncio.to_thread(read, body, instances)


def _deployed(found: _Predicted) -> bytes:
    return b', "deployedModelId": %b' % orjson.dumps(found.variant)


def _body(found: _Predicted, further: bytes = b"") -> bytes:
    return b'{"predictions": %b%b}' % (found.predictions, further)
