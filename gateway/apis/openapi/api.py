"""The OpenAPI description in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.openapi.operations import OpenApi

if TYPE_CHECKING:
    from partway.gateway.gateway import Gateway


def install(gateway: Gateway) -> None:
    gateway.service(_description)


def _description(gateway: Gateway) -> OpenApi:
    return OpenApi(lambda: gateway.routes, asks=gateway.authenticator.asks)
