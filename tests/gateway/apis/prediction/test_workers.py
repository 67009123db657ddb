"""partway.gateway.apis.prediction.workers: whose work has a thread, and when it ends."""

from __future__ import annotations

import asyncio
import threading
import weakref
from types import SimpleNamespace

import pytest

from partway.gateway.apis.prediction import workers as prediction_workers
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.limits import PREDICTION_AT_ONCE
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.prediction.checkpoints import checkpoint
from tests.gateway.fleet.fakes import turns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

LONG = PREDICTION_AT_ONCE + 1


class Work:
    """Work that goes on until it is told to end, or comes to a checkpoint that ends it."""

    def __init__(self):
        self.begun = threading.Event()
        self.told = threading.Event()
        self.ended = threading.Event()

    def __call__(self):
        self.begun.set()
        try:
            while not self.told.wait(0.001):
                checkpoint()
        finally:
            self.ended.set()
        return threading.get_ident()

    async def is_begun(self):
        """Wait until it has begun."""
        await asyncio.to_thread(self.begun.wait)


def share(workers, peer="192.0.2.1", principal=None, *, trusted=False):
    exchange = SimpleNamespace(peer=peer, visitor=SimpleNamespace(trusted=trusted))
    return workers.share_of(exchange, SimpleNamespace(principal=principal))


@pytest.fixture
async def workers():
    made = PredictionWorkers(waiting=4, waiting_of_one=2)
    yield made
    await made.aclose()


@pytest.fixture
async def begin():
    """Begins work in a share; all of it is told to end at the test's end."""
    tasks, works = [], []

    async def begun(of, *, waits=False):
        work = Work()
        works.append(work)
        tasks.append(asyncio.create_task(of.run(LONG, work)))
        await (turns(5) if waits else work.is_begun())
        return work, tasks[-1]

    yield begun
    for work in works:
        work.told.set()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize(("cost", "is_here"), [(PREDICTION_AT_ONCE, True), (LONG, False)])
async def test_costly_work_is_done_on_a_thread(workers, cost, is_here):
    def work(first, *, second):
        return first, second, threading.get_ident()

    first, second, where = await share(workers).run(cost, work, 1, second=2)
    assert (first, second) == (1, 2)
    assert (where == threading.get_ident()) == is_here


async def test_what_the_work_raises_is_raised(workers):
    def work():
        raise ValueError("no tensor")

    for cost in (0, LONG):
        with pytest.raises(ValueError, match="no tensor"):
            await share(workers).run(cost, work)
    await turns(5)
    assert workers.busy == 0


async def test_an_error_keeps_no_value_of_the_work(workers):
    values = []

    class Value:
        def __init__(self):
            values.append(weakref.ref(self))

    def read(_value):
        raise ValueError("inner")

    def work():
        value = Value()
        try:
            read(Value())
        except ValueError:
            raise KeyError(type(value)) from None

    with pytest.raises(KeyError) as raised:
        await share(workers).run(LONG, work)
    assert isinstance(raised.value.__context__, ValueError)
    assert [each() for each in values] == [None, None]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"principal": "a"}, {"principal": "b"}),
        ({"peer": "192.0.2.1"}, {"peer": "192.0.2.2"}),
        ({"peer": "2001:db8::1"}, {"peer": "2001:db8:0:1::1"}),
        ({"principal": "192.0.2.1"}, {"peer": "192.0.2.1"}),
    ],
)
async def test_of_two_threads_one_owner_has_one(workers, begin, one, other):
    _, _ = await begin(share(workers, **one))
    second, _ = await begin(share(workers, **one), waits=True)
    third, _ = await begin(share(workers, **other))
    assert third.begun.is_set()
    assert not second.begun.is_set()
    assert (workers.busy, workers.waiting) == (2, 1)


async def test_a_trusted_proxy_stands_for_many(workers, begin):
    for _ in range(2):
        await begin(share(workers, trusted=True))
    assert workers.busy == 2


async def test_work_that_nobody_waits_for_ends_at_its_next_checkpoint(workers, begin):
    first, task = await begin(share(workers))
    second, _ = await begin(share(workers), waits=True)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    await asyncio.to_thread(first.ended.wait)
    await second.is_begun()  # the thread is its own only once the first has ended


async def test_work_that_is_cancelled_before_its_turn_is_never_begun(workers, begin):
    await begin(share(workers))
    second, task = await begin(share(workers), waits=True)
    task.cancel()
    await asyncio.wait([task])
    assert not second.begun.is_set()
    assert (workers.busy, workers.waiting) == (1, 0)


async def test_a_full_line_refuses_by_whose_it_is(workers, begin):
    for peer in ("192.0.2.1", "192.0.2.2"):
        await begin(share(workers, peer))
    for _ in range(2):
        await begin(share(workers), waits=True)
    with pytest.raises(ServiceUnavailable) as raised:
        await share(workers).run(LONG, Work())
    assert raised.value.message == (
        "address 192.0.2.1 has 2 predictions waiting for a worker thread, the most for one sender "
        "(max_requests_per_principal); send fewer at once, or try again later"
    )
    for _ in range(2):
        await begin(share(workers, "192.0.2.2"), waits=True)
    with pytest.raises(ServiceUnavailable) as raised:
        await share(workers, "192.0.2.3").run(LONG, Work())
    assert raised.value.message == (
        "4 predictions are waiting for a worker thread, the most for this gateway (max_requests); "
        "try again later"
    )


async def test_nobody_waits_for_ever(workers, begin, monkeypatch):
    monkeypatch.setattr(prediction_workers, "PREDICTION_TURN_TIMEOUT", 0.01)
    await begin(share(workers))
    with pytest.raises(ServiceUnavailable) as raised:
        await share(workers).run(LONG, Work())
    assert raised.value.message == (
        "the prediction has waited 0.01 s for a worker thread, the longest allowed; try again "
        "later, with fewer predictions at once or smaller bodies"
    )
    assert workers.waiting == 0


async def test_a_gateway_that_has_closed_takes_no_work(workers):
    await workers.aclose()
    with pytest.raises(ServiceUnavailable, match="the gateway is draining"):
        await share(workers).run(LONG, Work())
    assert workers.busy == 0
