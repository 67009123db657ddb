"""partway.gateway.fleet.launchers.engine_client: each way an engine can answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from partway.gateway.fleet.launchers.engine_answers import (
    EngineAway,
    EngineRefusal,
    EngineState,
    ListedContainer,
)
from partway.gateway.fleet.launchers.engine_client import EngineClient
from partway.gateway.fleet.limits import (
    ENGINE_REQUESTS,
    ENGINE_TIMEOUT,
    MAX_ENGINE_ANSWER,
    PULL_SILENCE,
    PULL_TIMEOUT,
)
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.launchers.fake_engine import PORT, refusal
from tests.gateway.fleet.waiting import eventually, soon

JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def client(fake, clock) -> AsyncIterator[EngineClient]:
    client = EngineClient(fake.where, clock)
    yield client
    await client.aclose()


# --- What it answers -----------------------------------------------------------------------------


async def test_what_an_engine_has(client, fake):
    found = await soon(client.image("model:1"))
    assert (found.entrypoint, found.id) == (("program",), "sha256:1")
    assert await soon(client.image("example/model:2")) is None
    await soon(client.create("one", {"Labels": {"partway.gateway": "g", "partway.instance": "i"}}))
    labels = {"partway.gateway": "g", "partway.instance": "i"}
    assert await soon(client.containers_of("g")) == (ListedContainer("one", labels, False, 0),)
    assert await soon(client.containers_of("h")) == ()
    assert await soon(client.state("one")) == EngineState(False, 0, False, "", None, "0123abcd")
    await soon(client.start("one"))
    running = await soon(client.state("one"))
    assert (running.running, running.port, running.pid) == (True, PORT, 4321)
    assert await soon(client.remove("one"))
    assert not await soon(client.remove("one"))


async def test_an_image_without_a_configuration(client, fake):
    fake.images["model:1"] = None
    assert (await soon(client.image("model:1"))).entrypoint == ()


async def test_a_refusal_has_the_engines_words(client, fake):
    fake.answers["POST /containers/one/start"] = refusal(500, "no \x1b[31mroom\nleft")
    with pytest.raises(EngineRefusal) as caught:
        await soon(client.start("one"))
    assert (caught.value.status, str(caught.value)) == (500, "no �[31mroom�left")


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (None, "does not answer: "),
        (web.Response(text="[", content_type="application/json"), "its answer is invalid"),
        (web.json_response([]), "its answer is invalid"),
        (web.json_response({}), "its answer is invalid"),
        (web.Response(text="hello", content_type="text/html"), "its answer is invalid"),
        (web.Response(status=500, body=b"[", headers=JSON), "its answer is invalid"),
        (
            web.Response(
                body=b'"' + b"x" * MAX_ENGINE_ANSWER + b'"', content_type="application/json"
            ),
            "does not answer: ClientPayloadError",
        ),
    ],
)
async def test_odd_answers(client, fake, answer, what):
    fake.answers["GET /containers"] = answer
    with pytest.raises(EngineAway, match=what) as caught:
        await soon(client.state("one"))
    assert fake.where in str(caught.value)


async def test_an_odd_image(client, fake):
    fake.images["model:1"] = {"Entrypoint": "python"}
    with pytest.raises(EngineAway, match="Entrypoint in the image's configuration must be a list"):
        await soon(client.image("model:1"))


async def test_an_engine_that_is_away_is_named(client, fake):
    await fake.stop()
    with pytest.raises(EngineAway, match=r"engine\.sock does not answer: No such file"):
        await soon(client.image("model:1"))
    await fake.start()
    assert await soon(client.image("model:1")) is not None


async def test_an_answer_that_does_not_come_is_not_waited_for(client, fake, clock):
    asked = asyncio.Event()

    async def hang() -> None:
        asked.set()
        await asyncio.Event().wait()

    fake.answers["GET /images"] = hang
    asking = asyncio.create_task(client.image("model:1"))
    await soon(asked.wait())
    clock.advance(ENGINE_TIMEOUT)
    with pytest.raises(EngineAway, match="has not answered within 60 s"):
        await soon(asking)


async def test_so_much_is_asked_at_a_time(client, fake):
    await soon(client.image("model:1"))
    waiting = []
    go = asyncio.Event()

    async def hold() -> None:
        waiting.append(1)
        await go.wait()

    fake.answers["GET /images"] = hold
    asking = [asyncio.create_task(client.image("model:1")) for _ in range(3 * ENGINE_REQUESTS)]
    await eventually(lambda: len(waiting) == ENGINE_REQUESTS)
    go.set()
    await soon(asyncio.wait(asking))
    assert len(waiting) == 3 * ENGINE_REQUESTS


async def test_the_time_of_an_answer_begins_when_it_is_asked_for(client, fake, clock):
    """One that waits for its turn here is no fault of the engine's."""
    await soon(client.image("model:1"))
    waiting = []
    first, later = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        waiting.append(1)
        await (first if len(waiting) <= ENGINE_REQUESTS else later).wait()

    fake.answers["GET /images"] = hold
    asking = [asyncio.create_task(client.image("model:1")) for _ in range(ENGINE_REQUESTS)]
    await eventually(lambda: len(waiting) == ENGINE_REQUESTS)
    last = asyncio.create_task(client.image("model:1"))
    await asyncio.sleep(0)  # it begins to wait
    clock.advance(ENGINE_TIMEOUT - 1)
    first.set()
    await soon(asyncio.wait(asking))
    await eventually(lambda: len(waiting) > ENGINE_REQUESTS)
    clock.advance(2)
    later.set()
    assert await soon(last) is not None


