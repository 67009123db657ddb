"""partway.gateway.batch.launched_instances: what a job's own instances are told and asked."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from partway.gateway.batch.launched_instances import FleetModel, job_environment
from partway.gateway.batch.limits import INSTANCE_TIMEOUT
from partway.gateway.batch.model import AskFailed, ModelGone, NoInstanceNow
from partway.gateway.batch.options import TransformOptions
from partway.gateway.fleet.endpoint import (
    UNWATCHED,
    Attached,
    Containers,
    OneContainer,
    Place,
    Variant,
)
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.routing.router import RoutedInstance, RoutedVariant
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.timing.clock import LoopClock
from tests.gateway.containers.containers import HOST, OK, ScriptedContainer
from tests.gateway.fleet.fakes import PROGRAM, FakeFleet, turns
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

OPTIONS = TransformOptions(content_type="text/csv", accept="application/json")


class Beside:
    """A container that somebody else runs, as a job's model."""

    def __init__(self, script):
        self.container = ScriptedContainer(script)

    async def __aenter__(self):
        container = await self.container.__aenter__()
        clock = LoopClock()
        self.provisions = Provisions(clock)
        source = Attached((Address(HOST, container.port),))
        variant = Variant(source=source, times=UNWATCHED)
        self.model = FleetModel(variant, OPTIONS, self.provisions.means, clock)
        await self.model.__aenter__()
        await soon(self.model.started())
        return self.model

    async def __aexit__(self, *error):
        await self.model.__aexit__(*error)
        await self.provisions.aclose()
        await self.container.__aexit__(*error)

    @property
    def heads(self):
        return [head for call in self.container.calls for head in call.heads]


async def whole(model, body=b"1,2\n"):
    async def take(answer):
        said = b""
        while more := await answer.read():
            said += more
        return said

    return await model.ask(body, take)


def says(*answers):
    left = list(answers)

    async def script(call):
        while left:
            head = await call.head()
            if head.startswith(b"POST"):
                await call.body(head)
            answer = left.pop(0)
            if answer is None:
                return
            call.say(answer)
        await call.end()

    return script


async def test_what_a_container_is_asked():
    beside = Beside(says(OK, OK))
    async with beside as model:
        assert await soon(whole(model)) == b"ok"

        async def pieces():
            yield b"1,"
            yield b"2"

        assert await soon(whole(model, pieces)) == b"ok"
    one, two = beside.heads
    lines = one.decode().splitlines()
    assert lines[0] == "POST /invocations HTTP/1.1"
    assert "Content-Type: text/csv" in lines
    assert "Accept: application/json" in lines
    assert "Content-Length: 4" in lines
    assert any(line.startswith("X-Amzn-SageMaker-Request-Id: ") for line in lines)
    assert b"Transfer-Encoding: chunked" in two
    assert [chunk for call in beside.container.calls for chunk in call.chunks] == [
        *(b"1,", b"2", b"")
    ]


@pytest.mark.parametrize(
    ("answer", "said", "passing"),
    [
        (OK.replace(b"200 OK", b"400 Bad"), "the container answered 400: ok", False),
        (OK.replace(b"200 OK", b"302 Found"), "the container answered 302: ok", False),
        (OK.replace(b"200 OK", b"503 No"), "the container answered 503: ok", True),
        (b"HTTP/1.1 500 E\r\nContent-Length: 0\r\n\r\n",
         "the container answered 500, and said nothing", True),
        (None, "the container gave no whole answer: the connection ended before the head", True),
        (b"nonsense\r\n\r\n", "the container gave no whole answer: ", True),
    ],
)  # fmt: skip
async def test_what_is_no_answer(answer, said, passing):
    async with Beside(says(answer)) as model:
        with pytest.raises(AskFailed) as caught:
            await soon(whole(model))
    assert str(caught.value).startswith(said)
    assert caught.value.passing is passing


async def test_an_answer_that_is_late():
    async def silent(call):
        await call.request()
        await call.end()

    beside = Beside(silent)
    async with beside as model:
        model._exchanges._clock = clock = FakeClock()
        asked = asyncio.create_task(whole(model))
        await eventually(lambda: beside.container.calls and beside.container.calls[0].heads)
        clock.advance(599)
        await turns()
        assert not asked.done()
        clock.advance(1)
        with pytest.raises(AskFailed, match=r"within 600 s \(InvocationsTimeoutInSeconds\)$"):
            await soon(asked)
        await soon(beside.container.calls[0].ended.wait())


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (OK, b"ok"),
        (OK.replace(b"200 OK", b"404 No"), b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    ],
)
async def test_what_it_says_of_how_it_is_asked(answer, said):
    beside = Beside(says(answer))
    async with beside as model:
        assert await soon(model.parameters()) == said
    (head,) = beside.heads
    assert head.startswith(b"GET /execution-parameters HTTP/1.1\r\nHost: ")
    assert b"Content-Length" not in head


