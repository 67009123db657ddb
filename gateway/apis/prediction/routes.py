"""Paths and rules that the routes of online prediction share.

There are four families of clients:

- The platform's own use ``/v1/projects/…``, and their errors are objects.
- The document's use ``/v1/model:predict``, where the host names the endpoint.
- KServe's and TF Serving's use ``/v1/models/NAME``.
- Those of the Open Inference Protocol use ``/v2/models/NAME``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import parse_qsl

from partway.gateway.containers.invocation import Invocation
from partway.protocol.limits import is_name

#: The permissions that callers need: a caller who may invoke an endpoint may ask it for
#: predictions.
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

#: The only version of each model.
VERSION: Final = "1"

JSON: Final[Mapping[str, str]] = {"Content-Type": "application/json"}


def of_endpoint(verb: str) -> re.Pattern[str]:
    return re.compile(rf"{_ENDPOINT}(?::|%3[Aa]){verb}")


def endpoint_of_host(host: str, endpoints: Collection[str]) -> str:
    """Return the endpoint of a request whose path names none.

    ``host`` may have a port.

    Returns:
        The endpoint whose name is the host's first label, or else the only one. Otherwise the label
        itself if it is a valid name, and empty if it is not.
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
    return f"{parent}/models/{endpoint}"


def answer_headers(parent: str, invoked: Invocation) -> dict[str, str]:
    """Return the headers that name the endpoint, variant and model of an answer."""
    endpoint = invoked.lease.place.endpoint
    return {
        "X-Vertex-AI-Endpoint-Id": endpoint,
        "X-Vertex-AI-Deployed-Model-Id": invoked.lease.variant,
        "X-Vertex-AI-Model": model_name(parent, endpoint),
    }


def wants_http_body(query: str) -> bool:
    """Whether a client of Google's wraps bodies in JSON, which ``$alt=json`` announces."""
    try:
        parameters = parse_qsl(query, max_num_fields=16)
    except ValueError:
        return False
    return any(name == "$alt" and value.partition(";")[0] == "json" for name, value in parameters)
