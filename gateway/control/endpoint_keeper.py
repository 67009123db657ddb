"""Endpoints of the API and the fleet: what is written down is run, and what became of it noted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from partway.gateway.clock import Clock, Timer
from partway.gateway.control.endpoint_records import CHANGING, SETTLED, EndpointRecord
from partway.gateway.control.errors import ValidationException
from partway.gateway.control.limits import STORE_RETRY_INTERVAL
from partway.gateway.control.local_paths import LocalRoots
from partway.gateway.control.planned import ApiSurroundings, DeploymentPlan, planned
from partway.gateway.control.resources import Resource, Resources
from partway.gateway.fleet.endpoints import Endpoint
from partway.gateway.fleet.fleet import Fleet, FleetStopping
from partway.gateway.fleet.gpus import gpus_of_this_machine
from partway.gateway.fleet.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.fleet.status import EndpointState, EndpointStatus
from partway.gateway.settings import Settings
from partway.gateway.store.store import StoreError
from partway.gateway.waiting import time_limit
from partway.log_lines import LogLine

log = logging.getLogger("partway.control")

_KIND: Final = "endpoint"


class EndpointKeeper:
    """Has the fleet run the endpoints of the API, and writes down what becomes of them.

    An endpoint of the settings goes before one of the API that has its name, which stays written
    down and is run again when the settings have the name no more.

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
        self._resources = resources
        self._kept_out = tuple(kept_out)
        self._fleet = fleet
        self._settings = settings
        self._clock = clock
        self._wall_clock = wall_clock
        self._gpus: int | None = None
        self._of_settings = _names(settings)
        #: Updates that go on when what served before does again, or cannot.
        self._to_go_on: set[str] = set()
        self._to_run_again: set[str] = set()
        self._found: list[Endpoint] = []
        #: Why endpoints that were in service cannot be run.
        self._not_planned: dict[str, str] = {}
        self._changed: set[str] = set()
        self._news = asyncio.Event()
        self._retry: Timer | None = None
        self._noting: asyncio.Task[None] | None = None
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

    def record_of(self, resource: Resource) -> EndpointRecord:
        """How far an endpoint has come, also where that is not written down yet."""
        record = EndpointRecord.of(resource)
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

    # --- What there is to be ---------------------------------------------------------------------

    async def endpoint_of(self, name: str, plan: DeploymentPlan) -> Endpoint:
        """What the fleet is to run.

        Raises:
            ValidationException: something of the plan cannot be honoured.
        """
        if self._gpus is None and plan.asks_for_gpus:
            self._gpus = len(await gpus_of_this_machine())
        settings = self._settings
        around = ApiSurroundings(
            settings.policy,
            settings.times,
            settings.images,
            self.local_roots,
            self._gpus or 0,
            settings.api_environment,
        )
        try:
            async with time_limit(self._clock, MODEL_DATA_LOOK_TIMEOUT):
                return await asyncio.to_thread(planned, name, plan, around)
        except TimeoutError:  # model data of this machine, on a file system that is away
            raise ValidationException(
                f"Where the model data are is not known after {MODEL_DATA_LOOK_TIMEOUT:g} s; their "
                "file system must be mounted anew, or they copied elsewhere."
            ) from None

    def allows_path(self, location: str) -> bool:
        """Whether callers may name a path of this machine."""
        return self.local_roots.allow(location)

    @property
    def local_roots(self) -> LocalRoots:
        """Below which paths of this machine callers may name."""
        return LocalRoots(self._settings.local_roots, self._kept_out)

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
        leaving = EndpointRecord(
            EndpointState.DELETING, record.serving, record.coming, record.reason, now
        )
        await self._resources.put(leaving.in_place_of(resource, now))
        self._not_planned.pop(resource.name, None)
        if not self._is_set_aside(resource.name) and self.status(resource.name) is not None:
            with suppress(FleetStopping):  # the next gateway goes on with it
                self._fleet.remove(resource.name)
        self._note_later(resource.name)

    def _is_set_aside(self, name: str) -> bool:
        return name.lower() in self._of_settings

    def _run(self, endpoint: Endpoint, *, anew: bool) -> None:
        if self._is_set_aside(endpoint.name):  # by settings that came meanwhile
            self._say_set_aside(endpoint.name)
            return
        try:
            self._fleet.apply(endpoint, anew=anew)
        except FleetStopping:
            self._to_go_on.add(endpoint.name)  # the next gateway does
        self._note_later(endpoint.name)

    # --- The gateway's start and its settings ----------------------------------------------------

    async def start(self) -> None:
        """Find out what is to run, and note what becomes of the endpoints from now on."""
        self._noting = asyncio.create_task(self._note(), name="records of endpoints")
        for resource in list(self._resources.all(_KIND)):
            if self._is_set_aside(resource.name):
                self._say_set_aside(resource.name)
            elif (endpoint := await self._restored(resource)) is not None:
                self._found.append(endpoint)

    @property
    def found(self) -> list[Endpoint]:
        """What the fleet is to begin with: what :meth:`start` has found, and nobody has deleted."""
        wanted = {
            each.name
            for each in self.all()
            if EndpointRecord.of(each).state is not EndpointState.DELETING
        }
        return [each for each in self._found if each.name in wanted]

    def give_way(self, settings: Settings) -> None:
        """Make endpoints by other settings from now on, and leave to these what they name.

        Args:
            settings: what the fleet is about to follow; :meth:`run_again` comes behind that.
        """
        before, self._of_settings = self._of_settings, _names(settings)
        self._settings = settings
        for resource in self._resources.all(_KIND):
            key = resource.name.lower()
            if key in self._of_settings and key not in before:
                self._say_set_aside(resource.name)
                if self._of_settings[key] != resource.name and self.status(resource.name):
                    self._fleet.remove(resource.name)
            elif key in before and key not in self._of_settings:
                self._to_run_again.add(resource.name)

    async def run_again(self) -> None:
        """Run those endpoints of the API whose names the settings have no more."""
        names, self._to_run_again = self._to_run_again, set()
        for name in sorted(names):
            resource = self.find(name)
            endpoint = None if resource is None else await self._restored(resource)
            if endpoint is not None:
                log.info(LogLine("endpoint of the API is run again", endpoint=name))
                self._run(endpoint, anew=False)

    async def aclose(self) -> None:
        """Note nothing more; to be called once the fleet has stopped."""
        if self._retry is not None:
            self._retry.cancel()
        if self._noting is not None:
            self._noting.cancel()
            await asyncio.wait((self._noting,))

    async def _restored(self, resource: Resource) -> Endpoint | None:
        """What is to run for an endpoint of another gateway's; None if nothing is."""
        record = EndpointRecord.of(resource)
        if record.state is EndpointState.DELETING:
            self._note_later(resource.name)
            return None
        if record.state is EndpointState.FAILED:
            return None
        if record.state is EndpointState.UPDATING:
            self._to_go_on.add(resource.name)
        try:
            return await self.endpoint_of(resource.name, record.plan)
        except ValidationException as error:
            line = "endpoint of the API cannot be run"
            log.warning(LogLine(line, endpoint=resource.name, reason=error.message))
            self._not_planned[resource.name] = error.message
            self._note_later(resource.name)
            return None

    @staticmethod
    def _say_set_aside(name: str) -> None:
        line = "the settings have an endpoint of the API's name: the API's is set aside"
        log.warning(LogLine(line, endpoint=name))

    # --- What becomes of it ----------------------------------------------------------------------

    def _note_later(self, name: str) -> None:
        if self._resources.find(_KIND, name) is not None:
            self._changed.add(name)
            self._news.set()

    async def _note(self) -> None:
        """Write down what has come of changes, as long as there is somebody to tell of it."""
        while True:
            await self._news.wait()
            self._news.clear()
            names, self._changed = self._changed, set()
            for name in sorted(names):
                try:
                    async with self._resources.changing():
                        await self._note_one(name)
                except StoreError as error:
                    self._changed.add(name)
                    self._try_again(name, str(error))
                except Exception:  # a fault of ours is not the end of all notes
                    log.exception(LogLine("an endpoint's state is not noted", endpoint=name))

    def _try_again(self, name: str, reason: str) -> None:
        log.warning(LogLine("an endpoint's state is not written", endpoint=name, reason=reason))
        if self._retry is None:
            self._retry = self._clock.call_later(STORE_RETRY_INTERVAL, self._retried)

    def _retried(self) -> None:
        self._retry = None
        self._news.set()

    async def _note_one(self, name: str) -> None:
        resource = self.find(name)
        if resource is None:
            return
        written = EndpointRecord.of(resource)
        status = self._fleet.status(resource.name)
        if written.state is EndpointState.DELETING:
            if status is None:
                await self._resources.delete(resource)
                self._to_go_on.discard(resource.name)
        elif resource.name in self._to_go_on:
            await self._go_on(resource, written, status)
        elif written.state is EndpointState.CREATING and resource.name in self._not_planned:
            reason = self._not_planned[resource.name]
            failed = EndpointRecord(
                EndpointState.FAILED, None, written.coming, reason, written.began
            )
            await self._put(resource, failed)
        elif (record := self.record_of(resource)) != written:
            await self._put(resource, record)

    async def _go_on(
        self, resource: Resource, record: EndpointRecord, status: EndpointStatus | None
    ) -> None:
        """Go on with an update that another gateway began, once what served before does again."""
        is_back = status is not None and status.state in SETTLED
        if resource.name not in self._not_planned and not is_back:
            return
        assert record.coming is not None, "it was to be updated to it"
        try:
            endpoint = await self.endpoint_of(resource.name, record.coming)
        except ValidationException as error:
            await self._put(resource, record.rolled_back(error.message))
            self._to_go_on.discard(resource.name)
        else:
            self._to_go_on.discard(resource.name)
            self._not_planned.pop(resource.name, None)
            self._run(endpoint, anew=True)

    async def _put(self, resource: Resource, record: EndpointRecord) -> None:
        await self._resources.put(record.in_place_of(resource, self._now()))

    def _now(self) -> float:
        return round(self._wall_clock(), 3)  # as AWS's: milliseconds


def _names(settings: Settings) -> dict[str, str]:
    return {endpoint.name.lower(): endpoint.name for endpoint in settings.endpoints}