async def test_an_end_does_not_wait_for_what_is_begun(client, fake):
    await soon(client.create("one", {}))
    await soon(client.start("one"))
    waiting = []
    go = asyncio.Event()

    async def hold() -> None:
        waiting.append(1)
        await go.wait()

    fake.answers["POST /containers/create"] = hold
    making = [
        asyncio.create_task(client.create(f"more-{number}", {}))
        for number in range(ENGINE_REQUESTS)
    ]
    await eventually(lambda: len(waiting) == ENGINE_REQUESTS)
    await soon(client.signal("one", "SIGKILL"))
    assert not (await soon(client.state("one"))).running
    assert await soon(client.remove("one"))
    go.set()
    await soon(asyncio.gather(*making))


# --- Pulling -------------------------------------------------------------------------------------


async def test_a_pull(client, fake):
    fake.pulls["new:1"] = [{"status": "Pulling"}, {"status": "Done"}]
    await soon(client.pull("new:1"))
    assert await soon(client.image("new:1")) is not None


async def test_a_pull_that_fails_says_so_in_the_middle(client, fake):
    fake.pulls["new:1"] = [
        {"status": "Pulling"},
        {"errorDetail": {"message": "manifest unknown"}, "error": "manifest unknown"},
    ]
    with pytest.raises(EngineRefusal, match="manifest unknown"):
        await soon(client.pull("new:1"))


async def test_a_pull_without_a_word_is_not_waited_for(client, fake, clock):
    said = asyncio.Event()

    async def hang() -> None:
        said.set()
        await asyncio.Event().wait()

    fake.pulls["new:1"] = [{"status": "Pulling"}, hang]
    pulling = asyncio.create_task(client.pull("new:1"))
    await soon(said.wait())

    def silence_is_over() -> bool:
        if clock.now + PULL_SILENCE in [each.due for each in clock.armed]:
            clock.advance(PULL_SILENCE)  # anew, if the first word was read late
        return pulling.done()

    await eventually(silence_is_over)
    with pytest.raises(EngineAway, match="has reported no progress of the image's pull for 300 s"):
        await soon(pulling)


async def test_nor_is_one_without_end(client, fake, clock):
    turn = asyncio.Event()

    async def later() -> None:
        clock.advance(PULL_SILENCE - 1)
        turn.set()

    fake.pulls["new:1"] = [each for _ in range(20) for each in (later, {"status": "…"})]
    with pytest.raises(EngineAway, match=f"not pulled the image within {PULL_TIMEOUT:g} s"):
        await soon(client.pull("new:1"))


# --- What a container prints ---------------------------------------------------------------------


async def test_output_is_asked_for_with_its_times_from_a_second_on(client, fake):
    await soon(client.create("one", {}))
    fake.containers["one"].says(b"\xff\n")
    found = b"".join([data async for data in client.output("one", 12)])
    assert found.endswith(b"Z \xff\n")
    assert fake.asked[-1] == "GET /containers/one/logs"
    with pytest.raises(EngineRefusal, match="No such container"):
        [data async for data in client.output("two", 0)]


async def test_on_the_loops_own_clock(fake):
    client = EngineClient(fake.where, LoopClock())
    assert await soon(client.image("model:1"))
    await client.aclose()
