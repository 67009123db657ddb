"""Headers of OpenAI's API: those that the container gets, and those of its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from partway.gateway.apis.openai.errors import REQUEST_ID
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.container_requests import HEADER_VALUE
from partway.gateway.containers.invocation_headers import INFERENCE_COMPONENT, passed_on
from partway.protocol.websocket.handshake import tokens

_LONGEST: Final = 1024

#: Headers of the client that the container gets; never its credentials, nor HTTP's own.
_TO_CONTAINER: Final = re.compile(
    r"accept|accept-encoding|accept-language|content-encoding|content-type|idempotency-key|"
    r"user-agent|traceparent|tracestate|x-client-request-id|"
    r"(?:anthropic|openai|x-stainless)-(?!.*(?:key|token|secret))[a-z0-9-]+",
    re.IGNORECASE,
)
#: Headers of the container that the client gets.
_TO_CLIENT: Final = re.compile(
    r"content-type|content-encoding|cache-control|retry-after|retry-after-ms|"
    rf"{REQUEST_ID}|(?:anthropic|openai|x-ratelimit)-[a-z0-9-]+",
    re.IGNORECASE,
)


def container_headers(headers: Mapping[str, str], component: str) -> dict[str, str]:
    """Return the headers for the container.

    Args:
        headers: the client's.
        component: the inference component in the path; empty for none.

    Raises:
        InputValidationError: one of SageMaker's own headers violates its pattern.
    """
    of_connection = {each.lower() for each in tokens(headers.get("Connection", ""))}
    found = {
        name: value
        for name, value in headers.items()
        if _TO_CONTAINER.fullmatch(name)
        and name.lower() not in of_connection
        and value
        and len(value) <= _LONGEST
    }
    own = passed_on(headers)
    found |= {name: value for name, value in own.items() if name.lower().startswith("x-amzn-")}
    if component:
        found |= passed_on({INFERENCE_COMPONENT: component})
    return found


def client_headers(head: AnswerHead, request_id: str) -> dict[str, str]:
    """Return the headers of a container's answer that the client gets.

    Args:
        head: the answer's.
        request_id: the gateway's; the container's own stands in its place if it sent one.
    """
    found = {REQUEST_ID: request_id}
    for name in {name.lower() for name in head.headers if _TO_CLIENT.fullmatch(name)}:
        value = head.headers[name]  # the first of several
        if value and len(value) <= _LONGEST and HEADER_VALUE.fullmatch(value):
            found[name] = value
    return found
