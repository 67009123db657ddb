"""A discovered instance: it comes, may be unready or unreachable for a while, and drains."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from partway.gateway.fleet.discovered.source import FoundInstance
from partway.gateway.fleet.endpoint import Endpoint, Place, Variant
from partway.gateway.fleet.health.ping_answer import BadStatus, Silence
from partway.gateway.fleet.instance_context import InstanceContext
from partway.gateway.fleet.limits import CUT_TIMEOUT, EXTRA_PING_AFTER
from partway.gateway.fleet.routing.router import InstanceLoad, RoutedInstance
from partway.gateway.fleet.states import InstanceState
from partway.gateway.fleet.status import InstanceHealth, InstanceStatus
from partway.gateway.network.dialling import OutOfDescriptors
from partway.gateway.network.silent_hosts import silent_hosts
from partway.gateway.timing.deadlines import first_of, pause, time_limit
from partway.log_lines import LogLine, TextLines

log = logging.getLogger("partway.fleet")


class DiscoveredInstance:
    """One instance, by what its source says of it and by the dials that fail.

    1. It takes streams while its source calls it ready and this gateway can reach it.
    2. The source judges its health. The gateway pings it only after a failed dial, until an answer
       comes. Misses in a row take it out of rotation, and any valid answer brings it back. It is
       reported only while its host is silent: a live host restarts the container itself.
    3. If it is being stopped, or its source does not have it any more, it drains: open streams go
       on until they end, at most for a stream's lifetime. A source that has it again revives it.
    4. A dead host sends no word of its end. So the host is asked on each open connection as soon as
       the source calls the instance unready or does not have it any more. A live host answers.

    Args:
        id: used in logs; no other instance of this gateway has it at the same time.
        on_change: called when its state or health has changed.
        on_reachable: called with a trouble when its host is silent to this gateway; without one
            when that is over.

    Attributes:
        found: what its source has said of it last.
        over: set once it is gone and nothing is open on it.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 (as everywhere)
        endpoint: Endpoint,
        variant: Variant,
        found: FoundInstance,
        load: InstanceLoad,
        around: InstanceContext,
        on_change: Callable[[], object],
        on_reachable: Callable[[FoundInstance, str], object],
    ) -> None:
        self.id = id
        self.found = found
        self.over = asyncio.Event()
        self._endpoint = endpoint
        self._variant = variant
        self._load = load
        self._around = around
        self._clock = around.clock
        self._on_change = on_change
        self._on_reachable = on_reachable
        self._since = around.wall_clock()
        self._routed: RoutedInstance | None = None
        self._is_gone = False
        self._stops = False
        self._unloaded = asyncio.Event()
        self._hastened = asyncio.Event()
        self._draining: asyncio.Task[None] | None = None
        self._missed = 0
        self._trouble = ""  # of the last ping
        self._is_reported = False
        self._checking: asyncio.Task[None] | None = None
        self._next_check = 0.0
        load.on_idle = self._unloaded.set
        load.on_unreachable = self._check_soon
        self._follow(found)
        line = "instance in rotation" if self.in_rotation else "instance found"
        self._log(logging.INFO, line, self._reason())

    # --- Reading its state ------------------------------------------------------------------------

    @property
    def state(self) -> InstanceState:
        if self.over.is_set():
            return InstanceState.STOPPED
        return InstanceState.IN_SERVICE if self._draining is None else InstanceState.DRAINING

    @property
    def in_rotation(self) -> bool:
        return self.state is InstanceState.IN_SERVICE and self.found.is_ready and self._is_reachable

    @property
    def _is_reachable(self) -> bool:
        return self._missed < self._variant.times.pings_missed

    @property
    def routed(self) -> RoutedInstance:
        """Return it as the routing table has it; made once, as a table may have a thousand."""
        if self._routed is None:
            self._routed = RoutedInstance(self.id, self._place, self.found.key)
        return self._routed

    @property
    def _place(self) -> Place:
        return Place.of(self._endpoint, self._variant, self.found.address)

    def status(self) -> InstanceStatus:
        is_well = self.found.is_ready and self._is_reachable
        return InstanceStatus(
            self.id,
            1,
            self.state,
            InstanceHealth.HEALTHY if is_well else InstanceHealth.UNHEALTHY,
            self._reason(),
            self._since,
            self.routed.place.url,
            self._load.streams,
            self._load.requests,
            self._load.served,
        )

    def _reason(self) -> str:
        if self._stops:
            return "the gateway has let it go"
        if self._is_gone:
            return "its service does not have it any more"
        if self.found.is_leaving:
            return "it is being stopped"
        if not self._is_reachable:
            return f"this gateway cannot reach it: {self._trouble}"
        return "" if self.found.is_ready else "it is not ready"

    # --- Its source -------------------------------------------------------------------------------

    def follow(self, found: FoundInstance) -> None:
        """Take what the source says of it now."""
        if self._stops or (found == self.found and not self._is_gone):
            return
        earlier, self.found, self._is_gone, self._routed = self.found, found, False, None
        self._follow(found)
        if earlier.is_ready and not found.is_ready:
            self._ask_host()
        self._changed()

    def is_gone(self) -> None:
        """Take note that the source does not have it any more."""
        if not (self._is_gone or self._stops):
            self._is_gone = True
            self._drain()
            self._ask_host()
            self._changed()

    def become(self, endpoint: Endpoint, variant: Variant) -> None:
        """Take other settings; the source of the variant is the same."""
        self._endpoint, self._variant, self._routed = endpoint, variant, None

    def stop(self) -> None:
        """Let it go: it takes nothing new, and ends for this gateway when nothing is open on it."""
        if not self._stops:
            self._stops = True
            self._drain()
            self._changed()

    def hasten(self) -> None:
        """Cut what is open on it, if it drains."""
        self._hastened.set()

    def _follow(self, found: FoundInstance) -> None:
        if found.is_leaving:
            self._drain()
        elif self._draining is not None:  # it has only changed its place in the source
            self._draining.cancel()
            self._draining = None
            self._missed = 0
            self._since = self._around.wall_clock()

    def _ask_host(self) -> None:
        if self._load.open:
            address = self.found.address
            silent_hosts.suspect(address.host, address.port)

    # --- Its end ----------------------------------------------------------------------------------

    def _drain(self) -> None:
        if self._draining is None:
            self._since = self._around.wall_clock()
            self._end_checks()
        elif not self._draining.done():
            return
        if not self.over.is_set():
            self._draining = asyncio.create_task(self._empty(), name=f"drain of {self.id}")

    async def _empty(self) -> None:
        """Wait until nothing is open on it; cut what is still open at the end of its time."""
        longest = max(self._variant.times.drain_timeout, self._endpoint.policy.lifetime)
        for seconds in (longest, CUT_TIMEOUT):
            if not self._load.is_idle and not self._hastened.is_set():
                self._unloaded.clear()
                with suppress(TimeoutError):
                    async with time_limit(self._clock, seconds):
                        await first_of(self._unloaded, self._hastened)
            self._load.cut()
        if self._is_gone or self._stops:
            self.over.set()
            self._changed()

    # --- Its pings --------------------------------------------------------------------------------

    def _check_soon(self) -> None:
        """Ping it, since it did not take a connection; a client cannot cause pings at will."""
        is_due = self._clock.time() >= self._next_check
        if self._checking is None and is_due and self.state is InstanceState.IN_SERVICE:
            self._checking = asyncio.create_task(self._check(), name=f"pings of {self.id}")

    async def _check(self) -> None:
        """Ping it until it answers (rule 2)."""
        try:
            while not await self._answers():
                await pause(self._clock, EXTRA_PING_AFTER)
        except Exception:  # a fault of the gateway leaves the instance as it is
            log.exception(LogLine("pings failed by an error of the gateway", instance=self.id))
        finally:
            self._checking = None
            self._next_check = self._clock.time() + EXTRA_PING_AFTER

    def _end_checks(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
        self._report(is_silent=False)

    async def _answers(self) -> bool:
        """Ping it once, and take note of the result."""
        try:
            trouble = await self._around.ping(self._place, self._variant.times.ping_timeout)
        except OutOfDescriptors:  # nothing is known
            return self._missed == 0
        was_reachable = self._is_reachable
        answers = trouble is None or isinstance(trouble, BadStatus)
        self._missed = 0 if answers else self._missed + 1
        self._trouble = "" if answers else str(trouble)
        self._report(is_silent=isinstance(trouble, Silence) and not self._is_reachable)
        if self._is_reachable is not was_reachable:
            self._changed()
        return answers

    def _report(self, *, is_silent: bool) -> None:
        """Have it reported while its host is silent."""
        if is_silent is not self._is_reported:
            self._is_reported = is_silent
            self._on_reachable(self.found, self._trouble if is_silent else "")

    # --- Changes ----------------------------------------------------------------------------------

    def _changed(self) -> None:
        well = "instance in rotation" if self.in_rotation else "instance out of rotation"
        lines = {
            InstanceState.STOPPED: "instance gone",
            InstanceState.DRAINING: "instance draining",
        }
        level = logging.INFO if self._is_reachable else logging.WARNING
        self._log(level, lines.get(self.state, well), self._reason())
        self._on_change()

    def _log(self, level: int, event: str, reason: str = "") -> None:
        fields = {"reason": TextLines(reason)} if reason else {}
        log.log(
            level,
            LogLine(
                event,
                endpoint=self._endpoint.name,
                variant=self._variant.name,
                instance=self.id,
                container=str(self.found.address),
                **fields,
            ),
        )
