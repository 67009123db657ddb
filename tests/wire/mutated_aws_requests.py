"""What boto3, the AWS CLI and the SageMaker Python SDK have asked, changed at random.

``tests/transcripts/aws_requests.jsonl`` has their requests as they went over the wire;
``tests/interop/record_aws_requests.py`` has written it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.gateway.apis.control.mutations import change_bytes, change_json

_TRANSCRIPT = Path(__file__).parents[1] / "transcripts" / "aws_requests.jsonl"

#: What stands in the place of a header's value.
_VALUES = [
    "", " ", "a", "é", "\x01", "a" * 63, "a" * 64, "a" * 1025, "a" * 9000, "-", "../..", "0", "-1",
    "NEW_SESSION", "AllTraffic", "text/plain", "a;b;c", "identity", "chunked",
    "SageMaker.CreateModel", "SageMaker.", "Logs_20140328.GetLogEvents", "AWS4-HMAC-SHA256", "99",
]  # fmt: skip

#: Headers that a request may get, of those that mean something to somebody.
_NAMES = [
    "Accept", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Upgrade",
    "X-Amz-Target", "X-Amz-Content-SHA256", "X-Amz-Date", "X-Amz-Security-Token", "Authorization",
    "X-Amzn-SageMaker-Target-Model", "X-Amzn-SageMaker-Target-Variant",
    "X-Amzn-SageMaker-Target-Container-Hostname", "X-Amzn-SageMaker-Inference-Id",
    "X-Amzn-SageMaker-Custom-Attributes", "X-Amzn-SageMaker-Session-Id",
    "X-Amzn-SageMaker-Accept", "X-Amzn-SageMaker-Content-Type",
    "X-Amzn-SageMaker-Enable-Explanations", "X-Amzn-SageMaker-Inference-Component",
    "X-Amzn-SageMaker-InputLocation", "X-Amzn-SageMaker-RequestTTLSeconds",
]  # fmt: skip

_PATHS = [
    "/", "//", "/endpoints", "/endpoints/", "/endpoints//invocations", "/endpoints/chat/",
    "/endpoints/chat/invocations", "/endpoints/chat/invocations-response-stream",
    "/endpoints/chat/async-invocations", "/endpoints/chat/invocations/",
    "/endpoints/a%2Fb/invocations",
    "/endpoints/%/invocations", "/endpoints/ch%61t/invocations", "/endpoints/CHAT/invocations",
    f"/endpoints/{'a' * 64}/invocations", "/endpoints/../invocations", "/endpoints/é/invocations",
    "/endpoints/chat/invocations?a=b&X-Amz-Expires=1", "*", "/endpoints/chat/invocations#x",
]  # fmt: skip


class Asked(NamedTuple):
    """A request.

    Attributes:
        method: of it.
        path: of it, with its query.
        headers: names and values, as often as they are there.
        body: as it goes.
    """

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def wire(self) -> bytes:
        """The request on a connection of its own."""
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += [f"Content-Length: {len(self.body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


def recorded() -> list[Asked]:
    """The requests as they were, but for an image that nobody has: no program is to start."""
    found = []
    for line in _TRANSCRIPT.read_text("utf-8").splitlines():
        kept: dict[str, Any] = json.loads(line)
        body = kept["body"].replace('"Image": "echo"', '"Image": "registry.example/echo:1"')
        headers = list(kept["headers"].items())
        found.append(Asked(kept["method"], kept["path"], headers, body.encode("latin-1")))
    return found


def mutations(count: int, seed: int) -> Iterator[Asked]:
    """So many requests, the same for the same seed: some are whole, most are changed."""
    draw = random.Random(seed)
    requests = recorded()
    for _ in range(count):
        asked = draw.choice(requests)
        asked = asked._replace(headers=list(asked.headers))
        for _ in range(draw.choice([0, 1, 1, 1, 2, 3])):
            asked = _changed(draw, asked, requests)
        yield asked


def _changed(draw: random.Random, asked: Asked, requests: list[Asked]) -> Asked:
    match draw.randrange(8):
        case 0:
            return asked._replace(method=draw.choice(["GET", "PUT", "DELETE", "OPTIONS", "post"]))
        case 1:
            return asked._replace(path=draw.choice([*_PATHS, draw.choice(requests).path]))
        case 2 | 3:
            return asked._replace(headers=_other_headers(draw, asked.headers))
        case 4:
            return asked._replace(body=draw.choice(requests).body)
        case 5:
            return asked._replace(body=change_bytes(draw, asked.body))
    try:
        members = json.loads(asked.body)
    except (ValueError, RecursionError):
        members = None
    if not isinstance(members, dict):
        return asked._replace(body=change_bytes(draw, asked.body))
    change_json(draw, members)
    return asked._replace(body=json.dumps(members).encode())


def _other_headers(draw: random.Random, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    at = draw.randrange(len(headers))
    match draw.randrange(4):
        case 0:
            return headers[:at] + headers[at + 1 :]
        case 1:
            return [*headers, headers[at]]
        case 2:
            return [*headers, (draw.choice(_NAMES), draw.choice(_VALUES))]
    return [*headers[:at], (headers[at][0], draw.choice(_VALUES)), *headers[at + 1 :]]
