"""The OpenAPI 3.1.0 document: each route with its description."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from partway import __version__
from partway.gateway.access.authentication import Access
from partway.gateway.apis.openapi.descriptions import (
    BY_TARGET,
    DESCRIPTIONS,
    ELSEWHERE,
    EXAMPLES,
    REFUSING,
    Description,
)
from partway.gateway.apis.openapi.schemas import ERRORS, SCHEMAS, TEXT
from partway.gateway.http.routes import Route

#: Continues a command on the next line.
_CONTINUED: Final = " \\\n    "

_SIGNED: Final = (
    "--aws-sigv4 aws:amz:us-east-1:sagemaker",
    '--user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"',
)
_BEARER: Final = ('--header "Authorization: Bearer $TOKEN"',)

_IN_BRACES: Final = re.compile(r"\{(\w+)\}")

_SECURITY: Final[Mapping[Access, list[Mapping[str, list[str]]]]] = {
    Access.ANYONE: [],
    Access.SIGNED: [{"signature": []}],
    Access.SIGNED_OR_BEARER: [{"signature": []}, {"token": []}],
    Access.SIGNED_BEARER_OR_API_KEY: [{"signature": []}, {"token": []}],
}

_SCHEMES: Final = {
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "AWS's Signature Version 4, for the service `sagemaker` or `logs`.",
    },
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of the principals' file.",
    },
}

_ABOUT: Final = (
    "Without authentication (`--auth none`) the gateway accepts every caller, and the control "
    "plane answers only callers on the gateway's machine. The same ports serve gRPC, and an "
    "API for kubectl with a description at `/kubernetes/openapi/v3`. OpenAI's clients have the "
    "base URLs `$GATEWAY/endpoints/NAME/openai/v1` and `$GATEWAY/openai/v1`. Each operation has an "
    "example for a shell: `$GATEWAY` is this gateway's address, and `$TOKEN` a token of the "
    "principals' file."
)


def path_of(each: Description) -> str:
    """Return the operation's path, with examples for its parameters."""
    return _IN_BRACES.sub(lambda name: EXAMPLES[name[1]], each.path)


def sample_request(each: Description, access: Access, *, asks: bool) -> str:
    """Return an example command for an operation."""
    sample = each.sample
    if sample.command:
        return sample.command + (" --sign" if asks else "")
    words = [f'curl "$GATEWAY{path_of(each)}"']
    if asks and access is Access.SIGNED_OR_BEARER:
        words += _BEARER
    elif asks and access is Access.SIGNED:
        words += _SIGNED
    words += (
        f"--header {shlex.quote(f'{name}: {value}')}" for name, value in sample.headers.items()
    )
    if sample.body:
        words.append(f"--data-binary {shlex.quote(sample.body)}")
    elif each.method != "get":
        words.append(f"--request {each.method.upper()}")
    return _CONTINUED.join(words)


def described(route: Route) -> list[Description]:
    if route.target:
        return [BY_TARGET]
    return [
        each
        for each in DESCRIPTIONS
        if each.name == route.name
        and each.method.upper() in route.methods
        and route.path.fullmatch(path_of(each))
    ]


def is_elsewhere(route: Route) -> bool:
    return route.name in REFUSING or route.errors.__name__ in ELSEWHERE


def document(routes: Iterable[Route], *, asks: bool) -> dict[str, Any]:
    """Return the document.

    Args:
        routes: the routes of the gateway; routes without a description are left out.
    """
    paths: dict[str, dict[str, Any]] = {}
    targets = []
    tags: dict[str, None] = {}
    for route in routes:
        if is_elsewhere(route):
            continue
        targets += [route.target] if route.target else []
        for each in described(route):
            tags[each.tag] = None
            operation = _operation(route, each, asks=asks)
            paths.setdefault(each.path, {}).setdefault(each.method, operation)
    if targets:
        paths[BY_TARGET.path][BY_TARGET.method]["parameters"] = [
            {
                "name": "X-Amz-Target",
                "in": "header",
                "required": True,
                "schema": {"type": "string", "enum": sorted(targets)},
            }
        ]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Partway",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name} for name in tags],
        "paths": paths,
        "components": {"schemas": SCHEMAS, "responses": ERRORS, "securitySchemes": _SCHEMES},
    }


def _operation(route: Route, each: Description, *, asks: bool) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": each.id or each.name,
        "summary": each.summary,
        "tags": [each.tag],
        "security": _SECURITY[route.access] if asks else [],
    }
    if parameters := [*_parameters(each)]:
        operation["parameters"] = parameters
    if each.body:
        operation["requestBody"] = {"required": True, "content": _content(each.body)}
    answer: dict[str, Any] = {"description": "The answer."}
    if each.answer:
        answer["content"] = _content(each.answer)
    sample = sample_request(each, route.access, asks=asks)
    operation["x-codeSamples"] = [{"lang": "Shell", "source": sample}]
    operation["responses"] = {
        str(each.status): answer,
        **{str(status): {"description": means} for status, means in each.also.items()},
        "default": {"$ref": f"#/components/responses/{route.errors.__name__}"},
    }
    return operation


def _parameters(each: Description) -> Iterator[Mapping[str, Any]]:
    for name in _IN_BRACES.findall(each.path):
        yield {"name": name, "in": "path", "required": True, "schema": TEXT}
    for name, must_be in each.headers.items():
        if name.lower() not in ("accept", "content-type", "authorization"):  # OpenAPI's own
            yield {"name": name, "in": "header", "description": must_be, "schema": TEXT}


def _content(of: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": schema} if schema else {} for kind, schema in of.items()}
