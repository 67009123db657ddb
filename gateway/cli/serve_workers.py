"""``partway serve --workers``: its supervisor, and a worker, the process that relays."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from partway.gateway.access.authentication import AuthenticatorError
from partway.gateway.cli.process import run_loop
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.settings.settings import Settings
from partway.gateway.settings_reload import followed
from partway.gateway.timing.clock import LoopClock
from partway.gateway.tls.trust import TlsError
from partway.gateway.workers.link import LinkBroken, WorkerLink
from partway.gateway.workers.messages import TO_WORKER, WorkerRefuses
from partway.gateway.workers.shared_counts import SharedCounts
from partway.gateway.workers.supervision import Supervision, WorkersError
from partway.gateway.workers.supervisor import GatewaySupervisor
from partway.gateway.workers.worker import GatewayWorker
from partway.gateway.workers.worker_order import Descriptors, WorkerOrder
from partway.gateway.workers.workers_setup import WorkersSetup
from partway.log_lines import say_failure

if TYPE_CHECKING:
    from partway.gateway.cli.serve_tls import Tls

log = logging.getLogger("partway.workers")


def supervised(
    serve: Callable[[Settings, WorkersSetup], Coroutine[Any, Any, int]],
    loaded: Settings,
    load: Callable[[], Settings],
) -> int:
    """Supervise a gateway process and its workers; no loop and no thread may run yet.

    Args:
        serve: runs a gateway process, and returns its exit status.
        load: reads the settings anew for each later gateway process.

    Returns:
        The exit status.
    """

    def run_parent(supervision: Supervision) -> int:
        now = loaded
        if not supervision.is_first:
            try:
                now = followed(loaded, load())
            except SettingsError as error:
                say_failure("partway serve", str(error))
                return 2
        return run_loop(serve(now, WorkersSetup(now.workers, supervision)))

    try:
        supervisor = GatewaySupervisor(run_parent, _serve_worker)
    except WorkersError as error:
        say_failure("partway serve", str(error))
        return 1
    return supervisor.run()


def _serve_worker(order: WorkerOrder, descriptors: Sequence[int]) -> int:
    """Run a worker in this process, and return its exit status."""
    return run_loop(_serve(order, Descriptors(order, descriptors)))


async def _serve(order: WorkerOrder, descriptors: Descriptors) -> int:
    link = await WorkerLink.over(descriptors.link, TO_WORKER)
    counts = SharedCounts(descriptors.counts, order.rows, order.row)
    try:
        tls = _tls(order)
        worker = GatewayWorker(order.settings, counts, order.requests, link, order.row)
    except (AuthenticatorError, SettingsError, TlsError) as error:  # a file has changed
        link.send(WorkerRefuses(str(error)))
        async for _ in link.messages():  # the parent ends the link
            pass
        return 1
    loop, supervisor = asyncio.get_running_loop(), os.pidfd_open(os.getppid())
    loop.add_reader(supervisor, partial(_supervisor_ended, worker, supervisor))
    try:
        await worker.run(descriptors.sockets, None if tls is None else tls.reloaded.context)
    except LinkBroken:
        log.exception("a worker cannot understand its parent")
        return 1
    finally:
        loop.remove_reader(supervisor)
        if tls is not None:
            tls.watch.stop()
    return int(worker.end_has_failed)


def _supervisor_ended(worker: GatewayWorker, supervisor: int) -> None:
    asyncio.get_running_loop().remove_reader(supervisor)
    worker.supervisor_ended()


def _tls(order: WorkerOrder) -> Tls | None:
    """Load the certificate, and follow its files."""
    if not order.tls:
        return None
    from partway.gateway.cli.serve_tls import Tls

    tls = Tls(order.settings, LoopClock())
    tls.watch.start()
    return tls
