"""The service of asynchronous requests, which connects all parts from the spool to the notices."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from prometheus_client import CollectorRegistry

from partway.gateway.apis.asynchronous.executor import RequestExecutor
from partway.gateway.apis.asynchronous.inference_config import AsyncConfig
from partway.gateway.apis.asynchronous.journal import NOTICE, Journal, value_of
from partway.gateway.apis.asynchronous.locations import Locations
from partway.gateway.apis.asynchronous.metrics import AsyncMetrics
from partway.gateway.apis.asynchronous.notices import Notice, Notices
from partway.gateway.apis.asynchronous.output_permissions import OutputPermissions
from partway.gateway.apis.asynchronous.request_queue import WaitingLimits
from partway.gateway.apis.asynchronous.requests import AsyncRequest
from partway.gateway.apis.asynchronous.result_delivery import ResultDelivery
from partway.gateway.apis.asynchronous.spool import Spool
from partway.gateway.apis.asynchronous.worker import AsyncWorker
from partway.gateway.containers.invocation import Invocations
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.store.store import Store, StoreUnavailable
from partway.gateway.timing.clock import Clock


class AsyncService:
    """The asynchronous requests of one gateway.

    Args:
        folder: the folder of large answers, for this service alone.
        instances_of: returns the number of an endpoint's instances that take requests now.
        roots: returns the folders that may hold inputs on this machine, from the current settings.
        results: the folders that may hold answers on this machine.
        taken_away: returns an action that a request's sender is not permitted any longer; empty if
            every action is still permitted.
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        store: Store,
        invocations: Invocations,
        config_of: Callable[[str], AsyncConfig | None],
        instances_of: Callable[[str], int],
        roots: Callable[[], LocalRoots],
        results: LocalRoots,
        taken_away: Callable[[AsyncRequest], str],
        leave: OutputPermissions,
        registry: CollectorRegistry,
        clock: Clock,
        wall_clock: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._journal = Journal(store, clock)
        spool = Spool(folder, settings.async_quota, clock)
        locations = Locations(clock, roots, results)
        self._notices = Notices(
            settings.topics, leave, clock, lambda *over: self._delivery.notice_is_over(*over)
        )
        self._metrics = AsyncMetrics(
            registry,
            lambda: self.worker.waiting,
            lambda: self.worker.running,
            lambda: spool.used,
        )
        self._delivery = ResultDelivery(
            locations,
            self._journal,
            self._notices,
            leave,
            self._metrics,
            clock,
            wall_clock,
            settings.region,
        )
        self.worker = AsyncWorker(
            RequestExecutor(invocations, locations, self._journal, spool, clock, taken_away, leave),
            self._delivery,
            self._journal,
            spool,
            WaitingLimits(settings.max_async_requests, settings.async_requests_of_one),
            config_of,
            instances_of,
            clock,
            wall_clock,
        )

    async def start(self) -> None:
        """Resume the requests of an earlier gateway, and accept new requests.

        Raises:
            StoreUnavailable: the disk refuses now; call this again.
            StoreError: the records cannot be read.
        """
        notices = [value_of(Notice.of, each) for each in await self._journal.records(NOTICE)]
        try:
            await self.worker.start()
        except OSError as error:
            raise StoreUnavailable(
                f"{error.filename or self._folder}: the leftover files of asynchronous "
                f"requests cannot be removed: {error.strerror or error}; look at the disk, or "
                "name another folder with --data-dir DIR"
            ) from None
        self._journal.start()
        for each in notices:
            self._notices.add(each)

    def hasten(self) -> None:
        self.worker.hasten()

    async def drain(self, grace: float) -> None:
        """Accept no new requests; requests that run after ``grace`` seconds stay in the store."""
        await self.worker.drain(grace)
        await self._notices.aclose()
        await self._journal.aclose()
        await self.worker.aclose()

    def keep_only(self, endpoints: Collection[str]) -> None:
        self._metrics.keep_only(endpoints)
