"""A container's refusals as statuses of gRPC, at every call that asks a container."""

from __future__ import annotations

import pytest

from partway.gateway.fleet.prediction import PredictionPolicy
from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.gateway.apis.grpc.calling import NAME, PREDICTIONS, calling, field
from tests.gateway.apis.prediction.predicting import answer, asking
from tests.gateway.conftest import container, gateway_for
from tests.gateway.containers.containers import PATIENCE
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "calling", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

#: An instance of null, a body of text, and a tensor of one number.
PREDICT = field(1, NAME) + field(2, b"\x08\0")
RAW = field(1, NAME) + field(2, field(1, "text/plain") + field(2, b"x"))
TENSOR = field(1, "a") + field(2, "INT32") + b"\x18\1" + field(5, field(2, b"\1"))
INFER = field(1, ENDPOINT) + field(5, TENSOR)

CALLS = {
    f"{PREDICTIONS}/Predict": PREDICT,
    f"{PREDICTIONS}/RawPredict": RAW,
    f"{PREDICTIONS}/StreamRawPredict": RAW,
    "/inference.GRPCInferenceService/ModelInfer": INFER,
}

INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED = "3", "4", "5", "8"
ABORTED, INTERNAL, UNAVAILABLE = "10", "13", "14"

STATUSES = {
    400: INVALID_ARGUMENT,
    401: INTERNAL,
    403: INTERNAL,
    404: NOT_FOUND,
    408: INTERNAL,
    409: ABORTED,
    413: INVALID_ARGUMENT,
    415: INVALID_ARGUMENT,
    418: INTERNAL,
    422: INVALID_ARGUMENT,
    424: INTERNAL,
    429: RESOURCE_EXHAUSTED,
    499: INTERNAL,
    500: INTERNAL,
    501: INTERNAL,
    502: INTERNAL,
    503: UNAVAILABLE,
    504: INTERNAL,
}


@pytest.mark.parametrize(
    "policy", [None, PredictionPolicy(infer_route="/v2/models/its-own/infer")], ids=["v1", "v2"]
)
async def test_each_status_of_a_container_at_each_call(calling, policy):
    caller = await calling(policy=policy)
    for status, code in STATUSES.items():
        caller.told.says = answer(b"its words", b"Retry-After: 7", status=b"%d No" % status)
        for path, message in CALLS.items():
            found = await caller.call(path, message)
            assert found.status == (code, "its words"), (path, status)
            assert found.head.get("retry-after") == ("7" if status in (429, 503) else None)


async def test_a_container_that_answers_late_has_exceeded_the_deadline(calling):
    async def script(call):
        await call.request()
        await call.end()

    streams = StreamPolicy(connect_timeout=PATIENCE, invocation_timeout=0.1)
    caller = await calling(script=script, streams=streams)
    for path, message in CALLS.items():
        code, said = (await caller.call(path, message)).status
        assert (code, said[:26]) == (DEADLINE_EXCEEDED, "Your invocation timed out ")
