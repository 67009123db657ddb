"""Resources that clients read before predictions: endpoints, and the readiness of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.access.origins import asked_host
from partway.gateway.apis.prediction.errors import prediction_object, prediction_text
from partway.gateway.apis.prediction.predict import checked_label
from partway.gateway.apis.prediction.routes import (
    ENDPOINT,
    GRANTED_WITH,
    JSON,
    MODEL,
    MODEL_METADATA,
    ROOT,
    VERSION,
    model_name,
)
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.routing.router import RoutedVariant, Router
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import READING, Route
from partway.protocol.errors import NotFound
from partway.protocol.prediction.model_signature import metadata

OPERATION: Final = "GetPredictionEndpoint"

_ALIVE: Final = orjson.dumps({"status": "alive"})


class PredictionResources:
    """The endpoint that Google's clients read first, and KServe's and TF Serving's readiness.

    Args:
        created: the start of the gateway in epoch seconds, which clients see as each endpoint's
            creation.
    """

    def __init__(
        self, router: Router, created: float, policy_of: Callable[[str], PredictionPolicy]
    ) -> None:
        self._router = router
        self._policy_of = policy_of
        self._created = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def routes(self) -> tuple[Route, ...]:
        access = Access.SIGNED_OR_BEARER
        return (
            Route(
                *(OPERATION, READING, ENDPOINT, self.endpoint, access),
                errors=prediction_object,
                granted_with=GRANTED_WITH,
            ),
            Route(
                *("GetModelStatus", READING, MODEL, self.model, access),
                errors=prediction_text,
                granted_with=GRANTED_WITH,
            ),
            Route(
                *("GetModelMetadata", READING, MODEL_METADATA, self.metadata, access),
                errors=prediction_text,
                granted_with=GRANTED_WITH,
            ),
            Route("GetServerStatus", READING, ROOT, self.alive, Access.ANYONE),
        )

    async def endpoint(
        self, exchange: Exchange, _identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer with an endpoint, under the name and at the address that the client used."""
        found = self.described(named["parent"], named["endpoint"], asked_host(exchange.headers))
        exchange.respond(200, orjson.dumps(found), JSON)

    def described(self, parent: str, name: str, host: str) -> dict[str, Any]:
        """Return an endpoint in the form of Google's API.

        ``parent`` is the project and the location, as the client names them.

        Raises:
            UnknownEndpoint: there is no such endpoint.
        """
        self._router.check(name)
        variants = self._router.variants(name)
        deployed = [{"id": each.name, "model": model_name(parent, name)} for each in variants]
        return {
            "name": f"{parent}/endpoints/{name}",
            "displayName": name,
            "createTime": self._created,
            "updateTime": self._created,
            "deployedModels": deployed,
            "trafficSplit": traffic_split(variants),
            "dedicatedEndpointEnabled": True,
            "dedicatedEndpointDns": host,
        }

    async def model(
        self, exchange: Exchange, _identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer whether a model is ready, in KServe's and TF Serving's forms at once."""
        name = named["endpoint"]
        self._router.check(name)
        variants = self._router.variants(name)
        label = checked_label(named, variants)
        ready = any(each.instances for each in variants if label in ("", each.name))
        status = {
            "version": VERSION,
            "state": "AVAILABLE" if ready else "LOADING",
            "status": {"error_code": "OK" if ready else "UNAVAILABLE", "error_message": ""},
        }
        found = {"name": name, "ready": ready, "model_version_status": [status]}
        exchange.respond(200 if ready else 503, orjson.dumps(found), JSON)

    async def metadata(
        self, exchange: Exchange, _identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer with a model's signature, as TF Serving does."""
        name = named["endpoint"]
        self._router.check(name)
        checked_label(named, self._router.variants(name))
        signature = self._policy_of(name).signature
        if signature is None:
            raise NotFound(
                f"the model {name} has no metadata: its tensors are unknown; its settings must "
                "have a signature"
            )
        exchange.respond(200, orjson.dumps(metadata(name, VERSION, signature)), JSON)

    async def alive(self, exchange: Exchange, *_: object) -> None:
        """Answer that the gateway runs, as KServe does; there is no page and no stream here."""
        if "upgrade" in exchange.headers or "text/html" in exchange.headers.get("accept", ""):
            raise NotFound("no operation answers GET on this path")
        exchange.respond(200, _ALIVE, JSON)


def traffic_split(variants: tuple[RoutedVariant, ...]) -> dict[str, int]:
    """Return each variant's share of the traffic in whole percent; the sum is 100."""
    together = sum(each.weight for each in variants)
    if not together:
        return {}
    exact = {each.name: 100 * each.weight / together for each in variants}
    split = {name: int(share) for name, share in exact.items()}
    nearest = sorted(exact, key=lambda name: split[name] - exact[name])
    for name in nearest[: 100 - sum(split.values())]:
        split[name] += 1
    return split
