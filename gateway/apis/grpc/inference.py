"""The Open Inference Protocol's GRPCInferenceService: the operations of its HTTP API, over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.grpc.calls import CallAnswer, LoadedLater, parsed, unary
from partway.gateway.apis.open_inference.resources import SERVER, OpenInferenceResources
from partway.gateway.apis.prediction.predict import check_version
from partway.gateway.apis.prediction.routes import GRANTED_WITH
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.arns import Arns
from partway.gateway.containers.invocation import Invocations
from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.http.exchange import TrailingExchange
from partway.gateway.http.routes import Route
from partway.protocol.errors import InputValidationError
from partway.protocol.limits import KIB, MAX_ENDPOINT_NAME, MAX_TENSORS
from partway.protocol.prediction.work_cost import message_cost

if TYPE_CHECKING:
    from partway.gateway.apis.grpc.model_infer import ModelInfer

INFERENCE_SERVICE: Final = "inference.GRPCInferenceService"

#: Bytes of a message that only names a model.
_NAME_BYTES: Final = 4 * KIB


def _messages() -> ModuleType:
    from partway.protocol.grpc import inference

    return inference


def _inferring() -> ModuleType:
    # The import of numpy takes 0.1 s, so only requests with tensors cause it.
    from partway.gateway.apis.grpc import model_infer

    return model_infer


class InferenceService:
    """The calls of the protocol.

    Args:
        most_bytes: the limit of a call's message, and of a container's answer, in bytes.
    """

    def __init__(
        self,
        invocations: Invocations,
        policy_of: Callable[[str], PredictionPolicy],
        resources: OpenInferenceResources,
        arns: Arns,
        workers: PredictionWorkers,
        most_bytes: int,
    ) -> None:
        self._invocations = invocations
        self._policy_of = policy_of
        self._resources = resources
        self._arns = arns
        self._workers = workers
        self._most_bytes = most_bytes
        self._schema = LoadedLater(_messages)
        self._inferring = LoadedLater(_inferring)
        self._infer: ModelInfer | None = None

    @property
    def routes(self) -> tuple[Route, ...]:
        service, most, anyone = INFERENCE_SERVICE, _NAME_BYTES, Access.ANYONE
        return (
            unary(service, "ServerLive", self.live, most, access=anyone, reserved=True),
            unary(service, "ServerReady", self.ready, most, access=anyone, reserved=True),
            unary(service, "ServerMetadata", self.server, most, access=anyone),
            unary(service, "ModelReady", self.model_ready, most, granted_with=GRANTED_WITH),
            unary(service, "ModelMetadata", self.model, most, granted_with=GRANTED_WITH),
            unary(
                *(service, "ModelInfer", self.infer, self._most_bytes),
                granted_with=GRANTED_WITH,
                workers=self._workers,
            ),
        )

    async def live(self, *_: object) -> CallAnswer:
        schema = await self._schema.get()
        return CallAnswer(schema.ServerLiveResponse(live=True).SerializeToString())

    async def ready(self, *_: object) -> CallAnswer:
        """Answer whether the gateway accepts requests and its endpoints have started."""
        schema = await self._schema.get()
        found = schema.ServerReadyResponse(ready=self._resources.is_ready())
        return CallAnswer(found.SerializeToString())

    async def server(self, *_: object) -> CallAnswer:
        schema = await self._schema.get()
        return CallAnswer(schema.ServerMetadataResponse(**SERVER).SerializeToString())

    async def model_ready(
        self, _call: TrailingExchange, identity: Identity, message: bytes
    ) -> CallAnswer:
        schema = await self._schema.get()
        asked = parsed(message, schema.ModelReadyRequest, _itself)
        name = self._model(identity, asked.name, asked.version)
        found = schema.ModelReadyResponse(ready=self._resources.is_model_ready(name))
        return CallAnswer(found.SerializeToString())

    async def model(
        self, _call: TrailingExchange, identity: Identity, message: bytes
    ) -> CallAnswer:
        schema = await self._schema.get()
        asked = parsed(message, schema.ModelMetadataRequest, _itself)
        name = self._model(identity, asked.name, asked.version)
        found: Mapping[str, Any] = self._resources.described(name)
        return CallAnswer(schema.ModelMetadataResponse(**found).SerializeToString())

    async def infer(self, call: TrailingExchange, identity: Identity, message: bytes) -> CallAnswer:
        schema = await self._schema.get()
        cost = message_cost(len(message))
        asked = await self._workers.share_of(call, identity).run(
            cost, parsed, message, schema.ModelInferRequest, _with_few_tensors
        )
        name = self._model(identity, asked.model_name, asked.model_version)
        if self._infer is None:
            module = await self._inferring.get()
            self._infer = module.ModelInfer(self._invocations, self._workers, self._most_bytes)
        return await self._infer(call, identity, name, self._policy_of(name), asked)

    def _model(self, identity: Identity, name: str, version: str) -> str:
        """Return the endpoint that a message names, if the sender may call it."""
        resource = self._arns.of("endpoint", name[: MAX_ENDPOINT_NAME + 1])
        identity.check(f"sagemaker:{GRANTED_WITH}", resource)
        check_version({"version": version})
        return name


def _with_few_tensors(message: Any) -> Any:
    for name in ("inputs", "outputs"):
        count = len(getattr(message, name))
        if count > MAX_TENSORS:
            raise InputValidationError(
                f"{name}: {count} tensors were given; there must be at most {MAX_TENSORS}"
            )
    return message


def _itself(message: Any) -> Any:
    return message
