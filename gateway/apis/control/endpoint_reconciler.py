"""The reconciler, which has the fleet run the API's stored endpoints and records their states."""

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
    """Runs the endpoints of the API in the fleet, and records their state.

    An endpoint of the settings takes precedence over an API endpoint of its name. The API endpoint
    stays stored, and runs again when the settings drop the name.

    Attributes:
        on_change: called with an endpoint's name when its state or its record has changed.
        on_other_settings: called after new settings have taken effect.

    Args:
        fleet: runs them; it also runs the endpoints of the settings.
        wall_clock: returns epoch seconds.
        kept_out: files and folders that no caller may name, even below a root.
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
        #: Updates that continue once the earlier version serves again, or cannot serve.
        self._to_go_on: set[str] = set()
        self._to_run_again: set[str] = set()
        self._noted = asyncio.Event()
        self._found: list[Endpoint] = []
        self._sought: set[str] = set()
        self._runs_found = False
        self._restoring: asyncio.Task[None] | None = None
        #: Why endpoints of an earlier gateway cannot run; other settings may change that.
        self._not_planned: dict[str, str] = {}
        self.on_change: Callable[[str], object] = lambda _: None
        self.on_other_settings: Callable[[], object] = lambda: None
        self._notes = Notes(self._note, clock)
        fleet.on_change = self._note_later

    # --- Lookups ---------------------------------------------------------------------------------

    @property
    def of_settings(self) -> Mapping[str, str]:
        """The names of the settings' endpoints, by their lower-case names."""
        return self._of_settings

    def find(self, name: str) -> Resource | None:
        """Return the API endpoint of a name, unless the settings have the name."""
        return None if self._is_set_aside(name) else self._resources.find(_KIND, name)

    def all(self) -> list[Resource]:
        """Return all API endpoints whose names the settings do not have."""
        found = self._resources.all(_KIND)
        return [each for each in found if not self._is_set_aside(each.name)]

    def status(self, name: str) -> EndpointStatus | None:
        """Return the fleet's status of an endpoint; None if the fleet does not run it."""
        return self._fleet.status(name)

    def slow_start_reason(self, name: str) -> str:
        """Return why a slowly starting instance is not ready; empty if no instance is slow."""
        status = self._fleet.status(name)
        variants = () if status is None else status.variants
        reasons = (each.slow_start_reason(self._wall_clock()) for each in variants)
        return next(filter(None, reasons), "")

    def record_of(self, resource: Resource) -> EndpointRecord:
        """Return the current record of an endpoint, which may not be stored yet."""
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
        """Return an endpoint's state, and why the endpoint or its last change has failed."""
        record = self.record_of(resource)
        if record.state is not EndpointState.IN_SERVICE:
            return record.state, record.reason
        if resource.name in self._not_planned:
            return EndpointState.FAILED, self._not_planned[resource.name]
        status = self._fleet.status(resource.name)
        if status is None:  # the fleet is about to run it
            return EndpointState.CREATING, record.reason
        if status.state is EndpointState.FAILED:
            return status.state, status.reason
        return status.state, record.reason

    def may_be_updated(self, resource: Resource) -> bool:
        """Whether an endpoint has been in service, and no change is in progress.

        An endpoint that was in service and whose instances are given up counts as failed. Its
        earlier version is known, and another configuration may work.
        """
        state, _ = self.state_of(resource)
        if state is EndpointState.FAILED:
            return self.record_of(resource).state is EndpointState.IN_SERVICE
        return state is EndpointState.IN_SERVICE

    def async_config_of(self, name: str) -> AsyncConfig | None:
        """Return an API endpoint's settings for asynchronous requests.

        Returns:
            None if there is no such endpoint, the endpoint is set aside or being deleted, or it has
            no such settings.
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

    # --- Changes ---------------------------------------------------------------------------------

    def check_takes_changes(self) -> None:
        """Raise FleetStopping while the gateway stops."""
        self._fleet.check_takes_changes()

    async def begin(
        self, resource: Resource, record: EndpointRecord, endpoint: Endpoint, *, anew: bool
    ) -> None:
        """Record an endpoint's new version, and have the fleet run it.

        Call this inside ``Resources.changing()``.

        Args:
            resource: the endpoint before the change.
            anew: whether all instances must be new ones.

        Raises:
            StoreError: nothing has changed.
        """
        await self._resources.put(record.in_place_of(resource, record.began))
        self._not_planned.pop(resource.name, None)
        self._run(endpoint, anew=anew)

    async def end(self, resource: Resource) -> None:
        """Record that an endpoint is being deleted, and have the fleet stop it.

        Call this inside ``Resources.changing()``.

        Raises:
            StoreError: nothing has changed.
        """
        now = self._now()
        record = self.record_of(resource)
        leaving = dataclasses.replace(record, state=EndpointState.DELETING, began=now)
        await self._resources.put(leaving.in_place_of(resource, now))
        self._not_planned.pop(resource.name, None)
        if not self._is_set_aside(resource.name) and self.status(resource.name) is not None:
            with suppress(FleetStopping):  # the next gateway continues the deletion
                self._fleet.remove(resource.name)
        self._note_later(resource.name)

    def _is_set_aside(self, name: str) -> bool:
        return name.lower() in self._of_settings

    def _run(self, endpoint: Endpoint, *, anew: bool, awaited: bool = True) -> None:
        if self._is_set_aside(endpoint.name):  # by settings that were loaded meanwhile
            self._say_set_aside(endpoint.name)
            return
        try:
            self._fleet.apply(endpoint, anew=anew, awaited=awaited)
        except FleetStopping:
            # The next gateway continues it, and this one does not retry.
            self._to_go_on.add(endpoint.name)
        else:
            self._note_later(endpoint.name)

    # --- The gateway's start and its settings ----------------------------------------------------

    async def start(self) -> None:
        """Find out which endpoints are to run, and start to record their state.

        Endpoints that are not found within RESTORE_TIMEOUT, as on a file system that does not
        answer, run later.
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
        """The endpoints that :meth:`start` has found and that are not being deleted."""
        wanted = {
            each.name
            for each in self.all()
            if EndpointRecord.of(each).state is not EndpointState.DELETING
        }
        return [each for each in self._found if each.name in wanted]

    @property
    def sought(self) -> frozenset[str]:
        """The names of endpoints that :meth:`start` has not found yet."""
        return frozenset(self._sought)

    async def has_found(self, seconds: float) -> None:
        """Wait until all endpoints of :meth:`start` are found, at most this many seconds.

        This includes the new versions of updates that continue.
        """
        if self._restoring is not None:
            with suppress(TimeoutError):
                async with time_limit(self._clock, seconds):
                    await asyncio.wait((self._restoring,))
                    while self._to_go_on:
                        self._noted.clear()
                        await self._noted.wait()

    def run_found(self) -> None:
        """Have the fleet start the found endpoints; those that are found later start at once."""
        awaited = {each.name for each in self.all() if _is_new(each)}
        self._fleet.start(self.found, awaited)
        self._runs_found = True

    def give_way(self, settings: Settings) -> None:
        """Plan endpoints by new settings, and give way to the endpoints that these name.

        Args:
            settings: the settings that the fleet is about to follow; call :meth:`run_again` after
                that.
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
        """Run endpoints that earlier settings set aside or kept from running.

        Endpoints that served and were given up are tried again too: settings are often reloaded
        after a repair.
        """
        if self._restoring is not None:
            await asyncio.wait((self._restoring,))
        names = self._to_run_again | self._not_planned.keys() | self._given_up()
        self._to_run_again = set()
        await self._restore(sorted(names))
        self.on_other_settings()

    async def aclose(self) -> None:
        """Stop recording; call this once the fleet has stopped."""
        await self._notes.aclose()
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.wait((self._restoring,))

    def _given_up(self) -> set[str]:
        """Return the names of endpoints that have served, and whose instances are given up."""
        return {
            each.name
            for each in self.all()
            if EndpointRecord.of(each).state is EndpointState.IN_SERVICE
            and (status := self.status(each.name)) is not None
            and status.state is EndpointState.FAILED
        }

    async def _restore(self, names: Iterable[str]) -> None:
        """Run an earlier gateway's endpoints in parallel; a hanging file system delays no other."""
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
        # There is no await from here on, so that the version that is run matches the record. A
        # change that is being stored now replaces or removes the version afterwards.
        now = self.find(name)
        if now is None or now.kept != resource.kept:
            return  # the change has already started or removed instances
        if record.state is EndpointState.UPDATING:
            self._to_go_on.add(name)
        if endpoint is None:
            line = "an endpoint of the API cannot run"
            log.warning(LogLine(line, endpoint=name, reason=why))
            self._not_planned[name] = why
            self._note_later(name)
            return
        self._not_planned.pop(name, None)
        if self._runs_found:
            log.info(LogLine("an endpoint of the API runs again", endpoint=name))
            self._run(endpoint, anew=False, awaited=_is_new(resource))
        else:
            self._found.append(endpoint)

    @staticmethod
    def _say_set_aside(name: str) -> None:
        line = "the settings define an endpoint of this name: the API's endpoint does not run"
        log.warning(LogLine(line, endpoint=name))

    # --- Recording of states ---------------------------------------------------------------------

    def _note_later(self, name: str) -> None:
        if self._resources.find(_KIND, name) is not None:
            self._notes.add(name)
        self.on_change(name)

    async def _note(self, name: str) -> None:
        await self._note_change(name)
        self.on_change(name)
        self._noted.set()

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
            return  # other settings may still run it
        elif (record := self.record_of(resource)) != written:
            await self._put(resource, record)

    async def _go_on(self, resource: Resource) -> None:
        """Continue an earlier gateway's update, once the version before it serves again."""
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
            if self.find(name) is not resource:  # somebody has changed it, for example its tags
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
        return round(self._wall_clock(), 3)  # AWS's times are milliseconds too


def _is_new(resource: Resource) -> bool:
    """Whether an endpoint has never been in service, so that its creator waits for the outcome."""
    return EndpointRecord.of(resource).serving is None


def _names(settings: Settings) -> dict[str, str]:
    return {endpoint.name.lower(): endpoint.name for endpoint in settings.endpoints}
