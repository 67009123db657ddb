"""predict: JSON instances to a container, and one prediction for each back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

import orjson

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.access.origins import asked_host
from partway.gateway.apis.prediction.errors import prediction_object, prediction_text
from partway.gateway.apis.prediction.predictions import (
    NUMBERS_AT_ONCE,
    Predicted,
    Predictions,
)
from partway.gateway.apis.prediction.routes import (
    GRANTED_WITH,
    HOST_PREDICT,
    JSON,
    MODEL_OTHER,
    MODEL_PREDICT,
    VERSION,
    answer_headers,
    endpoint_of_host,
    model_name,
    of_endpoint,
)
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.arns import Arns
from partway.gateway.containers.invocation import Invocations
from partway.gateway.containers.invocation_headers import NO_PAGE
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import RoutedVariant, RoutingTable
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import GatheredPayload
from partway.gateway.http.routes import Leave, Route
from partway.protocol.errors import InputValidationError, NotFound, UnknownEndpoint
from partway.protocol.prediction.bodies import (
    PredictionFault,
    PredictRequest,
    read_answer,
    read_numbers,
    read_request,
)
from partway.protocol.prediction.columns import as_outputs
from partway.protocol.prediction.work_cost import json_cost, numbers_cost

OPERATION: Final = "Predict"

_T = TypeVar("_T")

_POST: Final = frozenset({"POST"})


class Predict:
    """The operation predict, at each of its paths.

    Args:
        most_bytes: the limit of a request's body, and of an answer's, in bytes.
    """

    def __init__(
        self,
        invocations: Invocations,
        table: Callable[[], RoutingTable],
        policy_of: Callable[[str], PredictionPolicy],
        arns: Arns,
        workers: PredictionWorkers,
        most_bytes: int,
    ) -> None:
        self._predictions = Predictions(invocations, workers, most_bytes)
        self._workers = workers
        self._table = table
        self._policy_of = policy_of
        self._arns = arns
        self._most_bytes = most_bytes

    @property
    def routes(self) -> tuple[Route, ...]:
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
            Route(
                *("PredictOtherwise", _POST, MODEL_OTHER, self.of_model_otherwise, access, payload),
                errors=prediction_text,
                granted_with=GRANTED_WITH,
            ),
        )

    async def of_endpoint(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer as the platform does; the path names the endpoint."""
        parent, endpoint = named["parent"], named["endpoint"]
        found = await self._predicted(exchange, identity, endpoint)
        model = orjson.dumps(model_name(parent, endpoint))
        further = _deployed(found) + b', "model": %b' % model
        headers = {**JSON, **NO_PAGE, **answer_headers(parent, found.invoked)}
        exchange.respond(200, _body(found, further), headers)

    async def of_host(
        self, exchange: Exchange, identity: Identity, _named: Mapping[str, str]
    ) -> None:
        """Answer in the document's form: the host names the endpoint."""
        host = asked_host(exchange.headers)
        endpoints = self._table()
        endpoint = endpoint_of_host(host, endpoints)
        if endpoint:  # a caller without permission does not learn whether the endpoint exists
            identity.check(f"sagemaker:{GRANTED_WITH}", self._arns.of("endpoint", endpoint))
        if endpoint not in endpoints:
            raise UnknownEndpoint(
                "the request names no endpoint: the first label of its host must be an endpoint's "
                "name, as in http://NAME.example/v1/model:predict; or call /v1/models/NAME:predict"
            )
        found = await self._predicted(exchange, identity, endpoint)
        exchange.respond(200, _body(found, _deployed(found)), {**JSON, **NO_PAGE})

    async def of_model(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer as KServe and TF Serving do."""
        endpoint = named["endpoint"]
        there = self._table()  # a missing endpoint is refused by the call to it
        label = checked_label(named, there[endpoint]) if endpoint in there else ""
        body = await self._body(exchange, identity)
        request = await self._request(exchange, identity, endpoint, body, columns=True)
        made = as_outputs if request.columns else _as_they_are
        found = await self._asked(exchange, identity, endpoint, request, made, label)
        if request.columns:
            exchange.respond(200, b'{"outputs": %b}' % found.predictions, {**JSON, **NO_PAGE})
        else:
            exchange.respond(200, _body(found), {**JSON, **NO_PAGE})

    async def of_model_otherwise(
        self, _exchange: Exchange, _identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Refuse other operations of TF Serving and KServe by name."""
        raise NotFound(
            f":{named['verb']} is not supported; it must be :predict, which takes instances of any "
            "form"
        )

    # --- To the container, and back --------------------------------------------------------------

    async def predicted(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        body: bytes,
        made: Callable[[bytes], _T],
    ) -> Predicted[_T]:
        """Call an endpoint with a body, by the endpoint's policy.

        The identity's permission has been checked. ``made`` converts the predictions, the text of
        an array, to the result.

        Raises:
            InputValidationError: the body is not valid.
            ApiError: as in :meth:`Predictions.asked`.
        """
        request = await self._request(exchange, identity, endpoint, body)
        return await self._asked(exchange, identity, endpoint, request, made)

    async def _predicted(
        self, exchange: Exchange, identity: Identity, endpoint: str
    ) -> Predicted[bytes]:
        body = await self._body(exchange, identity)
        return await self.predicted(exchange, identity, endpoint, body, _as_they_are)

    async def _body(self, exchange: Exchange, identity: Identity) -> bytes:
        return await self._workers.share_of(exchange, identity).decoded_body(self._most_bytes)

    async def _asked(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        request: PredictRequest,
        made: Callable[[bytes], _T],
        variant: str = "",
    ) -> Predicted[_T]:
        policy = self._policy_of(endpoint)

        def read(answer: bytes, instances: int) -> _T:
            return made(read_answer(answer, instances, policy.signature))

        stays_text = made is _as_they_are and policy.signature is None
        cost = numbers_cost if stays_text else json_cost
        return await self._predictions.asked(
            exchange, identity, endpoint, request, policy.route, read, cost, variant
        )

    async def _request(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        body: bytes,
        *,
        columns: bool = False,
    ) -> PredictRequest:
        """Parse a body by its endpoint's policy; raises InputValidationError if it is not valid."""
        policy = self._policy_of(endpoint)
        wraps, signature = policy.wrap == "data", policy.signature
        if signature is None and not wraps:
            numbers = read_numbers(body, NUMBERS_AT_ONCE)
            if numbers is not None:
                return numbers
        try:
            return await self._workers.share_of(exchange, identity).run(
                json_cost(body),
                partial(read_request, body, wrap=wraps, signature=signature, columns=columns),
            )
        except PredictionFault as fault:
            raise InputValidationError(str(fault), "InvalidInstances") from None


def _as_they_are(predictions: bytes) -> bytes:
    return predictions


def check_version(named: Mapping[str, str]) -> None:
    """Raise UnknownEndpoint for a version in the path that is not the only one."""
    if named["version"] not in ("", VERSION):
        raise UnknownEndpoint(f"the model has no version {named['version']}; it has {VERSION}")


def checked_label(named: Mapping[str, str], variants: Iterable[RoutedVariant]) -> str:
    """Return the variant that a path names as a version's label; empty if it names none.

    Raises:
        UnknownEndpoint: the model has no such version or label.
    """
    check_version(named)
    label = named["label"]
    labels = [each.name for each in variants]
    if label and label not in labels:
        raise UnknownEndpoint(
            f"the model has no version with the label {label!r}; it must be a variant's name: "
            f"{' or '.join(labels)}"
        )
    return label


def _deployed(found: Predicted[bytes]) -> bytes:
    return b', "deployedModelId": %b' % orjson.dumps(found.invoked.lease.variant)


def _body(found: Predicted[bytes], further: bytes = b"") -> bytes:
    return b'{"predictions": %b%b}' % (found.predictions, further)
