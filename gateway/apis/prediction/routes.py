"""What the routes of online prediction share: how they name an endpoint, and who may ask.

Four families of clients ask: the platform's own by ``/v1/projects/…``, whose errors are objects;
those of the document by ``/v1/model:predict``, where the host names the endpoint; those of KServe
and TF Serving by ``/v1/models/NAME``; and those of the Open Inference Protocol by
``/v2/models/NAME``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qsl

from partway.gateway.containers.invocation import Invocation
from partway.protocol.limits import is_name

#: Whose leave it takes: who may invoke an endpoint may ask it for predictions.
GRANTED_WITH: Final = "InvokeEndpoint"
STREAM_GRANTED_WITH: Final = "InvokeEndpointWithResponseStream"

_PARENT: Final = r"projects/[A-Za-z0-9._:-]{1,128}/locations/[A-Za-z0-9._-]{1,64}"
_ENDPOINT: Final = rf"/v1/(?P<parent>{_PARENT})/endpoints/(?P<endpoint>[^/:]+)"
_MODEL: Final = (
    r"/v1/models/(?P<endpoint>[^/:]+)"
    r"(?:/versions/(?P<version>[0-9]{1,9})|/labels/(?P<label>[^/:]{1,63}))?"
)

ENDPOINT: Final = re.compile(_ENDPOINT)
MODEL: Final = re.compile(_MODEL)
ROOT: Final = re.compile("/")
HOST_PREDICT: Final = re.compile(r"/v1/model(?::|%3[Aa])predict")
MODEL_PREDICT: Final = re.compile(rf"{_MODEL}(?::|%3[Aa])predict")
MODEL_METADATA: Final = re.compile(rf"{_MODEL}/metadata")
MODEL_OTHER: Final = re.compile(rf"{_MODEL}(?::|%3[Aa])(?P<verb>classify|regress|explain)")

_V2_MODEL: Final = r"/v2/models/(?P<endpoint>[^/]+)(?:/versions/(?P<version>[^/]+))?"

V2_SERVER: Final = re.compile(r"/v2/?")
V2_LIVE: Final = re.compile(r"/v2/health/live")
V2_READY: Final = re.compile(r"/v2/health/ready")
V2_MODEL: Final = re.compile(_V2_MODEL)
V2_MODEL_READY: Final = re.compile(rf"{_V2_MODEL}/ready")
V2_INFER: Final = re.compile(rf"{_V2_MODEL}/infer")

#: The only version that a model has here.
VERSION: Final = "1"

JSON: Final[Mapping[str, str]] = {"Content-Type": "application/json"}


def of_endpoint(verb: str) -> re.Pattern[str]:
    """The path of an operation of the platform's on an endpoint."""
    return re.compile(rf"{_ENDPOINT}(?::|%3[Aa]){verb}")


def endpoint_of_host(host: str, endpoints: Collection[str]) -> str:
    """The endpoint that a request is for whose path names none.

    Args:
        host: the request's, with its port or without.
        endpoints: the names of those that there are.

    Returns:
        The one that has the host's first label for its name, else the only one. Else the label
        itself where it could be a name, and empty where it could not.
    """
    label = _first_label(host)
    if label in endpoints:
        return label
    if alike := [each for each in endpoints if each.lower() == label.lower()]:
        return alike[0]
    if len(endpoints) == 1:
        return next(iter(endpoints))
    return label


def _first_label(host: str) -> str:
    name = host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        label = name.partition(".")[0]
        return label if is_name(label) else ""
    return ""


def model_name(parent: str, endpoint: str) -> str:
    """The name of an endpoint's model, as a resource."""
    return f"{parent}/models/{endpoint}"


def answer_headers(parent: str, invoked: Invocation) -> dict[str, str]:
    """What an answer says of who has given it."""
    endpoint = invoked.lease.place.endpoint
    return {
        "X-Vertex-AI-Endpoint-Id": endpoint,
        "X-Vertex-AI-Deployed-Model-Id": invoked.lease.variant,
        "X-Vertex-AI-Model": model_name(parent, endpoint),
    }


def wants_http_body(query: str) -> bool:
    """Whether a client of Google's wraps bodies in JSON, which it announces (``$alt=json``)."""
    try:
        parameters = parse_qsl(query, max_num_fields=16)
    except ValueError:
        return False
    return any(name == "$alt" and value.partition(";")[0] == "json" for name, value in parameters)
