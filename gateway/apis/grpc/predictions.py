"""Google's PredictionService over gRPC, and the endpoint resource that its clients read first."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeVar

from partway.gateway.access.authentication import Identity
from partway.gateway.access.origins import asked_host
from partway.gateway.apis.grpc.calls import (
    CallAnswer,
    LoadedLater,
    parsed,
    streaming,
    unary,
)
from partway.gateway.apis.prediction.predict import Predict
from partway.gateway.apis.prediction.raw_predict import (
    RawPredict,
    answer_head,
    asked_with,
    check_chunks_uncoded,
)
from partway.gateway.apis.prediction.resources import PredictionResources
from partway.gateway.apis.prediction.routes import (
    ENDPOINT,
    GRANTED_WITH,
    STREAM_GRANTED_WITH,
    answer_headers,
    model_name,
)
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.apis.runtime.response_stream import AnswerResponse
from partway.gateway.arns import Arns
from partway.gateway.containers.invocation import Invocation
from partway.gateway.http.exchange import Exchange, TrailingExchange
from partway.gateway.http.routes import Route
from partway.protocol.errors import InputValidationError
from partway.protocol.grpc.messages import framed
from partway.protocol.grpc.metadata import HEAD, Code, status
from partway.protocol.grpc.values import json_of, values_of
from partway.protocol.limits import GRPC_CHUNK_BYTES, KIB, MAX_ENDPOINT_NAME
from partway.protocol.parts import INVALID_SIGNATURE, ModelStreamError, StreamError
from partway.protocol.prediction.bodies import PredictionFault
from partway.protocol.prediction.http_body import HttpBody
from partway.protocol.prediction.work_cost import message_cost

PREDICTION_SERVICE: Final = "google.cloud.aiplatform.v1.PredictionService"
ENDPOINT_SERVICE: Final = "google.cloud.aiplatform.v1.EndpointService"

_T = TypeVar("_T")

#: Bytes of a message that only names an endpoint.
_NAME_BYTES: Final = 4 * KIB


def _messages() -> ModuleType:
    from partway.protocol.grpc import predictions

    return predictions


class _Named(NamedTuple):
    parent: str
    endpoint: str


class PredictionService:
    """The calls Predict, RawPredict, StreamRawPredict and GetEndpoint.

    Args:
        most_bytes: the limit of a call's message in bytes.
    """

    def __init__(
        self,
        predict: Predict,
        raw_predict: RawPredict,
        resources: PredictionResources,
        arns: Arns,
        workers: PredictionWorkers,
        most_bytes: int,
    ) -> None:
        self._predict = predict
        self._raw_predict = raw_predict
        self._resources = resources
        self._arns = arns
        self._workers = workers
        self._most_bytes = most_bytes
        self._schema = LoadedLater(_messages)

    @property
    def routes(self) -> tuple[Route, ...]:
        most, workers = self._most_bytes, self._workers
        stream = self.stream_raw_predict
        return (
            unary(
                *(PREDICTION_SERVICE, "Predict", self.predict, most),
                granted_with=GRANTED_WITH,
                workers=workers,
            ),
            unary(
                *(PREDICTION_SERVICE, "RawPredict", self.raw_predict, most),
                granted_with=GRANTED_WITH,
                workers=workers,
            ),
            streaming(
                PREDICTION_SERVICE,
                "StreamRawPredict",
                stream,
                most,
                granted_with=STREAM_GRANTED_WITH,
                workers=workers,
            ),
            unary(
                *(ENDPOINT_SERVICE, "GetEndpoint", self.get_endpoint, _NAME_BYTES),
                granted_with=GRANTED_WITH,
            ),
        )

    async def predict(
        self, call: TrailingExchange, identity: Identity, message: bytes
    ) -> CallAnswer:
        schema = await self._schema.get()
        name, body = await self._parsed(
            call,
            identity,
            message,
            schema.PredictRequest,
            lambda asked: (asked.endpoint, _body(asked)),
        )
        named = self._named(identity, name)
        call.holding.draw(len(body))

        found = await self._predict.predicted(call, identity, named.endpoint, body, values_of)
        answer = schema.PredictResponse(
            deployed_model_id=found.invoked.lease.variant,
            model=model_name(named.parent, named.endpoint),
        )
        # A message is the concatenation of its fields; the predictions are the first.
        message = found.predictions + answer.SerializeToString()
        return CallAnswer(message, answer_headers(named.parent, found.invoked))

    async def raw_predict(
        self, call: TrailingExchange, identity: Identity, message: bytes
    ) -> CallAnswer:
        """Send any bytes to the container, and answer with the container's bytes."""
        schema = await self._schema.get()
        name, body = await self._parsed(
            call, identity, message, schema.RawPredictRequest, _http_body
        )
        named = self._named(identity, name)
        asked = asked_with(call, body)
        async with self._raw_predict.answered(asked, identity, named.endpoint) as invoked:
            said = await self._raw_predict.whole(call, identity, invoked)
            head = answer_headers(named.parent, invoked)
        answer = schema.HttpBody(content_type=said.content_type, data=said.data)
        return CallAnswer(answer.SerializeToString(), head)

    async def stream_raw_predict(
        self, call: TrailingExchange, identity: Identity, message: bytes
    ) -> None:
        """Send any bytes to the container, and answer with its chunks as they come."""
        schema = await self._schema.get()
        name, body = await self._parsed(
            call, identity, message, schema.RawPredictRequest, _http_body
        )
        named = self._named(identity, name, stream=True)
        action = f"sagemaker:{STREAM_GRANTED_WITH}"
        resource = self._resource(named.endpoint)

        def response(invoked: Invocation) -> AnswerResponse:
            check_chunks_uncoded(invoked)
            content_type = answer_head(named.parent, invoked).get("Content-Type", "")
            head = {**HEAD, **answer_headers(named.parent, invoked)}
            return AnswerResponse(head, BodyMessages(schema.HttpBody, content_type))

        watched = identity.watched(action, resource)
        asked = asked_with(call, body)
        await self._raw_predict.relay(call, asked, watched, named.endpoint, response)

    async def get_endpoint(
        self, call: TrailingExchange, identity: Identity, message: bytes
    ) -> CallAnswer:
        """Answer with an endpoint as a resource, as REST does."""
        from google.protobuf import json_format  # imported only by calls of gRPC

        schema = await self._schema.get()
        name = parsed(message, schema.GetEndpointRequest, lambda asked: asked.name)
        named = self._named(identity, name)
        found = self._resources.described(*named, asked_host(call.headers))
        answer = json_format.ParseDict(found, schema.Endpoint())
        return CallAnswer(answer.SerializeToString())

    async def _parsed(
        self,
        call: TrailingExchange,
        identity: Identity,
        message: bytes,
        kind: Callable[[], Any],
        read: Callable[[Any], _T],
    ) -> _T:
        cost = message_cost(len(message))
        return await self._workers.share_of(call, identity).run(cost, parsed, message, kind, read)

    # --- The endpoint ----------------------------------------------------------------------------

    def _named(self, identity: Identity, name: str, *, stream: bool = False) -> _Named:
        """Return the endpoint that a message names, if the sender may call it.

        Raises:
            InputValidationError: the message names no endpoint.
            AccessDenied: the sender lacks the permission.
        """
        found = ENDPOINT.fullmatch(f"/v1/{name}")
        if found is None:
            raise InputValidationError(
                f"endpoint: {name[:256]!r} was given; it must be "
                "projects/PROJECT/locations/LOCATION/endpoints/NAME",
                "InvalidEndpoint",
            )
        named = _Named(found["parent"], found["endpoint"])
        granted = STREAM_GRANTED_WITH if stream else GRANTED_WITH
        identity.check(f"sagemaker:{granted}", self._resource(named.endpoint))
        return named

    def _resource(self, endpoint: str) -> str:
        return self._arns.of("endpoint", endpoint[: MAX_ENDPOINT_NAME + 1])


