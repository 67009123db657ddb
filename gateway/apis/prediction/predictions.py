"""Instances to a container, and its predictions back, one for each: whatever a client asked in."""

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

#: Numbers, of which none is made, are read at once if it takes no more than so many bytes of them:
#: a millisecond, and three at worst, in a library that keeps the lock.
NUMBERS_AT_ONCE: Final = 1024 * KIB


class Predicted(NamedTuple, Generic[_T]):
    """What a container has answered.

    Attributes:
        predictions: as they were read.
        invoked: whose answer it was.
    """

    predictions: _T
    invoked: Invocation


class Predictions:
    """Asks containers for predictions.

    Args:
        invocations: asks instances.
        workers: read long answers.
        most_bytes: of a container's answer.
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
        """Ask with all instances, and read what comes.

        Args:
            exchange: the client's.
            identity: who sends it.
            endpoint: the endpoint's name.
            request: what the container gets.
            route: the path at which it is asked; None for the container's own.
            read: reads an answer, given how many instances were asked with; it raises
                PredictionFault where that is none.
            cost: estimates what it takes to read an answer, in elements.
            variant: the only one that will do; empty for any.

        Raises:
            ContainerError: the container failed, or its answer is none.
            ServiceUnavailable: no instance takes any now, or the gateway is full or draining.
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
    """A container's answer, all of it, without its content coding.

    The bytes that are held of the answer count as the request's.

    Args:
        exchange: the client's.
        invoked: the answer.
        most_bytes: of the answer, both as it comes and without its coding.
        share: undoes the coding.

    Raises:
        ContainerError: it does not come, or not whole, has more bytes, or a coding that is not
            known here.
        ServiceUnavailable: the gateway has no room for it.
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
