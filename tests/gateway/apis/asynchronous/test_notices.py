"""partway.gateway.apis.asynchronous.notices: webhooks hear of ends, as SNS would tell them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from partway.gateway.apis.asynchronous import notices as module
from partway.gateway.apis.asynchronous.limits import NOTICE_PAUSES, NOTICE_TRIES, NOTICES_AT_ONCE
from partway.gateway.apis.asynchronous.notices import Notice, Notices, notice_of
from partway.gateway.apis.asynchronous.requests import AsyncAnswer, AttemptFailed, FailureCause
from partway.gateway.timing.clock import LoopClock
from tests.gateway.apis.asynchronous.a_request import a_request, leave_of
from tests.gateway.fleet.waiting import eventually

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

TOPIC = "arn:aws:sns:us-east-1:000000000000:done"


class Hook:
    """A webhook that answers what a test says, and remembers what it heard."""

    def __init__(self):
        self.heard = []
        self.statuses = []
        self.over = []
        self.url = ""
        self.silent = 0
        self.may_speak = asyncio.Event()

    async def answer(self, request):
        if request.path == "/silent":
            self.silent += 1
            await self.may_speak.wait()
        self.heard.append((request.path, dict(request.headers), await request.json()))
        status = self.statuses.pop(0) if self.statuses else 200
        return web.Response(status=status, headers={"Location": "/elsewhere"})


@asynccontextmanager
async def hooked(may=lambda *_: True):
    hook = Hook()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", hook.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hook.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    webhooks = {
        TOPIC: hook.url,
        "arn:aws:sns:us-east-1:000000000000:silent": hook.url.replace("/hook", "/silent"),
    }
    notices = Notices(webhooks, leave_of(may), LoopClock(), lambda *over: hook.over.append(over))
    try:
        yield hook, notices
    finally:
        await notices.aclose()
        hook.may_speak.set()
        await runner.cleanup()


@pytest.fixture
def _no_pauses(monkeypatch):
    monkeypatch.setattr(module, "NOTICE_PAUSES", [0.0] * len(NOTICE_PAUSES))


def a_notice(topic=TOPIC):
    return Notice("0123456789abcdef" * 2, topic, json.dumps({"a": 1}), 1.5)


async def test_a_webhook_hears_what_sns_says():
    async with hooked() as (hook, notices):
        notices.add(notice := a_notice())
        await eventually(lambda: bool(hook.over))
    ((path, headers, body),) = hook.heard
    assert path == "/hook"
    assert headers["x-amz-sns-message-type"] == body["Type"] == "Notification"
    assert headers["x-amz-sns-topic-arn"] == body["TopicArn"] == TOPIC
    assert headers["x-amz-sns-message-id"] == body["MessageId"]
    assert json.loads(body["Message"]) == {"a": 1}
    assert body["Timestamp"] == "1970-01-01T00:00:01.500Z"
    assert hook.over == [(notice, True)]


@pytest.mark.usefixtures("_no_pauses")
async def test_another_answer_than_2xx_is_tried_again_and_no_redirect_followed():
    async with hooked() as (hook, notices):
        hook.statuses = [500, 302]
        notices.add(notice := a_notice())
        await eventually(lambda: bool(hook.over))
    assert [path for path, _, _ in hook.heard] == ["/hook"] * 3
    assert len({body["MessageId"] for _, _, body in hook.heard}) == 1
    assert hook.over == [(notice, True)]


@pytest.mark.usefixtures("_no_pauses")
async def test_one_that_nobody_takes_is_given_up():
    async with hooked() as (hook, notices):
        hook.statuses = [404] * NOTICE_TRIES
        notices.add(notice := a_notice())
        await eventually(lambda: bool(hook.over))
        assert hook.over == [(notice, False)]
        assert len(hook.heard) == NOTICE_TRIES


@pytest.mark.usefixtures("_no_pauses")
async def test_one_whose_server_is_not_there_is_given_up():
    over = []
    notices = Notices(
        {TOPIC: "http://127.0.0.1:1/"}, leave_of(), LoopClock(), lambda *said: over.append(said[1])
    )
    notices.add(a_notice())
    await eventually(lambda: over == [False])
    await notices.aclose()


def test_a_place_is_asked_for_in_the_words_of_the_configuration():
    """A path of this machine has the same ARN with and without ``file://``."""
    asked = []
    leave = leave_of(lambda *what: not asked.append(what))
    for place in ("s3://bucket/ok/a", "/srv/answers/a", "file:///srv/answers/a"):
        assert leave.refusal_to_put("alice", place) == ""
    assert [resource for _, _, resource in asked] == [
        "arn:aws:s3:::bucket/ok/a",
        "arn:partway:files:::/srv/answers/a",
        "arn:partway:files:::/srv/answers/a",
    ]
    assert leave.refusal_to_put("alice", "file:///srv/%61") != ""


