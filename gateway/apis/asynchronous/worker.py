"""The life of asynchronous requests, from acceptance to their end."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from partway.gateway.apis.asynchronous.executor import RequestExecutor
from partway.gateway.apis.asynchronous.inference_config import AsyncConfig
from partway.gateway.apis.asynchronous.journal import REQUEST, Journal, value_of
from partway.gateway.apis.asynchronous.limits import (
    ENDINGS_AT_ONCE,
    FILES_END_TIMEOUT,
    LOOK_INTERVAL,
    TRIES,
    TRY_PAUSES,
)
from partway.gateway.apis.asynchronous.request_queue import (
    RunningRequests,
    WaitingLimits,
    WaitingRequests,
)
from partway.gateway.apis.asynchronous.requests import (
    AsyncAnswer,
    AsyncRequest,
    AttemptFailed,
    FailureCause,
    NoInstance,
)
from partway.gateway.apis.asynchronous.result_delivery import ResultDelivery
from partway.gateway.apis.asynchronous.spool import Spool
from partway.gateway.apis.asynchronous.spool_quota import SpoolFull
from partway.gateway.storage.store.store import Record, StoreError
from partway.gateway.timing.clock import Clock, Timer
from partway.gateway.timing.deadlines import first_of, set_or_over
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, InternalServerError, ServiceUnavailable

log = logging.getLogger("partway.async")


class AsyncWorker:
    """Accepts requests, has each tried, and ends it.

    Args:
        config_of: returns an endpoint's settings for asynchronous requests; None if there is no
            such endpoint now, or it takes no such requests.
        instances_of: returns the number of an endpoint's instances that take requests now.
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        executor: RequestExecutor,
        delivery: ResultDelivery,
        journal: Journal,
        spool: Spool,
        limits: WaitingLimits,
        config_of: Callable[[str], AsyncConfig | None],
        instances_of: Callable[[str], int],
        clock: Clock,
        wall_clock: Callable[[], float],
    ) -> None:
        self._executor = executor
        self._delivery = delivery
        self._journal = journal
        self._spool = spool
        self._waiting = WaitingRequests(limits)
        self._config_of = config_of
        self._instances_of = instances_of
        self._clock = clock
        self._wall_clock = wall_clock
        self._configs: dict[str, AsyncConfig | None] = {}
        self._running = RunningRequests()
        self._tries: Counter[str] = Counter()
        self._ending = asyncio.Semaphore(ENDINGS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._hastened = asyncio.Event()
        self._timer: Timer | None = None
        self._working: asyncio.Task[None] | None = None
        self._draining = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return self._running.total

    # --- Start, acceptance and end ---------------------------------------------------------------

    async def start(self) -> None:
        """Resume the requests that an earlier gateway accepted, and start to work.

        Raises:
            StoreError: the records cannot be read.
            OSError: the folder of answers cannot be used.
        """
        found = [value_of(AsyncRequest.of, each) for each in await self._journal.records(REQUEST)]
        await self._spool.take_over(found)
        for request in sorted(found, key=lambda each: each.received):
            self._waiting.found(request.endpoint, request.sender)
            self._waiting.add(request)
        if found:
            log.info(LogLine("asynchronous requests continue", requests=len(found)))
        self._working = asyncio.create_task(self._work(), name="asynchronous requests")
        self._news.set()

    async def accept(self, request: AsyncRequest, body: bytes) -> None:
        """Accept a request, which then comes to its end even if the process is killed.

        Args:
            body: the request's own body, of the request's ``length``.

        Raises:
            ServiceUnavailable: a limit is reached, or the gateway stops.
            InternalServerError: the disk refuses the request.
        """
        if self._draining:
            raise _draining()
        if self._working is None:
            raise NotWritten("the disk has not returned the stored requests yet")
        self._waiting.take_place(request.endpoint, request.sender)
        # The task ends even if the client leaves: a half-stored request would have no owner.
        task = self._own(self._write_down(request, body))
        await asyncio.wait((task,))
        if task.cancelled():
            raise _draining()
        task.result()

    def hasten(self) -> None:
        """Cut the drain short: a second signal."""
        self._hastened.set()

    async def drain(self, grace: float) -> None:
        """Accept and begin nothing new; running requests may end.

        Args:
            grace: seconds for running requests. Requests that have not ended by then stay in the
                store unchanged, and the next gateway begins them again.
        """
        self._draining = True
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait((self._working,))
        if self._timer is not None:
            self._timer.cancel()
        grace_over = self._clock.call_later(grace, self._hastened.set)
        try:
            await first_of(self._idle, self._hastened)
        finally:
            grace_over.cancel()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def aclose(self) -> None:
        """Remove the files of ended requests within FILES_END_TIMEOUT.

        Call this after the journal's end. The next gateway removes the remaining files.
        """
        await set_or_over(self._idle, self._clock, FILES_END_TIMEOUT)
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _write_down(self, request: AsyncRequest, body: bytes) -> None:
        try:
            if request.is_inline:
                await self._spool.take_room(request)
            record = Record(REQUEST, request.id, request.body(), body)
            await self._journal.write(record, then=lambda: self._wait_for_turn(request))
        except BaseException as error:
            self._leave(request)
            match error:
                case SpoolFull():
                    raise ServiceUnavailable(str(error)) from None
                case StoreError() | OSError():
                    raise NotWritten(str(error)) from error
            raise

    def _wait_for_turn(self, request: AsyncRequest) -> None:
        self._waiting.add(request)
        self._news.set()

    def _leave(self, request: AsyncRequest) -> None:
        self._waiting.leave_place(request.endpoint, request.sender)
        self._tries.pop(request.id, None)
        self._own(self._drop_files(request))

    async def _drop_files(self, request: AsyncRequest) -> None:
        try:
            await self._spool.drop(request.id)
        except OSError as error:  # the next gateway removes them
            line = "the files of a request could not be removed"
            log.warning(LogLine(line, request=request.id, reason=error.strerror or str(error)))

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name="an asynchronous request")
        self._tasks.add(task)
        self._idle.clear()
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._idle.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            level = logging.ERROR if not isinstance(error, ApiError) else logging.DEBUG
            log.log(level, "a request's work failed", exc_info=error)

    # --- Scheduling ------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Begin the requests that may begin, and end expired ones, whenever something changes."""
        while True:
            await self._news.wait()
            self._news.clear()
            if self._timer is None:  # no check has been made for LOOK_INTERVAL
                self._configs.clear()
                self._end_hopeless()
            while request := self._whose_turn_it_is():
                self._running.begin(request.endpoint, request.sender)
                self._own(self._run(request))
            if len(self._waiting) and self._timer is None:
                self._timer = self._clock.call_later(LOOK_INTERVAL, self._look_again)

    def _whose_turn_it_is(self) -> AsyncRequest | None:
        now, may_send = self._clock.time(), self._running.may_send_one_more
        return self._waiting.next(now, self._may_have_one_more, may_send)

    def _look_again(self) -> None:
        self._timer = None
        self._news.set()

    def _end_hopeless(self) -> None:
        now = self._wall_clock()
        for request in self._waiting.taken_out(lambda each: each.expires <= now):
            seconds = request.expires - request.received
            words = f"The request expired: it waited for {seconds:g} s (RequestTTLSeconds)."
            self._own(self._end_in_turn(request, AttemptFailed(FailureCause.EXPIRED, words)))
        gone = {each for each in self._waiting.endpoints if self._config(each) is None}
        for request in self._waiting.taken_out(lambda each: each.endpoint in gone) if gone else ():
            words = (
                f"The endpoint {request.endpoint!r} takes no asynchronous requests now: it was "
                "deleted, has no AsyncInferenceConfig, or is defined in the gateway's settings."
            )
            failure = AttemptFailed(FailureCause.ENDPOINT_GONE, words)
            self._own(self._end_in_turn(request, failure))

    def _may_have_one_more(self, endpoint: str) -> bool:
        config = self._config(endpoint)
        if config is None:
            return False
        most = self._instances_of(endpoint) * config.per_instance
        return self._running.may_have_one_more(endpoint, most)

    def _config(self, endpoint: str) -> AsyncConfig | None:
        """Return an endpoint's settings, which are at most LOOK_INTERVAL old."""
        if endpoint not in self._configs:
            self._configs[endpoint] = self._config_of(endpoint)
        return self._configs[endpoint]

    # --- One request -----------------------------------------------------------------------------

    async def _run(self, request: AsyncRequest) -> None:
        """Try a request; it keeps its slot until an answer is stored."""
        try:
            end = await self._tried(request)
            if isinstance(end, AsyncAnswer):
                await self._end(request, end)
        finally:
            self._running.end(request.endpoint, request.sender)
            self._news.set()
        if isinstance(end, AttemptFailed):
            await self._end_in_turn(request, end)

    async def _tried(self, request: AsyncRequest) -> AsyncAnswer | AttemptFailed | None:
        """Try a request; return None if it is to be tried again."""
        try:
            return await self._executor.once(request)
        except NoInstance:
            self._waiting.add_later(request, self._clock.time() + LOOK_INTERVAL)
            return None
        except AttemptFailed as failure:
            self._tries[request.id] += 1
            tries = self._tries[request.id]
            if not failure.passing or tries >= TRIES:
                return failure
            self._waiting.add_later(request, self._clock.time() + TRY_PAUSES[tries - 1])
            return None
        except Exception:  # an unexpected exception becomes a failure too
            log.exception(LogLine("an asynchronous request failed", request=request.id))
            words = "The gateway failed; its log has the reason."
            return AttemptFailed(FailureCause.INTERNAL, words)

    async def _end_in_turn(self, request: AsyncRequest, end: AttemptFailed) -> None:
        async with self._ending:
            await self._end(request, end)

    async def _end(self, request: AsyncRequest, end: AsyncAnswer | AttemptFailed) -> None:
        await self._delivery.put_away(request, end, lambda: self._leave(request))


def _draining() -> ServiceUnavailable:
    return ServiceUnavailable("the gateway is draining; another one may take the request")


class NotWritten(InternalServerError):
    """A request cannot be stored, so it is refused.

    Args:
        why: the reason, for the operator's log.
    """

    def __init__(self, why: str) -> None:
        super().__init__("the gateway cannot store the request; its log has the reason")
        self._why = why

    @property
    def for_operator(self) -> str:
        return f"an asynchronous request cannot be stored: {self._why}"
