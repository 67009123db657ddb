"""An endpoint of a running gateway, which a job calls with InvokeEndpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeVar

from partway.gateway.batch.container_exchanges import Exchanges
from partway.gateway.batch.limits import GATEWAY_CONNECT_TIMEOUT
from partway.gateway.batch.model import (
    AskFailed,
    ModelAnswer,
    ModelGone,
    RequestBody,
    refused,
)
from partway.gateway.batch.options import TransformOptions
from partway.gateway.client.request import credentials_from_environment, request_for
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.container_requests import (
    ContainerRequest,
    Destination,
    header_lines,
)
from partway.gateway.timing.clock import Clock
from partway.protocol.errors import NEVER, RETRY_HEADER, ApiError, ContainerError
from partway.protocol.signatures.verification import SignableRequest, sign_request

_T = TypeVar("_T")

#: Statuses that would be the same for every request of the job: no permission, no such path.
_FOR_ALL: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})

#: The end of the path of streams, which is cut off to get the path of InvokeEndpoint.
_OF_STREAMS: Final = "-bidirectional-stream"


class GatewayModel:
    """An endpoint of a gateway; a context manager that closes its connections.

    Requests are signed if the environment has a key. A gateway does not tell how many instances an
    endpoint has, so it counts as one instance.

    Args:
        region: the region that signatures name.
        environment: usually ``os.environ``.
        wall_clock: returns epoch seconds, for signatures.

    Raises:
        ValueError: the arguments or the environment do not allow requests; the message says what
            must be changed.
    """

    def __init__(
        self,
        url: str,
        endpoint: str,
        region: str,
        environment: Mapping[str, str],
        options: TransformOptions,
        clock: Clock,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.instances = 1
        signs = environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY")
        request = request_for(
            *(url, endpoint, {}),
            ca=None,
            credentials=credentials_from_environment(environment) if signs else None,
            region=region,
            token=None,
        )
        self._credentials = request.credentials
        self._region = request.region
        self._target = request.target.removesuffix(_OF_STREAMS)
        tls = request.context("http/1.1")
        self._there = Destination(request.address, "", GATEWAY_CONNECT_TIMEOUT, tls)
        headers = (("Content-Type", options.content_type), ("Accept", options.accept))
        self._headers = tuple(header for header in headers if header[1])
        self._exchanges = Exchanges(clock, options.invocation_timeout)
        self._wall_clock = wall_clock
        self._not_found = f"Endpoint {endpoint} of account ".encode()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._exchanges.close()

    async def there(self) -> None:
        """Return at once: the gateway itself reports whether instances are ready."""

    async def parameters(self) -> bytes:
        """Check that the gateway answers; return nothing, since it forwards no such request.

        Raises:
            ModelGone: the gateway does not answer.
        """
        try:
            await self._exchanges.look(self._there, "/healthz")  # a proxy may be in front
        except ApiError as error:
            raise ModelGone(f"{_in_words(error)}; --gateway must be the gateway's URL") from None
        return b""

    async def ask(self, body: RequestBody, take: Callable[[ModelAnswer], Awaitable[_T]]) -> _T:
        whole = body if isinstance(body, bytes) else body()
        try:
            request = ContainerRequest(self._target, header_lines(self._signed(body)), whole)
            return await self._exchanges.ask(self._there, request, take, self._refusal)
        except ContainerError as error:  # the gateway plays the container's part
            raise AskFailed(_in_words(error), passing=True) from None
        except ApiError as error:
            raise AskFailed(error.message) from None

    def _refusal(self, head: AnswerHead, said: bytes) -> Exception:
        failed = _refused(head.status, said, lasting=head.headers.get(RETRY_HEADER) == NEVER)
        if head.status in _FOR_ALL or self._not_found in said:
            return ModelGone(str(failed))
        return failed

    def _signed(self, body: RequestBody) -> tuple[tuple[str, str], ...]:
        if self._credentials is None:
            return self._headers
        assert isinstance(body, bytes), "a body is signed whole"
        host = ("host", self._there.authority)
        signed = sign_request(
            SignableRequest("POST", self._target, "", (host, *self._headers)),
            self._credentials,
            region=self._region,
            payload_hash=sha256(body).hexdigest(),
            now=self._wall_clock(),
        )
        return (*self._headers, *signed.headers)


def _refused(status: int, said: bytes, *, lasting: bool) -> AskFailed:
    """Return the error for a status other than 2xx, of the gateway or of its container."""
    text = said.decode("utf-8", "replace")
    try:
        members = json.loads(text)
        message = str(members["Message"])
        original = int(members.get("OriginalStatusCode", 0))
        words = str(members.get("OriginalMessage", ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        members, message, original, words = {}, text, 0, ""
    if original:
        return refused(original, words)
    # A container that has not answered is a ModelError too, without OriginalStatusCode.
    of_the_model = status == HTTPStatus.FAILED_DEPENDENCY
    failed = refused(status, message)
    passing = (of_the_model or status >= 500) and not lasting
    return AskFailed(str(failed).replace("the container", "the gateway", 1), passing=passing)


def _in_words(error: ApiError) -> str:
    return error.for_operator.replace("the container", "the gateway")
