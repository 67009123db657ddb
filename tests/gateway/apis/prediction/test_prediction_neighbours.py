"""Costly tensors: how long they keep the event loop from others, and when the work ends."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from contextlib import asynccontextmanager

import pytest

from partway.gateway.apis.prediction.workers import prediction_workers
from tests.gateway.apis.prediction.predicting import answer, asking
from tests.gateway.conftest import container, gateway_for
from tests.wire.peers import ENDPOINT

__all__ = ["asking", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

LENGTH = "Inference-Header-Content-Length"
INFER = f"/v2/models/{ENDPOINT}/infer"
AT_A_TIME = 32

#: Seconds of CPU in one slice of the loop's; each request by itself took 0.8 s of them once.
LONGEST_SLICE = 0.1


def costly(count):
    """A request whose elements are in eight arrays each, and the length of its head."""
    tensor = {
        "name": "a",
        "datatype": "INT8",
        "shape": [count, 1, 1, 1, 1, 1, 1, 1],
        "parameters": {"binary_data_size": count},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    return head + b"\1" * count, len(head)


class Slices:
    """The event loop's slices, in seconds of its own thread's CPU.

    Neither other threads nor other programs count, however busy the machine is.
    """

    def __init__(self):
        self.longest = 0.0

    @asynccontextmanager
    async def watched(self):
        """Take the longest slice while the block runs.

        The collector skips objects that exist already, as in ``partway serve``. Those of a whole
        suite would take 0.2 s of the loop's thread.
        """
        gc.freeze()
        task = asyncio.create_task(self._watch())
        try:
            yield self
        finally:
            gc.unfreeze()
            task.cancel()
            await asyncio.wait([task])

    async def _watch(self):
        while True:
            before = time.thread_time()
            await asyncio.sleep(0)
            self.longest = max(self.longest, time.thread_time() - before)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (threads set no event of the loop)
            await asyncio.sleep(0.01)


def many(text, count):
    return b",".join([text] * count)


MODEL = f"/v1/models/{ENDPOINT}:predict"
NAMES = many(b'"a%05d":[1]', 20_000) % tuple(range(20_000))

#: A path, a body, the length of its head where it is binary, and how many instances it has.
COSTLY = {
    "small tensors": (INFER, *costly(65_000), 65_000),
    "names": (MODEL, b'{"inputs":{%b}}' % NAMES, None, 1),
    "nested arrays": (
        MODEL,
        b'{"instances":[%b]}' % many(b"[[[[[[[1]]]]]]]", 50_000),
        None,
        50_000,
    ),
    "columns": (MODEL, b'{"inputs":{"a":[%b]}}' % many(b"1", 200_000), None, 200_000),
    "strings": (MODEL, b'{"instances":[%b]}' % many(b'"x"', 100_000), None, 100_000),
}


@pytest.mark.parametrize("kind", COSTLY)
async def test_costly_tensors_leave_the_loop_to_others(asking, kind):
    path, body, length, count = COSTLY[kind]
    said = answer(b'{"predictions": [%b]}' % many(b"1", count))

    async def script(call):
        while True:
            await call.body(await call.head())
            call.say(said)

    client = await asking(script=script)
    names = {} if length is None else {LENGTH: str(length)}
    async with Slices().watched() as slices:
        found = await asyncio.gather(
            *(client.ask(path, body, **names) for _ in range(AT_A_TIME)),
            *(client.ask("/healthz", method="GET") for _ in range(8)),
        )
    assert [status for status, _, _ in found] == [200] * len(found)
    assert slices.longest < LONGEST_SLICE


async def test_the_work_ends_when_its_clients_have_left(asking):
    client = await asking(max_prediction_body=2_000_000)
    workers = client.gateway.gateway.service(prediction_workers)
    body, length = costly(1_500_000)
    asks = [
        asyncio.create_task(client.ask(INFER, body, **{LENGTH: str(length)}))
        for _ in range(AT_A_TIME)
    ]
    await until(lambda: workers.waiting > AT_A_TIME // 2)
    before = time.process_time()
    for each in asks:
        each.cancel()
    await asyncio.wait(asks)
    await until(lambda: workers.busy == workers.waiting == 0)
    assert time.process_time() - before < 1.0
