"""Predictions: instances to a container, and one prediction for each back, for all protocols."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Final, Generic, NamedTuple, TypeVar

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.prediction.routes import JSON
from partway.gateway.apis.prediction.workers import PredictionWorkers, WorkerShare
from partway.gateway.containers.failures import answer_too_large, model_error
from partway.gateway.containers.invocation import Invocation, Invocations
from partway.gateway.containers.prepared_request import PreparedRequest
from partway.gateway.http.exchange import Exchange
from partway.protocol.http.content_codings import CONTENT_ENCODING, CodingFault, decoded, is_coded
from partway.protocol.limits import KIB
from partway.protocol.prediction.bodies import PredictionFault, PredictRequest
from partway.protocol.prediction.work_cost import bytes_cost, json_cost

_T = TypeVar("_T")

_TO_CONTAINER: Final = {**JSON, "Accept": "application/json"}

#: Bytes of numbers that are parsed on the event loop, without conversion. This takes one
#: millisecond, three at worst, in a library that holds the interpreter's lock.
NUMBERS_AT_ONCE: Final = 1024 * KIB


class Predicted(NamedTuple, Generic[_T]):
    predictions: _T
    invoked: Invocation


class Predictions:
    """Calls containers for predictions.

    Args:
        most_bytes: the limit of a container's answer in bytes.
    """

    def __init__(
        self, invocations: Invocations, workers: PredictionWorkers, most_bytes: int
    ) -> None:
        self._invocations = invocations
        self._workers = workers
        self._most_bytes = most_bytes

    async def asked(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        request: PredictRequest,
        route: str | None,
        read: Callable[[bytes, int], _T],
        cost: Callable[[bytes], int] = json_cost,
        variant: str = "",
    ) -> Predicted[_T]:
        """Call a container with all instances, and parse the answer.

        ``route`` is the path for the call; None for the container's own. ``read`` parses an answer,
        given the number of instances; it raises PredictionFault if the answer is not valid.
        ``cost`` estimates the cost of parsing an answer, in elements. ``variant`` is the only
        allowed variant; empty for any.

        Raises:
            ContainerError: the container failed, or its answer is not valid.
            ServiceUnavailable: no instance takes requests now, or the gateway is full or draining.
            InputValidationError: no endpoint has the name.
        """
        body, instances = PreparedRequest(request.body, of=exchange), request.instances
        async with self._invocations.answered(
            *(body, identity, endpoint, _TO_CONTAINER), target=route, variant=variant
        ) as invoked:
            share = self._workers.share_of(exchange, identity)
            answer = await whole_answer(exchange, invoked, self._most_bytes, share)
            try:
                predictions = await share.run(cost(answer), read, answer, instances)
            except PredictionFault as fault:
                raise model_error(0, f"the container's answer: {fault}", retries=False) from None
            return Predicted(predictions, invoked)


async def whole_answer(
    exchange: Exchange, invoked: Invocation, most_bytes: int, share: WorkerShare
) -> bytes:
    """Return a container's whole answer, without its content coding.

    The answer's bytes count in the memory of the request.

    ``most_bytes`` limits the answer both coded and decoded; ``share`` undoes the coding.

    Raises:
        ContainerError: the answer does not come, or not whole; it has more bytes, or an unknown
            coding.
        ServiceUnavailable: the gateway has no room for the answer.
    """
    whole = BytesIO()
    while piece := await invoked.answer.read():
        if whole.tell() + len(piece) > most_bytes:
            raise answer_too_large(most_bytes)
        exchange.holding.draw(len(piece))
        whole.write(piece)
    coding = invoked.head.headers.get(CONTENT_ENCODING, "")
    if not is_coded(coding):
        return whole.getvalue()
    try:
        cost = bytes_cost(most_bytes)
        found = await share.run(cost, decoded, whole.getvalue(), coding, most_bytes)
    except CodingFault as fault:
        raise model_error(0, f"the container's answer: {fault}", retries=False) from None
    exchange.holding.draw(len(found))
    return found
