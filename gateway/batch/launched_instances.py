"""A job's own instances, which the fleet's launchers start and stop with the job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeVar
from uuid import uuid4

from prometheus_client import CollectorRegistry

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.arns import Arns
from partway.gateway.batch.container_exchanges import Exchanges
from partway.gateway.batch.execution_parameters import EXECUTION_PARAMETERS
from partway.gateway.batch.limits import (
    INSTANCE_TIMEOUT,
    MAX_PAYLOAD_MB,
)
from partway.gateway.batch.model import (
    AskFailed,
    ModelAnswer,
    ModelGone,
    NoInstanceNow,
    RequestBody,
    refused,
    too_late,
)
from partway.gateway.batch.options import TransformOptions
from partway.gateway.containers.answers import AnswerHead
from partway.gateway.containers.connections import ContainerConnections
from partway.gateway.containers.container_requests import (
    REQUEST_ID,
    ContainerRequest,
    Destination,
    header_lines,
)
from partway.gateway.containers.invocation import Invocations
from partway.gateway.containers.metrics import RequestMetrics
from partway.gateway.containers.multi_container import containers_asked
from partway.gateway.containers.prepared_request import PreparedRequest
from partway.gateway.containers.requests_in_progress import RequestsUnderWay
from partway.gateway.fleet.endpoint import Endpoint, Place, Variant
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.instance_context import Means
from partway.gateway.fleet.limits import START_TIMEOUT
from partway.gateway.fleet.prediction import INVOCATIONS
from partway.gateway.fleet.routing.router import Router
from partway.gateway.fleet.status import EndpointState
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.protocol.errors import (
    RETRY_HEADER,
    ApiError,
    ContainerBroke,
    ContainerError,
    ContainerUnreachable,
    ServiceUnavailable,
)
from partway.protocol.limits import MIB

#: The fleet's name of a job's instances, unless the job has a name.
_NAME: Final = "transform"

_T = TypeVar("_T")


#: The request's limit exceeds the job's own by this, so that errors report the job's limit.
_BEHIND: Final = 5.0


def job_environment(options: TransformOptions) -> dict[str, str]:
    """Return the variables that tell a container that a job calls it, and with which settings.

    A variable is left out if the job has no value for it: the container chooses then.
    """
    given = {
        "SAGEMAKER_BATCH": "true",
        "SAGEMAKER_MAX_PAYLOAD_IN_MB": options.max_payload_mb,
        "SAGEMAKER_BATCH_STRATEGY": {
            "MultiRecord": "MULTI_RECORD",
            "SingleRecord": "SINGLE_RECORD",
            None: None,
        }[options.batch_strategy],
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": options.max_concurrent or None,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def for_job(variant: Variant, options: TransformOptions) -> Variant:
    """Add the job's variables to the variant; the variant's own take precedence."""
    environment = job_environment(options) | dict(variant.environment)
    return replace(variant, environment=tuple(sorted(environment.items())))


class FleetModel:
    """The instances of a job's own fleet; a context manager that stops them at its end.

    Args:
        name: the fleet's name of the instances, in logs and in the containers' labels.
    """

    def __init__(
        self,
        variant: Variant,
        options: TransformOptions,
        means: Means,
        clock: Clock,
        name: str = _NAME,
    ) -> None:
        self.instances = variant.instances
        self._endpoint = Endpoint(name, StreamPolicy(), (for_job(variant, options),))
        self._clock = clock
        self._router = Router()
        self.fleet = Fleet(self._router, means)
        self._news = asyncio.Event()
        self.fleet.on_change = lambda _: self._news.set()
        self._exchanges = Exchanges(clock, options.invocation_timeout)
        self._connections = ContainerConnections(clock)  # for instances of several containers
        self._invocations = Invocations(
            self._router,
            self._connections,
            RequestsUnderWay(1, 1, clock),  # the job bounds its own requests
            RequestMetrics(CollectorRegistry()),
            Arns("us-east-1", "000000000000"),
            MAX_PAYLOAD_MB * MIB,
        )
        headers = {"Content-Type": options.content_type, "Accept": options.accept}
        self._along = tuple((key, value) for key, value in headers.items() if value)
        self._timeout = options.invocation_timeout

    async def __aenter__(self) -> Self:
        self.fleet.apply(self._endpoint)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._exchanges.close()
        self._connections.close()
        await self.fleet.stop()

    async def there(self) -> None:
        try:
            async with time_limit(self._clock, INSTANCE_TIMEOUT):
                while not self._router.instances_of(self._endpoint.name):
                    self._check_wanted()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise ModelGone(f"no instance is in service after {INSTANCE_TIMEOUT:g} s") from None

    async def started(self) -> None:
        """Wait until all wanted instances are in service, or no more will be.

        Raises:
            ModelGone: no instance will be in service.
        """
        await self.fleet.has_settled(START_TIMEOUT + INSTANCE_TIMEOUT)
        self._check_wanted()

    def _check_wanted(self) -> None:
        status = self.fleet.status(self._endpoint.name)
        if status is None or status.state is EndpointState.FAILED:
            reason = "the instances were stopped" if status is None else status.reason
            raise ModelGone(f"no instance is in service: {reason}")

    async def parameters(self) -> bytes:
        await self.there()
        try:
            with self._router.lease(self._endpoint.name, is_stream=False) as lease:
                place, *_ = containers_asked(lease.place, "")
                there = self._destination(lease.instance.id, place)
                status, said = await self._exchanges.look(there, EXECUTION_PARAMETERS)
                return said if status == HTTPStatus.OK else b""
        except ApiError as error:
            raise ModelGone(f"{EXECUTION_PARAMETERS}: {error.for_operator}") from None

    async def ask(self, body: RequestBody, take: Callable[[ModelAnswer], Awaitable[_T]]) -> _T:
        try:
            with self._router.lease(self._endpoint.name, is_stream=False) as lease:
                if lease.place.containers:
                    return await self._ask_several(body, take)
                whole = body if isinstance(body, bytes) else body()
                lines = header_lines((*self._along, _request_id()))
                request = ContainerRequest(INVOCATIONS, lines, whole)
                there = self._destination(lease.instance.id, lease.place)
                try:
                    return await self._exchanges.ask(
                        *(there, request, take, _refusal),
                        lambda answer: lease.ends_by(lambda: answer.fail(_stopped())),
                    )
                except ContainerUnreachable:
                    lease.unreachable()
                    raise
        except ContainerError as error:
            raise AskFailed(error.for_operator, passing=RETRY_HEADER not in error.headers) from None
        except ServiceUnavailable as error:
            raise NoInstanceNow(error.message) from None

    async def _ask_several(
        self, body: RequestBody, take: Callable[[ModelAnswer], Awaitable[_T]]
    ) -> _T:
        """Call the containers of an instance in turn, each with the answer of the one before."""
        request = PreparedRequest(body, request_id=str(uuid4()))
        try:
            async with (
                time_limit(self._clock, self._timeout),
                self._invocations.answered(
                    *(request, ANYBODY, self._endpoint.name, dict(self._along)),
                    within=self._timeout + _BEHIND,
                ) as invoked,
            ):
                return await take(invoked.answer)
        except TimeoutError:
            raise too_late(self._timeout) from None
        except ContainerError as error:
            raise _of_several(error) from None

    def _destination(self, instance: str, place: Place) -> Destination:
        tls = None if place.tls is None else place.tls.context()
        return Destination(place.container, instance, place.policy.connect_timeout, tls)


def _request_id() -> tuple[str, str]:
    return REQUEST_ID, str(uuid4())


def _refusal(head: AnswerHead, said: bytes) -> AskFailed:
    return refused(head.status, said.decode("utf-8", "replace"))


def _stopped() -> ContainerBroke:
    return ContainerBroke("the instance was stopped or lost before it had answered")


def _of_several(error: ContainerError) -> AskFailed:
    status, said = error.members["OriginalStatusCode"], str(error.members["OriginalMessage"])
    if isinstance(status, int) and status:
        return refused(status, said)
    return AskFailed(said, passing=RETRY_HEADER not in error.headers)
