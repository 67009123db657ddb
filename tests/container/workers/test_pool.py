"""The queue in front of the workers, by its rules."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from partway.container import Busy, ModelError, TooSlow
from partway.container.workers.job_execution import Outcome
from partway.container.workers.jobs import Call, Job
from partway.container.workers.pool import Pool

#: Longer than any test.
ENDLESS = 100.0


class ScriptedWorker:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.jobs: list[Job] = []
        self.given_up = 0
        pool.free(self)

    def begin(self, job: Job) -> None:
        self.jobs.append(job)

    def grant(self, items: int) -> None:
        raise NotImplementedError

    def give_up(self) -> None:
        self.given_up += 1

    def finish(self, value: object = None, error: Exception | None = None) -> None:
        self._pool.finished(self.jobs[-1], Outcome(value, error))
        self._pool.free(self)


def job() -> Call[Any]:
    return Call(lambda: None, (), {})


def setup(queue: int = 2, deadline: float = ENDLESS) -> tuple[Pool, ScriptedWorker]:
    pool = Pool(queue, deadline)
    worker = ScriptedWorker(pool)
    pool.open()
    return pool, worker


def submit(pool: Pool, count: int = 1) -> list[Call[Any]]:
    jobs = [job() for _ in range(count)]
    for each in jobs:
        pool.submit(each)
    return jobs


async def test_jobs_begin_in_order() -> None:
    pool, worker = setup(queue=3)
    jobs = submit(pool, 4)
    for number in range(4):
        assert worker.jobs == jobs[: number + 1]
        worker.finish(number)
    assert [await each.result for each in jobs] == [0, 1, 2, 3]
    again = submit(pool)
    assert worker.jobs == jobs + again


async def test_each_worker_has_one() -> None:
    pool, first = setup()
    second = ScriptedWorker(pool)
    jobs = submit(pool, 3)
    assert sorted((first.jobs, second.jobs), key=str) == sorted((jobs[:1], jobs[1:2]), key=str)
    second.finish()
    assert second.jobs[-1] is jobs[2]


async def test_one_more_than_may_wait() -> None:
    pool, worker = setup(queue=2)
    jobs = submit(pool, 3)
    with pytest.raises(Busy) as caught:
        pool.submit(job())
    assert caught.value.reason == "every worker is busy, and 2 jobs wait already"
    assert (caught.value.code, caught.value.status) == (1013, 503)
    worker.finish()
    submit(pool)
    assert worker.jobs == jobs[:2]


async def test_none_may_wait() -> None:
    pool, worker = setup(queue=0)
    submit(pool)
    with pytest.raises(Busy, match="every worker is busy, and no job may wait"):
        pool.submit(job())
    worker.finish()
    submit(pool)


async def test_a_crowd_is_turned_away_at_once() -> None:
    pool, _ = setup(queue=16)
    began = time.process_time()
    refused = 0
    for _ in range(10_000):
        try:
            pool.submit(job())
        except Busy:
            refused += 1
    assert refused == 10_000 - 17
    assert time.process_time() - began < 2


async def test_who_leaves_frees_the_place() -> None:
    pool, worker = setup(queue=2)
    first, second, third = submit(pool, 3)
    pool.give_up(second)
    (fourth,) = submit(pool)
    worker.finish()
    worker.finish()
    assert worker.jobs == [first, third, fourth]
    assert not worker.given_up


async def test_who_leaves_while_it_computes() -> None:
    pool, worker = setup(queue=1)
    first, second = submit(pool, 2)
    pool.give_up(first)
    assert worker.given_up == 1
    assert worker.jobs == [first]  # the worker is still at it
    worker.finish("too late")
    assert worker.jobs == [first, second]
    assert await first.result is None
    pool.give_up(first)
    assert worker.given_up == 1


async def test_the_deadline_of_one_that_waits() -> None:
    pool, worker = setup(queue=1, deadline=ENDLESS)
    (first,) = submit(pool)
    pool._deadline = 0.02
    (second,) = submit(pool)
    with pytest.raises(Busy, match=r"no worker was free within 0\.02 s"):
        await second.result
    submit(pool)  # its place is free, though no worker has been
    assert worker.jobs == [first]
    assert not worker.given_up


async def test_the_deadline_of_one_that_is_computed() -> None:
    pool, worker = setup(deadline=0.02)
    (first,) = submit(pool)
    with pytest.raises(TooSlow, match=r"has not finished within 0\.02 s") as caught:
        await first.result
    assert (caught.value.code, caught.value.status) == (1011, 504)
    assert worker.given_up == 1
    (second,) = submit(pool)
    assert worker.jobs == [first]
    worker.finish()
    assert worker.jobs == [first, second]


async def test_waiting_is_part_of_the_time() -> None:
    pool, worker = setup(deadline=0.05)
    _, second = submit(pool, 2)
    assert second.timer is not None
    due = second.timer.when()
    worker.finish()
    assert worker.jobs[-1] is second
    assert second.timer.when() == due
    with pytest.raises(TooSlow):
        await second.result


async def test_a_deadline_that_was_kept() -> None:
    pool, worker = setup(deadline=0.01)
    (first,) = submit(pool)
    worker.finish("in time")
    await asyncio.sleep(0.03)
    assert await first.result == "in time"
    assert not worker.given_up


async def test_a_failure_is_the_clients() -> None:
    pool, worker = setup()
    (first,) = submit(pool)
    worker.finish(error=LookupError("x"))
    with pytest.raises(LookupError):
        await first.result


async def test_a_failure_that_nobody_hears_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    pool, worker = setup()
    (first,) = submit(pool)
    pool.give_up(first)
    with caplog.at_level(logging.ERROR):
        worker.finish(error=LookupError("x"))
    assert "abandoned job" in caplog.text
    assert "LookupError" in caplog.text


async def test_a_lost_worker_gets_nothing() -> None:
    pool, worker = setup()
    pool.lost(worker)
    pool.lost(worker)
    (first,) = submit(pool)
    assert not worker.jobs
    pool.free(worker)
    assert worker.jobs == [first]


async def test_what_a_lost_worker_had_not_begun_is_next() -> None:
    pool, worker = setup(queue=1)
    first, second = submit(pool, 2)
    pool.unbegun(first)
    pool.free(worker)
    assert worker.jobs == [first, first]
    worker.finish()
    assert worker.jobs[2:] == [second]


async def test_or_goes_to_one_that_is_free() -> None:
    pool, worker = setup()
    (first,) = submit(pool)
    second = ScriptedWorker(pool)
    pool.unbegun(first)
    assert second.jobs == [first]
    pool.give_up(first)
    assert (worker.given_up, second.given_up) == (0, 1)
    pool.unbegun(first)
    pool.free(worker)
    assert worker.jobs == [first]


async def test_before_it_is_open() -> None:
    pool = Pool(2, ENDLESS)
    worker = ScriptedWorker(pool)
    with pytest.raises(Busy, match="the model is loading"):
        pool.submit(job())
    pool.open()
    submit(pool)
    assert len(worker.jobs) == 1


async def test_the_end_of_it() -> None:
    pool, worker = setup()
    jobs = submit(pool, 3)
    pool.close()
    for each in jobs:
        with pytest.raises(ModelError, match="the container is stopping") as caught:
            await each.result
        assert (caught.value.code, caught.value.status) == (1001, 503)
    assert worker.given_up == 1
    worker.finish()
    assert worker.jobs == jobs[:1]
    pool.close()
    pool.open()
    with pytest.raises(Busy, match="the container is stopping"):
        pool.submit(job())
