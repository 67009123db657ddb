"""gateway.apis.asynchronous.worker: requests from their coming to their end, by a test's clock.

What tries a request, and where ends belong, is the test's; what is written down is a real store's.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from prometheus_client import CollectorRegistry

from partway.gateway.apis.asynchronous import request_queue
from partway.gateway.apis.asynchronous.inference_config import AsyncConfig
from partway.gateway.apis.asynchronous.journal import NOTICE, REQUEST, Journal
from partway.gateway.apis.asynchronous.limits import (
    LOOK_INTERVAL,
    PUT_PAUSES,
    PUT_TRIES,
    PUT_TURN_INTERVAL,
    TRIES,
    TRY_PAUSES,
)
from partway.gateway.apis.asynchronous.metrics import AsyncMetrics
from partway.gateway.apis.asynchronous.request_queue import WaitingLimits
from partway.gateway.apis.asynchronous.requests import (
    AsyncAnswer,
    AttemptFailed,
    FailureCause,
    NoInstance,
)
from partway.gateway.apis.asynchronous.result_delivery import ResultDelivery
from partway.gateway.apis.asynchronous.spool import Spool
from partway.gateway.apis.asynchronous.worker import AsyncWorker, NotWritten
from partway.gateway.storage.places.place import StorageFailed
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.store import StoreError
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.limits import LOGGED_CHARACTERS
from tests.gateway.apis.asynchronous.a_request import a_request, leave_of
from tests.gateway.fleet.waiting import eventually
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

TOPIC = "arn:aws:sns:us-east-1:000000000000:done"


class Tried:
    """Does with each try what a test says; answers with the body unless it says otherwise."""

    def __init__(self):
        self.tries = []
        self.fails = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def once(self, request):
        self.tries.append(request.id)
        await self.may_answer.wait()
        if self.fails:
            raise self.fails.pop(0)
        return AsyncAnswer(b"answer", 6)


class Places:
    """Where ends are put; may fail."""

    def __init__(self):
        self.has = {}
        self.fails = []

    async def put(self, location, answer):
        if self.fails:
            raise self.fails.pop(0)
        self.has[location] = answer.content

    def failure(self, request):
        return json.loads(self.has[request.failure])["ErrorCode"]


class Told:
    def __init__(self):
        self.notices = []

    def add(self, notice):
        self.notices.append(notice)


class Worked:
    def __init__(self, folder, store):
        self.clock = FakeClock(0.0)
        self.tried, self.places, self.told, self.store = Tried(), Places(), Told(), store
        self.config = AsyncConfig("s3://bucket/ok", "s3://bucket/bad", "", "", 2)
        self.instances = 1
        self.journal = Journal(store, self.clock)
        self.spool = Spool(folder, 1000, self.clock)
        self.registry = CollectorRegistry()
        metrics = AsyncMetrics(self.registry, *[lambda: 0] * 3)
        self.delivery = ResultDelivery(
            *(
                self.places,
                self.journal,
                self.told,
                leave_of(),
                metrics,
                self.clock,
                self.clock.time,
            ),
            "us-east-1",
        )
        self.worker = AsyncWorker(
            *(self.tried, self.delivery, self.journal, self.spool, WaitingLimits(6, 5)),
            lambda name: self.config if name == "e" else None,
            lambda _: self.instances,
            *(self.clock, self.clock.time),
        )

    async def start(self):
        self.journal.start()
        await self.worker.start()

    async def stop(self):
        self.worker.hasten()
        await self.worker.drain(0)
        await self.journal.aclose()
        await self.worker.aclose()

    async def written(self):
        return {each.name for each in await self.store.records(REQUEST)}

    async def has_ended(self, count=1):
        await eventually(lambda: len(self.places.has) >= count)
        while await self.written() or self.spool.used:  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0)

    def ended(self, result):
        labels = {"endpoint": "e", "result": result}
        return self.registry.get_sample_value("partway_async_requests_total", labels)

    async def pass_time(self, seconds):
        await eventually(lambda: bool(self.clock.armed))
        self.clock.advance(seconds)


@asynccontextmanager
async def working(folder, store=None):
    worked = Worked(folder, store or MemoryStore())
    await worked.start()
    try:
        yield worked
    finally:
        worked.tried.may_answer.set()
        await worked.stop()


@pytest.fixture
async def worked(tmp_path):
    async with working(tmp_path) as found:
        yield found


async def test_an_answer_is_put_where_it_belongs_and_nothing_is_left(worked, tmp_path):
    request = a_request()
    worked.tried.may_answer.clear()
    await worked.worker.accept(request, b"body")
    assert await worked.written() == {request.id}
    assert worked.spool.used == 4
    worked.tried.may_answer.set()
    await worked.has_ended()
    assert worked.places.has == {request.output: b"answer"}
    assert list(tmp_path.iterdir()) == []
    assert worked.ended("Completed") == 1


async def test_what_may_pass_is_tried_again_and_then_given_up(worked):
    request = a_request()
    worked.tried.fails = [
        AttemptFailed(FailureCause.MODEL, f"no {n}", passing=True) for n in range(TRIES)
    ]
    await worked.worker.accept(request, b"body")
    for number in range(1, TRIES):
        await eventually(lambda: len(worked.tried.tries) == number)  # noqa: B023 (called in its own round only)
        await worked.pass_time(TRY_PAUSES[number - 1] + LOOK_INTERVAL)
    await worked.has_ended()
    assert len(worked.tried.tries) == TRIES
    said = json.loads(worked.places.has[request.failure])
    assert (said["ErrorCode"], said["Message"]) == ("ModelError", f"no {TRIES - 1}")
    assert (said["InferenceId"], said["EndpointName"]) == ("mine", "e")
    assert worked.ended("ModelError") == 1


async def test_what_does_not_pass_is_tried_once(worked):
    request = a_request()
    worked.tried.fails = [AttemptFailed(FailureCause.INPUT, "not there")]
    await worked.worker.accept(request, b"body")
    await worked.has_ended()
    assert worked.places.failure(request) == "InputUnavailable"
    assert len(worked.tried.tries) == 1


async def test_a_fault_of_ours_has_a_name_too(worked):
    request = a_request()
    worked.tried.fails = [RuntimeError("ours")]
    await worked.worker.accept(request, b"body")
    await worked.has_ended()
    assert worked.places.failure(request) == "InternalFailure"


async def test_one_that_no_instance_takes_waits_and_has_not_been_tried(worked):
    worked.tried.fails = [NoInstance()] * (TRIES + 1)
    await worked.worker.accept(a_request(), b"body")
    for number in range(1, TRIES + 2):
        await eventually(lambda: len(worked.tried.tries) == number)  # noqa: B023 (called in its own round only)
        await worked.pass_time(LOOK_INTERVAL)
    await worked.has_ended()
    assert worked.ended("Completed") == 1


async def test_an_instance_has_no_more_than_it_may(worked):
    worked.tried.may_answer.clear()
    for _ in range(3):
        await worked.worker.accept(a_request(), b"body")
    await eventually(lambda: len(worked.tried.tries) == 2)
    assert (worked.worker.running, worked.worker.waiting) == (2, 1)
    worked.tried.may_answer.set()
    await eventually(lambda: worked.ended("Completed") == 3)


async def test_a_sender_whose_requests_hang_holds_up_no_other(worked, monkeypatch):
    monkeypatch.setattr(request_queue, "AT_ONCE", 1)
    worked.instances = 9
    worked.tried.may_answer.clear()
    requests = [a_request(sender=sender) for sender in "xxy"]
    for each in requests:
        await worked.worker.accept(each, b"body")
    await eventually(lambda: len(worked.tried.tries) == 2)
    assert worked.tried.tries == [requests[0].id, requests[2].id]
    assert (worked.worker.running, worked.worker.waiting) == (2, 1)


async def test_one_that_waits_for_too_long_ends_though_nothing_may_run(worked):
    worked.instances = 0
    request = a_request(expires=30.0)
    await worked.worker.accept(request, b"body")
    await worked.pass_time(31)
    await worked.has_ended()
    assert worked.places.failure(request) == "RequestExpired"
    assert worked.tried.tries == []


async def test_one_whose_endpoint_goes_ends(worked):
    worked.instances = 0
    request = a_request()
    await worked.worker.accept(request, b"body")
    worked.config = None
    await worked.pass_time(LOOK_INTERVAL)
    await worked.has_ended()
    assert worked.places.failure(request) == "EndpointNotFound"


async def test_an_answer_that_cannot_be_put_is_put_again_and_the_model_not_asked(worked):
    request = a_request()
    worked.places.fails = [StorageFailed("s3 is away", passing=True)]
    await worked.worker.accept(request, b"body")
    await worked.pass_time(PUT_PAUSES[0])
    await worked.has_ended()
    assert worked.places.has == {request.output: b"answer"}
    worked.places.has.clear()
    worked.places.fails = [StorageFailed("denied")]
    await worked.worker.accept(request, b"body")
    await worked.has_ended()
    assert worked.places.failure(request) == "OutputUnavailable"
    assert len(worked.tried.tries) == 2


async def test_an_answer_that_waits_for_its_turn_has_not_been_put_and_waits_on(worked):
    request = a_request()
    waits = StorageFailed("all threads hang", passing=True, has_waited=True)
    worked.places.fails = [waits] * (PUT_TRIES + 1)
    await worked.worker.accept(request, b"body")
    for left in range(PUT_TRIES, -1, -1):
        await eventually(lambda: len(worked.places.fails) == left)  # noqa: B023 (called in its own round only)
        await worked.pass_time(PUT_TURN_INTERVAL)
    await worked.has_ended()
    assert worked.places.has == {request.output: b"answer"}


async def test_the_log_has_no_more_than_the_beginning_of_what_a_container_says(worked, caplog):
    said = "of the payload " * 100
    worked.tried.fails = [AttemptFailed(FailureCause.MODEL, said)]
    await worked.worker.accept(request := a_request(), b"body")
    await worked.has_ended()
    (line,) = [record.msg for record in caplog.records if record.name == "partway.async"]
    assert len(line.fields["reason"]) == LOGGED_CHARACTERS
    assert json.loads(worked.places.has[request.failure])["Message"] == said


async def test_a_failure_that_cannot_be_put_ends_all_the_same(worked):
    worked.tried.fails = [AttemptFailed(FailureCause.MODEL, "no")]
    worked.places.fails = [StorageFailed("denied")]
    await worked.worker.accept(a_request(), b"body")
    await eventually(lambda: worked.ended("ModelError") == 1)
    await worked.worker.accept(a_request(failure=""), b"body")
    await worked.has_ended()


async def test_an_end_is_written_with_its_notice(worked):
    request = a_request(on_success=TOPIC)
    await worked.worker.accept(request, b"body")
    await eventually(lambda: bool(worked.told.notices))
    assert [each.name for each in await worked.store.records(NOTICE)] == [request.id]
    worked.delivery.notice_is_over(worked.told.notices[0], True)
    while await worked.store.records(NOTICE):  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0)


async def test_who_is_one_too_many_is_not_taken(worked):
    worked.instances = 0
    for _ in range(5):
        await worked.worker.accept(a_request(), b"body")
    with pytest.raises(ServiceUnavailable, match="5 requests of endpoint 'e'"):
        await worked.worker.accept(a_request(), b"body")
    assert len(await worked.written()) == 5


async def test_one_that_cannot_be_kept_is_not_taken_and_leaves_its_place(worked):
    with pytest.raises(ServiceUnavailable, match="async_quota"):
        await worked.worker.accept(a_request(length=1001), bytes(1001))

    async def full(*_):
        raise StoreError("the disk is full")

    write, worked.store.write = worked.store.write, full
    for _ in range(7):
        with pytest.raises(NotWritten) as caught:
            await worked.worker.accept(a_request(), b"body")
    assert "the disk is full" in caught.value.for_operator
    assert "disk is full" not in caught.value.message
    worked.store.write = write
    await eventually(lambda: worked.spool.used == 0)
    await worked.worker.accept(a_request(), b"body")
    await worked.has_ended()


async def test_one_whose_client_leaves_is_taken_or_not_but_never_half(worked):
    request = a_request()
    asking = asyncio.create_task(worked.worker.accept(request, b"body"))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait((asking,))
    await worked.has_ended()
    assert worked.places.has == {request.output: b"answer"}


async def test_what_runs_when_the_gateway_stops_is_begun_anew_by_the_next(tmp_path):
    store = MemoryStore()
    async with working(tmp_path, store) as before:
        before.tried.may_answer.clear()
        requests = [a_request(received=float(n), output=f"s3://b/{n}") for n in range(4)]
        for each in requests:
            await before.worker.accept(each, b"body")
        await eventually(lambda: len(before.tried.tries) == 2)
        before.worker.hasten()
        await before.worker.drain(0)
        with pytest.raises(ServiceUnavailable, match="draining"):
            await before.worker.accept(a_request(), b"body")
        assert before.places.has == {}
    async with working(tmp_path, store) as after:
        await after.has_ended(4)
        assert after.places.has == {each.output: b"answer" for each in requests}
        assert after.tried.tries[:2] == [each.id for each in requests[:2]]


async def test_what_runs_may_end_while_the_gateway_stops(worked):
    worked.tried.may_answer.clear()
    request = a_request()
    await worked.worker.accept(request, b"body")
    await eventually(lambda: bool(worked.tried.tries))
    stopping = asyncio.create_task(worked.worker.drain(60))
    await eventually(lambda: len(worked.clock.armed) == 1)
    worked.tried.may_answer.set()
    await stopping
    assert worked.places.has == {request.output: b"answer"}


async def test_a_second_signal_cuts_that_short(worked):
    worked.tried.may_answer.clear()
    await worked.worker.accept(a_request(), b"body")
    await eventually(lambda: bool(worked.tried.tries))
    stopping = asyncio.create_task(worked.worker.drain(60))
    await asyncio.sleep(0)
    worked.worker.hasten()
    await stopping
    assert len(await worked.written()) == 1


async def test_one_that_is_broken_off_while_it_is_written_down_is_not_taken(tmp_path):
    async with working(tmp_path) as worked:
        reached, may_write, write = [], asyncio.Event(), worked.store.write

        async def slow(*changes):
            reached.append(changes)
            await may_write.wait()
            await write(*changes)

        worked.store.write = slow
        asking = asyncio.create_task(worked.worker.accept(a_request(), b"body"))
        await eventually(lambda: reached)
        worked.worker.hasten()
        await worked.worker.drain(60)
        with pytest.raises(ServiceUnavailable, match="draining"):
            await asking
        may_write.set()
        await eventually(lambda: not worked.spool.used)
    assert await worked.written() == set()
    assert (worked.spool.used, list(tmp_path.iterdir())) == (0, [])


async def test_files_of_an_end_that_is_written_last_are_removed(tmp_path):
    async with working(tmp_path) as worked:
        await worked.worker.accept(a_request(), b"body")

        async def full(*_):
            raise StoreError("the disk is full")

        write, worked.store.write = worked.store.write, full
        await eventually(lambda: bool(worked.places.has))
        await worked.worker.drain(0)
        worked.store.write = write
    assert await worked.written() == set()
    assert (worked.spool.used, list(tmp_path.iterdir())) == (0, [])


async def test_a_store_that_is_full_for_a_while_forgets_no_end(worked):
    request = a_request()
    worked.tried.may_answer.clear()
    await worked.worker.accept(request, b"body")
    await eventually(lambda: bool(worked.tried.tries))

    async def full(*_):
        raise StoreError("the disk is full")

    write, worked.store.write = worked.store.write, full
    worked.tried.may_answer.set()
    await eventually(lambda: bool(worked.clock.armed))
    assert await worked.written() == {request.id}
    worked.store.write = write
    worked.clock.advance(60)
    await worked.has_ended()
    assert len(worked.tried.tries) == 1
