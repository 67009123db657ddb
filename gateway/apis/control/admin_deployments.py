"""Deployments for clients of the admin socket: described, deployed and deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from partway.gateway.apis.aws_json.bodies import members_of
from partway.gateway.apis.control.deployments import DeploymentAsked
from partway.gateway.apis.control.limits import MAX_CONTROL_BODY
from partway.gateway.http.content_codings import decoded_body
from partway.gateway.http.exchange import Exchange
from partway.protocol.errors import NotFound

_JSON: Final = {"Content-Type": "application/json"}


class AdministeredDeployments(Protocol):
    async def describe(self, name: str) -> Mapping[str, Any] | None:
        """Return DescribeEndpoint's answer for an endpoint; None if it does not exist."""

    async def deploy(self, name: str, asked: DeploymentAsked) -> Mapping[str, Any]: ...

    async def delete(self, name: str) -> Mapping[str, Any]:
        """Delete an endpoint, with everything that was deployed for it."""


async def answer_of_deployments(
    deployments: AdministeredDeployments, exchange: Exchange, name: str
) -> None:
    """Answer ``GET``, ``PUT`` and ``DELETE /deployments/NAME``.

    Raises:
        ApiError: the request is refused.
        ClientLeft: the client left in the middle of the body.
    """
    match exchange.method:
        case "GET":
            said: Mapping[str, Any] = {"endpoint": await deployments.describe(name)}
        case "PUT":
            asked = DeploymentAsked.read(members_of(await decoded_body(exchange, MAX_CONTROL_BODY)))
            said = await deployments.deploy(name, asked)
        case "DELETE":
            said = await deployments.delete(name)
        case _:
            raise NotFound(
                f"{exchange.method} {exchange.path} was requested; the request must be GET, "
                "PUT or DELETE /deployments/NAME"
            )
    exchange.respond(200, json.dumps(said).encode(), _JSON)
