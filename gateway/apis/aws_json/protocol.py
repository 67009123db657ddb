"""AWS's JSON 1.1 protocol: all operations are at ``POST /``, named by ``X-Amz-Target``."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias
from xml.sax.saxutils import escape

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.aws_json.bodies import members_of
from partway.gateway.apis.control.errors import UnknownOperation
from partway.gateway.apis.control.limits import MAX_CONTROL_BODY
from partway.gateway.http.content_codings import decoded_body
from partway.gateway.http.error_dialects import ErrorResponse
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import GatheredPayload
from partway.gateway.http.routes import Leave, Route
from partway.gateway.plain_text import cut, safe
from partway.gateway.service import Service
from partway.protocol.errors import (
    ApiError,
    InternalServerError,
    ServiceUnavailable,
    UnsupportedCoding,
)
from partway.protocol.http.content_types import media_type_of
from partway.protocol.signatures.verification import SERVICE

#: The content type of requests in AWS's Query protocol.
FORM: Final = "application/x-www-form-urlencoded"

CONTENT_TYPE: Final = "application/x-amz-json-1.1"

#: Content types that are accepted too: version 1.0 of the protocol, and curl's users.
_CONTENT_TYPES: Final = frozenset({CONTENT_TYPE, "application/x-amz-json-1.0", "application/json"})

#: The output of an operation; None if AWS's operation has no output.
Answer: TypeAlias = Mapping[str, Any] | None

#: Answers a call, given the input members, the sender, and the request's id.
ControlOperation: TypeAlias = Callable[[Mapping[str, Any], Identity, str], Awaitable[Answer]]

_ROOT: Final = re.compile("/")

_POST: Final = frozenset({"POST"})

#: First words of operations that change nothing.
_READING: Final = ("Describe", "List", "Get", "Filter")

_JSON: Final = {"Content-Type": CONTENT_TYPE}

#: Error names of this protocol that differ from other protocols.
_NAMES: Final = {
    InternalServerError.name: "InternalFailure",
    ServiceUnavailable.name: "ServiceUnavailable",
}

#: Characters of an unknown target that an error repeats.
_SHOWN: Final = 128


class UnknownQuery(UnknownOperation):
    """The gateway has no operation of AWS's Query protocol."""


def aws_query(error: UnknownQuery) -> ErrorResponse:
    body = (
        "<ErrorResponse><Error><Type>Sender</Type>"
        f"<Code>{error.name}</Code><Message>{escape(error.message)}</Message>"
        "</Error></ErrorResponse>"
    )
    return ErrorResponse(error.status, {"Content-Type": "text/xml", **error.headers}, body.encode())


class InputCheck(Protocol):
    async def checked(self, operation: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the members of an operation's input, as the operation gets them.

        Raises:
            ApiError: the members are not valid for the operation.
        """


def changes_something(operation: str) -> bool:
    return not operation.startswith(_READING)


def aws_json(error: ApiError) -> ErrorResponse:
    """Return an error of AWS's JSON 1.1 protocol (clause 5).

    Name and message are in the body; the status is 400 for all but faults. An unknown content
    coding keeps HTTP's own status (RFC 9110 §15.5.16).
    """
    if isinstance(error, UnknownQuery):
        return aws_query(error)
    name = _NAMES.get(error.name, error.name)
    status = max(error.status, HTTPStatus.BAD_REQUEST)
    if status < HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, UnsupportedCoding):
        status = HTTPStatus.BAD_REQUEST
    body = json.dumps({"__type": name, "message": error.message, "Message": error.message})
    return ErrorResponse(status, {**_JSON, **error.headers}, body.encode())


def operation_routes(
    prefix: str,
    operations: Mapping[str, ControlOperation],
    inputs: InputCheck,
    service: str = SERVICE,
) -> tuple[Route, ...]:
    """Return the routes of a service's operations, each of which checks permissions itself.

    Args:
        prefix: the prefix of the service's targets, such as ``SageMaker``.
        service: the service in signatures and actions.
    """
    return tuple(
        Route(
            name,
            _POST,
            _ROOT,
            _Call(name, operation, inputs),
            Access.SIGNED,
            GatheredPayload(MAX_CONTROL_BODY),
            aws_json,
            target=f"{prefix}.{name}",
            leave=Leave.OF_OPERATION,
            service=service,
            control=True,
            changes=changes_something(name),
        )
        for name, operation in operations.items()
    )


def unknown_operation_route(known: Iterable[Route]) -> Route:
    """Return the route of all unknown targets of ``POST /``; it must follow all other routes.

    The sender need not authenticate: AWS, too, first checks whether the operation exists.

    Args:
        known: the other routes, which the error names.
    """
    targets = ", ".join(sorted(route.target for route in known))

    async def refuse(exchange: Exchange, *_: object) -> None:
        target = exchange.headers.get("x-amz-target", "")
        refusal = UnknownQuery if _is(exchange, FORM) and not target else UnknownOperation
        raise refusal(
            f"{cut(safe(target), _SHOWN)!r} is not an operation of this gateway; X-Amz-Target "
            f"must be one of: {targets}"
            if target
            else f"the request has no X-Amz-Target; it must be one of: {targets}"
        )

    return Route("UnknownOperation", _POST, _ROOT, refuse, Access.ANYONE, errors=aws_json)


def _is(exchange: Exchange, *content_types: str) -> bool:
    said = exchange.headers.get("content-type", "")
    return media_type_of(said) in content_types


class _Call:
    def __init__(self, name: str, operation: ControlOperation, inputs: InputCheck) -> None:
        self._name = name
        self._operation = operation
        self._inputs = inputs

    async def __call__(self, exchange: Exchange, identity: Identity, _: Mapping[str, str]) -> None:
        _check_content_type(exchange)
        members = members_of(await decoded_body(exchange, MAX_CONTROL_BODY))
        checked = await self._inputs.checked(self._name, members)
        answer = await self._operation(checked, identity, exchange.request_id)
        body = b"" if answer is None else json.dumps(answer, separators=(",", ":")).encode()
        exchange.respond(HTTPStatus.OK, body, _JSON)


def _check_content_type(exchange: Exchange) -> None:
    """Refuse other types than JSON: any web page can make a browser send text without a preflight.

    Raises:
        UnknownOperation: AWS's error for a wrong type.
    """
    if not _is(exchange, *_CONTENT_TYPES):
        value = exchange.headers.get("content-type", "")
        shown = repr(cut(safe(value), _SHOWN)) if value else "no Content-Type"
        raise UnknownOperation(f"{shown} was given; Content-Type must be {CONTENT_TYPE}")


class TargetRoutes(Service):
    """The routes of several AWS services, followed by the route of unknown operations."""

    def __init__(self, _: object = None) -> None:
        self._sources: list[Callable[[], tuple[Route, ...]]] = []

    def add(self, source: Callable[[], tuple[Route, ...]]) -> None:
        """Add a service, by a function that returns its routes once all operations are added."""
        self._sources.append(source)

    @property
    def routes(self) -> tuple[Route, ...]:
        known = tuple(route for source in self._sources for route in source())
        return (*known, unknown_operation_route(known))
