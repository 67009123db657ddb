"""Instances to a container, and its predictions back, one for each: whatever a client asked in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from io import BytesIO
from typing import Final, Generic, NamedTuple, ParamSpec, TypeVar

from partway.gateway.access.authentication import Identity
from partway.gateway.operations.container_failures import answer_too_large, model_error
from partway.gateway.operations.invocations import Invocations, Invoked
from partway.gateway.operations.prediction_routes import JSON
from partway.gateway.operations.prepared_body import PreparedBody
from partway.gateway.serving.exchange import Exchange
from partway.protocol.limits import KIB
from partway.protocol.prediction import PredictionFault, PredictRequest

_T = TypeVar("_T")
_P = ParamSpec("_P")

_TO_CONTAINER: Final = {**JSON, "Accept": "application/json"}

#: A longer body is read on a thread: that takes milliseconds. Who computes on a thread keeps the
#: interpreter's lock for 5 ms of them (:func:`sys.setswitchinterval`), or until a library returns,
#: and the loop waits for it: what is over sooner is done at once.
_AT_ONCE: Final = 64 * KIB

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
    invoked: Invoked


class Predictions:
    """Asks containers for predictions.

    Args:
        invocations: asks instances.
        most_bytes: of a container's answer.
    """

    def __init__(self, invocations: Invocations, most_bytes: int) -> None:
        self._invocations = invocations
        self._most_bytes = most_bytes

    async def asked(
        self,
        exchange: Exchange,
        identity: Identity,
        endpoint: str,
        request: PredictRequest,
        route: str | None,
        read: Callable[[bytes, int], _T],
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
            variant: the only one that will do; empty for any.

        Raises:
            ContainerError: the container failed, or its answer is none.
            ServiceUnavailable: no instance takes any now, or the gateway is full or draining.
            InputValidationError: no endpoint has the name.
        """
        async with self._invocations.answered(
            *(PreparedBody(exchange, request.body), identity, endpoint, _TO_CONTAINER),
            target=route,
            variant=variant,
        ) as invoked:
            answer = await whole_answer(exchange, invoked, self._most_bytes)
            try:
                predictions = await beside(len(answer), read, answer, request.instances)
            except PredictionFault as fault:
                raise model_error(0, f"the container's answer: {fault}", retries=False) from None
            return Predicted(predictions, invoked)


async def whole_answer(exchange: Exchange, invoked: Invoked, most_bytes: int) -> bytes:
    """A container's answer, all of it; what of it is held counts as the request's.

    Raises:
        ContainerError: it does not come, or not whole, or has more bytes.
        ServiceUnavailable: the gateway has no room for it.
    """
    whole = BytesIO()
    while piece := await invoked.answer.read():
        if whole.tell() + len(piece) > most_bytes:
            raise answer_too_large(most_bytes)
        exchange.holding.draw(len(piece))
        whole.write(piece)
    return whole.getvalue()


async def beside(size: int, work: Callable[_P, _T], *args: _P.args, **options: _P.kwargs) -> _T:
    """Do what takes time by the size of a body; a long one on a thread, so that nobody waits."""
    if size <= _AT_ONCE:
        return work(*args, **options)
    return await asyncio.to_thread(work, *args, **options)
