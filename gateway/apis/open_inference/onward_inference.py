"""ModelInfer for containers that support the Open Inference Protocol over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.open_inference.mapped_inference import invalid
from partway.gateway.apis.prediction.predictions import whole_answer
from partway.gateway.apis.prediction.routes import JSON
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.containers.failures import model_error
from partway.gateway.containers.invocation import Invocations
from partway.gateway.containers.prepared_request import PreparedRequest
from partway.gateway.http.exchange import Exchange, stated_length
from partway.protocol.open_inference import HEADER_LENGTH
from partway.protocol.open_inference.onward import read_response, write_request
from partway.protocol.open_inference.requests import InferRequest
from partway.protocol.open_inference.tensors import Tensor, TensorFault, tensors_cost
from partway.protocol.prediction.bodies import PredictionFault
from partway.protocol.prediction.work_cost import json_cost

_BINARY: Final = {"Content-Type": "application/octet-stream"}


class OnwardInference:
    """Calls containers with tensors, as a client of the protocol would.

    Args:
        most_bytes: the limit of a container's answer in bytes.
    """

    def __init__(
        self, invocations: Invocations, workers: PredictionWorkers, most_bytes: int
    ) -> None:
        self._invocations = invocations
        self._workers = workers
        self._most_bytes = most_bytes

    async def infer(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        route: str,
        request: InferRequest,
    ) -> Sequence[Tensor]:
        """Call a container with tensors, in whatever form they came.

        The identity's permission has been checked. ``route`` is the path for calls to the
        container.

        Raises:
            InputValidationError: a tensor that the client did not send as raw bytes cannot be
                written as JSON.
            ApiError: as in :meth:`Invocations.answered`; or the answer is not valid.
        """
        share = self._workers.share_of(exchange, identity)
        try:
            body, header_length = await share.run(
                tensors_cost(request.inputs), write_request, request
            )
        except TensorFault as fault:
            raise invalid(fault) from None
        exchange.holding.draw(len(body))
        headers = dict(JSON)
        if header_length is not None:
            headers = {**_BINARY, HEADER_LENGTH: str(header_length)}
        async with self._invocations.answered(
            *(PreparedRequest(body, of=exchange), identity, endpoint, headers), target=route
        ) as invoked:
            stated = stated_length(invoked.head.headers, HEADER_LENGTH)
            answer = await whole_answer(exchange, invoked, self._most_bytes, share)
            try:
                return await share.run(json_cost(answer), read_response, answer, stated)
            except PredictionFault as fault:
                raise model_error(0, f"the container's answer: {fault}", retries=False) from None
