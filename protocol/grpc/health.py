"""Messages of ``grpc.health.v1``: https://github.com/grpc/grpc/blob/master/doc/health-checking.md."""

from __future__ import annotations

from typing import Any, Final

from partway.protocol.protobuf_schema import MessageMember, message_classes

SERVING: Final = 1
NOT_SERVING: Final = 2

#: The status is an enumeration, which on the wire is a number.
_TABLES: Final = {
    "HealthCheckRequest": (MessageMember("service", 1, "string"),),
    "HealthCheckResponse": (MessageMember("status", 1, "int32"),),
}

_CLASSES: Final = message_classes("grpc.health.v1", _TABLES)

HealthCheckRequest: Final[Any] = _CLASSES["HealthCheckRequest"]
HealthCheckResponse: Final[Any] = _CLASSES["HealthCheckResponse"]
