"""The API of CloudWatch Logs in a gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partway.gateway.apis.aws_json.protocol import TargetRoutes
from partway.gateway.apis.logs.operations import LogOperations

if TYPE_CHECKING:
    from partway.gateway.gateway import Gateway


def install(gateway: Gateway) -> None:
    folder = None if gateway.data is None else gateway.data.logs
    logs = LogOperations(folder, gateway.described, gateway.arns, gateway.clock)
    gateway.service(TargetRoutes).add(lambda: logs.routes)
