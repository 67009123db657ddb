"""Resources of the Open Inference Protocol: server and models, and their readiness.

KServe's client reads ``ready`` and ``live`` in the body, Triton's only the status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from partway import __version__
from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.prediction.errors import prediction_text
from partway.gateway.apis.prediction.predict import check_version
from partway.gateway.apis.prediction.routes import (
    GRANTED_WITH,
    JSON,
    V2_LIVE,
    V2_MODEL,
    V2_MODEL_READY,
    V2_READY,
    V2_SERVER,
    VERSION,
)
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import Router
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import READING, Route
from partway.protocol.prediction.model_signature import DATATYPES, TensorSpec

#: The extensions have Triton's names.
SERVER: Final = {
    "name": "partway",
    "version": __version__,
    "extensions": ["binary_tensor_data", "parameters"],
}


class OpenInferenceResources:
    """The protocol's operations other than inference.

    Attributes:
        is_ready: whether the gateway accepts requests and its endpoints have started.
    """

    def __init__(
        self,
        router: Router,
        is_ready: Callable[[], bool],
        policy_of: Callable[[str], PredictionPolicy],
    ) -> None:
        self._router = router
        self.is_ready = is_ready
        self._policy_of = policy_of

    @property
    def routes(self) -> tuple[Route, ...]:
        anyone, errors = Access.ANYONE, prediction_text
        known = Access.SIGNED_OR_BEARER
        return (
            Route("ServerLive", READING, V2_LIVE, self.live, anyone, reserved=True, errors=errors),
            Route(
                *("ServerReady", READING, V2_READY, self.ready, anyone),
                reserved=True,
                errors=errors,
            ),
            Route("ServerMetadata", READING, V2_SERVER, self.server, anyone, errors=errors),
            Route(
                *("ModelMetadata", READING, V2_MODEL, self.model, known),
                errors=errors,
                granted_with=GRANTED_WITH,
            ),
            Route(
                *("ModelReady", READING, V2_MODEL_READY, self.model_ready, known),
                errors=errors,
                granted_with=GRANTED_WITH,
            ),
        )

    async def live(self, exchange: Exchange, *_: object) -> None:
        exchange.respond(200, orjson.dumps({"live": True}), JSON)

    async def ready(self, exchange: Exchange, *_: object) -> None:
        ready = self.is_ready()
        exchange.respond(200 if ready else 503, orjson.dumps({"ready": ready}), JSON)

    async def server(self, exchange: Exchange, *_: object) -> None:
        exchange.respond(200, orjson.dumps(SERVER), JSON)

    async def model(
        self, exchange: Exchange, _identity: Identity, named: Mapping[str, str]
    ) -> None:
        check_version(named)
        exchange.respond(200, orjson.dumps(self.described(named["endpoint"])), JSON)

    def described(self, name: str) -> dict[str, Any]:
        """Return an endpoint as a model, with its signature's tensors; raises UnknownEndpoint."""
        self._router.check(name)
        signature = self._policy_of(name).signature
        return {
            "name": name,
            "versions": [VERSION],
            "platform": "",
            "inputs": [] if signature is None else _tensors(signature.inputs),
            "outputs": [] if signature is None else _tensors(signature.outputs),
        }

    async def model_ready(
        self, exchange: Exchange, _identity: Identity, named: Mapping[str, str]
    ) -> None:
        name = named["endpoint"]
        check_version(named)
        ready = self.is_model_ready(name)
        found = {"name": name, "ready": ready}
        exchange.respond(200 if ready else 503, orjson.dumps(found), JSON)

    def is_model_ready(self, name: str) -> bool:
        """Whether an endpoint has an instance in service; raises UnknownEndpoint."""
        self._router.check(name)
        return self._router.instances_of(name) > 0


def _tensors(specs: Mapping[str, TensorSpec]) -> list[dict[str, Any]]:
    """Return a signature's tensors; the first dimension, -1, allows any number of instances."""
    return [
        {"name": alias, "datatype": DATATYPES[spec.type], "shape": [-1, *spec.shape]}
        for alias, spec in specs.items()
    ]
