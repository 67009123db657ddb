"""Deployments for whoever asks the admin socket: one is asked for, described, or to go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web

from partway.gateway.clock import Clock
from partway.gateway.control.deployments import DeploymentAsked
from partway.gateway.control.json_bodies import members_of
from partway.gateway.limits import REQUEST_BODY_TIMEOUT
from partway.gateway.waiting import time_limit
from partway.protocol.errors import InputValidationError, NotFound


class AdministeredDeployments(Protocol):
    """What of deployments can be asked by the admin socket."""

    async def describe(self, name: str) -> Mapping[str, Any] | None:
        """What DescribeEndpoint says of an endpoint; None if there is none."""

    async def deploy(self, name: str, asked: DeploymentAsked) -> Mapping[str, Any]:
        """Have an endpoint be what is asked for."""

    async def delete(self, name: str) -> Mapping[str, Any]:
        """Delete an endpoint, with what was deployed for it."""


async def answer_of_deployments(
    request: web.BaseRequest, name: str, deployments: AdministeredDeployments, clock: Clock
) -> web.Response:
    """Answer ``GET``, ``PUT`` and ``DELETE /deployments/NAME``.

    Args:
        request: the request.
        name: the endpoint's.
        deployments: what is asked.
        clock: measures how long a body may take to come.

    Raises:
        ApiError: it is refused.
    """
    match request.method:
        case "GET":
            return web.json_response({"endpoint": await deployments.describe(name)})
        case "PUT":
            asked = DeploymentAsked.read(members_of(await _body(request, clock)))
            return web.json_response(await deployments.deploy(name, asked))
        case "DELETE":
            return web.json_response(await deployments.delete(name))
    raise NotFound(
        f"{request.method} {request.path} was asked; it must be GET, PUT or DELETE "
        "/deployments/NAME"
    )


async def _body(request: web.BaseRequest, clock: Clock) -> bytes:
    """A request's body, whose length aiohttp bounds by a MiB.

    Raises:
        InputValidationError: it is longer, or does not come in time.
    """
    try:
        async with time_limit(clock, REQUEST_BODY_TIMEOUT):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise InputValidationError("the request's body must have at most 1 MiB") from None
    except TimeoutError:
        raise InputValidationError(
            f"the request's body must come within {REQUEST_BODY_TIMEOUT:g} s"
        ) from None
