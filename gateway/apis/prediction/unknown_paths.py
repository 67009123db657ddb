"""Unknown paths of online prediction, which are refused in the form that their clients read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from partway.gateway.access.authentication import Access
from partway.gateway.apis.prediction.errors import prediction_object, prediction_text
from partway.gateway.http.error_dialects import ErrorDialect
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import Operation, Route
from partway.protocol.errors import MethodNotAllowed, NotFound

OPERATION: Final = "UnknownPrediction"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_GOOGLES: Final = re.compile(r"/(?:v1/projects|v1beta1)(?:/.*)?")
_OF_MODELS: Final = re.compile(r"/v1/models?(?:[/:%].*)?")
_V2: Final = re.compile(r"/v2(?:/.*)?")

_GOOGLES_KNOWN: Final = (
    "/v1/projects/PROJECT/locations/LOCATION/endpoints/NAME, with :predict, :rawPredict or "
    ":streamRawPredict at its end"
)
_MODELS_KNOWN: Final = "/v1/models/NAME:predict and /v2/models/NAME/infer"


def unknown_prediction_routes(known: Iterable[Route]) -> tuple[Route, ...]:
    """Return the routes of unknown paths of predictions; they must follow all other routes.

    Clients need not authenticate, as with any other unknown path.
    """
    routes = tuple(known)
    return (
        _route(_GOOGLES, prediction_object, _refusal(routes, _GOOGLES_KNOWN)),
        _route(_OF_MODELS, prediction_text, _refusal(routes, _MODELS_KNOWN)),
    )


def unknown_v2_route(known: Iterable[Route]) -> Route:
    """Return the same route for the Open Inference Protocol."""
    return _route(_V2, prediction_text, _refusal(tuple(known), _MODELS_KNOWN))


def _route(path: re.Pattern[str], errors: ErrorDialect, refuse: Operation) -> Route:
    return Route(OPERATION, _METHODS, path, refuse, Access.ANYONE, errors=errors)


def _refusal(known: tuple[Route, ...], there_is: str) -> Operation:
    async def refuse(exchange: Exchange, *_: object) -> None:
        matching = (each.methods for each in known if each.path.fullmatch(exchange.path))
        methods = frozenset[str]().union(*matching)
        if methods:
            raise MethodNotAllowed(exchange.method, methods)
        raise NotFound(f"no operation answers {exchange.method} on this path; there is {there_is}")

    return refuse