async def test_where_nobody_listens():
    beside = Beside(says())
    async with beside as model:
        beside.container._server.close()
        with pytest.raises(ModelGone, match="/execution-parameters: no connection with the cont"):
            await soon(model.parameters())


async def test_containers_that_are_asked_one_after_the_other():
    def container(word, calls):
        async def script(call):
            body = await call.request()
            calls.append((body, b"Accept" in call.heads[0]))
            call.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) + 1), body, word)
            await call.end()

        return ScriptedContainer(script)

    calls = []
    async with container(b"1", calls) as one, container(b"2", calls) as two:
        clock = LoopClock()
        provisions = Provisions(clock)
        each = tuple(
            OneContainer(hostname=name, source=Attached((Address(HOST, it.port),)))
            for name, it in (("one", one), ("two", two))
        )
        variant = Variant(source=Containers(each))
        async with FleetModel(variant, OPTIONS, provisions.means, clock) as model:
            # What several are is found out by pings, which these containers do not answer.
            place = Place("transform", Address(HOST, one.port), StreamPolicy())
            second = replace(place, container=Address(HOST, two.port), hostname="two")
            whole_place = replace(place, containers=(replace(place, hostname="one"), second))
            routed = RoutedVariant("AllTraffic", 1.0, (RoutedInstance("i", whole_place),))
            model._router.update("transform", (routed,))
            assert await soon(whole(model, b"0")) == b"012"
            model.fleet.hasten()
        await provisions.aclose()
    assert calls == [(b"0", False), (b"01", True)]


# --- What is started ------------------------------------------------------------------------------


def test_what_a_container_is_told():
    assert job_environment(TransformOptions()) == {"SAGEMAKER_BATCH": "true"}
    options = TransformOptions(max_payload_mb=0, max_concurrent=7, batch_strategy="SingleRecord")
    assert job_environment(options) == {
        "SAGEMAKER_BATCH": "true",
        "SAGEMAKER_MAX_PAYLOAD_IN_MB": "0",
        "SAGEMAKER_BATCH_STRATEGY": "SINGLE_RECORD",
        "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": "7",
    }


class Started:
    """A job's model on launchers that do what a test says."""

    def __init__(self, **variant):
        self.fakes = FakeFleet()
        given = Variant(source=PROGRAM, environment=(("SAGEMAKER_BATCH", "own"),), **variant)
        means = self.fakes.fleet._means
        self.model = FleetModel(given, OPTIONS, means, self.fakes.clock)

    async def __aenter__(self):
        await self.model.__aenter__()
        await turns()
        return self

    async def __aexit__(self, *error):
        self.model.fleet.hasten()
        await soon(self.model.__aexit__(*error))


async def test_instances_are_started_with_the_job_and_end_with_it():
    async with Started(instances=3) as started:
        await soon(started.model.started())
        launched = started.fakes.launcher.containers
        assert len(launched) == started.model.instances == 3
        for container in launched:
            assert dict(container.order.variant.environment) == {"SAGEMAKER_BATCH": "own"}
            assert container.order.endpoint == "transform"
    assert started.fakes.launcher.running == []


async def test_when_one_ends_another_is_waited_for():
    async with Started() as started:
        await soon(started.model.started())
        started.fakes.launcher.containers[0].end()
        await turns()
        with pytest.raises(NoInstanceNow, match="no instance of endpoint 'transform' is in serv"):
            await whole(started.model)
        waiting = asyncio.create_task(started.model.there())
        await turns()
        assert not waiting.done()
        await started.fakes.advance(10)
        await soon(waiting)


async def test_it_is_not_waited_for_without_an_end():
    async with Started() as started:
        await soon(started.model.started())
        started.fakes.launcher.held = asyncio.Event()
        started.fakes.launcher.containers[0].end()
        await turns()
        waiting = asyncio.create_task(started.model.there())
        await turns()
        started.fakes.clock.advance(INSTANCE_TIMEOUT + 1)
        with pytest.raises(ModelGone, match="no instance is in service"):
            await soon(waiting)
        started.fakes.launcher.held.set()


async def test_what_does_not_start_at_all():
    started = Started()
    started.fakes.launcher.lasting("there is no such program")
    async with started:
        with pytest.raises(ModelGone, match="no instance is in service: there is no such program"):
            await soon(started.model.started())
