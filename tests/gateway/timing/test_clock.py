"""partway.gateway.timing.clock: the running loop's timers, on both loops."""

from __future__ import annotations

import asyncio
import time

from partway.gateway.timing.clock import LoopClock

#: Seconds for what takes milliseconds.
PATIENCE = 20.0


async def test_a_call_comes_after_its_delay(anyio_backend):
    clock = LoopClock()
    began = clock.time()
    came = asyncio.get_running_loop().create_future()
    clock.call_later(0.02, came.set_result, "called")
    assert await asyncio.wait_for(came, PATIENCE) == "called"
    assert clock.time() - began >= 0.019  # the loop's own ticks are of a millisecond


async def test_a_cancelled_call_does_not_come(anyio_backend):
    clock = LoopClock()
    called = []
    clock.call_later(0.0, called.append, "cancelled").cancel()
    last = asyncio.get_running_loop().create_future()
    clock.call_later(0.01, last.set_result, None)
    await asyncio.wait_for(last, PATIENCE)
    assert called == []


async def test_it_is_finer_than_a_tick_of_the_loop(anyio_backend):
    clock = LoopClock()
    before, now, after = time.monotonic(), clock.time(), time.monotonic()
    assert before <= now <= after
