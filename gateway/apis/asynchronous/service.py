"""All that asynchronous requests take, put together: from the spool to the notices."""

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

    Attributes:
        worker: takes them.

    Args:
        settings: of the gateway.
        folder: of answers on their way; nobody else's.
        store: where requests are written down with their bodies.
        invocations: asks instances.
        config_of: what an endpoint's configuration says of such requests; None where there is no
            such endpoint, or it takes none.
        instances_of: how many instances of an endpoint take requests now.
        roots: below which inputs of this machine may be, by the settings of the moment.
        results: below which answers may be put on this machine.
        taken_away: the action that a request's sender has no leave for any more; empty if there is
            none.
        leave: says whether answers may be put away, and notices published.
        registry: where metrics are exposed.
        clock: measures times.
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
        """Go on with what another gateway has left, and take requests from now on.

        Raises:
            StoreUnavailable: the disk refuses that now; this may be called again.
            StoreError: that cannot be read.
        """
        notices = [value_of(Notice.of, each) for each in await self._journal.records(NOTICE)]
        try:
            await self.worker.start()
        except OSError as error:
            raise StoreUnavailable(
                f"{error.filename or self._folder}: what asynchronous requests have left there "
                f"cannot be read: {error.strerror or error}; look at the disk, or name another "
                "folder with --data-dir DIR"
            ) from None
        self._journal.start()
        for each in notices:
            self._notices.add(each)

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self.worker.hasten()

    async def drain(self, grace: float) -> None:
        """Take nothing new; what has not ended after ``grace`` seconds stays written down."""
        await self.worker.drain(grace)
        await self._notices.aclose()
        await self._journal.aclose()
        await self.worker.aclose()

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Forget what was counted of all other endpoints, which are no more."""
        self._metrics.keep_only(endpoints)
