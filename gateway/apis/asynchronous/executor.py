"""One try of an asynchronous request: its body to an instance, and the whole answer back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from partway.gateway.access.authentication import ANYBODY
from partway.gateway.apis.asynchronous.journal import REQUEST, Journal
from partway.gateway.apis.asynchronous.limits import (
    ANSWER_BYTES,
    FAILURE_BYTES,
    INPUT_BYTES,
    PIECE_BYTES,
)
from partway.gateway.apis.asynchronous.locations import Locations
from partway.gateway.apis.asynchronous.output_permissions import OutputPermissions
from partway.gateway.apis.asynchronous.requests import (
    AsyncAnswer,
    AsyncRequest,
    AttemptFailed,
    FailureCause,
    NoInstance,
)
from partway.gateway.apis.asynchronous.spool import Spool
from partway.gateway.apis.asynchronous.spool_quota import SpoolFull
from partway.gateway.containers.invocation import Invocation, Invocations
from partway.gateway.containers.prepared_request import PreparedRequest
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.storage.store.store import StoreError
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine
from partway.protocol.errors import (
    ApiError,
    ContainerError,
    InputValidationError,
    ServiceUnavailable,
    UnknownEndpoint,
)
from partway.protocol.http.content_codings import CONTENT_ENCODING

log = logging.getLogger("partway.async")

#: Seconds by which the container's time limit exceeds the try's limit. So the try's limit ends
#: both, and the failure is reported as the try's.
_BEHIND_THE_TRY = 5.0


class RequestExecutor:
    """Makes single tries of requests.

    Args:
        taken_away: returns an action that the request's sender was permitted at the request and is
            not permitted now; empty if every action is still permitted.
    """

    def __init__(
        self,
        invocations: Invocations,
        locations: Locations,
        journal: Journal,
        spool: Spool,
        clock: Clock,
        taken_away: Callable[[AsyncRequest], str],
        leave: OutputPermissions,
    ) -> None:
        self._invocations = invocations
        self._locations = locations
        self._journal = journal
        self._spool = spool
        self._clock = clock
        self._taken_away = taken_away
        self._leave = leave

    async def once(self, request: AsyncRequest) -> AsyncAnswer:
        """Call an instance, and return its whole answer.

        Raises:
            NoInstance: no instance takes the request now, or no thread can read its input yet.
            AttemptFailed: there is no answer; the message says why.
        """
        action = self._taken_away(request)
        if action:
            words = (
                f"The request's sender lost the permission for {action} while the request waited."
            )
            raise AttemptFailed(FailureCause.ACCESS, words)
        self._leave.check_answer(request)
        try:
            async with time_limit(self._clock, request.within):
                return await self._asked(request, await self._body_of(request))
        except TimeoutError:
            raise AttemptFailed(
                FailureCause.TIMED_OUT,
                f"The request did not end within {request.within:g} s (InvocationTimeoutSeconds).",
            ) from None
        except UnknownEndpoint as error:
            raise AttemptFailed(FailureCause.ENDPOINT_GONE, error.message) from None
        except ServiceUnavailable as error:
            raise NoInstance(error.message) from None
        except ContainerError as error:
            raise _of_the_model(error) from None
        except InputValidationError as error:
            raise AttemptFailed(FailureCause.INPUT, error.message) from None
        except ApiError as error:
            raise AttemptFailed(FailureCause.INTERNAL, error.message) from error
        except StorageFailed as error:
            if error.has_waited:
                raise NoInstance(str(error)) from None
            raise AttemptFailed(FailureCause.INPUT, f"{error}.", passing=error.passing) from error
        except SpoolFull as error:
            raise AttemptFailed(FailureCause.NO_ROOM, f"{error}.", passing=True) from None
        except OSError as error:
            words = f"The gateway's disk failed: {error.strerror or error}."
            raise AttemptFailed(FailureCause.NO_ROOM, words, passing=True) from error

    async def _body_of(self, request: AsyncRequest) -> PreparedRequest:
        if request.is_inline:
            body = await self._stored_body(request.id)
            return PreparedRequest(body, request_id=request.id)
        found = await self._locations.look(request.input)
        return PreparedRequest(
            partial(self._locations.pieces, found), found.size, request_id=request.id
        )

    async def _stored_body(self, whose: str) -> bytes:
        try:
            body = await self._journal.attachment(REQUEST, whose)
        except StoreError as error:
            line = "a request's body cannot be read"
            log.warning(LogLine(line, request=whose, reason=str(error)))
            words = (
                "The gateway cannot read the request's body from its store; its log has the reason."
            )
            raise AttemptFailed(FailureCause.INTERNAL, words, passing=True) from error
        if not body:
            words = (
                "The gateway's store does not have the request's body, perhaps because an "
                "earlier version accepted the request. Send it again."
            )
            raise AttemptFailed(FailureCause.INPUT, words)
        return body

    async def _asked(self, request: AsyncRequest, body: PreparedRequest) -> AsyncAnswer:
        async with self._invocations.answered(
            *(body, ANYBODY, request.endpoint, request.headers),
            most_bytes=INPUT_BYTES,
            within=request.within + _BEHIND_THE_TRY,
        ) as invoked:
            return await self._whole(request, invoked)

    async def _whole(self, request: AsyncRequest, invoked: Invocation) -> AsyncAnswer:
        """Read the whole answer: a small one into memory, a large one into the spool."""
        await self._spool.drop_answer(request.id)
        held, file, size = bytearray(), None, 0
        while more := await invoked.answer.read():
            size += len(more)
            if size > ANSWER_BYTES:
                raise AttemptFailed(
                    FailureCause.ANSWER,
                    f"The model's answer is too large; it must have at most {ANSWER_BYTES} bytes.",
                )
            held += more
            if len(held) >= PIECE_BYTES:
                file, held = await self._append(request, held), bytearray()
        if file is not None and held:
            file = await self._append(request, held)
        content = bytes(held) if file is None else file
        headers = invoked.head.headers
        content_type, coding = headers.get("Content-Type", ""), headers.get(CONTENT_ENCODING, "")
        return AsyncAnswer(content, size, content_type, coding)

    async def _append(self, request: AsyncRequest, held: bytearray) -> Path:
        return await self._spool.append_answer(request, bytes(held))


def _of_the_model(error: ContainerError) -> AttemptFailed:
    """Return a container's failure, in the words of InvokeEndpoint.

    A 4xx status is lasting: the same request would fail again.
    """
    status = error.members["OriginalStatusCode"]
    is_the_clients = isinstance(status, int) and 400 <= status < 500
    said = str(error.members["OriginalMessage"])[:FAILURE_BYTES]
    members = {
        "OriginalStatusCode": status,
        "OriginalMessage": said,
        "LogStreamArn": error.members["LogStreamArn"],
    }
    passing = not is_the_clients and "x-partway-retry" not in error.headers
    return AttemptFailed(FailureCause.MODEL, error.message, passing=passing, members=members)
