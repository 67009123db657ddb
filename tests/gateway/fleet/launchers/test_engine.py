"""partway.gateway.fleet.launchers.engine: launches on an engine that fails as it is told to.

What a real engine does is in ``engine_check.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from partway.gateway.clock import LoopClock
from partway.gateway.dialling import Address
from partway.gateway.fleet.endpoints import Image
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.engine_client import EngineAway, EngineClient
from partway.gateway.fleet.launchers.engine_image import LABEL
from partway.gateway.fleet.launchers.engine_request import container_name, container_request
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.limits import (
    ENGINE_REMOVAL_TIMEOUT,
    ENGINE_REMOVAL_TRIES,
    ENGINE_TIMEOUT,
    KILL_TIMEOUT,
)
from tests.gateway.fleet.launchers.contract import order_for
from tests.gateway.fleet.launchers.fake_engine import (
    GOOD,
    PORT,
    FakeContainer,
    FakeEngine,
    refusal,
)
from tests.gateway.fleet.processes import Output, eventually, soon
from tests.gateway.streams.fakes import FakeClock

BOTH_WAYS_OUT = ("docker build, docker load", "[images]")


@pytest.fixture
async def launcher(fake) -> AsyncIterator[EngineLauncher]:
    launcher = EngineLauncher("mine", find=lambda: fake.where)
    yield launcher
    await soon(launcher.aclose())


def order(image: str = "model:1", pull: str = "missing", **about: object) -> Order:
    return order_for(Image(image, pull), lambda data: None, **about)


async def refused(launcher: EngineLauncher, asked: Order) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        await soon(launcher.launch(asked))
    return caught.value


async def end(fake: FakeEngine, container: object) -> None:
    for each in list(fake.containers.values()):
        each.end(0)
    await soon(container.wait())


# --- Launching -----------------------------------------------------------------------------------


async def test_a_launch(launcher, fake):
    container = await soon(launcher.launch(order(WORD="hello")))
    assert container.address == Address("127.0.0.1", PORT)
    (made,) = fake.containers.values()
    assert made.running
    assert "WORD=hello" in made.request["Env"]
    assert made.request["Labels"]["partway.gateway"] == "mine"
    await end(fake, container)
    await eventually(lambda: fake.containers == {})


async def test_one_that_has_ended_before_its_port_was_read(launcher, fake):
    """Its end is told as that of any other, with what it has said."""
    said = Output()

    async def end_at_once() -> None:
        (made,) = fake.containers.values()
        made.says(b"no such model\n")
        made.end(3)

    fake.answers["GET /containers/partway"] = end_at_once
    container = await soon(launcher.launch(order_for(Image("model:1"), said.take)))
    fake.answers.clear()
    assert str(await soon(container.wait())) == "ended with status 3"
    assert said.data == b"no such model\n"


async def test_one_whose_port_is_not_published(launcher, fake):
    fake.port = None
    error = await refused(launcher, order())
    assert "the engine publishes no port of it" in str(error)
    assert fake.containers == {}


@pytest.mark.parametrize("name", ["", "a b", "../../containers/x", "a//b", "a?b", "-a", "a" * 9999])
async def test_what_cannot_be_an_images_name_is_not_asked_for(launcher, fake, name):
    error = await refused(launcher, order(name))
    assert "cannot be an image's name" in str(error)
    assert not error.passing
    assert fake.asked == []


# --- The image -----------------------------------------------------------------------------------


async def test_an_image_that_is_absent_and_not_to_be_pulled(launcher, fake):
    error = await refused(launcher, order("example/model:2", "never"))
    assert not error.passing
    for words in ("example/model:2", fake.where, 'pull = "missing"', *BOTH_WAYS_OUT):
        assert words in str(error)
    assert "POST /images/create" not in fake.asked


async def test_an_image_that_cannot_be_pulled(launcher, fake):
    error = await refused(launcher, order("example/model:2"))
    assert not error.passing, "the registry has said its last word"
    for words in ("example/model:2", "pull access denied", "docker login", *BOTH_WAYS_OUT):
        assert words in str(error)


async def test_a_pull_that_broke_may_fare_better_later(launcher, fake):
    fake.answers["POST /images/create"] = refusal(500, "dial tcp: connection refused")
    error = await refused(launcher, order("example/model:2"))
    assert error.passing


async def test_an_image_is_pulled_when_it_is_missing(launcher, fake):
    fake.pulls["example/model:2"] = [{"status": "Done"}]
    for _ in range(2):
        container = await soon(launcher.launch(order("example/model:2")))
        await end(fake, container)
    assert fake.asked.count("POST /images/create") == 1


async def test_an_image_is_pulled_always(launcher, fake):
    fake.pulls["model:1"] = [{"status": "Done"}]
    for _ in range(2):
        container = await soon(launcher.launch(order(pull="always")))
        await end(fake, container)
    assert fake.asked.count("POST /images/create") == 2


async def test_a_pull_that_brings_nothing(launcher, fake):
    async def forget() -> None:
        fake.images.clear()

    fake.pulls["model:1"] = [{"status": "Done"}]
    fake.answers["GET /images"] = forget
    error = await refused(launcher, order(pull="always"))
    assert "says that it has pulled image model:1" in str(error)


@pytest.mark.clause("1.1-1", "1.1-4")
@pytest.mark.parametrize(
    ("otherwise", "words"),
    [
        ({"Labels": {}}, f"there is no label {LABEL}; add to the Dockerfile: LABEL {LABEL}=true"),
        ({"Labels": {LABEL: "yes"}}, "is 'yes', not 'true'"),
        ({"Entrypoint": None}, "there is no ENTRYPOINT"),
        ({"Entrypoint": ["/bin/sh", "-c", "app"]}, 'write ENTRYPOINT ["program", "argument"]'),
    ],
)
async def test_an_image_that_the_platform_would_not_start(launcher, fake, otherwise, words):
    fake.images["model:1"] = {**GOOD, **otherwise}
    error = await refused(launcher, order())
    assert not error.passing
    assert "image model:1 cannot be started" in str(error)
    assert words in str(error)
    assert fake.containers == {}


# --- Refusals, and an engine that is away --------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "why", "passing"),
    [
        (400, 'exec: "/no/such/program": no such file or directory', False),
        (404, "no such image", False),
        (409, "is already in use", True),
        (500, "no space left on device", True),
        (500, 'could not select device driver "" with capabilities: [[gpu]]', False),
    ],
)
async def test_an_engine_that_refuses_to_start_it(launcher, fake, status, why, passing):
    fake.answers["POST /containers/partway"] = refusal(status, why)
    error = await refused(launcher, order())
    assert why in str(error)
    assert error.passing is passing
    assert ("NVIDIA Container Toolkit" in str(error)) is ("gpu" in why)
    assert fake.containers == {}, "it was made, and is removed"


async def test_a_container_of_the_name_that_somebody_else_has_is_not_removed(launcher, fake):
    wanted = order()
    container = await soon(launcher.launch(wanted))
    (name,) = fake.containers
    error = await refused(launcher, wanted)
    assert "already in use" in str(error)
    assert list(fake.containers) == [name]
    await end(fake, container)


async def test_an_engine_that_is_away(launcher, fake):
    await fake.stop()
    error = await refused(launcher, order())
    assert error.passing
    for words in ("model:1", fake.where, "start the engine", "[images]"):
        assert words in str(error)
    await fake.start()
    await end(fake, await soon(launcher.launch(order())))


async def test_no_engine_at_all(anyio_backend, no_leaks):
    def find() -> str:
        raise EngineAway("there is no container engine: DOCKER_HOST is not set")

    launcher = EngineLauncher("mine", find=find)
    error = await refused(launcher, order())
    assert error.passing
    for words in ("model:1", "DOCKER_HOST is not set", "start the engine", "[images]"):
        assert words in str(error)
    await launcher.aclose()


# --- Nothing is left -----------------------------------------------------------------------------


async def test_a_launch_that_is_cancelled_while_the_engine_makes_it(launcher, fake):
    """The engine makes it all the same, and later than it is asked to remove it."""
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly() -> None:
        asked.set()
        await go.wait()

    fake.answers["POST /containers/create"] = slowly
    launching = asyncio.create_task(launcher.launch(order()))
    await soon(asked.wait())
    launching.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await soon(launching)
    assert fake.containers == {}
    assert any(asked.startswith("DELETE") for asked in fake.asked)


async def test_an_engine_that_hung_up_may_make_it_yet(launcher, fake):
    """It is looked for again, though the engine said that there was none."""

    async def make(name: str) -> None:
        await eventually(lambda: sum(asked.startswith("DELETE") for asked in fake.asked) > 1)
        fake.containers[name] = FakeContainer({})

    wanted = order()
    name = container_name("mine", wanted.instance)
    making = asyncio.create_task(make(name))
    fake.answers["POST /containers/create"] = None
    error = await refused(launcher, wanted)
    assert error.passing
    await soon(making)
    await eventually(lambda: fake.containers == {})


async def test_what_could_not_be_removed_is_removed_later(launcher, fake):
    container = await soon(launcher.launch(order()))
    fake.answers["DELETE"] = refusal(500, "busy")
    for each in fake.containers.values():
        each.end(0)
    waiting = asyncio.create_task(container.wait())
    await eventually(lambda: any(asked.startswith("DELETE") for asked in fake.asked))
    assert fake.containers
    fake.answers.clear()
    await soon(waiting)
    await eventually(lambda: fake.containers == {})


async def test_an_end_is_told_before_the_engine_has_removed_what_is_left(fake):
    """Streams go elsewhere at once, however long the engine takes."""
    launcher = EngineLauncher("mine", find=lambda: fake.where, clock=FakeClock())
    container = await soon(launcher.launch(order()))
    await fake.container()
    go = asyncio.Event()
    fake.answers["DELETE"] = go.wait
    await end(fake, container)
    assert fake.containers
    closing = asyncio.create_task(launcher.aclose())
    await eventually(lambda: any(asked.startswith("DELETE") for asked in fake.asked))
    assert not closing.done()
    go.set()
    await soon(closing)
    assert fake.containers == {}


async def test_a_closed_launcher_waits_as_long_as_containers_are_removed(fake, caplog):
    clock = FakeClock()
    launcher = EngineLauncher("mine", find=lambda: fake.where, clock=clock)
    containers = [await soon(launcher.launch(order())) for _ in range(5)]
    turns = asyncio.Semaphore(0)
    fake.answers["DELETE"] = turns.acquire
    for container in containers:
        container.kill()
    for container in containers:
        await soon(container.wait())
    closing = asyncio.create_task(launcher.aclose())
    for left in reversed(range(5)):
        await eventually(
            lambda: any(each.due == clock.now + ENGINE_REMOVAL_TIMEOUT for each in clock.armed)
        )
        clock.advance(ENGINE_REMOVAL_TIMEOUT - 1)
        turns.release()
        await eventually(lambda: len(fake.containers) == left)  # noqa: B023 (called in its own round only)
    await soon(closing)
    assert "left to the engine" not in caplog.text


async def test_what_the_engine_refuses_to_remove_is_told_and_left_to_the_next_start(fake, caplog):
    clock = FakeClock()
    launcher = EngineLauncher("mine", find=lambda: fake.where, clock=clock)
    container = await soon(launcher.launch(order()))
    await fake.container()
    fake.answers["DELETE"] = refusal(500, "busy")
    await end(fake, container)

    def is_left() -> bool:
        for timer in clock.armed[:1]:
            if timer.due - clock.now < ENGINE_TIMEOUT / 2:  # no request is under way
                clock.advance_to(timer.due)
        return "container is left to the next start" in caplog.text

    await eventually(is_left)
    (name,) = fake.containers
    assert caplog.text.count("container is not removed yet") == 1
    assert f"container={name} reason=busy" in caplog.text
    tries = [asked for asked in fake.asked if asked.startswith("DELETE")]
    assert len(tries) == ENGINE_REMOVAL_TRIES
    fake.answers.clear()
    assert await soon(launcher.remove_leftovers()) == 1
    await soon(launcher.aclose())


async def test_a_closed_launcher_waits_seconds_for_an_engine_that_is_away(fake, caplog):
    clock = FakeClock()
    launcher = EngineLauncher("mine", find=lambda: fake.where, clock=clock)
    container = await soon(launcher.launch(order()))
    await fake.container()
    fake.answers["DELETE"] = refusal(500, "busy")
    for each in fake.containers.values():
        each.end(0)
    waiting = asyncio.create_task(container.wait())
    await eventually(lambda: clock.advance(KILL_TIMEOUT) or waiting.done())
    closing = asyncio.create_task(launcher.aclose())
    await eventually(lambda: clock.advance(KILL_TIMEOUT) or closing.done())
    assert "containers are left to the engine" in caplog.text
    (name,) = fake.containers
    assert name in caplog.text


async def test_what_another_run_has_left_is_removed_before_the_first_launch(launcher, fake):
    for gateway in ("mine", "yours"):
        await soon(_left_by(gateway, fake))
    container = await soon(launcher.launch(order()))
    assert {each.request["Labels"]["partway.gateway"] for each in fake.containers.values()} == {
        "mine",
        "yours",
    }
    assert len(fake.containers) == 2
    assert await soon(launcher.remove_leftovers()) == 0, "this run's own stay"
    assert len(fake.containers) == 2
    for each in list(fake.containers.values()):
        each.end(0)
    await soon(container.wait())


async def test_leftovers_that_cannot_be_removed_are_told(launcher, fake):
    await soon(_left_by("mine", fake))
    fake.answers["DELETE"] = refusal(500, "busy")
    (left,) = fake.containers
    with pytest.raises(LaunchError, match=f"container {left} cannot be removed: busy"):
        await soon(launcher.remove_leftovers())


async def test_a_leftover_that_stays_keeps_nobody_from_starting(launcher, fake, caplog):
    await soon(_left_by("mine", fake))
    (left,) = fake.containers
    fake.answers[f"DELETE /containers/{left}"] = refusal(500, "busy")
    container = await soon(launcher.launch(order()))
    assert "leftover container stays" in caplog.text
    assert left in caplog.text
    fake.answers.clear()
    await end(fake, container)


async def _left_by(gateway: str, fake: FakeEngine) -> None:
    """A container of a gateway that was killed: nobody has waited for it."""
    client = EngineClient(fake.where, LoopClock())
    asked = order()
    name = container_name(gateway, asked.instance)
    await client.create(name, container_request(asked, gateway))
    await client.start(name)
    await client.aclose()


async def test_an_engine_that_does_not_answer_a_launch(fake):
    clock = FakeClock()
    launcher = EngineLauncher("mine", find=lambda: fake.where, clock=clock)

    async def hang() -> None:
        await asyncio.Event().wait()

    fake.answers["GET /images"] = hang
    launching = asyncio.create_task(launcher.launch(order()))
    await eventually(lambda: fake.asked and fake.asked[-1].startswith("GET /images"))
    clock.advance(ENGINE_TIMEOUT)
    with pytest.raises(LaunchError, match="has not answered within 60 s") as caught:
        await soon(launching)
    assert caught.value.passing
    await launcher.aclose()
