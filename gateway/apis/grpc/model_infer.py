"""ModelInfer over gRPC, to a container of either kind; numpy and protobuf come with it."""

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
    """Asks containers with the tensors of a message.

    Args:
        invocations: asks instances.
        workers: read and write long bodies.
        most_bytes: of a container's answer.
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

        Args:
            call: the client's.
            identity: who asks, and may.
            endpoint: the endpoint's name.
            policy: how its containers are asked.
            message: a ModelInferRequest.

        Raises:
            InputValidationError: the message is no request.
            ApiError: as of the operation over HTTP.
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
