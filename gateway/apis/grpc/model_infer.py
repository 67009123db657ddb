"""ModelInfer over gRPC, for both kinds of containers; it imports numpy and protobuf."""

from __future__ import annotations

from typing import Any

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.grpc.calls import CallAnswer
from partway.gateway.apis.open_inference.mapped_inference import MappedInference, invalid
from partway.gateway.apis.open_inference.onward_inference import OnwardInference
from partway.gateway.apis.prediction.routes import VERSION
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.containers.invocation import Invocations
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.http.exchange import TrailingExchange
from partway.protocol.grpc.inference import infer_request, infer_response
from partway.protocol.open_inference.requests import InferFault
from partway.protocol.open_inference.tensors import tensors_cost
from partway.protocol.prediction.work_cost import message_cost


class ModelInfer:
    """Calls containers with the tensors of a message.

    Args:
        most_bytes: the limit of a container's answer in bytes.
    """

    def __init__(
        self, invocations: Invocations, workers: PredictionWorkers, most_bytes: int
    ) -> None:
        self._workers = workers
        self._mapped = MappedInference(invocations, workers, most_bytes)
        self._onward = OnwardInference(invocations, workers, most_bytes)

    async def __call__(
        self,
        call: TrailingExchange,
        identity: Identity,
        endpoint: str,
        policy: PredictionPolicy,
        message: Any,
    ) -> CallAnswer:
        """Answer a call.

        The identity's permission has been checked. ``message`` is a ModelInferRequest.

        Raises:
            InputValidationError: the message is not a valid request.
            ApiError: as in the operation over HTTP.
        """
        run = self._workers.share_of(call, identity).run
        try:
            request = await run(message_cost(message.ByteSize()), infer_request, message)
        except InferFault as fault:
            raise invalid(fault) from None
        if policy.infer_route is None:
            outputs = await self._mapped.infer(call, identity, endpoint, policy, request)
        else:
            outputs = await self._onward.infer(
                call, identity, endpoint, policy.infer_route, request
            )
        answer = await run(
            tensors_cost(outputs), infer_response, request, outputs, endpoint, VERSION
        )
        return CallAnswer(answer)
