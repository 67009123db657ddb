"""Leadership by a Lease of coordination.k8s.io: one of several processes acts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from partway.gateway.cluster.answers import (
    ClusterAway,
    ClusterError,
    ClusterObject,
    Collection,
    NoSuchObject,
    WriteConflict,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.limits import (
    LEASE_DEADLINE,
    LEASE_DURATION,
    LEASE_LOOK,
    LEASE_RENEWAL,
    LEASE_REQUEST,
)
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.cluster")

_API_VERSION: Final = "coordination.k8s.io/v1"


class Leadership:
    """The right to act, which one process has at a time.

    The clocks of the processes need not agree. A process measures by its own clock how long the
    lease has not changed (as client-go does), and how long its own renewal is ago.

    Args:
        server: a connection of its own, so that no other request delays a renewal.
        name: the Lease's name, the same for all processes.
        identity: this process's name, such as its pod's.
        wall_clock: returns epoch seconds, for people who read the Lease.

    Attributes:
        follows_another: whether this process has seen another's lease since it acted itself.
        is_known: whether the lease was read or made once.
    """

    def __init__(
        self,
        server: ApiServer,
        name: str,
        identity: str,
        clock: Clock,
        wall_clock: Callable[[], float],
    ) -> None:
        self._server = server
        self._leases = Collection(_API_VERSION, "leases", server.settings.namespace)
        self._name = name
        self._identity = identity
        self._clock = clock
        self._wall_clock = wall_clock
        self.follows_another = False
        self.is_known = False
        self._good_until = 0.0
        self._seen = ""
        self._seen_at = 0.0
        self._trouble = ""

    @property
    def is_held(self) -> bool:
        """Whether this process may act now."""
        return self._clock.time() < self._good_until

    def check_write(self) -> float:
        """Return the seconds in which a change must be answered, while this process may act.

        It may act no more if it was stopped for a while.

        Raises:
            ClusterAway: the lease is not held.
        """
        if not self.is_held:
            raise ClusterAway("this process does not hold the lease any more; it changes nothing")
        return self._left()

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work whenever the lease is held, until cancelled; then give the lease back.

        Args:
            work: runs until it is cancelled. It is cancelled when the lease is lost.
        """
        held: ClusterObject | None = None
        try:
            while True:
                held = await self._acquired()
                log.info(LogLine("leading", lease=self._name, identity=self._identity))
                await self._while_held(held, work)
                held = None
                self.follows_another = False
                log.warning(LogLine("not leading any more", lease=self._name, reason=self._trouble))
        finally:
            if held is not None and self.is_held:
                await self._give_back(held)

    async def _while_held(self, held: ClusterObject, work: Callable[[], Awaitable[None]]) -> None:
        """Work and renew until the lease is lost, or the work fails."""
        working = asyncio.ensure_future(work())
        renewing = asyncio.create_task(self._renewed_until_lost(held), name="renewals of a lease")
        try:
            await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, renewing):
                task.cancel()
            await asyncio.wait((working, renewing))
        if not working.cancelled():
            working.result()

    # --- The lease -------------------------------------------------------------------------------

    async def _acquired(self) -> ClusterObject:
        while True:
            begun = self._clock.time()
            try:
                held = await self._tried()
            except WriteConflict:  # another one was faster
                held = None
            except ClusterError as error:
                held = None
                self._tell(str(error))
            if held is not None:
                self._good_until = begun + LEASE_DEADLINE
                self._trouble = ""
                return held
            await pause(self._clock, LEASE_LOOK)

    async def _tried(self) -> ClusterObject | None:
        """Take the lease if it is free; return None if another one holds it."""
        try:
            found = await self._server.get(self._leases, self._name, seconds=LEASE_REQUEST)
        except NoSuchObject:
            self.follows_another |= self.is_known  # somebody has deleted it
            made = {
                "apiVersion": _API_VERSION,
                "kind": "Lease",
                "metadata": {"name": self._name},
                "spec": self._spec({}),
            }
            created = await self._server.create(self._leases, made, seconds=LEASE_REQUEST)
            self.is_known = True
            return created
        self.is_known = True
        spec = found.get("spec") or {}
        version = str(found["metadata"]["resourceVersion"])
        if version != self._seen:
            self._seen, self._seen_at = version, self._clock.time()
        holder = spec.get("holderIdentity")
        # Kept until this process has acted: a takeover may be stored though its answer is lost.
        self.follows_another |= holder != self._identity
        is_over = self._clock.time() - self._seen_at >= LEASE_DURATION
        if holder and holder != self._identity and not is_over:
            self._tell(f"{holder} leads")
            return None
        return await self._replaced(found, self._spec(spec))

    async def _renewed_until_lost(self, held: ClusterObject) -> None:
        """Renew the lease until that has failed for LEASE_DEADLINE, or another one has it."""
        while True:
            await pause(self._clock, min(LEASE_RENEWAL, self._left()))
            if not self.is_held:
                self._trouble = f"the lease could not be renewed: {self._trouble}"
                return
            begun = self._clock.time()
            try:
                held = await self._replaced(held, self._spec(held["spec"]), self._left())
            except WriteConflict:
                held = await self._found_again(held)
                if held["spec"].get("holderIdentity") != self._identity:
                    self._good_until = 0.0
                    self._trouble = "another one has taken the lease"
                    return
            except ClusterError as error:
                self._trouble = str(error)
            else:
                self._good_until = begun + LEASE_DEADLINE

    async def _found_again(self, held: ClusterObject) -> ClusterObject:
        """Return the lease after a conflict: a renewal may have been made though it failed."""
        try:
            return await self._server.get(self._leases, self._name, seconds=LEASE_REQUEST)
        except ClusterError:
            return held

    async def _replaced(
        self, found: ClusterObject, spec: dict[str, Any], seconds: float = LEASE_REQUEST
    ) -> ClusterObject:
        made = {**found, "spec": spec}
        limit = min(seconds, LEASE_REQUEST)
        return await self._server.replace(self._leases, self._name, made, seconds=limit)

    async def _give_back(self, held: ClusterObject) -> None:
        """Let another one begin at once."""
        try:
            found = await self._server.get(self._leases, self._name, seconds=LEASE_REQUEST)
            if found["spec"].get("holderIdentity") == self._identity:
                await self._replaced(found, {**found["spec"], "holderIdentity": ""})
        except ClusterError as error:
            log.warning(LogLine("the lease could not be given back", reason=str(error)))
        self._good_until = 0.0

    def _spec(self, before: ClusterObject) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._wall_clock(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        holder = before.get("holderIdentity")
        is_new = holder != self._identity
        return {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_DURATION,
            "renewTime": now,
            "acquireTime": now if is_new else before.get("acquireTime", now),
            "leaseTransitions": int(before.get("leaseTransitions") or 0)
            + (bool(before) and is_new),
        }

    def _left(self) -> float:
        return max(0.0, self._good_until - self._clock.time())

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            log.info(LogLine("waiting for the lease", lease=self._name, reason=trouble))
        self._trouble = trouble
