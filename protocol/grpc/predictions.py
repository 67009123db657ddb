"""Messages of ``google.cloud.aiplatform.v1``: of PredictionService, and of an endpoint."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import struct_pb2, timestamp_pb2

from partway.protocol.protobuf_schema import MessageMember, message_classes

_PACKAGE: Final = "google.cloud.aiplatform.v1"
_VALUE: Final = "google.protobuf.Value"
_TIMESTAMP: Final = "google.protobuf.Timestamp"

#: ``google.api.HttpBody``, under a name in this package: a message's name is not on the wire.
_HTTP_BODY: Final = f"{_PACKAGE}.HttpBody"
_RAW: Final = (MessageMember("endpoint", 1, "string"), MessageMember("http_body", 2, _HTTP_BODY))

_TABLES: Final = {
    "HttpBody": (MessageMember("content_type", 1, "string"), MessageMember("data", 2, "bytes")),
    "PredictRequest": (
        MessageMember("endpoint", 1, "string"),
        MessageMember("instances", 2, f"repeated {_VALUE}"),
        MessageMember("parameters", 3, _VALUE),
    ),
    "PredictResponse": (
        MessageMember("predictions", 1, f"repeated {_VALUE}"),
        MessageMember("deployed_model_id", 2, "string"),
        MessageMember("model", 3, "string"),
    ),
    "RawPredictRequest": _RAW,
    "StreamRawPredictRequest": _RAW,
    "GetEndpointRequest": (MessageMember("name", 1, "string"),),
    "DeployedModel": (MessageMember("id", 1, "string"), MessageMember("model", 2, "string")),
    "Endpoint": (
        MessageMember("name", 1, "string"),
        MessageMember("display_name", 2, "string"),
        MessageMember("deployed_models", 4, f"repeated {_PACKAGE}.DeployedModel"),
        MessageMember("traffic_split", 5, "map int32"),
        MessageMember("create_time", 8, _TIMESTAMP),
        MessageMember("update_time", 9, _TIMESTAMP),
        MessageMember("dedicated_endpoint_enabled", 24, "bool"),
        MessageMember("dedicated_endpoint_dns", 25, "string"),
    ),
}

_CLASSES: Final = message_classes(
    _PACKAGE, _TABLES, imports=(struct_pb2.DESCRIPTOR, timestamp_pb2.DESCRIPTOR)
)

HttpBody: Final[Any] = _CLASSES["HttpBody"]
PredictRequest: Final[Any] = _CLASSES["PredictRequest"]
PredictResponse: Final[Any] = _CLASSES["PredictResponse"]
RawPredictRequest: Final[Any] = _CLASSES["RawPredictRequest"]
GetEndpointRequest: Final[Any] = _CLASSES["GetEndpointRequest"]
Endpoint: Final[Any] = _CLASSES["Endpoint"]
