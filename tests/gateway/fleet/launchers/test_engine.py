"""partway.gateway.fleet.launchers.engine: launches on an engine that fails as it is told to.

What a real engine does is in ``engine_check.py``.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from partway.gateway.fleet.container_ids import container_id
from partway.gateway.fleet.endpoint import Image, InstanceTimes
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.engine_answers import NoEngine
from partway.gateway.fleet.launchers.engine_client import EngineClient
from partway.gateway.fleet.launchers.engine_image import LABEL
from partway.gateway.fleet.launchers.engine_request import (
    container_name,
    container_request,
    made_of,
)
from partway.gateway.fleet.launchers.gpus import GpuShares
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.launchers.local_models import LocalModels
from partway.gateway.fleet.limits import (
    ENGINE_REMOVAL_TIMEOUT,
    ENGINE_REMOVAL_TRIES,
    ENGINE_TIMEOUT,
    KILL_TIMEOUT,
)
from partway.gateway.fleet.platform_interface import VertexContainer
from partway.gateway.fleet.states import StartFailure
from partway.gateway.network.dialling import Address
from partway.gateway.storage.model_data.model_data import HeldData
from partway.gateway.storage.places.pinned_path import OpenFolder, PinnedPath
from partway.gateway.timing.clock import LoopClock
from tests.descriptors import no_descriptor_left
from tests.gateway.fleet.launchers.contract import order_for
from tests.gateway.fleet.launchers.fake_engine import (
    GOOD,
    PORT,
    FakeContainer,
    FakeEngine,
    refusal,
)
from tests.gateway.fleet.waiting import Output, eventually, soon
from tests.gateway.streams.fakes import FakeClock

BOTH_WAYS_OUT = ("docker build, docker load", "[images]")


@pytest.fixture
async def launcher(fake) -> AsyncIterator[EngineLauncher]:
    launcher = EngineLauncher("mine", find=lambda: fake.where)
    yield launcher
    await soon(launcher.aclose())


def order(image: str = "model:1", pull: str = "missing", **about: object) -> Order:
    return order_for(Image(image, pull), **about)


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


async def test_an_image_that_is_written_for_vertex_ai(launcher, fake):
    """It has no label, and any port: it is started as it is there."""
    fake.images["model:1"] = {"Cmd": ["python", "app.py"]}
    asked = order(vertex=VertexContainer(port=8501))
    container = await soon(launcher.launch(asked))
    assert container.address == Address("127.0.0.1", PORT)
    (made,) = fake.containers.values()
    assert "AIP_HTTP_PORT=8501" in made.request["Env"]
    await end(fake, container)
    fake.images["model:1"] = {"Labels": {}}
    error = await refused(launcher, order(vertex=VertexContainer()))
    assert "neither ENTRYPOINT nor CMD" in str(error)


@pytest.mark.parametrize("moment", ["POST /containers/create", "POST /containers/partway"])
async def test_a_link_in_place_of_a_callers_folder(fake, tmp_path, moment):
    """It is seen before the start, or at once after it, by when the engine has mounted it."""
    folder = tmp_path.resolve() / "model"
    folder.mkdir()
    opened = OpenFolder(folder, PinnedPath.of(folder).open())

    async def acquire(*_: object) -> HeldData:
        return HeldData(folder, opened.close, opened)

    launcher = EngineLauncher("mine", find=lambda: fake.where, models=LocalModels(acquire))

    async def swap() -> None:
        folder.rename(folder.with_name("away"))
        folder.symlink_to("/etc")

    fake.answers[moment] = swap
    error = await refused(launcher, order(model_dir=folder))
    assert f"model data: {folder} has changed since the endpoint" in str(error)
    assert error.passing
    await eventually(lambda: fake.containers == {})
    started = any(each.endswith("/start") for each in fake.asked)
    assert started == moment.endswith("partway")
    opened.close()
    await soon(launcher.aclose())


async def test_one_that_has_ended_before_its_port_was_read(launcher, fake):
    """Its end is told as that of any other, with what it has said."""
    said = Output()

    async def end_at_once() -> None:
        (made,) = fake.containers.values()
        made.says(b"no such model\n")
        made.end(3)

    fake.answers["GET /containers/partway"] = end_at_once
    container = await soon(launcher.launch(order()))
    container.pass_output(said.take)
    fake.answers.clear()
    assert str(await soon(container.wait())) == "ended with status 3"
    assert said.data == b"no such model\n"


async def test_one_whose_port_is_not_published(launcher, fake):
    fake.port = None
    error = await refused(launcher, order())
    assert "the engine published no port for it" in str(error)
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
    assert "reported that it pulled image model:1" in str(error)


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


async def test_no_file_descriptor_to_ask_an_engine_with(launcher, fake):
    """It may be well: no start of the instance has failed, and nobody is to start the engine."""

    importlib.import_module("aiodocker")  # by the first image: that takes descriptors, too
    with no_descriptor_left():
        error = await refused(launcher, order())
    assert error.passing
    assert error.waits
    said = (
        f"has no file descriptor left to connect to the engine at {fake.where} (Too many open files"
    )
    assert said in str(error)
    assert "start the engine" not in str(error)


async def test_no_engine_at_all(anyio_backend, no_leaks):
    def find() -> str:
        raise NoEngine("there is no container engine: DOCKER_HOST is not set")

    launcher = EngineLauncher("mine", find=find)
    error = await refused(launcher, order())
    assert error.passing
    assert error.failure is StartFailure.NO_ENGINE
    assert (
        "name an image that ships with Partway "
        "(chat, echo, kmeans, linear, pca, speech, text, voice)" in str(error)
    )
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
    assert "remain in the engine" not in caplog.text


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
        return "container was not removed; the next start" in caplog.text

    await eventually(is_left)
    (name,) = fake.containers
    assert caplog.text.count("container is not removed yet") == 1
    assert f"container={name} reason=busy" in caplog.text
    tries = [asked for asked in fake.asked if asked.startswith("DELETE")]
    assert len(tries) == ENGINE_REMOVAL_TRIES
    fake.answers.clear()
    await soon(launcher.remove_leftovers())
    assert fake.containers == {}
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
    assert "containers remain in the engine" in caplog.text
    (name,) = fake.containers
    assert name in caplog.text


async def test_what_another_run_has_left_is_removed_before_the_first_launch(launcher, fake):
    for gateway in ("mine", "yours"):
        await soon(_left_by(gateway, fake))
    container = await soon(launcher.launch(order()))
    for _ in range(2):
        whose = {each.request["Labels"]["partway.gateway"] for each in fake.containers.values()}
        assert whose == {"mine", "yours"}
        assert len(fake.containers) == 2
        await soon(launcher.remove_leftovers())  # this run's own stay
    for each in list(fake.containers.values()):
        each.end(0)
    await soon(container.wait())


async def test_a_leftover_that_stays_keeps_nobody_from_starting(fake, caplog):
    clock = FakeClock()
    launcher = EngineLauncher("mine", find=lambda: fake.where, clock=clock)
    await soon(_left_by("mine", fake))
    (left,) = fake.containers
    fake.answers[f"DELETE /containers/{left}"] = refusal(500, "busy")
    launching = asyncio.create_task(launcher.launch(order()))
    await eventually(lambda: clock.advance(KILL_TIMEOUT / 10) or launching.done())
    assert f"container is not removed yet container={left} reason=busy" in caplog.text
    fake.answers.clear()
    container = await soon(launching)
    await end(fake, container)
    closing = asyncio.create_task(launcher.aclose())
    await eventually(lambda: clock.advance(1) or closing.done())


async def _left_by(
    gateway: str, fake: FakeEngine, asked: Order | None = None, gpus: tuple[str, ...] = ()
) -> str:
    """A container of a gateway that was killed: nobody has waited for it. Returns its name."""
    client = EngineClient(fake.where, LoopClock())
    made, model = "", None
    if asked is None:
        asked = order()
    else:
        data = asked.variant.model_data
        model = None if data is None else Path(data)
        folder = model and model.stat()
        made = made_of(asked, "sha256:1", model, folder and (folder.st_dev, folder.st_ino), KEY)
    name = container_name(gateway, asked.instance)
    await client.create(name, container_request(asked, model, gateway, made=made, gpus=gpus))
    await client.start(name)
    await client.aclose()
    return name


# --- What a gateway that was killed has left is adopted ------------------------------------------

KEY = b"of the data directory"


@pytest.fixture
async def answering(anyio_backend: object, fake: FakeEngine) -> AsyncIterator[list[bytes]]:
    """Answers pings where containers are published; gives what was asked."""
    asked = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    yield asked
    server.close()
    await server.wait_closed()


@pytest.fixture
async def next_one(fake: FakeEngine, answering: object) -> AsyncIterator[EngineLauncher]:
    """The launcher of the next gateway."""
    launcher = EngineLauncher(
        "mine", key=KEY, gpus=GpuShares(["GPU-a", "GPU-b"]), find=lambda: fake.where
    )
    yield launcher
    fake.answers.clear()
    await fake.start()
    await soon(launcher.remove_leftovers())
    for each in fake.containers.values():
        each.end(0)
    await eventually(lambda: fake.containers == {})
    await soon(launcher.aclose())


def alike(count: int, **about: object) -> list[Order]:
    """Orders of one variant, each for an instance of its own."""
    orders = [order(instances=count, **about) for _ in range(count)]
    return [replace(each, variant=orders[0].variant) for each in orders]


def with_model(order: Order, folder: Path) -> Order:
    return replace(order, variant=replace(order.variant, model_data=str(folder)))


async def test_one_that_is_what_is_asked_for_is_taken_over(next_one, fake, answering, tmp_path):
    lost, asked = alike(2)
    name = await soon(_left_by("mine", fake, with_model(lost, tmp_path)))
    said = Output()
    container = await soon(next_one.launch(with_model(asked, tmp_path)))
    container.pass_output(said.take)
    assert list(fake.containers) == [name]
    assert container.address == Address("127.0.0.1", fake.port)
    assert answering[0].startswith(b"GET /ping ")
    await eventually(lambda: any("/logs" in each for each in fake.asked))
    fake.containers[name].says(b"and on\n")
    await eventually(lambda: said.data == b"and on\n")
    assert await soon(container.stop(30)) is True
    await eventually(lambda: fake.containers == {})


async def test_what_it_has_said_before_is_not_said_again(next_one, fake):
    lost, asked = alike(2)
    await soon(_left_by("mine", fake, lost))
    before = int(time.time())
    await soon(next_one.launch(asked))
    await eventually(lambda: fake.since)
    assert before <= int(fake.since[0]) <= time.time()


@pytest.mark.parametrize(
    "otherwise", ["environment", "image", "folder", "key", "unsaid", "variant"]
)
async def test_one_that_is_something_else_is_removed(
    next_one, fake, tmp_path, otherwise, monkeypatch
):
    lost, asked = (with_model(each, tmp_path) for each in alike(2))
    if otherwise == "environment":
        asked = replace(asked, variant=replace(asked.variant, environment=(("A", "1"),)))
    elif otherwise == "variant":
        lost = replace(lost, variant=replace(lost.variant, name="B"))
    elif otherwise == "image":
        fake.image_ids["model:1"] = "sha256:2"
    elif otherwise == "folder":
        (tmp_path / "other").mkdir()
        asked = with_model(asked, tmp_path / "other")
    elif otherwise == "key":
        monkeypatch.setattr(sys.modules[__name__], "KEY", b"of another")
    name = await soon(_left_by("mine", fake, None if otherwise == "unsaid" else lost))
    await soon(next_one.launch(asked))
    await soon(next_one.remove_leftovers())
    assert name not in fake.containers
    assert len(fake.containers) == 1


async def test_no_more_are_taken_over_than_there_are_to_be(next_one, fake):
    lost = alike(3)
    names = [await soon(_left_by("mine", fake, each)) for each in lost]
    for asked in (replace(each, variant=replace(each.variant, instances=2)) for each in alike(2)):
        about = replace(asked.variant, environment=lost[0].variant.environment)
        await soon(next_one.launch(replace(asked, variant=about)))
        await eventually(lambda: list(fake.containers) == names[1:])  # the newest
    fake.containers[names[2]].end(1)
    await eventually(lambda: list(fake.containers) == names[1:2])


@pytest.mark.parametrize("how", ["hangs", "has ended", "is gone", "has no port"])
async def test_one_that_does_not_answer_is_removed_and_another_one_started(next_one, fake, how):
    lost, asked = alike(2, times=InstanceTimes(ping_timeout=0.05, pings_missed=1))
    name = await soon(_left_by("mine", fake, lost))
    if how == "hangs":
        hangs = socket.create_server(("127.0.0.1", 0))
        fake.port = hangs.getsockname()[1]
    elif how == "has ended":
        fake.containers[name].end(0)
    elif how == "is gone":
        fake.answers[f"GET /containers/{name}/json"] = refusal(404, "No such container")
    else:
        fake.unpublished.add(name)
    container = await soon(next_one.launch(asked))
    await eventually(lambda: list(fake.containers) == [container_name("mine", asked.instance)])
    if how == "hangs":
        hangs.close()
    await end(fake, container)


async def test_of_a_launch_that_is_cancelled_meanwhile_nothing_is_left(next_one, fake):
    lost, asked = alike(2)
    await soon(_left_by("mine", fake, lost))
    reached = asyncio.Event()

    async def hang() -> None:
        reached.set()
        await asyncio.Event().wait()

    fake.answers["GET /containers/partway"] = hang
    launching = asyncio.create_task(next_one.launch(asked))
    await soon(reached.wait())
    launching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(launching)
    await eventually(lambda: fake.containers == {})


async def test_what_is_wanted_waits_for_its_orders_and_no_longer(next_one, fake):
    lost = alike(2)
    others = replace(order(), endpoint="other")
    names = [await soon(_left_by("mine", fake, each)) for each in (*lost, others)]
    await soon(next_one.remove_leftovers(lambda endpoint, variant: endpoint == "tried"))
    assert list(fake.containers) == names[:2]
    await soon(next_one.launch(replace(order(), variant=lost[0].variant)))
    assert list(fake.containers) == names[:2]
    await soon(next_one.remove_leftovers())
    assert list(fake.containers) == names[1:2]


async def test_what_is_found_too_late_is_removed(next_one, fake):
    lost, asked = alike(2)
    name = await soon(_left_by("mine", fake, lost))
    await fake.stop()
    with pytest.raises(LaunchError, match="does not answer"):
        await soon(next_one.remove_leftovers())
    await fake.start()
    await soon(next_one.launch(asked))
    await eventually(lambda: list(fake.containers) == [container_name("mine", asked.instance)])
    assert name != container_name("mine", asked.instance)


async def test_an_orderly_end_leaves_nothing_to_take_over(fake, tmp_path):
    launcher = EngineLauncher("mine", key=KEY, find=lambda: fake.where)
    (lost,) = alike(1)
    await soon(_left_by("mine", fake, with_model(lost, tmp_path)))
    assert await soon(launcher.models_in_use()) == {tmp_path}
    await soon(launcher.aclose())
    assert fake.containers == {}


async def test_nobody_can_say_what_is_in_use(next_one, fake):
    await fake.stop()
    with pytest.raises(LaunchError, match="does not answer"):
        await soon(next_one.models_in_use())


# --- GPUs ----------------------------------------------------------------------------------------


def gpus_of(fake: FakeEngine) -> list[object]:
    """What each container has asked for."""
    hosts = [each.request["HostConfig"] for each in fake.containers.values()]
    return [each["DeviceRequests"][0]["DeviceIDs"] for each in hosts]


async def launched_in_the_end(launcher: EngineLauncher, asked: Order) -> None:
    """Launch it as soon as GPUs are free: those of a container are once it has been removed."""
    while True:
        try:
            await launcher.launch(asked)
        except LaunchError as error:
            assert error.waits, error  # noqa: PT017 (whatever else it is ends the test)
        else:
            return


async def test_each_instance_has_gpus_of_its_own(next_one, fake):
    first, second, third = (order(gpus=1) for _ in range(3))
    container = await soon(next_one.launch(first))
    await soon(next_one.launch(second))
    assert gpus_of(fake) == [["GPU-a"], ["GPU-b"]]
    error = await refused(next_one, third)
    assert error.waits
    container.kill()
    await soon(container.wait())
    await soon(launched_in_the_end(next_one, third))
    assert gpus_of(fake) == [["GPU-b"], ["GPU-a"]]


async def test_what_is_not_started_has_none(next_one, fake):
    fake.answers["POST /containers/partway"] = refusal(500, "no space left on device")
    error = await refused(next_one, order(gpus=2))
    assert "no space left" in str(error)
    fake.answers.clear()
    await soon(launched_in_the_end(next_one, order(gpus=2)))


async def test_one_that_is_taken_over_keeps_its_own(next_one, fake):
    lost, asked = alike(2, gpus=1)
    await soon(_left_by("mine", fake, lost, ("GPU-b",)))
    another = replace(order(gpus=1), endpoint="other")
    await soon(next_one.launch(another))
    assert gpus_of(fake) == [["GPU-b"], ["GPU-a"]]
    container = await soon(next_one.launch(asked))
    assert len(fake.containers) == 2
    error = await refused(next_one, order(gpus=1))
    assert f"{', '.join(sorted((lost.instance, another.instance)))} have the others" in str(error)
    container.kill()
    await soon(container.wait())
    await soon(launched_in_the_end(next_one, order(gpus=1)))
    assert gpus_of(fake) == [["GPU-a"], ["GPU-b"]]


@pytest.mark.parametrize("first", ["pre", "model"])
async def test_what_is_left_of_several_shares_its_gpus_with_what_is_not(next_one, fake, first):
    lost, asked = alike(2, gpus=1)
    lost = replace(lost, instance=container_id(lost.instance, "pre"))
    await soon(_left_by("mine", fake, lost, ("GPU-b",)))
    for hostname in sorted(("pre", "model"), key=lambda name: name != first):
        one = replace(asked, instance=container_id(asked.instance, hostname))
        await soon(next_one.launch(one))
    assert gpus_of(fake) == [["GPU-b"], ["GPU-b"]]
    await soon(next_one.launch(order(gpus=1)))
    assert gpus_of(fake)[2:] == [["GPU-a"]]


async def test_one_whose_gpu_is_not_there_any_more_is_removed(next_one, fake):
    lost, asked = alike(2, gpus=1)
    await soon(_left_by("mine", fake, lost, ("GPU-z",)))
    await soon(next_one.launch(asked))
    await eventually(lambda: gpus_of(fake) == [["GPU-a"]])


async def test_a_gateway_that_sees_none_leaves_it_to_the_engine(fake, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    launcher = EngineLauncher("mine", gpus=GpuShares([]), find=lambda: fake.where)
    container = await soon(launcher.launch(order(gpus=1)))
    (made,) = fake.containers.values()
    (request,) = made.request["HostConfig"]["DeviceRequests"]
    assert (request["Count"], request["DeviceIDs"]) == (1, None)
    await end(fake, container)
    await soon(launcher.aclose())


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
