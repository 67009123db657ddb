"""A worker of ``partway serve --workers``: the process that relays."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from partway.gateway.access.authentication import AuthenticatorError
from partway.gateway.cli.process import run_loop
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.timing.clock import LoopClock
from partway.gateway.tls.trust import TlsError
from partway.gateway.workers.front import WorkersSetup
from partway.gateway.workers.link import LinkBroken, WorkerLink
from partway.gateway.workers.messages import TO_WORKER, WorkerRefuses
from partway.gateway.workers.nursery import Nursery
from partway.gateway.workers.shared_counts import SharedCounts
from partway.gateway.workers.slot import Descriptors, WorkerOrder
from partway.gateway.workers.worker import GatewayWorker

if TYPE_CHECKING:
    from partway.gateway.cli.serve_tls import Tls

log = logging.getLogger("partway.workers")


def prepared_workers(number: int) -> WorkersSetup:
    """Fork the nursery; no loop and no thread may run yet."""
    return WorkersSetup(number, Nursery.start(_serve_worker))


def _serve_worker(order: WorkerOrder, descriptors: Sequence[int]) -> int:
    """Run a worker in this process, and return its exit status."""
    return run_loop(_serve(order, Descriptors(order, descriptors)))


async def _serve(order: WorkerOrder, descriptors: Descriptors) -> int:
    link = await WorkerLink.over(descriptors.link, TO_WORKER)
    counts = SharedCounts(descriptors.counts, order.rows, order.row)
    try:
        tls = _tls(order)
        worker = GatewayWorker(order.settings, counts, order.requests, link)
    except (AuthenticatorError, SettingsError, TlsError) as error:  # a file has changed
        link.send(WorkerRefuses(str(error)))
        async for _ in link.messages():  # the parent ends the link
            pass
        return 1
    try:
        await worker.run(descriptors.sockets, None if tls is None else tls.reloaded.context)
    except LinkBroken:
        log.exception("a worker cannot understand its parent")
        return 1
    finally:
        if tls is not None:
            tls.watch.stop()
    return int(worker.end_has_failed)


def _tls(order: WorkerOrder) -> Tls | None:
    """Load the certificate, and follow its files."""
    if not order.tls:
        return None
    from partway.gateway.cli.serve_tls import Tls

    tls = Tls(order.settings, LoopClock())
    tls.watch.start()
    return tls
