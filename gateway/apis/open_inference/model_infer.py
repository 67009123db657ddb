"""The Open Inference Protocol's ModelInfer over HTTP: tensors to a container, and tensors back.

A container that supports the protocol gets the body unchanged. All others take instances and answer
with predictions: :mod:`partway.gateway.apis.open_inference.mapped_inference`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.prediction.errors import prediction_text
from partway.gateway.apis.prediction.predict import check_version
from partway.gateway.apis.prediction.routes import GRANTED_WITH, V2_INFER
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.apis.runtime.invoke import pass_on
from partway.gateway.containers.invocation import Invocations
from partway.gateway.containers.invocation_headers import (
    NO_PAGE,
    OPEN_INFERENCE_HEADERS,
    passed_on,
)
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import StreamedPayload
from partway.gateway.http.routes import Route
from partway.protocol.open_inference import HEADER_LENGTH

if TYPE_CHECKING:
    from partway.gateway.apis.open_inference.mapped_inference import MappedInference

#: The operation's name in the protocol's gRPC service.
OPERATION: Final = "ModelInfer"

_HANDED_BACK: Final = {name: name for name in ("Content-Type", "Content-Encoding", HEADER_LENGTH)}


class OpenInference:
    """The operation ModelInfer.

    Args:
        most_bytes: the limit of a request's body, coded or not, and of a container's answer, in
            bytes.
    """

    def __init__(
        self,
        invocations: Invocations,
        policy_of: Callable[[str], PredictionPolicy],
        workers: PredictionWorkers,
        most_bytes: int,
    ) -> None:
        self._invocations = invocations
        self._workers = workers
        self._mapped: MappedInference | None = None
        self._policy_of = policy_of
        self._most_bytes = most_bytes

    @property
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                *(OPERATION, frozenset({"POST"}), V2_INFER, self, Access.SIGNED_OR_BEARER),
                payload=StreamedPayload(self._most_bytes),
                errors=prediction_text,
                granted_with=GRANTED_WITH,
            ),
        )

    async def __call__(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        check_version(named)
        endpoint = named["endpoint"]
        policy = self._policy_of(endpoint)
        if policy.infer_route is not None:
            await self._straight(exchange, identity, endpoint, policy.infer_route)
        else:
            mapped = await self._mapping()
            await mapped.answer(exchange, identity, endpoint, policy)

    async def _straight(
        self, exchange: Exchange, identity: Identity, endpoint: str, route: str
    ) -> None:
        """Pass a request on to a container that supports the protocol."""
        async with self._invocations.answered(
            *(exchange, identity, endpoint, passed_on(exchange.headers, OPEN_INFERENCE_HEADERS)),
            target=route,
            most_bytes=self._most_bytes,
        ) as invoked:
            back = {**invoked.head.handed_back(_HANDED_BACK), **NO_PAGE}
            await pass_on(exchange, invoked, back, self._most_bytes)

    async def _mapping(self) -> MappedInference:
        """Return the converter for other containers, imported at the first such request."""
        if self._mapped is None:
            kind = await asyncio.to_thread(_mapped_inference)
            self._mapped = kind(self._invocations, self._workers, self._most_bytes)
        return self._mapped


def _mapped_inference() -> type[MappedInference]:
    # The import of numpy takes 0.1 s, so only requests with tensors cause it.
    from partway.gateway.apis.open_inference.mapped_inference import MappedInference

    return MappedInference
