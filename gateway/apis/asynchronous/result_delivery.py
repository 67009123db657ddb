"""The end of an asynchronous request: its result is stored, recorded and announced."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

from partway.gateway.apis.asynchronous.journal import NOTICE, REQUEST, Journal
from partway.gateway.apis.asynchronous.limits import (
    PUT_PAUSES,
    PUT_TRIES,
    PUT_TURN_INTERVAL,
    PUT_TURN_TIMEOUT,
)
from partway.gateway.apis.asynchronous.locations import Locations
from partway.gateway.apis.asynchronous.metrics import AsyncMetrics
from partway.gateway.apis.asynchronous.notices import Notice, Notices, notice_of
from partway.gateway.apis.asynchronous.output_permissions import OutputPermissions
from partway.gateway.apis.asynchronous.requests import (
    AsyncAnswer,
    AsyncRequest,
    AttemptFailed,
    FailureCause,
)
from partway.gateway.plain_text import cut
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.storage.store.store import Record, Removal
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine
from partway.protocol.limits import LOGGED_CHARACTERS

log = logging.getLogger("partway.async")


class ResultDelivery:
    """Stores the results of requests.

    A result is stored before the end is recorded. If a gateway is killed between the two, the
    request runs again, and the new result replaces the first.

    Args:
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        locations: Locations,
        journal: Journal,
        notices: Notices,
        leave: OutputPermissions,
        metrics: AsyncMetrics,
        clock: Clock,
        wall_clock: Callable[[], float],
        region: str,
    ) -> None:
        self._locations = locations
        self._journal = journal
        self._notices = notices
        self._leave = leave
        self._metrics = metrics
        self._clock = clock
        self._wall_clock = wall_clock
        self._region = region

    async def put_away(
        self,
        request: AsyncRequest,
        end: AsyncAnswer | AttemptFailed,
        then: Callable[[], object],
    ) -> None:
        """Store a result at its location, and record the end.

        Args:
            then: called once the end is recorded.
        """
        if isinstance(end, AsyncAnswer):
            try:
                self._leave.check_answer(request)
                await self._put(request.output, end)
            except AttemptFailed as refused:
                end = refused
            except StorageFailed as error:
                words = f"The answer could not be stored: {error}."
                end = AttemptFailed(FailureCause.OUTPUT, words)
        if isinstance(end, AttemptFailed):
            await self._say_failure(request, end)
        self._metrics.ended(request.endpoint, end.cause if isinstance(end, AttemptFailed) else None)
        notice = notice_of(request, end, self._region, self._wall_clock())
        changes: list[Record | Removal] = [Removal(REQUEST, request.id)]
        if notice is not None:
            changes.append(Record(NOTICE, notice.id, notice.body()))

        def written() -> None:
            if notice is not None:
                self._notices.add(notice)
            then()

        self._journal.write_surely(*changes, then=written)

    def notice_is_over(self, notice: Notice, delivered: bool) -> None:
        self._metrics.noticed(delivered=delivered)
        self._journal.write_surely(Removal(NOTICE, notice.id), then=lambda: None)

    async def _say_failure(self, request: AsyncRequest, failure: AttemptFailed) -> None:
        line = "an asynchronous request has no answer"
        reason = cut(failure.message, LOGGED_CHARACTERS)
        whose = {"request": request.id, "endpoint": request.endpoint}
        log.warning(LogLine(line, **whose, cause=str(failure.cause), reason=reason))
        if not request.failure:
            return
        said = {
            "ErrorCode": str(failure.cause),
            "Message": failure.message,
            **failure.members,
            "InferenceId": request.inference_id,
            "EndpointName": request.endpoint,
        }
        text = json.dumps(said).encode()
        why = self._leave.refusal_to_put(request.maker, request.failure)
        if not why:
            try:
                await self._put(request.failure, AsyncAnswer(text, len(text), "application/json"))
            except StorageFailed as error:
                why = str(error)
        if why:
            line = "the failure report of a request could not be stored"
            log.warning(LogLine(line, **whose, reason=why))

    async def _put(self, location: str, answer: AsyncAnswer) -> None:
        tries, until = 0, self._clock.time() + PUT_TURN_TIMEOUT
        while True:
            try:
                await self._locations.put(location, answer)
            except StorageFailed as error:
                waits = error.has_waited and self._clock.time() < until
                tries += not waits
                if not error.passing or tries == PUT_TRIES:
                    raise
            else:
                return
            await pause(self._clock, PUT_TURN_INTERVAL if waits else PUT_PAUSES[tries - 1])
