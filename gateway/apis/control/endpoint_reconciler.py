"""Endpoints of the API and the fleet: what is written down is run, and what became of it noted."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from partway.gateway.apis.asynchronous.inference_config import AsyncConfig
from partway.gateway.apis.control.endpoint_records import CHANGING, SETTLED, EndpointRecord
from partway.gateway.apis.control.endpoint_state_writer import Notes
from partway.gateway.apis.control.launch_quota import ContainerRoom
from partway.gateway.apis.control.limits import PLANS_AT_ONCE, RESTORE_TIMEOUT
from partway.gateway.apis.control.planner import Planning
from partway.gateway.apis.control.resources import Resource, Resources
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.fleet import Fleet, FleetStopping
from partway.gateway.fleet.status import EndpointState, EndpointStatus
from partway.gateway.settings.settings import Settings
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError

log = logging.getLogger("partway.control")

_KIND: Final = "endpoint"


class EndpointKeeper:
    """Has the fleet run the endpoints of the API, and writes down what becomes of them.

    An endpoint of the settings goes before one of the API that has its name, which stays written
    down and is run again when the settings have the name no more.

    Attributes:
        planning: says what the fleet is to run, by the settings of now.
        room: whether more containers may be launched.
        on_change: told the name of an endpoint when it has changed, or what is known of it.
        on_other_settings: called when other settings are taken, behind what they have changed.

    Args:
        resources: where they are written down.
        fleet: runs them; it also has the endpoints of the settings.
        settings: of the gateway.
        clock: measures the time until a store that is full is tried again.
        wall_clock: returns epoch seconds.
        kept_out: files and folders that no caller may name, below a root or not.
    """

    def __init__(
        self,
        resources: Resources,
        fleet: Fleet,
        settings: Settings,
        clock: Clock,
        wall_clock: Callable[[], float],
        kept_out: Iterable[Path] = (),
    ) -> None:
        self.planning = Planning(settings, clock, kept_out)
        at_once = settings.max_transform_jobs
        self.room = ContainerRoom(resources, fleet, self.planning, at_once)
        self._resources = resources
        self._fleet = fleet
        self._clock = clock
        self._wall_clock = wall_clock
        self._of_settings = _names(settings)
        #: Updates that go on when what served before does again, or cannot.
        self._to_go_on: set[str] = set()
        self._to_run_again: set[str] = set()
        self._found: list[Endpoint] = []
        self._sought: set[str] = set()
        self._runs_found = False
        self._restoring: asyncio.Task[None] | None = None
        #: Why endpoints of another gateway's cannot be run; other settings may change that.
        self._not_planned: dict[str, str] = {}
        self.on_change: Callable[[str], object] = lambda _: None
        self.on_other_settings: Callable[[], object] = lambda: None
        self._notes = Notes(self._note, clock)
        fleet.on_change = self._note_later

    # --- What there is ---------------------------------------------------------------------------

    @property
    def of_settings(self) -> Mapping[str, str]:
        """The names of the endpoints of the settings, by the same in lower case."""
        return self._of_settings

    def find(self, name: str) -> Resource | None:
        """The endpoint of the API that has a name, unless the settings have it too."""
        return None if self._is_set_aside(name) else self._resources.find(_KIND, name)

    def all(self) -> list[Resource]:
        """All endpoints of the API whose names the settings do not have."""
        found = self._resources.all(_KIND)
        return [each for each in found if not self._is_set_aside(each.name)]

    def status(self, name: str) -> EndpointStatus | None:
        """How the fleet says that an endpoint is; None if the fleet does not have it."""
        return self._fleet.status(name)

    def slow_start_reason(self, name: str) -> str:
        """Why an instance of an endpoint that starts slowly is not ready; empty if none is so."""
        status = self._fleet.status(name)
        variants = () if status is None else status.variants
        reasons = (each.slow_start_reason(self._wall_clock()) for each in variants)
        return next(filter(None, reasons), "")

    def record_of(self, resource: Resource) -> EndpointRecord:
        """How far an endpoint has come, also where that is not written down yet."""
        record = EndpointRecord.of(resource)
        why = self._not_planned.get(resource.name)
        if record.state is EndpointState.CREATING and why is not None:
            return dataclasses.replace(record, state=EndpointState.FAILED, reason=why)
        if record.state not in CHANGING or resource.name in self._to_go_on:
            return record
        status = self._fleet.status(resource.name)
        if status is None or status.state not in SETTLED:
            return record
        return record.settled(status)

    def state_of(self, resource: Resource) -> tuple[EndpointState, str]:
        """How an endpoint is, and why, if it or its last change has failed."""
        record = self.record_of(resource)
        if record.state is not EndpointState.IN_SERVICE:
            return record.state, record.reason
        if resource.name in self._not_planned:
            return EndpointState.FAILED, self._not_planned[resource.name]
        status = self._fleet.status(resource.name)
        if status is None:  # the fleet is about to have it
            return EndpointState.CREATING, record.reason
        if status.state is EndpointState.FAILED:
            return status.state, status.reason
        return status.state, record.reason

    def may_be_updated(self, resource: Resource) -> bool:
        """Whether an endpoint is in the midst of nothing, and has come into service before.

        One that has, and whose instances are started no more, is as failed as one that never came
        up, but what it served by is known: another configuration may do.
        """
        state, _ = self.state_of(resource)
        if state is EndpointState.FAILED:
            return self.record_of(resource).state is EndpointState.IN_SERVICE
        return state is EndpointState.IN_SERVICE

    def async_config_of(self, name: str) -> AsyncConfig | None:
        """What an endpoint of the API says of asynchronous requests.

        Returns:
            None if there is no such endpoint, or it is set aside or being deleted, or it says
            nothing of them.
        """
        resource = self.find(name)
        if resource is None or resource.name != name:
            return None
        record = self.record_of(resource)
        if record.state is EndpointState.DELETING:
            return None
        plan = record.plan
        return AsyncConfig.of(
            plan.config, maker=plan.config_maker, names_containers=plan.names_containers
        )

    # --- What there is to be ---------------------------------------------------------------------

    def check_takes_changes(self) -> None:
        """Refuse changes when the gateway stops.

        Raises:
            FleetStopping: it does.
        """
        self._fleet.check_takes_changes()

    async def begin(
        self, resource: Resource, record: EndpointRecord, endpoint: Endpoint, *, anew: bool
    ) -> None:
        """Write down what an endpoint is to be, and have the fleet run it.

        Called inside ``Resources.changing()``.

        Args:
            resource: the endpoint as it was.
            record: how far it has come with that.
            endpoint: what the fleet is to run.
            anew: whether its instances are all to be new ones.

        Raises:
            StoreError: nothing has changed.
        """
        await self._resources.put(record.in_place_of(resource, record.began))
        self._not_planned.pop(resource.name, None)
        self._run(endpoint, anew=anew)

    async def end(self, resource: Resource) -> None:
        """Write down that an endpoint is to go, and have the fleet stop it.

        Called inside ``Resources.changing()``.

        Raises:
            StoreError: nothing has changed.
        """
        now = self._now()
        record = self.record_of(resource)
        leaving = dataclasses.replace(record, state=EndpointState.DELETING, began=now)
        await self._resources.put(leaving.in_place_of(resource, now))
        self._not_planned.pop(resource.name, None)
        if not self._is_set_aside(resource.name) and self.status(resource.name) is not None:
            with suppress(FleetStopping):  # the next gateway goes on with it
                self._fleet.remove(resource.name)
        self._note_later(resource.name)

    def _is_set_aside(self, name: str) -> bool:
        return name.lower() in self._of_settings

    def _run(self, endpoint: Endpoint, *, anew: bool, awaited: bool = True) -> None:
        if self._is_set_aside(endpoint.name):  # by settings that came meanwhile
            self._say_set_aside(endpoint.name)
            return
        try:
            self._fleet.apply(endpoint, anew=anew, awaited=awaited)
        except FleetStopping:
            self._to_go_on.add(endpoint.name)  # the next gateway does, and this one not again
        else:
            self._note_later(endpoint.name)

    # --- The gateway's start and its settings ----------------------------------------------------

    async def start(self) -> None:
        """Find out what is to run, and note what becomes of the endpoints from now on.

        What is not found in RESTORE_TIMEOUT, as on a file system that is away, is run later.
        """
        self._notes.start()
        for resource in self._resources.all(_KIND):
            if self._is_set_aside(resource.name):
                self._say_set_aside(resource.name)
        names = [each.name for each in self.all()]
        self._sought = set(names)
        self._restoring = asyncio.create_task(self._restore(names), name="endpoints of before")
        with suppress(TimeoutError):
            async with time_limit(self._clock, RESTORE_TIMEOUT):
                await asyncio.wait((self._restoring,))

    @property
    def found(self) -> list[Endpoint]:
        """What the fleet is to begin with: what :meth:`start` has found, and nobody has deleted."""
        wanted = {
            each.name
            for each in self.all()
            if EndpointRecord.of(each).state is not EndpointState.DELETING
        }
        return [each for each in self._found if each.name in wanted]

    @property
    def sought(self) -> frozenset[str]:
        """Names of which :meth:`start` has not found out yet what is to run."""
        return frozenset(self._sought)

    async def has_found(self, seconds: float) -> None:
        """Wait until all is found out that :meth:`start` has begun with, but only so long."""
        if self._restoring is not None:
            with suppress(TimeoutError):
                async with time_limit(self._clock, seconds):
                    await asyncio.wait((self._restoring,))

    def run_found(self) -> None:
        """Have the fleet begin with what has been found, and run at once what is found later."""
        awaited = {each.name for each in self.all() if _is_new(each)}
        self._fleet.start(self.found, awaited)
        self._runs_found = True

    def give_way(self, settings: Settings) -> None:
        """Make endpoints by other settings from now on, and leave to these what they name.

        Args:
            settings: what the fleet is about to follow; :meth:`run_again` comes behind that.
        """
        before, self._of_settings = self._of_settings, _names(settings)
        self.planning.settings = settings
        for resource in self._resources.all(_KIND):
            key = resource.name.lower()
            if key in self._of_settings and key not in before:
                self._say_set_aside(resource.name)
                if self._of_settings[key] != resource.name and self.status(resource.name):
                    self._fleet.remove(resource.name)
            elif key in before and key not in self._of_settings:
                self._to_run_again.add(resource.name)

    async def run_again(self) -> None:
        """Run what other settings let be: names that they have no more, and what could not be.

        What has served and was given up since is tried again too: the settings are read anew by
        whoever has mended something.
        """
        if self._restoring is not None:
            await asyncio.wait((self._restoring,))
        names = self._to_run_again | self._not_planned.keys() | self._given_up()
        self._to_run_again = set()
        await self._restore(sorted(names))
        self.on_other_settings()

    async def aclose(self) -> None:
        """Note nothing more; to be called once the fleet has stopped."""
        await self._notes.aclose()
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.wait((self._restoring,))

    def _given_up(self) -> set[str]:
        """The names of endpoints that have served, and whose instances are started no more."""
        return {
            each.name
            for each in self.all()
            if EndpointRecord.of(each).state is EndpointState.IN_SERVICE
            and (status := self.status(each.name)) is not None
            and status.state is EndpointState.FAILED
        }

    async def _restore(self, names: Iterable[str]) -> None:
        """Run endpoints of another gateway's: none waits for one whose file system is away."""
        turns = asyncio.Semaphore(PLANS_AT_ONCE)

        async def in_turn(name: str) -> None:
            async with turns:
                await self._restore_one(name)
            self._sought.discard(name)

        async with asyncio.TaskGroup() as restoring:
            for name in names:
                restoring.create_task(in_turn(name))

    async def _restore_one(self, name: str) -> None:
        resource = self.find(name)
        if resource is None:
            return
        record = EndpointRecord.of(resource)
        if record.state in (EndpointState.DELETING, EndpointState.FAILED):
            self._note_later(name)
            return
        try:
            endpoint, why = await self.planning.endpoint_of(name, record.plan), ""
        except ApiError as error:
            endpoint, why = None, error.message
        # From here on nothing is waited for, so that it is run as it is written. A change that is
        # being written now replaces or removes, behind that, what runs then.
        now = self.find(name)
        if now is None or now.kept != resource.kept:
            return  # whoever has changed it has seen to what runs
        if record.state is EndpointState.UPDATING:
            self._to_go_on.add(name)
        if endpoint is None:
            line = "endpoint of the API cannot be run"
            log.warning(LogLine(line, endpoint=name, reason=why))
            self._not_planned[name] = why
            self._note_later(name)
            return
        self._not_planned.pop(name, None)
        if self._runs_found:
            log.info(LogLine("endpoint of the API is run again", endpoint=name))
            self._run(endpoint, anew=False, awaited=_is_new(resource))
        else:
            self._found.append(endpoint)

    @staticmethod
    def _say_set_aside(name: str) -> None:
        line = "the settings have an endpoint of the API's name: the API's is set aside"
        log.warning(LogLine(line, endpoint=name))

    # --- What becomes of it ----------------------------------------------------------------------

    def _note_later(self, name: str) -> None:
        if self._resources.find(_KIND, name) is not None:
            self._notes.add(name)
        self.on_change(name)

    async def _note(self, name: str) -> None:
        """Write down what has come of a change."""
        await self._note_change(name)
        self.on_change(name)

    async def _note_change(self, name: str) -> None:
        resource = self.find(name)
        if resource is None:
            return
        if name in self._to_go_on and EndpointRecord.of(resource).state is EndpointState.UPDATING:
            await self._go_on(resource)
            return
        async with self._resources.changing():
            resource = self.find(name)
            if resource is not None:
                await self._write_state(resource)

    async def _write_state(self, resource: Resource) -> None:
        written = EndpointRecord.of(resource)
        if written.state is EndpointState.DELETING:
            if self._fleet.status(resource.name) is None:
                await self._resources.delete(resource)
                self._to_go_on.discard(resource.name)
        elif resource.name in self._not_planned:
            return  # other settings may have it run yet
        elif (record := self.record_of(resource)) != written:
            await self._put(resource, record)

    async def _go_on(self, resource: Resource) -> None:
        """Go on with an update that another gateway began, once what served before does again."""
        name, record = resource.name, EndpointRecord.of(resource)
        status = self._fleet.status(name)
        is_back = status is not None and status.state in SETTLED
        if name not in self._not_planned and not is_back:
            return
        assert record.coming is not None, "it was to be updated to it"
        try:
            endpoint, why = await self.planning.endpoint_of(name, record.coming), ""
        except ApiError as error:
            endpoint, why = None, error.message
        async with self._resources.changing():
            if self.find(name) is not resource:  # somebody has changed it, its tags perhaps
                self._note_later(name)
                return
            if endpoint is None:
                await self._put(resource, record.rolled_back(why))
            self._to_go_on.discard(name)
            if endpoint is not None:
                self._not_planned.pop(name, None)
                self._run(endpoint, anew=True)

    async def _put(self, resource: Resource, record: EndpointRecord) -> None:
        await self._resources.put(record.in_place_of(resource, self._now()))

    def _now(self) -> float:
        return round(self._wall_clock(), 3)  # as AWS's: milliseconds


def _is_new(resource: Resource) -> bool:
    """Whether an endpoint has never come into service, so that its creator waits to hear of it."""
    return EndpointRecord.of(resource).serving is None


def _names(settings: Settings) -> dict[str, str]:
    return {endpoint.name.lower(): endpoint.name for endpoint in settings.endpoints}
