"""partway.gateway.fleet.metrics: what a scraper reads of a fleet."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from partway.gateway.fleet.metrics import FleetMetrics
from partway.gateway.fleet.states import InstanceState
from tests.gateway.fleet.statuses import a_variant, an_endpoint, an_instance
from tests.gateway.streams.test_metrics import samples


class Fleet:
    def __init__(self) -> None:
        self.endpoints = ()
        self.registry = CollectorRegistry()
        self.metrics = FleetMetrics(lambda: self.endpoints, self.registry)


def test_no_endpoint():
    assert samples(Fleet()) == {}


def test_a_fleet():
    fleet = Fleet()
    fleet.endpoints = (
        an_endpoint(
            "echo",
            a_variant(
                an_instance("echo-A-1", streams=2, requests=3),
                an_instance("echo-A-2", state=InstanceState.STARTING),
                an_instance("echo-A-3", state=InstanceState.DRAINING, streams=1),
                name="A",
                restarts=4,
            ),
            a_variant(name="B", desired=0),
        ),
    )
    states = {state.value: 0 for state in InstanceState}
    expected = {
        f"partway_instances{{endpoint=echo,state={state},variant={variant}}}": count
        for variant, counts in (
            ("A", states | {"InService": 1, "Starting": 1, "Draining": 1}),
            ("B", states),
        )
        for state, count in counts.items()
    } | {
        "partway_instance_restarts_total{endpoint=echo,variant=A}": 4,
        "partway_instance_restarts_total{endpoint=echo,variant=B}": 0,
        "partway_instance_outstanding{endpoint=echo,instance=echo-A-1,variant=A}": 5,
        "partway_instance_outstanding{endpoint=echo,instance=echo-A-2,variant=A}": 0,
        "partway_instance_outstanding{endpoint=echo,instance=echo-A-3,variant=A}": 1,
    }
    assert samples(fleet) == expected
    fleet.endpoints = ()
    assert samples(fleet) == {}


def test_launches_are_counted_by_how_long_they_took():
    fleet = Fleet()
    for seconds in (0.2, 0.2, 100.0):
        fleet.metrics.launched("echo", "A", seconds)
    found = samples(fleet)
    name = "partway_instance_launch_seconds"
    assert found[f"{name}_count{{endpoint=echo,variant=A}}"] == 3
    assert found[f"{name}_sum{{endpoint=echo,variant=A}}"] == 100.4
    assert found[f"{name}_bucket{{endpoint=echo,le=0.25,variant=A}}"] == 2
    assert found[f"{name}_bucket{{endpoint=echo,le=60.0,variant=A}}"] == 2
    assert found[f"{name}_bucket{{endpoint=echo,le=480.0,variant=A}}"] == 3


def test_launches_of_an_endpoint_that_is_no_more_are_forgotten():
    fleet = Fleet()
    for endpoint in ("one", "other"):
        fleet.metrics.launched(endpoint, "A", 1.0)
    fleet.metrics.keep_only({"other"})
    endpoints = {part for name in samples(fleet) for part in name.split(",") if "endpoint" in part}
    assert {each.partition("endpoint=")[2] for each in endpoints} == {"other"}