async def test_a_topic_takes_the_leave_of_who_named_it(caplog):
    asked = []

    def may(*what):
        asked.append(what)
        return what[0] == "alice"

    async with hooked(may) as (hook, notices):
        for maker in ("bob", "", "alice"):
            notices.add(dataclasses.replace(a_notice(), maker=maker))
        await eventually(lambda: len(hook.over) == 3)
    assert [delivered for _, delivered in hook.over] == [False, False, True]
    assert len(hook.heard) == 1
    assert asked[0] == ("bob", "sns:Publish", TOPIC)
    bob, nobody = [
        each.getMessage() for each in caplog.records if "not delivered" in each.getMessage()
    ]
    assert "federated-user/bob is not authorized to perform: sns:Publish" in bob
    assert "its creator, whose permissions it needs, is unknown; create it anew" in nobody


async def test_a_topic_without_a_webhook_and_one_notice_too_many(monkeypatch):
    async with hooked() as (hook, notices):
        notices.add(a_notice("arn:aws:sns:us-east-1:000000000000:other"))
        await eventually(lambda: len(hook.over) == 1)
        assert (hook.over[0][1], hook.heard) == (False, [])
    monkeypatch.setattr(module, "NOTICES", 0)
    async with hooked() as (hook, notices):
        notices.add(a_notice())
        assert [delivered for _, delivered in hook.over] == [False]
        assert not hook.heard


async def test_a_webhook_that_is_silent_holds_up_no_other_topic(monkeypatch):
    monkeypatch.setattr(module, "NOTICES_OF_ONE", 20)
    async with hooked() as (hook, notices):
        silent = "arn:aws:sns:us-east-1:000000000000:silent"
        for _ in range(21):
            notices.add(a_notice(silent))
        await eventually(lambda: hook.silent == NOTICES_AT_ONCE)
        assert [(each.topic, delivered) for each, delivered in hook.over] == [(silent, False)]
        notices.add(notice := a_notice())
        await eventually(lambda: hook.over[1:] == [(notice, True)])
        assert hook.silent == NOTICES_AT_ONCE


async def test_what_waits_when_the_gateway_stops_is_neither():
    async with hooked() as (hook, notices):
        hook.statuses = [500]
        notices.add(a_notice())
        await eventually(lambda: bool(hook.heard))
        await asyncio.sleep(0)
    assert hook.over == []


async def test_one_that_comes_behind_the_end_is_the_next_gateways():
    async with hooked() as (hook, notices):
        await notices.aclose()
        notices.add(a_notice())
        await asyncio.sleep(0)
        notices.add(a_notice("arn:aws:sns:us-east-1:000000000000:other"))
    assert (hook.heard, hook.over) == ([], [])


def test_what_is_said_of_an_answer_and_of_a_failure():
    request = a_request(
        on_success=TOPIC, on_failure="", input="s3://b/in", headers={"Content-Type": "text/x"}
    )
    found = notice_of(request, AsyncAnswer(b"a", 1, "text/y"), "eu-west-1", 2.0)
    assert found is not None
    assert Notice.of(found.body()) == found
    assert json.loads(found.message) == {
        "awsRegion": "eu-west-1",
        "eventTime": "1970-01-01T00:00:02.000Z",
        "receivedTime": "1970-01-01T00:00:00.000Z",
        "invocationStatus": "Completed",
        "requestParameters": {
            "contentType": "text/x", "endpointName": "e", "inputLocation": "s3://b/in",
        },
        "responseParameters": {"contentType": "text/y", "outputLocation": request.output},
        "inferenceId": "mine",
        "eventVersion": "1.0",
        "eventSource": "aws:sagemaker",
        "eventName": "InferenceResult",
    }  # fmt: skip
    members = {"OriginalStatusCode": 500, "OriginalMessage": "of the payload"}
    failure = AttemptFailed(FailureCause.MODEL, 'with message "of the payload"', members=members)
    assert notice_of(request, failure, "eu-west-1", 2.0) is None
    found = notice_of(a_request(on_failure=TOPIC), failure, "eu-west-1", 2.0)
    assert found is not None
    said = json.loads(found.message)
    words = "ModelError: the container answered with status 500"
    assert (said["invocationStatus"], said["failureReason"]) == ("Failed", words)
    failure = AttemptFailed(FailureCause.EXPIRED, "It waited.")
    found = notice_of(a_request(on_failure=TOPIC), failure, "eu-west-1", 2.0)
    assert found is not None
    assert json.loads(found.message)["failureReason"] == "RequestExpired: It waited."
