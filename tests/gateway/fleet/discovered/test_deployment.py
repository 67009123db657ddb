"""Discovered endpoints: instances come, are unready or unreachable, drain and go."""

from __future__ import annotations

import dataclasses

import pytest

from partway.gateway.fleet.health.ping_answer import BadStatus, Silence
from partway.gateway.fleet.routing.session_affinity import StickySession
from partway.gateway.network.dialling import OutOfDescriptors
from partway.gateway.network.silent_hosts import silent_hosts
from partway.protocol.errors import InputValidationError, ServiceUnavailable
from tests.gateway.fleet.discovered.sources import FakeSources, discovered, found
from tests.gateway.fleet.fakes import FakeFleet, endpoint, turns


class DiscoveringFleet(FakeFleet):
    """A fleet with a source.

    Attributes:
        troubles: what pings of a host say, or raise; hosts that are not there answer.
        pinged: hosts in the order of their pings.
    """

    def __init__(self):
        super().__init__()
        self.sources = FakeSources()
        self.fleet.find_sources = lambda: self.sources
        self.troubles = {}
        self.pinged = []
        around = dataclasses.replace(self.fleet._means.around, ping=self._ping)
        self.fleet._means = dataclasses.replace(self.fleet._means, around=around)

    async def _ping(self, place, seconds):
        self.pinged.append(place.container.host)
        trouble = self.troubles.get(place.container.host)
        if isinstance(trouble, Exception):
            raise trouble
        return trouble

    def hosts(self, name="echo"):
        """The hosts that take streams."""
        table = self.router.table[name]
        return [each.place.container.host for variant in table for each in variant.instances]


@pytest.fixture
async def of(anyio_backend):
    return DiscoveringFleet()


@pytest.fixture
def asked(monkeypatch):
    """The hosts that are asked whether they are alive."""
    hosts = []
    monkeypatch.setattr(silent_hosts, "suspect", lambda host, port: hosts.append(host))
    return hosts


class TestComing:
    async def test_it_is_created_until_its_source_has_told(self, of):
        of.fleet.start([discovered()])
        assert of.status().state == "Creating"
        assert of.status().variants[0].trouble == "its instances are not known yet"
        with pytest.raises(ServiceUnavailable, match="its instances are not known yet"):
            of.router.lease("echo")
        await of.sources.say(found(1), found(2))
        assert await of.fleet.settled(30)
        assert of.status().state == "InService"
        assert (of.status().variants[0].serving, of.status().variants[0].desired) == (2, 2)
        assert of.hosts() == ["10.0.0.1", "10.0.0.2"]

    async def test_without_instances_it_is_in_service_and_says_why_there_are_none(self, of):
        await of.apply(discovered())
        await of.sources.say(trouble="no pod")
        assert of.status().state == "InService"
        assert of.status().variants[0].trouble == "no pod"
        with pytest.raises(ServiceUnavailable, match="none of its instances is ready"):
            of.router.lease("echo")

    async def test_a_refused_source_fails_it_until_it_can_be_used(self, of):
        await of.apply(discovered())
        await of.sources.say(trouble="it publishes all", is_refused=True)
        assert (of.status().state, of.status().reason) == ("Failed", "it publishes all")
        await of.sources.say(found(1))
        assert (of.status().state, of.status().reason) == ("InService", "")

    async def test_nothing_of_it_is_launched_or_restarted(self, of):
        await of.apply(discovered())
        assert of.fleet.containers() == {"echo": 0}
        with pytest.raises(InputValidationError, match="did not start the containers"):
            await of.fleet.restart("echo")

    async def test_the_mark_of_an_instance_is_the_same_in_all_gateways(self, of):
        other = DiscoveringFleet()
        for each in (of, other):
            await each.apply(discovered())
        await of.sources.say(found(1), found(2))
        moved = dataclasses.replace(found(1), address=found(9).address)
        await other.sources.say(found(2), moved)
        marks = [
            {each.key: each.mark for each in one.router.table["echo"][0].instances}
            for one in (of, other)
        ]
        assert marks[0] == marks[1]
        session = StickySession("s", marks[0]["key-1"])
        with other.router.lease("echo", session=session) as lease:
            assert lease.place.container.host == "10.0.0.9"

    async def test_it_has_no_word_for_an_unready_instance_but_its_own(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1, is_ready=False), found(2))
        assert of.hosts() == ["10.0.0.2"]
        one, _ = of.status().variants[0].instances
        assert (one.health, one.reason) == ("unhealthy", "it is not ready")
        await of.sources.say(found(1), found(2))
        assert of.hosts() == ["10.0.0.1", "10.0.0.2"]

    async def test_many_at_once_are_one_change_of_the_table(self, of):
        await of.apply(discovered())
        tables = []
        of.fleet.on_routed = lambda name: tables.append(len(of.router.table[name][0].instances))
        await of.sources.say(*(found(number) for number in range(1, 200)))
        await of.sources.say(*(found(number, is_ready=False) for number in range(1, 200)))
        assert tables == [199, 0]