class BodyMessages:
    """A container's chunks as messages; an error is reported in the trailers.

    Args:
        kind: the class of ``google.api.HttpBody``.
        content_type: the type of the answer.
    """

    def __init__(self, kind: Any, content_type: str) -> None:
        self._kind = kind
        self._content_type = content_type

    def chunk(self, data: bytes) -> bytes:
        """Return a chunk as messages: as several if clients would not accept it as one."""
        return b"".join(
            framed(
                self._kind(
                    content_type=self._content_type, data=data[at : at + GRPC_CHUNK_BYTES]
                ).SerializeToString()
            )
            for at in range(0, len(data), GRPC_CHUNK_BYTES)
        )

    async def end(self, exchange: Exchange, error: StreamError | None) -> None:
        assert isinstance(exchange, TrailingExchange), "its route has checked that"
        await exchange.end_with_trailers(_ended(error))


def _ended(error: StreamError | None) -> dict[str, str]:
    match error:
        case None:
            return status(Code.OK)
        case ModelStreamError(code=code) if code == INVALID_SIGNATURE:
            # The key, the token or the permission was revoked during the stream.
            return status(Code.PERMISSION_DENIED, error.message)
        case ModelStreamError():
            return status(Code.INTERNAL, error.message)
        case _:
            return status(Code.UNAVAILABLE, error.message)


# --- Messages ------------------------------------------------------------------------------------


def _body(asked: Any) -> bytes:
    """Return REST's form; raises InputValidationError if a value has no form in JSON."""
    try:
        body = b'{"instances": %b' % json_of(asked.instances)
        if asked.HasField("parameters"):
            body += b', "parameters": %b' % json_of([asked.parameters])[1:-1]
    except PredictionFault as fault:
        raise InputValidationError(f"the message: {fault}", "InvalidInstances") from None
    return body + b"}"


def _http_body(asked: Any) -> tuple[str, HttpBody]:
    return asked.endpoint, HttpBody(asked.http_body.content_type, asked.http_body.data)
