"""The OpenAPI description in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.openapi.operations import OpenApi

if TYPE_CHECKING:
    from partway.gateway.core import Core


def install(core: Core) -> None:
    core.service(_description)


def _description(core: Core) -> OpenApi:
    return OpenApi(lambda: core.routes, asks=core.authenticator.asks)
