"""Descriptions of operations in words; routes have only methods, rules and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from partway.gateway.apis.aws_json.protocol import CONTENT_TYPE
from partway.gateway.apis.openapi.schemas import TEXT, Schema, ref
from partway.gateway.containers.invocation_headers import (
    ASYNC_HEADERS,
    INPUT_LOCATION,
    INVOKE_HEADERS,
)
from partway.protocol.open_inference import HEADER_LENGTH

JSON: Final = "application/json"
PLAIN: Final = "text/plain"
ANY: Final = "*/*"
EVENTS: Final = "application/vnd.amazon.eventstream"
OCTETS: Final = "application/octet-stream"

RUNTIME: Final = "SageMaker runtime"
CONTROL: Final = "SageMaker control plane and logs"
PREDICTION: Final = "Online prediction"
INFERENCE: Final = "Open Inference Protocol"
STATUS: Final = "Status"


@dataclass(frozen=True, slots=True)
class SampleParts:
    """The parts of an example request that works.

    Attributes:
        body: the body of the request; empty for none.
        headers: the headers, without those of authentication.
        command: a whole shell command, for operations that curl cannot call.
    """

    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    command: str = ""


_ROW: Final = SampleParts("1.0,2.0", {"Content-Type": "text/csv"})
_INSTANCES: Final = SampleParts('{"instances": [[1.0, 2.0]]}', {"Content-Type": JSON})
_TENSOR: Final = SampleParts(
    '{"inputs": [{"name": "x", "datatype": "FP64", "shape": [1, 2], "data": [1.0, 2.0]}]}',
    {"Content-Type": JSON},
)


@dataclass(frozen=True, slots=True)
class Description:
    """One operation at one path.

    Attributes:
        path: the path of the route, with its parameters in braces.
        tag: the family of clients.
        answer: the schemas of a 2xx answer, by media type.
        body: the schemas of the request's body, by media type; empty for none.
        method: the method, in lower case.
        headers: the headers of the request, each with its rule in words.
        also: further statuses that are no errors, with their meanings.
        id: the operation's id in the document; by default its name.
    """

    name: str
    path: str
    tag: str
    summary: str
    answer: Mapping[str, Schema]
    body: Mapping[str, Schema] = field(default_factory=dict)
    method: str = "get"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    also: Mapping[int, str] = field(default_factory=dict)
    sample: SampleParts = SampleParts()
    id: str = ""


#: Example values of path parameters, which also serve to look up the routes.
EXAMPLES: Final[Mapping[str, str]] = {
    "endpoint": "kmeans",
    "path": "v1/listen",
    "project": "any",
    "location": "us-central1",
    "version": "1",
    "label": "stable",
}

_PARENT: Final = "/v1/projects/{project}/locations/{location}/endpoints/{endpoint}"
_MODEL: Final = "/v1/models/{endpoint}"
_V2: Final = "/v2/models/{endpoint}"
_VERSION: Final = "/versions/{version}"
_ENDPOINT: Final = "/endpoints/{endpoint}"

_INVOKE: Final = {name: rule.must_be for name, rule in INVOKE_HEADERS.items()}
_STREAM_HEADERS: Final = {
    "X-Amzn-SageMaker-Target-Variant": "a variant's name",
    "X-Amzn-SageMaker-Model-Invocation-Path": "the container's path, without the first slash",
    "X-Amzn-SageMaker-Model-Query-String": "the query of that path",
}
_ASKED: Final = {JSON: {"oneOf": [ref("Instances"), ref("Columns")]}}
_PREDICTED: Final = {JSON: {"oneOf": [ref("Predictions"), ref("Outputs")]}}
_UNREADY: Final = {503: "The model or the gateway is not ready."}


def _of_model(
    name: str,
    path: str,
    tag: str,
    summary: str,
    answer: Schema,
    also: Mapping[int, str] | None = None,
) -> tuple[Description, ...]:
    """Return a reading operation on a model, with a version in its path and without."""
    before, slash, after = path.partition("{endpoint}")
    return tuple(
        Description(
            *(name, f"{before}{slash}{version}{after}", tag, summary, {JSON: answer}),
            also=also or {},
            id=f"{name}OfVersion" if version else "",
        )
        for version in ("", _VERSION)
    )


DESCRIPTIONS: Final = (
    Description(
        *("InvokeEndpoint", f"{_ENDPOINT}/invocations", RUNTIME),
        "Send a request to a container, and get its whole answer.",
        *({ANY: {}}, {ANY: {}}, "post"),
        headers=_INVOKE,
        sample=_ROW,
    ),
    Description(
        *("InvokeEndpointWithResponseStream", f"{_ENDPOINT}/invocations-response-stream", RUNTIME),
        "Send a request to a container, and get each chunk of its answer at once, as an event.",
        *({EVENTS: {}}, {ANY: {}}, "post"),
        headers=_INVOKE,
        sample=_ROW,
    ),
    Description(
        *("InvokeEndpointAsync", f"{_ENDPOINT}/async-invocations", RUNTIME),
        "Send a request to a container; the gateway stores the answer at a location later.",
        {JSON: ref("AcceptedInvocation")},
        {ANY: {}},
        "post",
        202,
        headers={name: rule.must_be for name, rule in ASYNC_HEADERS.items()},
        sample=SampleParts(headers={INPUT_LOCATION: "s3://bucket/input.csv"}),
    ),
    Description(
        "InvokeEndpointWithBidirectionalStream",
        f"{_ENDPOINT}/invocations-bidirectional-stream",
        RUNTIME,
        "Open a stream of parts in both directions: event streams over HTTP/2, or over "
        "HTTP/1.1 in chunks.",
        *({EVENTS: {}}, {EVENTS: {}}, "post"),
        headers=_STREAM_HEADERS,
        sample=SampleParts(
            command='partway invoke kmeans --text hello --transport http2 --gateway "$GATEWAY"'
        ),
    ),
    Description(
        "InvokeEndpointWithBidirectionalStream",
        f"{_ENDPOINT}/invocations-bidirectional-stream",
        RUNTIME,
        "Open a stream of parts in both directions, as a WebSocket.",
        {},
        status=101,
        headers=_STREAM_HEADERS,
        sample=SampleParts(command='partway invoke kmeans --text hello --gateway "$GATEWAY"'),
        id="OpenWebSocket",
    ),
    Description(
        *("InvokeEndpointWithBidirectionalStream", f"{_ENDPOINT}/stream/{{path}}", RUNTIME),
        "Open a WebSocket to the path and query of the container that the URL has, frame for "
        "frame. The sample opens the same stream by its other path.",
        {},
        status=101,
        sample=SampleParts(command='partway invoke kmeans --path v1/listen --gateway "$GATEWAY"'),
        id="OpenWebSocketDirectly",
    ),
    Description(
        *("Predict", f"{_PARENT}:predict", PREDICTION),
        "Get one prediction for each instance, as on Vertex AI.",
        *({JSON: ref("Predictions")}, {JSON: ref("Instances")}, "post"),
        sample=_INSTANCES,
    ),
    Description(
        *("Predict", "/v1/model:predict", PREDICTION),
        "Get one prediction for each instance, from the endpoint that the host's first label "
        "names.",
        *({JSON: ref("Predictions")}, {JSON: ref("Instances")}, "post"),
        sample=SampleParts(_INSTANCES.body, {**_INSTANCES.headers, "Host": "kmeans.example.com"}),
        id="PredictByHost",
    ),
    *(
        Description(
            *("Predict", f"{_MODEL}{what}:predict", PREDICTION),
            "Get predictions for instances or columns, as from KServe and TensorFlow Serving.",
            *(_PREDICTED, _ASKED, "post"),
            sample=_INSTANCES,
            id=f"PredictByModel{suffix}",
        )
        for what, suffix in (
            *(("", ""), (_VERSION, "OfVersion")),
            ("/labels/{label}", "OfLabel"),
        )
    ),
    Description(
        *("RawPredict", f"{_PARENT}:rawPredict", PREDICTION),
        "Send any bytes to a container, and get the bytes of its answer.",
        *({ANY: {}}, {ANY: {}}, "post"),
        sample=_ROW,
    ),
    Description(
        *("StreamRawPredict", f"{_PARENT}:streamRawPredict", PREDICTION),
        "Send any bytes to a container, and get each chunk of its answer at once.",
        *({ANY: {}}, {ANY: {}}, "post"),
        sample=_ROW,
    ),
    Description(
        *("GetPredictionEndpoint", _PARENT, PREDICTION),
        "An endpoint's description, which Google's SDK reads first.",
        {JSON: ref("PredictionEndpoint")},
    ),
    *_of_model(
        *("GetModelStatus", _MODEL, PREDICTION, "Whether a model is ready."),
        *(ref("ModelStatus"), _UNREADY),
    ),
    *_of_model(
        *("GetModelMetadata", f"{_MODEL}/metadata", PREDICTION),
        *("A model's declared signature.", ref("Members")),
    ),
    Description(
        *("GetServerStatus", "/", PREDICTION, "Whether the gateway runs, in KServe's form."),
        {JSON: ref("Alive")},
    ),
    *(
        Description(
            *(
                "ModelInfer",
                f"{_V2}{version}/infer",
                INFERENCE,
                "Send tensors to a model, and get the tensors of its answer.",
            ),
            {JSON: ref("InferResponse"), OCTETS: {}},
            {JSON: ref("InferRequest"), OCTETS: {}},
            "post",
            sample=_TENSOR,
            headers={HEADER_LENGTH: "the length of the body's JSON, if binary data follow it"},
            id="ModelInferOfVersion" if version else "",
        )
        for version in ("", _VERSION)
    ),
    *_of_model("ModelMetadata", _V2, INFERENCE, "A model.", ref("ModelMetadata")),
    *_of_model(
        *("ModelReady", f"{_V2}/ready", INFERENCE, "Whether a model has an instance in service."),
        *(ref("ModelReady"), _UNREADY),
    ),
    Description(
        *("ServerMetadata", "/v2", INFERENCE, "The gateway's name, version and extensions."),
        {JSON: ref("ServerMetadata")},
    ),
    Description(
        *("ServerLive", "/v2/health/live", INFERENCE, "Whether the gateway runs."),
        {JSON: ref("Live")},
    ),
    Description(
        *("ServerReady", "/v2/health/ready", INFERENCE, "Whether the gateway takes requests."),
        {JSON: ref("Ready")},
        also=_UNREADY,
    ),
    Description(
        *("Healthz", "/healthz", STATUS, "Whether the gateway runs."),
        {PLAIN: TEXT},
    ),
    Description(
        *("Readyz", "/readyz", STATUS, "Whether the gateway takes requests."),
        {PLAIN: TEXT},
        also=_UNREADY,
    ),
    Description(
        *("Metrics", "/metrics", STATUS, "Metrics, as Prometheus reads them."),
        {PLAIN: TEXT},
    ),
    Description(
        *("DescribeApi", "/openapi.json", STATUS, "This description."),
        {JSON: ref("Members")},
    ),
    Description(
        *("ShowApi", "/docs", STATUS, "This description as a page."),
        {"text/html": TEXT},
    ),
)

#: The control plane has one path, where a header names the operation.
BY_TARGET: Final = Description(
    *(
        "ByTarget",
        "/",
        CONTROL,
        "An operation of the control plane or of CloudWatch Logs; X-Amz-Target names it.",
    ),
    *({CONTENT_TYPE: ref("Members")}, {CONTENT_TYPE: ref("Members")}, "post"),
    sample=SampleParts(
        "{}", {"Content-Type": CONTENT_TYPE, "X-Amz-Target": "SageMaker.ListEndpoints"}
    ),
)

#: Routes that only refuse requests.
REFUSING: Final = frozenset(
    {"ApiSwitchedOff", "PredictOtherwise", "UnknownOperation", "UnknownPrediction"}
)

#: Routes that OpenAPI cannot describe, or that describe themselves, by the names of their error
#: dialects.
ELSEWHERE: Final[Mapping[str, str]] = {
    "grpc_status": "gRPC has descriptions of its own",
    "kubernetes_status": "/kubernetes/openapi/v3 describes them",
    "openai_object": "OpenAI's own reference describes them",
}
