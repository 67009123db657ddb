"""partway.gateway.batch.record_requests: what is asked again, and how often, by a test's clock."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from partway.gateway.batch.limits import ANSWER_BYTES
from partway.gateway.batch.model import AskFailed, ModelGone, NoInstanceNow, refused, too_late
from partway.gateway.batch.options import TransformOptions
from partway.gateway.batch.record_requests import Requests
from tests.gateway.batch.jobs import SaidModel
from tests.gateway.fleet.fakes import turns
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class Asked:
    """A request of a model that gives these answers, one for each try."""

    def __init__(self, *answers, headers=(), **given):
        left = list(answers)

        def answer(body):
            one = left.pop(0)
            if isinstance(one, Exception):
                raise one
            return one

        self.model, self.clock = SaidModel(answer, headers=headers), FakeClock()
        self.requests = Requests(self.model, TransformOptions(**given), self.clock)

    async def whole(self):
        """The answer; each pause is over as soon as it has begun."""
        task = asyncio.create_task(self.requests.whole(b"x"))
        while not task.done():
            await turns()
            pausing = [each for each in self.clock.armed if each.due < self.clock.now + 60]
            if pausing:
                self.clock.advance_to(pausing[0].due)
        return task.result().body


BROKE = AskFailed("the connection broke", passing=True)


async def test_what_is_answered_at_once_is_asked_once():
    asked = Asked([b"a", b"b", b"c"])
    assert await asked.whole() == b"abc"
    assert asked.model.asked == [b"x"]
    assert asked.clock.armed == []


async def test_500_twice_and_then_an_answer():
    asked = Asked(refused(500, "a"), refused(503, "b"), b"good")
    began = asked.clock.now
    assert await asked.whole() == b"good"
    assert asked.model.asked == [b"x"] * 3
    assert asked.clock.now == began + 0.25 + 1.0


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_no_more_tries_than_the_job_says(retries):
    asked = Asked(*[BROKE] * retries, refused(500, "last"), b"never", max_retries=retries)
    with pytest.raises(AskFailed) as caught:
        await asked.whole()
    tries = f" (the last of {retries + 1} tries)" if retries else ""
    assert str(caught.value) == f"the container answered 500: last{tries}"
    assert len(asked.model.asked) == retries + 1


async def test_what_has_broken_off_in_the_middle_is_asked_again():
    assert await Asked([b"begun", BROKE], b"whole").whole() == b"whole"


@pytest.mark.parametrize("status", [301, 400, 415, 429])
async def test_another_status_is_asked_for_once(status):
    asked = Asked(refused(status, "no"), b"never")
    with pytest.raises(AskFailed, match=f"the container answered {status}: no$"):
        await asked.whole()
    assert len(asked.model.asked) == 1


async def test_an_answer_that_is_late_is_the_last():
    asked = Asked(too_late(7), b"never")
    with pytest.raises(AskFailed, match=r"has not answered within 7 s \(InvocationsTimeoutInSec"):
        await asked.whole()
    assert len(asked.model.asked) == 1


async def test_while_nobody_is_there_no_try_is_counted(monkeypatch):
    asked = Asked(*[NoInstanceNow("none")] * 9, b"good", max_retries=0)
    waited = []

    async def there():
        waited.append(1)

    asked.model.there = there
    assert await asked.whole() == b"good"
    assert len(waited) == 9


async def test_when_nobody_will_be_there_it_is_over():
    asked = Asked(NoInstanceNow("none"))

    async def there():
        raise ModelGone("they do not start")

    asked.model.there = there
    with pytest.raises(ModelGone, match="they do not start"):
        await asked.whole()


async def test_an_answer_has_a_bound():
    piece = bytes(1024 * 1024)
    asked = Asked([piece] * (ANSWER_BYTES // len(piece) + 1))
    with pytest.raises(AskFailed, match="the container's answer has more than 104857600 bytes"):
        await asked.whole()


def test_a_refusal_in_words():
    assert str(refused(503, "")) == "the container answered 503, and said nothing"
    assert str(refused(500, "a\nb\x1b[31m\n")) == "the container answered 500: a / b\ufffd[31m"
    assert len(str(refused(500, "x" * 9999))) < 2200
    assert [refused(each, "").passing for each in (400, 499, 500, 599)] == [
        False,
        False,
        True,
        True,
    ]


async def test_a_coded_answer_is_read_without_its_coding():
    asked = Asked(gzip.compress(b"good"), headers={"Content-Encoding": "gzip"})
    assert await asked.whole() == b"good"
    for said, coding, why in (
        (b"good", "br", "its Content-Encoding is 'br'; it must be gzip or deflate"),
        (b"good", "gzip", "must be one complete gzip body"),
    ):
        asked = Asked(said, headers={"Content-Encoding": coding})
        with pytest.raises(AskFailed, match=f"^the container's answer: .*{why}"):
            await asked.whole()