class TestGoing:
    @pytest.mark.parametrize("says", [[found(1, is_ready=False, is_leaving=True)], []])
    async def test_it_drains_without_a_cut(self, of, asked, says):
        await of.apply(discovered())
        await of.sources.say(found(1))
        cut = []
        lease = of.router.lease("echo")
        lease.ends_by(lambda: cut.append(1))
        await of.sources.say(*says)
        assert of.hosts() == []
        assert of.states() == ["Draining"]
        await of.advance(1700, step=100)
        assert not cut
        lease.give_back()
        await of.sources.say()
        assert of.states() == []
        assert not of.router.loads

    async def test_the_longest_stream_bounds_the_drain(self, of, asked):
        await of.apply(discovered())
        await of.sources.say(found(1))
        cut = []
        lease = of.router.lease("echo")
        lease.ends_by(lambda: cut.append(1))
        await of.sources.say()
        await of.advance(discovered().policy.lifetime + 1, step=100)
        assert cut
        lease.give_back()
        await turns()
        assert of.states() == []

    async def test_one_that_has_only_changed_its_place_is_revived_with_its_streams(self, of, asked):
        await of.apply(discovered())
        await of.sources.say(found(1))
        lease = of.router.lease("echo")
        lease.ends_by(lambda: pytest.fail("it was cut"))
        await of.sources.say()
        await of.sources.say(found(1))
        assert of.hosts() == ["10.0.0.1"]
        assert of.status().variants[0].instances[0].streams == 1
        await of.advance(4000, step=500)
        lease.give_back()
        await turns()
        assert of.states() == ["InService"]

    async def test_the_host_of_open_streams_is_asked_when_it_is_unready_or_gone(self, of, asked):
        await of.apply(discovered())
        await of.sources.say(found(1), found(2))
        with of.router.lease("echo") as lease:
            host = lease.place.container.host
            number = int(host[-1])
            other = found(3 - number)
            await of.sources.say(
                found(number, is_ready=False), dataclasses.replace(other, is_ready=False)
            )
            assert asked == [host]
            await of.sources.say()
            assert asked == [host, host]

    async def test_a_deleted_endpoint_drains_and_follows_nothing(self, of, asked):
        await of.apply(discovered())
        await of.sources.say(found(1))
        lease = of.router.lease("echo")
        of.fleet.remove("echo")
        await turns()
        assert of.sources.followed[0].stopped
        assert of.states() == ["Draining"]
        assert asked == []
        lease.give_back()
        await turns()
        assert of.fleet.describe() == ()

    async def test_the_gateways_stop_waits_for_streams_and_is_hastened(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        lease = of.router.lease("echo")
        lease.ends_by(lease.give_back)
        of.fleet.hasten()
        await of.fleet.stop()
        assert not of.router.loads


class TestPings:
    async def test_it_is_pinged_only_after_a_failed_dial(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        await of.advance(100, step=10)
        assert of.pinged == []
        with of.router.lease("echo") as lease:
            lease.unreachable()
            await turns()
        assert of.pinged == ["10.0.0.1"]
        await of.advance(100, step=10)
        assert of.pinged == ["10.0.0.1"]

    async def test_misses_take_it_out_and_an_answer_brings_it_back(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1), found(2))
        of.troubles["10.0.0.1"] = Silence("no route to host")
        of.router.load("echo-chat-pod-1-key-1").on_unreachable()
        await of.advance(1.5)
        assert of.hosts() == ["10.0.0.1", "10.0.0.2"]
        await of.advance(2)
        assert of.hosts() == ["10.0.0.2"]
        assert of.sources.of().unreachable == {"pod-1": "no route to host"}
        one = of.status().variants[0].instances[0]
        assert one.reason == "this gateway cannot reach it: no route to host"
        del of.troubles["10.0.0.1"]
        await of.advance(2)
        assert of.hosts() == ["10.0.0.1", "10.0.0.2"]
        assert of.sources.of().unreachable == {}

    async def test_one_that_refuses_connections_is_not_reported(self, of):
        """Its host is alive, and restarts it."""
        await of.apply(discovered())
        await of.sources.say(found(1), found(2))
        of.troubles["10.0.0.1"] = "Connection refused"
        of.router.load("echo-chat-pod-1-key-1").on_unreachable()
        await of.advance(5)
        assert of.hosts() == ["10.0.0.2"]
        assert of.sources.of().unreachable == {}

    async def test_the_report_of_one_that_is_let_go_is_withdrawn(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        of.troubles["10.0.0.1"] = Silence("no route to host")
        of.router.load("echo-chat-pod-1-key-1").on_unreachable()
        await of.advance(5)
        followed = of.sources.of()
        assert followed.unreachable
        of.fleet.remove("echo")
        assert not followed.unreachable

    async def test_an_answer_with_another_status_shows_that_it_is_reachable(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        of.troubles["10.0.0.1"] = BadStatus("/ping was answered with status 404")
        of.router.load("echo-chat-pod-1-key-1").on_unreachable()
        await of.advance(10)
        assert of.hosts() == ["10.0.0.1"]
        assert of.pinged == ["10.0.0.1"]

    async def test_without_descriptors_nothing_is_known_of_it(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        of.troubles["10.0.0.1"] = OutOfDescriptors("none left")
        of.router.load("echo-chat-pod-1-key-1").on_unreachable()
        await of.advance(10)
        assert of.hosts() == ["10.0.0.1"]

    async def test_clients_cannot_cause_pings_at_will(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        for _ in range(10):
            of.router.load("echo-chat-pod-1-key-1").on_unreachable()
            await of.advance(0.25)
        assert len(of.pinged) <= 3

    async def test_one_that_is_gone_is_pinged_no_more_and_its_report_is_withdrawn(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        of.troubles["10.0.0.1"] = Silence("no route to host")
        of.router.load("echo-chat-pod-1-key-1").on_unreachable()
        await of.advance(5)
        with_reports = of.sources.of()
        assert with_reports.unreachable
        pings = len(of.pinged)
        await of.sources.say()
        assert not with_reports.unreachable
        await of.advance(20)
        assert len(of.pinged) == pings


class TestChanges:
    async def test_variants_and_their_weights(self, of):
        await of.apply(discovered("old", "new"))
        await of.sources.say(found(1), service="old")
        assert of.status().state == "Creating"
        await of.sources.say(found(2), service="new")
        assert of.status().state == "InService"
        changed = discovered("old", "new", weight=3.0)
        await of.apply(changed)
        assert [each.weight for each in of.router.table["echo"]] == [3.0, 3.0]
        assert len(of.sources.followed) == 2

    async def test_a_variant_that_goes_drains(self, of):
        await of.apply(discovered("old", "new"))
        await of.sources.say(found(1), service="old")
        await of.sources.say(found(2), service="new")
        lease = of.router.lease("echo", "old")
        await of.apply(discovered("new"))
        assert of.hosts() == ["10.0.0.2"]
        assert of.states() == ["Draining", "InService"]
        lease.give_back()
        await turns()
        assert of.states() == ["InService"]

    async def test_another_source_takes_over_once_it_has_told(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        other = dataclasses.replace(
            discovered(),
            variants=(dataclasses.replace(discovered("other").variants[0], name="chat"),),
        )
        await of.apply(other)
        assert of.status().state == "Updating"
        assert of.hosts() == ["10.0.0.1"]
        await of.sources.say(found(2), service="other")
        assert of.status().state == "InService"
        assert of.hosts() == ["10.0.0.2"]
        assert of.states() == ["InService"]

    async def test_an_endpoint_may_become_one_of_the_other_kind(self, of):
        await of.apply(discovered())
        await of.sources.say(found(1))
        lease = of.router.lease("echo")
        await of.apply(endpoint())
        assert of.states() == ["InService"]
        await of.apply(discovered())
        await of.sources.say(found(1))
        assert of.hosts() == ["10.0.0.1"]
        assert len(of.router.loads) == 2
        lease.give_back()
        await turns()
        assert of.hosts() == ["10.0.0.1"]
        assert list(of.router.loads) == ["echo-chat-pod-1-key-1-2"]
