"""The fleet, whatever happens in whatever order: endpoints, faults, leases and time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from partway.gateway.fleet.routing.session_affinity import StickySession
from partway.gateway.fleet.states import OVER, InstanceState
from partway.gateway.fleet.status import EndpointState
from partway.protocol.errors import ApiError
from tests.gateway.fleet.fakes import FakeFleet, endpoint, turns, variant

REFUSED = "Connection refused"
NAMES = st.sampled_from(["a", "b"])
VARIANTS = st.dictionaries(
    st.sampled_from(["A", "B"]),
    st.builds(
        dict,
        instances=st.integers(1, 3),
        weight=st.sampled_from([0.0, 1.0]),
        environment=st.sampled_from([(), (("V", "2"),)]),
    ),
    min_size=1,
)
#: How much goes on before the next thing happens: nothing, a little, or all that waits for nothing.
GOES_ON = st.sampled_from([0, 1, 2, 5, 60, 60])
WHICH = st.integers(0, 1000)


class Faults(logging.Handler):
    """Keeps what is logged with an exception: that is a fault of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = []

    def emit(self, record):
        if record.exc_info:
            self.seen.append(record)


class AnyOrder(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.of = self.runner.run(_made())
        self.fleet = self.of.fleet
        self.launcher = self.of.launcher
        self.deployments = []  # also those whose name another has by now
        self.leases = []
        self.crashed = set()
        self.asked = []
        self.logged = Faults()
        logging.getLogger("partway").addHandler(self.logged)

    # --- What may happen -------------------------------------------------------------------------

    @rule(name=NAMES, variants=VARIANTS, goes_on=GOES_ON)
    def apply(self, name, variants, goes_on):
        served = self.served(name)
        made = endpoint(name, *(variant(name=key, **one) for key, one in variants.items()))
        self.then(lambda: self.fleet.apply(made), goes_on)
        assert self.serves_on(name, served), "a change has taken out what served"

    @rule(name=NAMES, goes_on=GOES_ON)
    def restart(self, name, goes_on):
        served = self.served(name)
        self.then(lambda: self.asked.append(asyncio.ensure_future(self._restart(name))), goes_on)
        assert self.serves_on(name, served), "a restart has taken out what served"

    @rule(name=NAMES, goes_on=GOES_ON)
    def remove(self, name, goes_on):
        with suppress(ApiError):
            self.then(lambda: self.fleet.remove(name), goes_on)

    @rule(which=WHICH, goes_on=GOES_ON)
    def crash(self, which, goes_on):
        if self.launcher.running:
            container = _of(self.launcher.running, which)
            self.crashed.add(container.order.instance)
            self.then(container.end, goes_on)

    @rule(which=WHICH, trouble=st.sampled_from([None, REFUSED]))
    def answers_pings_otherwise(self, which, trouble):
        if self.launcher.running:
            _of(self.launcher.running, which).trouble = trouble

    @rule(times=st.integers(1, 4))
    def the_next_do_not_start(self, times):
        self.launcher.passing(times)

    @rule()
    def the_next_never_starts(self):
        self.launcher.lasting()

    @rule(times=st.integers(1, 3))
    def the_next_are_not_ready(self, times):
        self.launcher.troubles.extend([REFUSED] * times)

    @rule(stubborn=st.booleans())
    def what_comes_ignores_sigterm(self, stubborn):
        self.launcher.stubborn = stubborn

    @rule(goes_on=GOES_ON)
    def launches_take_long(self, goes_on):
        self.then(self.hold, goes_on)

    @rule(goes_on=GOES_ON)
    def launches_go_on(self, goes_on):
        self.then(self.let_go, goes_on)

    @rule(name=NAMES, of=st.sampled_from(["", "A", "B"]), session=st.sampled_from(["", "s"]))
    def lease(self, name, of, session):
        with suppress(ApiError):
            lease = self.of.router.lease(name, of, StickySession(session))
            assert lease.instance.id in self.routed(name)
            lease.ends_by(lambda: self.give_back(lease))
            self.leases.append(lease)

    @rule(which=WHICH)
    def stream_ends(self, which):
        if self.leases:
            self.give_back(_of(self.leases, which))

    @rule(which=WHICH)
    def stream_moves(self, which):
        if self.leases:
            lease = _of(self.leases, which)
            before = lease.instance.id
            assert lease.move() == (lease.instance.id != before)

    @rule(seconds=st.sampled_from([0.25, 1, 6, 31, 70]))
    def time_passes(self, seconds):
        self.runner.run(self.of.advance(seconds, step=max(0.25, seconds / 20)))

    # --- What holds at any moment ----------------------------------------------------------------

    @invariant()
    def there_are_no_more_than_there_are_to_be(self):
        for deployment in self.known():
            for group in deployment._groups():
                wanted = [each for each in group.instances if each.is_wanted]
                assert len(wanted) <= group.variant.instances
                numbers = sorted(each.number for each in wanted)
                assert all(one < other for one, other in pairwise(numbers))

    @invariant()
    def each_container_is_of_an_instance_that_lives(self):
        living = {each.id for each in self.instances() if each.state not in OVER}
        assert {each.order.instance for each in self.launcher.running} <= living

    @invariant()
    def the_table_names_what_is_in_rotation(self):
        rotating = {each.id for each in self.instances() if each.in_rotation}
        assert {id for name in self.of.router.table for id in self.routed(name)} <= rotating

    @invariant()
    def each_lease_is_counted_once(self):
        router = self.of.router
        loads = router.loads
        assert loads.keys() <= {each.id for each in self.instances() if not each.over.is_set()}
        for lease in self.leases:
            assert lease in lease._load.leases
        counted = [lease for load in loads.values() for lease in load.leases]
        assert len(counted) == len(set(counted))
        assert set(counted) <= set(self.leases)
        for route in router._routes.values():
            several = [each for each in route.by_variant.values() if len(each._where) > 1]
            for least in several:  # an only one is chosen however much is open on it
                for id, (count, _) in least._where.items():
                    assert count == len(loads[id].leases)

    @invariant()
    def nothing_of_ours_has_failed(self):
        self.fleet.describe()
        assert not self.logged.seen

    # --- How it ends -----------------------------------------------------------------------------

    def teardown(self):
        try:
            self.runner.run(self._settle())
            self.runner.run(self._stop())
        finally:
            logging.getLogger("partway").removeHandler(self.logged)
            self.runner.close()
        self.nothing_of_ours_has_failed()

    async def _settle(self):
        """When nothing goes wrong any more, all that was not given up comes into service."""
        self.let_go()
        self.launcher.errors.clear()
        self.launcher.troubles.clear()
        for each in self.launcher.containers:
            each.trouble = None
        await self.of.advance(130, step=2)
        for status in self.fleet.describe():
            assert status.state is not EndpointState.UPDATING
            assert status.state is not EndpointState.CREATING
        for deployment in self.known():
            if deployment.state is EndpointState.IN_SERVICE:
                groups = [each for each in deployment._groups() if not each._stopping]
                for group in groups:
                    assert group.in_rotation == group.variant.instances or group.given_up
        for each in self.asked:
            assert each.done()

    async def _stop(self):
        """Nothing is left, though nobody ends a stream before it is cut."""
        stopping = asyncio.ensure_future(self.fleet.stop())
        await self.of.advance(310, step=5)
        for each in self.launcher.running:  # the fakes' SIGTERM has no end by itself
            assert each.stubborn
            assert each.signals == ["TERM"]
        self.fleet.hasten()
        await turns()
        assert stopping.done()
        await stopping
        await turns()
        assert self.launcher.running == []
        # A stream ends with its container: by itself, and not since it is cut.
        assert {each.instance.id for each in self.leases} <= self.crashed
        for each in list(self.leases):
            self.give_back(each)
        assert self.of.clock.armed == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert self.of.router.loads == {}
        assert all(output.closed for output in self.of.outputs.values())

    # --- Its means -------------------------------------------------------------------------------

    def then(self, what, goes_on):
        """Do something, and let so much go on."""

        async def do():
            what()
            await turns(goes_on)

        self.runner.run(do())

    async def _restart(self, name):
        with suppress(ApiError):
            await self.fleet.restart(name)

    def hold(self):
        if self.launcher.held is None:
            self.launcher.held = asyncio.Event()

    def let_go(self):
        if self.launcher.held is not None:
            self.launcher.held.set()
            self.launcher.held = None

    def give_back(self, lease):
        self.leases.remove(lease)
        lease.__exit__(None, None, None)

    def known(self):
        for each in self.fleet._deployments.values():
            if each not in self.deployments:
                self.deployments.append(each)
        return self.deployments

    def instances(self):
        return [instance for each in self.known() for instance in each.instances]

    def routed(self, name):
        variants = self.of.router.table.get(name, ())
        return {instance.id for each in variants for instance in each.instances}

    def served(self, name):
        """What of it serves and goes on to, as far as is known."""
        alive = {each.order.instance for each in self.launcher.running if each.trouble is None}
        live = {each.id for each in self.instances() if each.state is InstanceState.IN_SERVICE}
        return self.routed(name) & alive & live

    def serves_on(self, name, served):
        """Whether something serves if something did; an endpoint that fails to be created may not.

        Args:
            name: the endpoint's.
            served: what did.
        """
        states = [each.state for each in self.fleet.describe() if each.name == name]
        return self.served(name) or not served or states == [EndpointState.FAILED]


async def _made():
    return FakeFleet()


def _of(some, which):
    return some[which % len(some)]


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
