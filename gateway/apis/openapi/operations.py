"""The operations that answer with the OpenAPI document and its page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import orjson

from partway.gateway.access.authentication import Access
from partway.gateway.apis.openapi.document import document
from partway.gateway.apis.openapi.page import POLICY, page
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import READING, Route
from partway.gateway.service import Service

_JSON: Final = re.compile(r"/openapi\.json")
_PAGE: Final = re.compile(r"/docs/?")

_JSON_HEADERS: Final = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
_PAGE_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class OpenApi(Service):
    """The operations ``/openapi.json`` and ``/docs``, for anyone.

    Document and page are made at the first request.
    """

    def __init__(self, routes: Callable[[], Iterable[Route]], *, asks: bool) -> None:
        self._all_routes = routes
        self._asks = asks
        self._document: Mapping[str, Any] | None = None
        self._json = self._html = b""

    @property
    def routes(self) -> tuple[Route, ...]:
        return (
            Route("DescribeApi", READING, _JSON, self.describe, Access.ANYONE),
            Route("ShowApi", READING, _PAGE, self.show, Access.ANYONE),
        )

    async def describe(self, exchange: Exchange, *_: object) -> None:
        self._make()
        exchange.respond(200, self._json, _JSON_HEADERS)

    async def show(self, exchange: Exchange, *_: object) -> None:
        self._make()
        exchange.respond(200, self._html, _PAGE_HEADERS)

    def _make(self) -> None:
        if not self._json:
            made = document(self._all_routes(), asks=self._asks)
            self._json, self._html = orjson.dumps(made), page(made).encode()
