"""partway.gateway.fleet.platform_interface: where containers of either platform answer."""

from __future__ import annotations

from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Endpoint,
    InstanceTimes,
    OneContainer,
    Variant,
    places,
)
from partway.gateway.fleet.platform_interface import OF_VERTEX, Surface, VertexContainer
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from tests.gateway.fleet.fakes import PROGRAM

HERE = Attached((Address("127.0.0.1", 1),))


def test_without_routes_they_are_as_the_platform_names_them():
    assert VertexContainer().surface("cars", "new") == Surface(
        "/v1/endpoints/cars/deployedModels/new", "/v1/endpoints/cars/deployedModels/new:predict"
    )
    assert VertexContainer("/health").surface("cars", "new") == Surface(
        "/health", "/v1/endpoints/cars/deployedModels/new:predict"
    )


def test_what_a_container_is_told():
    told = VertexContainer("/health", "/predict").environment("cars", "new", 20001, "/data/model")
    assert told == {
        "AIP_HTTP_PORT": "20001",
        "AIP_HEALTH_ROUTE": "/health",
        "AIP_PREDICT_ROUTE": "/predict",
        "AIP_STORAGE_URI": "/data/model",
        "AIP_MODE": "PREDICTION",
        "AIP_MODE_VERSION": "1.0.0",
        "AIP_FRAMEWORK": "CUSTOM_CONTAINER",
        "AIP_ENDPOINT_ID": "cars",
        "AIP_MODEL_NAME": "cars",
        "AIP_DEPLOYED_MODEL_ID": "new",
        "AIP_VERSION_NAME": "new",
    }
    assert told.keys() == OF_VERTEX


def test_each_container_is_asked_at_its_own_paths():
    policy = StreamPolicy()
    ours = Variant(source=HERE)
    theirs = Variant(source=HERE, name="new", vertex=VertexContainer("/health", "/predict"))
    found = places(Endpoint("cars", policy, (ours, theirs)))
    assert [each.surface for each in found] == [Surface(), Surface("/health", "/predict")]
    both = Containers(
        (
            OneContainer(hostname="pre", source=PROGRAM),
            OneContainer(hostname="model", source=PROGRAM, vertex=VertexContainer("/h", "/p")),
        )
    )
    several = Variant(source=both)
    assert [several.of(each).surface("cars") for each in several.containers] == [
        Surface("/ping", "/invocations"), Surface("/h", "/p")
    ]  # fmt: skip


def test_its_rule_of_health():
    times = InstanceTimes(ping_interval=7.0).of_vertex
    assert times == InstanceTimes(ping_interval=7.0, ping_timeout=10.0, pings_missed=4)
