"""The schemas of bodies, in JSON Schema 2020-12: the components of OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from partway.gateway.apis.aws_json.protocol import CONTENT_TYPE

#: A schema, or a part of the document.
Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
_WHOLE: Final[Schema] = {"type": "integer"}
_TRUTH: Final[Schema] = {"type": "boolean"}
_ANYTHING: Final[Schema] = {}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _array(of: Schema) -> Schema:
    return {"type": "array", "items": of}


def _object(required: Mapping[str, Schema], **others: Schema) -> Schema:
    members = {**required, **others}
    return {"type": "object", "required": list(required), "properties": members}


_PARAMETERS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
_TENSOR: Final = {"name": TEXT, "datatype": TEXT, "shape": _array(_WHOLE)}
_NAMED_TENSORS: Final = _array(_object(_TENSOR))

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Instances": _object({"instances": {**_array(_ANYTHING), "minItems": 1}}, parameters=_ANYTHING),
    "Columns": _object({"inputs": _ANYTHING}, signature_name=TEXT),
    "Predictions": _object({"predictions": _array(_ANYTHING)}, deployedModelId=TEXT, model=TEXT),
    "Outputs": _object({"outputs": _ANYTHING}),
    "PredictionEndpoint": _object(
        {"name": TEXT, "displayName": TEXT},
        createTime=TEXT,
        updateTime=TEXT,
        deployedModels=_array(_object({"id": TEXT, "model": TEXT})),
        trafficSplit={"type": "object", "additionalProperties": _WHOLE},
        dedicatedEndpointEnabled=_TRUTH,
        dedicatedEndpointDns=TEXT,
    ),
    "ModelStatus": _object(
        {"model_version_status": _array(_object({"version": TEXT, "state": TEXT}))},
        name=TEXT,
        ready=_TRUTH,
    ),
    "InferRequest": _object(
        {"inputs": _array(_object(_TENSOR, data=_array(_ANYTHING), parameters=_PARAMETERS))},
        id=TEXT,
        parameters=_PARAMETERS,
        outputs=_array(_object({"name": TEXT}, parameters=_PARAMETERS)),
    ),
    "InferResponse": _object(
        {
            "model_name": TEXT,
            "outputs": _array(_object(_TENSOR, data=_array(_ANYTHING), parameters=_PARAMETERS)),
        },
        model_version=TEXT,
        id=TEXT,
    ),
    "ServerMetadata": _object({"name": TEXT, "version": TEXT, "extensions": _array(TEXT)}),
    "ModelMetadata": _object(
        {"name": TEXT, "platform": TEXT, "inputs": _NAMED_TENSORS, "outputs": _NAMED_TENSORS},
        versions=_array(TEXT),
    ),
    "ModelReady": _object({"name": TEXT, "ready": _TRUTH}),
    "Live": _object({"live": _TRUTH}),
    "Ready": _object({"ready": _TRUTH}),
    "Alive": _object({"status": TEXT}),
    "AcceptedInvocation": _object({"InferenceId": TEXT}),
    "Members": {"type": "object"},
}


def _error(description: str, schema: Schema, content: str = "application/json") -> Schema:
    return {"description": description, "content": {content: {"schema": schema}}}


_AWS_ERROR: Final = _object({}, Message=TEXT, ErrorCode=TEXT)

#: The forms of errors, by the names of the functions that write them.
ERRORS: Final[Mapping[str, Schema]] = {
    "aws_rest_json": _error(
        "An AWS error; the header `x-amzn-ErrorType` has its name.", _AWS_ERROR
    ),
    "aws_runtime": _error(
        "An error of the SageMaker runtime; the header `x-amzn-ErrorType` has its name.",
        _object(
            {},
            Message=TEXT,
            OriginalStatusCode=_WHOLE,
            OriginalMessage=TEXT,
            LogStreamArn=TEXT,
        ),
    ),
    "aws_json": _error(
        "An AWS error; the member `__type` has its name.",
        _object({"__type": TEXT}, message=TEXT),
        CONTENT_TYPE,
    ),
    "prediction_text": _error("An error message.", _object({"error": TEXT})),
    "prediction_object": _error(
        "An error in the form of Google's APIs.",
        _object({"error": _object({"code": _WHOLE, "message": TEXT, "status": TEXT})}),
    ),
}
