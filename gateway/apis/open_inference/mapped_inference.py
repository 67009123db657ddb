"""ModelInfer for containers that take instances, which are converted from and to tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.prediction.predictions import Predictions
from partway.gateway.apis.prediction.routes import JSON, VERSION
from partway.gateway.apis.prediction.workers import PredictionWorkers, WorkerShare
from partway.gateway.containers.invocation import Invocations
from partway.gateway.containers.invocation_headers import NO_PAGE
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.http.content_codings import asked_for, packed
from partway.gateway.http.exchange import Exchange
from partway.protocol.errors import InputValidationError
from partway.protocol.open_inference import HEADER_LENGTH
from partway.protocol.open_inference.mapping import check_names, instances_of, outputs_of
from partway.protocol.open_inference.requests import InferFault, InferRequest, read_request
from partway.protocol.open_inference.responses import InferResponse, write_response
from partway.protocol.open_inference.tensors import Tensor, TensorFault, tensors_cost
from partway.protocol.prediction.bodies import PredictionFault, PredictRequest, read_answer
from partway.protocol.prediction.bodies import read_request as read_instances
from partway.protocol.prediction.work_cost import bytes_cost, json_cost, message_cost

_BINARY: Final = {"Content-Type": "application/octet-stream"}


class MappedInference:
    """Answers tensor requests with containers that take instances.

    Args:
        most_bytes: the limit of a request's body, coded or not, and of a container's answer, in
            bytes.
    """

    def __init__(
        self, invocations: Invocations, workers: PredictionWorkers, most_bytes: int
    ) -> None:
        self._predictions = Predictions(invocations, workers, most_bytes)
        self._workers = workers
        self._most_bytes = most_bytes

    async def answer(
        self, exchange: Exchange, identity: Identity, endpoint: str, policy: PredictionPolicy
    ) -> None:
        share = self._workers.share_of(exchange, identity)
        body = await share.decoded_body(self._most_bytes)
        header_length = _header_length(exchange.headers)
        try:
            request = await share.run(
                _reading_cost(body, header_length), read_request, body, header_length
            )
            outputs = await self.infer(exchange, identity, endpoint, policy, request)
            response = await share.run(
                tensors_cost(outputs), write_response, request, outputs, endpoint, VERSION
            )
        except (InferFault, TensorFault) as fault:
            raise invalid(fault) from None
        await _respond(exchange, share, response)

    async def infer(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        policy: PredictionPolicy,
        request: InferRequest,
    ) -> Sequence[Tensor]:
        """Call a container with tensors, in whatever form they came.

        The identity's permission has been checked.

        Raises:
            InputValidationError: the tensors cannot become instances, or there is no such output.
            ApiError: as in :meth:`Predictions.asked`.
        """
        try:
            asked = await self._workers.share_of(exchange, identity).run(
                tensors_cost(request.inputs), _instances, request, policy
            )
        except InferFault as fault:
            raise invalid(fault) from None
        exchange.holding.draw(len(asked.body))
        found = await self._predictions.asked(
            *(exchange, identity, endpoint, asked, policy.route),
            lambda answer, count: _outputs(answer, count, request, policy),
        )
        return found.predictions


def invalid(fault: ValueError) -> InputValidationError:
    return InputValidationError(str(fault), "InvalidInferRequest")


def _instances(request: InferRequest, policy: PredictionPolicy) -> PredictRequest:
    named, wraps, signature = policy.tensors == "named", policy.wrap == "data", policy.signature
    if signature is None:
        return instances_of(request, named=named, wrap=wraps)
    check_names(request, signature)
    try:
        instances = instances_of(request, named=named).body
        return read_instances(instances, wrap=wraps, signature=signature)
    except PredictionFault as fault:
        raise InferFault(str(fault)) from None


def _outputs(
    answer: bytes, count: int, request: InferRequest, policy: PredictionPolicy
) -> list[Tensor]:
    predictions = read_answer(answer, count, policy.signature)
    declared = {} if policy.signature is None else policy.signature.outputs
    try:
        return outputs_of(predictions, request.outputs, declared)
    except InferFault as fault:
        raise invalid(fault) from None


def _header_length(headers: Mapping[str, str]) -> int | None:
    stated = headers.get(HEADER_LENGTH)
    if stated is None:
        return None
    if not (stated.isascii() and stated.isdecimal() and len(stated) <= 10):
        raise InputValidationError(
            f"the header {HEADER_LENGTH} must be a whole number of bytes", "InvalidHeader"
        )
    return int(stated)


def _reading_cost(body: bytes, header_length: int | None) -> int:
    end = len(body) if header_length is None else header_length
    return json_cost(body[:end]) + message_cost(max(0, len(body) - end))


async def _respond(exchange: Exchange, share: WorkerShare, response: InferResponse) -> None:
    body, length = response
    headers = {**JSON, **NO_PAGE}
    if length is not None:
        headers |= {**_BINARY, HEADER_LENGTH: str(length)}
    coding = asked_for(exchange.headers.get("Accept-Encoding", ""))
    if coding:
        headers["Vary"] = "Accept-Encoding"
        shorter = await share.run(bytes_cost(len(body)), packed, body, coding)
        if shorter is not None:
            body = shorter
            headers["Content-Encoding"] = coding
    exchange.respond(200, body, headers)
