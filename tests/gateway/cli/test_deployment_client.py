"""partway.gateway.cli.deployment_client: deployments, as the gateway answers for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from partway.gateway.cli import deployment_client
from partway.gateway.cli.admin_client import GatewayNotAsked
from partway.gateway.cli.deployment_client import AskedDeployment, EndpointSaid
from partway.gateway.fleet.status import EndpointState
from tests.gateway.apis.control.fake_deployments import said
from tests.gateway.cli.asked_gateway import AskedGateway, gateway_at
from tests.gateway.fleet.statuses import an_endpoint


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[AskedGateway]:
    with gateway_at(tmp_path / "data") as gateway:
        yield gateway


@pytest.fixture
def asked(gateway: AskedGateway) -> AskedDeployment:
    return AskedDeployment(gateway.directory.path, "chat")


def test_how_an_endpoint_is(gateway, asked, monkeypatch):
    assert asked.said() is None
    gateway.deployments.described.extend([said("Updating"), said("Failed", reason="boom")])
    monkeypatch.setattr(deployment_client, "_LOOK", 0)
    looks = asked.looks()
    assert [next(looks) for _ in range(3)] == [
        None,
        EndpointSaid("chat", 1.0, EndpointState.UPDATING, "chat-v1", ""),
        EndpointSaid("chat", 1.0, EndpointState.FAILED, "chat-v1", "boom"),
    ]
    assert EndpointSaid("chat", 1.0, EndpointState.UPDATING, "", "").is_changing
    assert not EndpointSaid("chat", 1.0, EndpointState.FAILED, "", "").is_changing


def test_the_endpoint_of_the_fleet(gateway, asked):
    assert asked.status() == ()
    gateway.fleet.endpoints = (an_endpoint("chat"), an_endpoint("other"))
    assert asked.status() == gateway.fleet.endpoints[:1]


def test_a_log(gateway, asked):
    gateway.fleet.endpoints = (an_endpoint("chat"),)
    gateway.printed("chat-AllTraffic-1a2b3c", b"one\ntwo\n")
    assert asked.log("chat-AllTraffic-1a2b3c", 1) == b"two\n"
    assert asked.log("chat-AllTraffic-000000", 1) == b""


def test_a_name_in_another_case(gateway):
    """The fleet and its logs have the name that DescribeEndpoint answers."""
    asked = AskedDeployment(gateway.directory.path, "CHAT")
    gateway.fleet.endpoints = (an_endpoint("chat"),)
    gateway.printed("chat-AllTraffic-1a2b3c", b"one\n")
    assert asked.status() == gateway.fleet.endpoints
    gateway.deployments.described[0] = said("Updating")
    asked.said()
    assert asked.name == "chat"
    assert asked.log("chat-AllTraffic-1a2b3c", 1) == b"one\n"


def test_a_gateway_of_another_version(gateway, asked):
    gateway.deployments.described[0] = {"EndpointStatus": "Sleeping"}
    with pytest.raises(GatewayNotAsked, match="both must be of the same version"):
        asked.said()
    gateway.deployments.described[0] = []
    with pytest.raises(GatewayNotAsked, match="both must be of the same version"):
        asked.said()
