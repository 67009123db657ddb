"""``GET /openai/v1/models``: the endpoints that a caller may invoke, as OpenAI's models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.openai.errors import REQUEST_ID, openai_object
from partway.gateway.apis.openai.forwarding import ACTION, GRANTED_WITH, check_not_a_page
from partway.gateway.apis.openai.paths import MODELS, ONE_MODEL
from partway.gateway.arns import Arns
from partway.gateway.fleet.routing.router import Router
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import Leave, Route

_GET: Final = frozenset({"GET"})


class Models:
    """The operations that describe endpoints as models.

    Args:
        router: knows the endpoints.
        arns: makes the endpoints' ARNs.
    """

    def __init__(self, router: Router, arns: Arns) -> None:
        self._router = router
        self._arns = arns

    @property
    def routes(self) -> tuple[Route, ...]:
        access = Access.SIGNED_BEARER_OR_API_KEY
        return (
            Route(
                *("ListOpenAiModels", _GET, MODELS, self.list, access),
                errors=openai_object,
                leave=Leave.OF_OPERATION,
                granted_with=GRANTED_WITH,
            ),
            Route(
                *("DescribeOpenAiModel", _GET, ONE_MODEL, self.describe, access),
                errors=openai_object,
                granted_with=GRANTED_WITH,
            ),
        )

    async def list(self, exchange: Exchange, identity: Identity, *_: object) -> None:
        """Answer with the endpoints that the caller may invoke."""
        check_not_a_page(exchange, identity)
        data = [
            _model(name)
            for name in sorted(self._router.table)
            if identity.may(ACTION, self._arns.of("endpoint", name))
        ]
        _respond(exchange, {"object": "list", "data": data})

    async def describe(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Answer with one endpoint."""
        check_not_a_page(exchange, identity)
        self._router.check(named["endpoint"])
        _respond(exchange, _model(named["endpoint"]))


def _model(name: str) -> dict[str, Any]:
    # OpenAI's type demands a time of creation; endpoints of settings have none.
    return {"id": name, "object": "model", "created": 0, "owned_by": "partway"}


def _respond(exchange: Exchange, answer: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json", REQUEST_ID: exchange.request_id}
    exchange.respond(200, orjson.dumps(answer), headers)
