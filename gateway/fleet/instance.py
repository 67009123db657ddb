"""The life of one instance, from its order to its end, by the table of :mod:`.states`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from partway.gateway.fleet.endpoint import Attached, Place, Variant
from partway.gateway.fleet.health.ping_each import ping_each
from partway.gateway.fleet.health.ping_pace import PingPace
from partway.gateway.fleet.health.rules import InstanceRules
from partway.gateway.fleet.instance_context import InstanceContext, Making
from partway.gateway.fleet.launchers.launcher import LaunchError, Loss, RunningContainer
from partway.gateway.fleet.limits import CUT_TIMEOUT, UNREACHABLE_TIMEOUT
from partway.gateway.fleet.states import OVER, Happening, InstanceState, StartFailure, after
from partway.gateway.fleet.status import InstanceHealth, InstanceStatus
from partway.gateway.network.dialling import OutOfDescriptors
from partway.gateway.timing.clock import Timer
from partway.gateway.timing.deadlines import before, first_of, time_limit
from partway.log_lines import LogLine, TextLines

log = logging.getLogger("partway.fleet")

#: The log line for an instance that is not ready after some time.
NOT_READY: Final = "instance is not ready"

#: The log line for each state that an instance enters.
_LINES: Final = {
    InstanceState.STARTING: "instance starting",
    InstanceState.IN_SERVICE: "instance in service",
    InstanceState.UNREACHABLE: "instance unreachable",
    InstanceState.DRAINING: "instance draining",
    InstanceState.STOPPED: "instance stopped",
    InstanceState.FAILED: "instance failed",
}


class Instance:
    """One instance of a variant: one container, several, or a failed attempt to launch them.

    A task, started by :meth:`begin`, runs its life; :attr:`over` is set when the life ends.

    Args:
        id: a unique id, used in logs; no other instance ever has the same.
        number: its number within the variant, from 0.

    Attributes:
        reason: why it is draining or has failed; empty otherwise.
        passing: whether the cause of its failure may pass by itself.
        waits: whether its launch failed because other instances hold a resource that they will
            return.
        start_failure: how its start failed, if it has failed without having served.
        place: where it is; None as long as it has no container.
        over: set when its life is over and nothing is left running.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 (the name that every caller uses)
        endpoint: str,
        variant: Variant,
        number: int,
        making: Making,
        around: InstanceContext,
        on_change: Callable[[Instance], object],
    ) -> None:
        self.id = id
        self.number = number
        self.state = InstanceState.PENDING
        self.reason = ""
        self.passing = True
        self.waits = False
        self.start_failure = StartFailure.NOT_LAUNCHED
        self.place: Place | None = None
        self.over = asyncio.Event()
        self._endpoint = endpoint
        self._variant = variant
        self._launch = making.launch
        self._pass_output = making.pass_output
        self._output = making.output
        self._place_of = making.place_of
        self._load = making.load
        self._around = around
        self._clock = around.clock
        self._on_change = on_change
        self._since = around.wall_clock()
        self._served_since: float | None = None
        self._attached = _attached(variant)
        self._is_attached = len(self._attached) == max(1, len(variant.containers))
        self._rules = InstanceRules(
            *(variant.times.pings_missed, self._attached),
            launched=not self._is_attached,
            kept=_kept(variant),
        )
        start = making.start
        self._slow_start = None if start is None else start(self._clock, self._warn_of_slow_start)
        self._loss: Loss | None = None
        self._giving_up: Timer | None = None  # while it cannot be reached
        self._told = asyncio.Event()
        self._hastened = asyncio.Event()
        self._unloaded = asyncio.Event()
        self._pace = PingPace(around.clock, variant.times.ping_interval)
        self._load.on_idle = self._unloaded.set
        self._load.on_unreachable = self._pace.hurry
        self._life: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._log(logging.INFO, "instance pending")
        self._life = asyncio.create_task(self._live(), name=f"instance {self.id}")

    def stop(self) -> None:
        """Tell it to stop: it takes nothing new, and ends when what is open has ended."""
        self._told.set()

    def hasten(self) -> None:
        """Tell it to stop at once: what is open is cut, and its container killed."""
        self._told.set()
        self._hastened.set()

    @property
    def in_rotation(self) -> bool:
        return (
            self.state is InstanceState.IN_SERVICE
            and not (self._loss or self._told.is_set())
            and self._rules.health is not InstanceHealth.UNHEALTHY
        )

    @property
    def is_wanted(self) -> bool:
        """Whether it counts towards the desired number: it serves or may still come to serve."""
        alive = self.state in {
            InstanceState.PENDING,
            InstanceState.STARTING,
            InstanceState.IN_SERVICE,
            InstanceState.UNREACHABLE,
        }
        return alive and not self._told.is_set()

    @property
    def has_failed(self) -> bool:
        """Whether it drains or has ended without having been told to stop."""
        ends = self.state in {InstanceState.DRAINING, InstanceState.FAILED}
        return ends and not self._told.is_set()

    @property
    def drains_by_itself(self) -> bool:
        """Whether it drains because it is unhealthy."""
        return self.state is InstanceState.DRAINING and not self._told.is_set()

    @property
    def has_served(self) -> bool:
        return self._served_since is not None

    def served_for(self) -> float:
        """Return the seconds since it came into service; 0 if it did not."""
        return 0.0 if self._served_since is None else self._clock.time() - self._served_since

    @property
    def open(self) -> int:
        return self._load.open

    def status(self, version: int) -> InstanceStatus:
        slow_start = "" if self._slow_start is None else self._slow_start.reason
        return InstanceStatus(
            self.id,
            version,
            self.state,
            # A launched instance that has not answered yet has no known health.
            InstanceHealth.UNKNOWN if self._served_since is None else self._rules.health,
            self.reason or slow_start or self._rules.trouble,
            self._since,
            "" if self.place is None else self.place.url,
            self._load.streams,
            self._load.requests,
            self._load.served,
            self._containers(),
        )

    def _containers(self) -> dict[str, str]:
        """Return the URLs of its containers by host name; empty URLs before it has a place."""
        if self.place is not None:
            return {each.hostname: each.url for each in self.place.containers}
        return {each.hostname: "" for each in self._variant.containers}

    # --- Its life ---------------------------------------------------------------------------------

    async def _live(self) -> None:
        try:
            await self._run()
        except Exception:  # a fault of the gateway ends one instance, not the fleet
            self.state = InstanceState.FAILED
            self.reason = "the gateway itself failed; its log has the error"
            log.exception(LogLine("instance failed by an error of the gateway", instance=self.id))
            self._on_change(self)
        finally:
            self._output.close()
            if self.state not in OVER:  # the gateway is stopping
                self.state = InstanceState.STOPPED
            self.over.set()
            self._on_change(self)

    async def _run(self) -> None:
        began = self._clock.time()
        try:
            running = await before(self._told, self._launch())
        except LaunchError as error:
            self.passing, self.waits = error.passing, error.waits
            self.start_failure = error.failure
            self._happens(Happening.NOT_STARTED, str(error))
            return
        if running is None:
            self._happens(Happening.TOLD_TO_STOP)
            return
        self._pass_output(running)
        running.watch(lambda: self._lost(running))
        self._lost(running)
        self.place = self._place_of(running)
        self._happens(Happening.LAUNCHED)
        ended = asyncio.create_task(running.wait(), name=f"end of {self.id}")
        try:
            await self._live_with(running, ended, began)
        finally:
            self._stop_giving_up()
            running.kill()
            await ended

    async def _live_with(
        self, running: RunningContainer, ended: asyncio.Task[object], began: float
    ) -> None:
        trouble = await self._start(running, ended)
        if trouble and not ended.done() and not self._told.is_set():
            running.kill()
            await ended
            self._happens(Happening.NOT_STARTED, f"the container {trouble}", self._said())
            return
        if not trouble and not self._told.is_set():
            if not self._is_attached:
                seconds = self._clock.time() - began
                self._around.launched(self._endpoint, self._variant.name, seconds)
            self._served_since = self._clock.time()
            self._happens(Happening.READY)
            self._lost(running)
            await self._until(ended, self._watch())
        if ended.done():
            self.start_failure = StartFailure.ENDED
            self._happens(Happening.ENDED, f"the container {ended.result()}", self._said())
            return
        if self._told.is_set():
            self._happens(Happening.TOLD_TO_STOP)
        else:
            missed, why = self._rules.missed, self._rules.trouble
            self._happens(Happening.UNHEALTHY, f"missed {missed} pings in a row: {why}")
        await self._empty(ended)
        await self._stop(running, ended)
        self._happens(Happening.EMPTIED)

    async def _start(self, running: RunningContainer, ended: asyncio.Task[object]) -> str:
        """Wait until its pings are answered; return why the wait failed, else an empty string."""
        if self._slow_start is None:
            return ""
        start = self._slow_start
        timeout = self._variant.times.startup_timeout
        try:
            async with time_limit(self._clock, timeout):
                await self._until(ended, start.until_ready(running, self._ping_launched, self.id))
        except LaunchError as error:  # another program has its port
            return f"cannot be reached: {error}"
        except TimeoutError:
            self.start_failure = StartFailure.NOT_READY
            return f"is not ready after {timeout:g} s: {start.said}"
        return "has ended" if ended.done() else ""

    async def _empty(self, ended: asyncio.Task[object]) -> None:
        """Wait until nothing is open; cut what is still open at the end of its time."""
        drain = self._variant.times.drain_timeout
        if self._is_attached and self.place is not None:  # its streams may go on
            drain = max(drain, self.place.policy.lifetime)
        for seconds in (drain, CUT_TIMEOUT):
            if not self._load.is_idle and not ended.done() and not self._hastened.is_set():
                self._unloaded.clear()
                with suppress(TimeoutError):
                    async with time_limit(self._clock, seconds):
                        await self._until(ended, first_of(self._unloaded, self._hastened))
            self._load.cut()

    async def _stop(self, running: RunningContainer, ended: asyncio.Task[object]) -> None:
        """End its container as the platform does (clause 1.1-1), or at once if hastened."""
        stopping = asyncio.create_task(running.stop(self._variant.times.stop_timeout))
        hastened = asyncio.create_task(self._hastened.wait())
        try:
            await asyncio.wait((stopping, hastened), return_when=asyncio.FIRST_COMPLETED)
        finally:
            hastened.cancel()
            if not stopping.done():
                running.kill()
            await stopping
        await ended

    async def _until(self, ended: asyncio.Task[object], work: Coroutine[Any, Any, None]) -> None:
        """Work until it is done or the container has ended; before draining, also until a stop."""
        tasks = [asyncio.create_task(work)]
        if self.state is not InstanceState.DRAINING:
            tasks.append(asyncio.create_task(self._wait_told()))
        try:
            await asyncio.wait((ended, *tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _wait_told(self) -> None:
        await self._told.wait()

    # --- Its pings --------------------------------------------------------------------------------

    async def _ping(self, but: Collection[str] = ()) -> Mapping[str, str | None]:
        assert self.place is not None, "it has a container"
        seconds = self._variant.times.ping_timeout
        return await ping_each(self._around.ping, self.place, seconds, but)

    async def _ping_launched(self) -> Mapping[str, str | None]:
        return await self._ping(but=self._attached)

    def _warn_of_slow_start(self, seconds: float, reason: str) -> None:
        self._log(logging.WARNING, NOT_READY, reason=reason, seconds=round(seconds))
        self._on_change(self)

    async def _watch(self) -> None:
        """Ping it until it must be replaced; an attached instance is pinged for ever."""
        if not self._variant.times.ping_interval:
            await asyncio.get_running_loop().create_future()  # until it is cancelled
        while True:
            await self._pace.until_next()
            if self._loss:  # it cannot answer
                continue
            try:
                troubles = await self._ping()
            except OutOfDescriptors:  # nothing is known of its health
                continue
            if self._loss:
                continue
            launched = troubles.keys() - {*self._attached}
            has_changed = self._rules.pinged(troubles)
            if self.state is InstanceState.UNREACHABLE and not any(map(troubles.get, launched)):
                self._happens(Happening.READY)
            if not has_changed:
                continue
            if self._rules.is_lost:
                return
            is_unhealthy = self._rules.health is InstanceHealth.UNHEALTHY
            level = logging.WARNING if is_unhealthy else logging.INFO
            self._log(level, f"instance {self._rules.health}", reason=self._rules.trouble)
            self._on_change(self)

    # --- Changes of state -------------------------------------------------------------------------

    def _happens(self, what: Happening, reason: str = "", said: Sequence[str] = ()) -> None:
        self.state = after(self.state, what)
        self._since = self._around.wall_clock()
        self.reason = "\n".join((reason, *said)) if reason else self.reason
        failed = self.state is InstanceState.FAILED
        is_worse = failed or what in (Happening.UNHEALTHY, Happening.UNREACHABLE)
        level = logging.WARNING if is_worse else logging.INFO
        self._log(level, _LINES[self.state], reason=self.reason)
        self._on_change(self)

    def _said(self) -> Sequence[str]:
        lines = self._output.last_lines()
        return ("it printed last:", *lines) if lines else ()

    def _log(self, level: int, event: str, reason: str = "", **more: int) -> None:
        if (
            self._is_attached
            and level == logging.INFO
            and self._rules.health is not InstanceHealth.HEALTHY
        ):
            level = logging.DEBUG  # nothing was launched, and nothing is known
        fields = {"reason": TextLines(reason)} if reason else {}
        where = {"container": self.place.url} if self.place is not None else {}
        whose = {"endpoint": self._endpoint, "variant": self._variant.name, "instance": self.id}
        log.log(level, LogLine(event, **whose, **where, **more, **fields))

    def _lost(self, running: RunningContainer) -> None:
        """Take nothing while it is lost; streams on one that cannot be reached end at once.

        Of several containers one may be gone, and the others being killed.
        """
        loss = self._loss = running.loss
        if loss is not Loss.UNREACHABLE:
            self._stop_giving_up()
        elif self._giving_up is None:
            self._giving_up = self._clock.call_later(UNREACHABLE_TIMEOUT, self._give_up, running)
        if loss is Loss.UNREACHABLE:
            if self.state is InstanceState.IN_SERVICE:
                self._happens(Happening.UNREACHABLE)
            self._load.cut(is_lost=True)
        elif loss:
            self._on_change(self)
        elif self.state is InstanceState.UNREACHABLE:
            if self._variant.times.ping_interval:
                self._pace.hurry()
            else:
                self._happens(Happening.READY)

    def _give_up(self, running: RunningContainer) -> None:
        """End one that could not be reached for long, so that it is replaced."""
        self._log(logging.WARNING, "instance given up", seconds=round(UNREACHABLE_TIMEOUT))
        running.kill()

    def _stop_giving_up(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None


def _attached(variant: Variant) -> Collection[str]:
    """Return the host names of containers that run outside the gateway; empty for an only one."""
    if isinstance(variant.source, Attached):
        return ("",)
    return [each.hostname for each in variant.containers if isinstance(each.source, Attached)]


def _kept(variant: Variant) -> Collection[str]:
    """Return the host names of launched containers that are never restarted for their health."""
    if not variant.containers:
        is_kept = variant.vertex is not None and not isinstance(variant.source, Attached)
        return [""] if is_kept else []
    return [
        each.hostname
        for each in variant.containers
        if each.vertex is not None and not isinstance(each.source, Attached)
    ]
