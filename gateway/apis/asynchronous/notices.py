"""Notices of what became of requests, to webhooks where AWS has SNS.

A topic's webhook is the operator's to set, and nobody else's: a caller of the API names a topic and
no address.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from partway.gateway.apis.asynchronous.limits import (
    NOTICE_PAUSES,
    NOTICE_TRIES,
    NOTICES,
    NOTICES_AT_ONCE,
    NOTICES_OF_ONE,
)
from partway.gateway.apis.asynchronous.output_permissions import OutputPermissions
from partway.gateway.apis.asynchronous.requests import (
    AsyncAnswer,
    AsyncRequest,
    AttemptFailed,
    FailureCause,
)
from partway.gateway.quota import Quota, QuotaFull, QuotaLimits
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

if TYPE_CHECKING:
    from partway.gateway.apis.asynchronous.webhook_client import WebhookClient

log = logging.getLogger("partway.async")


@dataclass(frozen=True, slots=True)
class Notice:
    """What a topic is to hear of one request.

    Attributes:
        id: the request's.
        topic: the topic's ARN.
        message: what SNS has as a message's text: an object of JSON.
        time: when it was made, in epoch seconds.
        maker: the principal that named the topic; empty if it is unknown.
    """

    id: str
    topic: str
    message: str
    time: float
    maker: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """The notice that :meth:`body` was made of."""
        return cls(**body)

    def body(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return asdict(self)


def notice_of(
    request: AsyncRequest, end: AsyncAnswer | AttemptFailed, region: str, now: float
) -> Notice | None:
    """What a topic is to hear of a request's end; None if none is to.

    Args:
        request: the request.
        end: its answer, or why it has none.
        region: AWS's name of the region.
        now: epoch seconds.
    """
    failed = isinstance(end, AttemptFailed)
    topic = request.on_failure if failed else request.on_success
    if not topic:
        return None
    asked = {
        "contentType": request.headers.get("Content-Type", ""),
        "endpointName": request.endpoint,
        "inputLocation": request.input,
    }
    message: dict[str, Any] = {
        "awsRegion": region,
        "eventTime": _moment(now),
        "receivedTime": _moment(request.received),
        "invocationStatus": "Failed" if failed else "Completed",
        "requestParameters": {key: value for key, value in asked.items() if value},
        "inferenceId": request.inference_id,
        "eventVersion": "1.0",
        "eventSource": "aws:sagemaker",
        "eventName": "InferenceResult",
    }
    if isinstance(end, AttemptFailed):
        message["failureReason"] = f"{end.cause}: {_reason(end)}"
        if request.failure:
            message["responseParameters"] = {"outputLocation": request.failure}
    else:
        answered = {"contentType": end.content_type, "outputLocation": request.output}
        message["responseParameters"] = {key: value for key, value in answered.items() if value}
    return Notice(request.id, topic, json.dumps(message), now, request.maker)


def _reason(failure: AttemptFailed) -> str:
    """Why there is no answer; what a container says of it may be of the payload."""
    if failure.cause is FailureCause.MODEL:
        return f"the container answered with status {failure.members.get('OriginalStatusCode', 0)}"
    return failure.message


class Notices:
    """Delivers notices: each at least once, or so often that it is given up.

    Args:
        webhooks: addresses by topics' ARNs.
        leave: says whether a notice may be published.
        clock: measures the times.
        on_over: called with a notice that was delivered, or given up, and which.
    """

    def __init__(
        self,
        webhooks: Mapping[str, str],
        leave: OutputPermissions,
        clock: Clock,
        on_over: Callable[[Notice, bool], object],
    ) -> None:
        self._webhooks = webhooks
        self._leave = leave
        self._clock = clock
        self._on_over = on_over
        self._waiting = Quota(QuotaLimits(NOTICES, NOTICES_OF_ONE))
        self._turns = {topic: asyncio.Semaphore(NOTICES_AT_ONCE) for topic in webhooks}
        self._tasks: set[asyncio.Task[None]] = set()
        self._webhook_client: WebhookClient | None = None
        self._closed = False
        if webhooks:
            # Now, when nobody waits for the loop, and for those alone who have a webhook: 0.2 s.
            from partway.gateway.apis.asynchronous.webhook_client import WebhookClient

            self._webhook_client = WebhookClient(clock)

    def add(self, notice: Notice) -> None:
        """Deliver a notice; where too many wait it is given up.

        Behind :meth:`aclose` it stays written down, and the next gateway delivers it.
        """
        if self._closed:
            return
        topic = notice.topic
        if topic not in self._webhooks:
            self._given_up(notice, "no webhook is set for the topic ([api.topics])")
            return
        try:
            self._waiting.take(1, topic)
        except QuotaFull:
            used, of_it = self._waiting.used, self._waiting.used_by(topic)
            self._given_up(notice, f"{used} notices wait already, {of_it} of them for it")
            return
        task = asyncio.create_task(self._deliver(notice), name="notice of a request's end")
        self._tasks.add(task)
        task.add_done_callback(partial(self._over, topic))

    async def aclose(self) -> None:
        """Deliver nothing more; what is left stays written down."""
        self._closed = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._webhook_client is not None:
            await self._webhook_client.aclose()

    def _over(self, topic: str, task: asyncio.Task[None]) -> None:
        self._waiting.give_back(1, topic)
        self._tasks.discard(task)

    async def _deliver(self, notice: Notice) -> None:
        assert self._webhook_client is not None, "the topic has a webhook"
        url = self._webhooks[notice.topic]
        why = ""
        for number in range(NOTICE_TRIES):
            if number:
                await pause(self._clock, NOTICE_PAUSES[number - 1])
            async with self._turns[notice.topic]:
                why = self._leave.refusal_to_publish(notice.maker, notice.topic)
                if why:
                    break
                why = await self._webhook_client.post(url, _as_sns(notice), _heads(notice))
            if not why:
                self._on_over(notice, True)
                return
        self._given_up(notice, why)

    def _given_up(self, notice: Notice, why: str) -> None:
        line = "a notice is given up"
        log.warning(LogLine(line, topic=notice.topic, request=notice.id, reason=why))
        self._on_over(notice, False)


def _as_sns(notice: Notice) -> bytes:
    """The body of SNS's own request; no signature of AWS's is in it."""
    body = {
        "Type": "Notification",
        "MessageId": _message_id(notice),
        "TopicArn": notice.topic,
        "Message": notice.message,
        "Timestamp": _moment(notice.time),
    }
    return json.dumps(body).encode()


def _heads(notice: Notice) -> dict[str, str]:
    return {
        "Content-Type": "text/plain; charset=UTF-8",  # as SNS's
        "x-amz-sns-message-type": "Notification",
        "x-amz-sns-message-id": _message_id(notice),
        "x-amz-sns-topic-arn": notice.topic,
    }


def _message_id(notice: Notice) -> str:
    """The same for each time that it is delivered, so that who hears it twice can tell."""
    parts = (notice.id[:8], notice.id[8:12], notice.id[12:16], notice.id[16:20], notice.id[20:])
    return "-".join(parts)


def _moment(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
