"""Worker threads that parse and serialise bodies of predictions, with fair turns."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from partway.gateway.access.authentication import Identity
from partway.gateway.http.content_codings import decoded_body
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.peers import peer_of
from partway.gateway.limits import (
    PREDICTION_AT_ONCE,
    PREDICTION_THREADS,
    PREDICTION_TURN_TIMEOUT,
    SHARE_OF_ONE,
)
from partway.gateway.quota import NOBODY, Quota, QuotaFull, QuotaLimits
from partway.gateway.service import Service
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.json.strict import collector_paused
from partway.protocol.prediction.checkpoints import checked_by
from partway.protocol.prediction.work_cost import bytes_cost

if TYPE_CHECKING:
    from partway.gateway.core import Core

_T = TypeVar("_T")
_P = ParamSpec("_P")


class _NotWaitedFor(Exception):
    """The request of the work was cancelled; raised on the work's thread."""


class PredictionWorkers(Service):
    """A few threads, of which no principal takes all; without authentication, no address does.

    A thread that computes keeps the interpreter from the event loop, until the loop asks for it
    (``THREAD_SWITCH_INTERVAL``) or a library returns. So few threads mean a short wait. Work whose
    request is cancelled ends at its next checkpoint and gives its thread to the next.

    Args:
        waiting: the largest number of works that wait for a thread.
        waiting_of_one: the largest number of one owner's waiting works.
    """

    def __init__(
        self, waiting: int, waiting_of_one: int, threads: int = PREDICTION_THREADS
    ) -> None:
        of_one = max(1, threads // SHARE_OF_ONE)
        self._quota = Quota(QuotaLimits(threads, of_one, waiting, waiting_of_one))
        self._threads = ThreadPoolExecutor(threads, "predictions")

    @property
    def busy(self) -> int:
        return self._quota.used

    @property
    def waiting(self) -> int:
        return self._quota.waiting

    def share_of(self, exchange: Exchange, identity: Identity) -> WorkerShare:
        """Return the share that counts a request's work."""
        return WorkerShare(self, exchange, identity)

    async def run(self, owner: str, work: Callable[[], _T]) -> _T:
        """Run work on a thread; see :meth:`WorkerShare.run`."""
        await self._turn(owner)
        unwanted = threading.Event()

        def check() -> None:
            if unwanted.is_set():
                raise _NotWaitedFor

        def worked() -> _T:
            with checked_by(check), collector_paused():
                try:
                    return work()
                except Exception as error:
                    _free_values(error)
                    raise

        try:
            future = self._threads.submit(worked)
        except RuntimeError:  # the gateway has closed
            self._quota.give_back(1, owner)
            raise ServiceUnavailable(
                "the gateway is draining; another one may take the request"
            ) from None
        loop = asyncio.get_running_loop()

        def over(_: Future[_T]) -> None:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                loop.call_soon_threadsafe(self._quota.give_back, 1, owner)

        future.add_done_callback(over)
        try:
            return await asyncio.wrap_future(future)
        finally:
            unwanted.set()

    async def aclose(self) -> None:
        """Accept no more work; running work ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _turn(self, owner: str) -> None:
        try:
            async with asyncio.timeout(PREDICTION_TURN_TIMEOUT):
                await self._quota.claim(1, owner)
        except QuotaFull as full:
            raise ServiceUnavailable(_line_full(full)) from None
        except TimeoutError:
            raise ServiceUnavailable(
                f"the prediction has waited {PREDICTION_TURN_TIMEOUT:g} s for a worker thread, the "
                "longest allowed; try again later, with fewer predictions at once or smaller bodies"
            ) from None


def _free_values(error: BaseException) -> None:
    """Free the local values of the calls that an error and its causes have ended.

    An error keeps all values of these calls, such as a parsed body. The event loop or the collector
    would free the values later, and other requests would wait meanwhile.
    """
    each: BaseException | None = error
    while each is not None:
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__


def _line_full(full: QuotaFull) -> str:
    if full.owner:
        return (
            f"{full.owner} has {full.used} predictions waiting for a worker thread, the most for "
            "one sender (max_requests_per_principal); send fewer at once, or try again later"
        )
    return (
        f"{full.used} predictions are waiting for a worker thread, the most for this gateway "
        "(max_requests); try again later"
    )


class WorkerShare:
    """One request's access to the workers; made by :meth:`PredictionWorkers.share_of`."""

    __slots__ = ("_exchange", "_identity", "_workers")

    def __init__(self, workers: PredictionWorkers, exchange: Exchange, identity: Identity) -> None:
        self._workers = workers
        self._exchange = exchange
        self._identity = identity

    async def run(
        self, cost: int, work: Callable[_P, _T], *args: _P.args, **options: _P.kwargs
    ) -> _T:
        """Run work: cheap work at once, other work on a thread.

        The cost is in elements; see :mod:`partway.protocol.prediction.work_cost`. The work calls
        ``checkpoint()`` of :mod:`partway.protocol.prediction.checkpoints` between its blocks.

        Raises:
            ServiceUnavailable: too many works wait, or no thread was free in time.
            Exception: what the work raised.
        """
        if cost <= PREDICTION_AT_ONCE:
            return work(*args, **options)
        return await self._workers.run(self._owner, lambda: work(*args, **options))

    async def decoded_body(self, limit: int) -> bytes:
        """Return the request's whole body; see :func:`~.content_codings.decoded_body`."""
        run = partial(self.run, bytes_cost(limit))
        return await decoded_body(self._exchange, limit, run)

    @property
    def _owner(self) -> str:
        """The owner of the share; a trusted proxy stands for many clients and owns none."""
        if self._identity.principal is not None:
            return f"principal {self._identity.principal!r}"
        exchange = self._exchange
        return NOBODY if exchange.visitor.trusted else f"address {peer_of(exchange.peer)}"


def prediction_workers(core: Core) -> PredictionWorkers:
    settings = core.settings
    return PredictionWorkers(settings.max_requests, settings.requests_per_principal)
