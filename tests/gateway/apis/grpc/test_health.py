"""gRPC's health check beside ``/readyz``."""

from __future__ import annotations

import pytest

from tests.gateway.apis.grpc.calling import calling, field
from tests.gateway.apis.prediction.predicting import asking, authenticated
from tests.gateway.conftest import container, gateway_for

__all__ = ["asking", "authenticated", "calling", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

CHECK = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING = [b"\x08\x01"], [b"\x08\x02"]


@pytest.mark.parametrize(
    "service", ["", "grpc.health.v1.Health", "google.cloud.aiplatform.v1.PredictionService"]
)
async def test_each_service_is_as_ready_as_the_gateway(calling, authenticated, service):
    caller = await calling(**authenticated)
    message = field(1, service) if service else b""
    assert (await caller.call(CHECK, message)).messages == SERVING
    caller.gateway.gateway.streams.draining = True
    found = await caller.call(CHECK, message)
    assert (found.status[0], found.messages) == ("0", NOT_SERVING)


async def test_a_service_that_is_not_here_is_not_found(calling):
    caller = await calling()
    code, said = (await caller.call(CHECK, field(1, "some.Service"))).status
    assert code == "5"
    assert "'some.Service' was given; it must be empty, or one of google.cloud" in said


async def test_it_is_not_watched(calling):
    caller = await calling()
    code, _ = (await caller.call("/grpc.health.v1.Health/Watch", b"")).status
    assert code == "12"
