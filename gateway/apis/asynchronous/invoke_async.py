"""InvokeEndpointAsync: a request is stored and answered at once; its result comes later."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from partway.gateway.access.authentication import Authenticator, Identity
from partway.gateway.apis.asynchronous.inference_config import AsyncConfig
from partway.gateway.apis.asynchronous.limits import ATTEMPT_TIMEOUT, INLINE_BYTES, REQUEST_TTL
from partway.gateway.apis.asynchronous.requests import AsyncRequest
from partway.gateway.apis.asynchronous.worker import AsyncWorker
from partway.gateway.apis.runtime.errors import aws_runtime
from partway.gateway.arns import Arns
from partway.gateway.containers.container_requests import CUSTOM_ATTRIBUTES
from partway.gateway.containers.invocation_headers import (
    ACCEPT,
    ASYNC_HEADERS,
    FILENAME,
    INFERENCE_ID,
    INPUT_LOCATION,
    INVOCATION_TIMEOUT,
    OUTPUT_EXTENSION,
    PAYLOAD_TYPE,
    TTL,
    passed_on,
)
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.peers import peer_of
from partway.gateway.http.request_payloads import GatheredPayload
from partway.gateway.http.routes import Route
from partway.gateway.storage.places.locations import checked_arn, is_local, split_url
from partway.gateway.storage.places.place import StorageFailed
from partway.protocol.errors import InputValidationError, ServiceUnavailable, UnknownEndpoint
from partway.protocol.http.content_codings import CONTENT_ENCODING

#: AWS's name of the operation, also in permissions.
OPERATION: Final = "InvokeEndpointAsync"

#: Clause 2.1-4 holds here too: a base path may stand in front.
PATH: Final = re.compile(r"(?:/.*)?/endpoints/(?P<endpoint>[^/]+)/async-invocations")

#: Request headers that are forwarded, with the names that the container gets.
_ALONG: Final = {
    PAYLOAD_TYPE: "Content-Type",
    ACCEPT: "Accept",
    CUSTOM_ATTRIBUTES: CUSTOM_ATTRIBUTES,
}

#: Characters of a location (AWS's service model limits both answered locations to this).
_MOST: Final = 1024


class InvokeEndpointAsync:
    """The operation InvokeEndpointAsync.

    Args:
        worker: accepts requests; None if the gateway has no data directory.
        allows_path: whether a path of this machine may be an input, by its text.
        arns: has the account, which AWS's messages name.
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        worker: AsyncWorker | None,
        config_of: Callable[[str], AsyncConfig | None],
        has_endpoint: Callable[[str], bool],
        allows_path: Callable[[str], bool],
        arns: Arns,
        wall_clock: Callable[[], float],
    ) -> None:
        self._worker = worker
        self._config_of = config_of
        self._has_endpoint = has_endpoint
        self._allows_path = allows_path
        self._arns = arns
        self._wall_clock = wall_clock

    @property
    def routes(self) -> tuple[Route, ...]:
        return (
            Route(
                *(OPERATION, frozenset({"POST"}), PATH, self),
                payload=GatheredPayload(INLINE_BYTES),
                errors=aws_runtime,
            ),
        )

    async def __call__(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        endpoint = named["endpoint"]
        said = passed_on(exchange.headers, ASYNC_HEADERS)
        body = await exchange.body(INLINE_BYTES)
        config = self._config(endpoint)
        location = self._input(said, body, identity)
        trusted = exchange.visitor.trusted
        address = "" if trusted else f"address {peer_of(exchange.peer)}"
        sender = address if identity.principal is None else identity.principal
        request = self._request(endpoint, sender, said, location, len(body), config)
        if self._worker is None:
            raise ServiceUnavailable(
                "this gateway has no data directory, so it cannot store asynchronous requests"
            )
        await self._worker.accept(request, body)
        headers = {
            "Content-Type": "application/json",
            "X-Amzn-SageMaker-OutputLocation": request.output,
        }
        if request.failure:
            headers["X-Amzn-SageMaker-FailureLocation"] = request.failure
        answer = json.dumps({"InferenceId": request.inference_id}).encode()
        exchange.respond(202, answer, headers)

    def _config(self, endpoint: str) -> AsyncConfig:
        config = self._config_of(endpoint)
        if config is not None:
            _check_names_no_container(endpoint, config)
            return config
        if not self._has_endpoint(endpoint):
            words = f"Endpoint {endpoint} of account {self._arns.account} not found."
            raise UnknownEndpoint(words)
        raise InputValidationError(
            f"Endpoint {endpoint} takes no asynchronous requests; its endpoint configuration "
            "must have an AsyncInferenceConfig, with an OutputConfig for the location of "
            "answers",
            "NotAsynchronous",
        )

    def _input(self, said: Mapping[str, str], body: bytes, identity: Identity) -> str:
        """Return the location of the request's body; empty if the request has a body."""
        location = said.get(INPUT_LOCATION, "")
        if bool(location) == bool(body):
            raise InputValidationError(
                f"either a body or InputLocation (header {INPUT_LOCATION}) must be given, and "
                "not both",
                "InvalidInput",
            )
        if not location:
            return ""
        if is_local(location):
            if not self._allows_path(location):
                raise InputValidationError(
                    "InputLocation is a path of the gateway's machine; it must be below one of the "
                    "local_roots under [api] in the gateway's settings",
                    "InvalidInputLocation",
                )
        else:
            _check_object(location)
        try:
            resource = checked_arn(location)
        except ValueError as error:
            words = f"InputLocation (header {INPUT_LOCATION}): {error}"
            raise InputValidationError(words, "InvalidInputLocation") from None
        identity.check("s3:GetObject", resource)
        return location

    def _request(
        self,
        endpoint: str,
        sender: str,
        said: Mapping[str, str],
        location: str,
        length: int,
        config: AsyncConfig,
    ) -> AsyncRequest:
        made = uuid.uuid4()
        now = self._wall_clock()
        output, failure = _locations(config, said, str(made))
        return AsyncRequest(
            id=made.hex,
            inference_id=said.get(INFERENCE_ID) or str(made),
            endpoint=endpoint,
            sender=sender,
            received=now,
            expires=now + float(said.get(TTL, REQUEST_TTL)),
            within=float(said.get(INVOCATION_TIMEOUT, ATTEMPT_TIMEOUT)),
            input=location,
            output=output,
            failure=failure,
            headers={
                **{name: said[header] for header, name in _ALONG.items() if header in said},
                **({} if location else _of_the_body(said)),
                **({INFERENCE_ID: said[INFERENCE_ID]} if INFERENCE_ID in said else {}),
            },
            on_success=config.on_success,
            on_failure=config.on_failure,
            maker=config.maker,
            length=length,
        )


def _of_the_body(said: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the request's own body; they do not apply to an object at S3."""
    coding = said.get(CONTENT_ENCODING)
    return {} if coding is None else {CONTENT_ENCODING: coding}


def _check_names_no_container(endpoint: str, config: AsyncConfig) -> None:
    """Raise InputValidationError if requests must name a container.

    An endpoint may be older than this rule, and its request would fail later.
    """
    if config.names_containers:
        raise InputValidationError(
            f"Endpoint {endpoint} takes no asynchronous requests: the Mode of its model is "
            "Direct; it must be Serial, because an asynchronous request cannot name a container",
            "NotAsynchronous",
        )


def taken_away(authenticator: Authenticator, arns: Arns, request: AsyncRequest) -> str:
    """Return an action that the sender was permitted at the request and is not permitted now.

    Returns:
        The action in IAM's words; empty if every action is still permitted.
    """
    asked = {f"sagemaker:{OPERATION}": arns.of("endpoint", request.endpoint)}
    if not request.is_inline:
        asked["s3:GetObject"] = checked_arn(request.input)
    refused = (each for each in asked if not authenticator.may(request.sender, each, asked[each]))
    return next(refused, "")


def _check_object(location: str) -> None:
    """Raise InputValidationError unless an input location is the address of an object."""
    try:
        _, key = split_url(location)
    except StorageFailed:
        key = ""
    parts = key.split("/")
    if not location.startswith("s3://") or any(each in ("", ".", "..") for each in parts):
        raise InputValidationError(
            f"InputLocation (header {INPUT_LOCATION}) must be s3://BUCKET/KEY, and no part of "
            "the key may be empty, . or ..",
            "InvalidInputLocation",
        )


def _locations(config: AsyncConfig, said: Mapping[str, str], request: str) -> tuple[str, str]:
    """Return the locations of the answer and of the failure report (empty for none).

    The failure report has ``-error`` in its name, since both may have the same folder.
    """
    name = said.get(FILENAME, f"{request}.out")
    stem, dot, suffix = name.partition(".")
    extension = said.get(OUTPUT_EXTENSION, "").strip("/")
    if any(each in ("", ".", "..") for each in extension.split("/")) and extension:
        raise InputValidationError(
            f"S3OutputPathExtension (header {OUTPUT_EXTENSION}) must be parts joined by /, and "
            "no part may be empty, . or ..",
            "InvalidOutputPathExtension",
        )
    output = "/".join(filter(None, (config.output.rstrip("/"), extension, name)))
    failure = f"{config.failure.rstrip('/')}/{stem}-error{dot}{suffix}" if config.failure else ""
    for each in (output, failure):
        if len(each) > _MOST:
            raise InputValidationError(
                f"the output's location has {len(each)} characters; S3OutputPath, "
                f"S3OutputPathExtension and Filename together must have at most {_MOST}",
                "InvalidOutputPathExtension",
            )
    return output, failure
