"""Notices about ended requests, which go to webhooks where AWS uses SNS.

Only the operator sets a topic's webhook. Callers of the API name a topic, and never an address.
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
    """A notice to a topic about one request.

    Attributes:
        id: the id of the request.
        topic: the ARN of the topic.
        message: the text of the SNS message: a JSON object.
        time: when the notice was made, in epoch seconds.
        maker: the principal that named the topic; empty if unknown.
    """

    id: str
    topic: str
    message: str
    time: float
    maker: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        return cls(**body)

    def body(self) -> dict[str, Any]:
        """Return the record's body: all members, as JSON."""
        return asdict(self)


def notice_of(
    request: AsyncRequest, end: AsyncAnswer | AttemptFailed, region: str, now: float
) -> Notice | None:
    """Return the notice about a request's end; None if no topic is to hear of it.

    Args:
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
    """Return a failure's reason, without a container's words, which may repeat the payload."""
    if failure.cause is FailureCause.MODEL:
        return f"the container answered with status {failure.members.get('OriginalStatusCode', 0)}"
    return failure.message


class Notices:
    """Delivers each notice at least once, or abandons it after NOTICE_TRIES tries.

    Args:
        webhooks: the addresses of webhooks by the ARNs of topics.
        on_over: called with a notice, and whether it was delivered (true) or abandoned.
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
            # The import takes 0.2 s. It happens now, while no request waits, and only if there is a
            # webhook.
            from partway.gateway.apis.asynchronous.webhook_client import WebhookClient

            self._webhook_client = WebhookClient(clock)

    def add(self, notice: Notice) -> None:
        """Deliver a notice, or abandon it if too many wait.

        After :meth:`aclose` the notice stays in the store, and the next gateway delivers it.
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
            self._given_up(notice, f"{used} notices already wait, {of_it} of them for this topic")
            return
        task = asyncio.create_task(self._deliver(notice), name="notice of a request's end")
        self._tasks.add(task)
        task.add_done_callback(partial(self._over, topic))

    async def aclose(self) -> None:
        """Stop deliveries; the remaining notices stay in the store."""
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
        line = "a notice was not delivered"
        log.warning(LogLine(line, topic=notice.topic, request=notice.id, reason=why))
        self._on_over(notice, False)


def _as_sns(notice: Notice) -> bytes:
    """Return the body of an SNS request, without AWS's signature."""
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
        "Content-Type": "text/plain; charset=UTF-8",  # as SNS sends it
        "x-amz-sns-message-type": "Notification",
        "x-amz-sns-message-id": _message_id(notice),
        "x-amz-sns-topic-arn": notice.topic,
    }


def _message_id(notice: Notice) -> str:
    """Return an id that is the same at each delivery, so that receivers notice repetitions."""
    parts = (notice.id[:8], notice.id[8:12], notice.id[12:16], notice.id[16:20], notice.id[20:])
    return "-".join(parts)


def _moment(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
