"""The gateway process is killed at random moments of deployments by boto3's control plane."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from tests.conftest import ROOT
from tests.gateway.apis.control.deployments import Script
from tests.gateway.workers.killed_processes_check import (
    CHANGES_WITHIN,
    LONGEST,
    PROGRAM,
    ROUNDS,
    Scene,
    container,
    new_process,
    processes,
    told,
    took,
)
from tests.gateway.workers.test_workers import (
    Gateway,
    echoes,
    is_container,
    listed,
    short_folder,
    start,
    until,
)
from tests.interop.engine import Engine

__all__ = ["container", "short_folder", "start"]

pytestmark = pytest.mark.timeout(900)

#: Seconds for an endpoint to come where it was told to, over several ends of the gateway process.
SETTLES_WITHIN = 120.0

#: Descriptors by which one gateway process may differ from another, as to what it has adopted and
#: what it has started. One for each change or for each end would be 20 and more.
ADOPTED_SLACK = 8

#: Errors of a call whose gateway process is away, or ends before it has answered.
AWAY = (ConnectionClosedError, EndpointConnectionError)


class Platform(NamedTuple):
    """Attributes:
    source: of an endpoint, in the settings.
    images: the table of images in the settings.
    image: of models, in calls.
    environment: of the gateway.
    running: counts what runs or was left behind for a gateway.
    """

    source: str
    images: str
    image: str
    environment: dict[str, str]
    running: Callable[[Gateway], int]


def programs() -> Platform:
    image = "registry.example/echo:1"
    return Platform(
        f"command = {PROGRAM}", f'[images]\n"{image}" = {PROGRAM}\n', image, {}, _programs_of
    )


def _programs_of(gateway: Gateway) -> int:
    if gateway.process.poll() is not None:
        return 0  # its end is another matter: all that it had is looked for by itself
    return sum(map(is_container, gateway.supervisor.children(recursive=True)))


def engine_containers(folder: Path) -> Iterator[Platform]:
    dockerd = shutil.which("dockerd", path=f"{os.environ['PATH']}:/usr/sbin")
    if dockerd is None or os.geteuid() != 0:
        pytest.skip("it needs root and Docker's daemon: apt-get install docker.io iptables")
    with Engine(folder) as engine:
        engine.make_base()
        engine.build("partway", ROOT)

        def running(_: Gateway) -> int:
            mark = "label=partway.gateway"
            return len(engine.docker("ps", "--all", "--quiet", "--filter", mark).split())

        where = {"DOCKER_HOST": engine.where}
        yield Platform('image = "docker://partway"', "", "partway", where, running)


@pytest.fixture(scope="module", params=["programs", "engine"])
def platform(request, tmp_path_factory) -> Iterator[Platform]:
    if request.param == "programs":
        yield programs()
    else:
        yield from engine_containers(tmp_path_factory.mktemp("engine"))


class Deployments:
    """Deployments that are repeated until the gateway process has taken them.

    A call whose answer was lost may have been taken: it is then refused the second time, and the
    endpoint's state has the last word. While a new gateway process starts an endpoint again, a
    change is refused as one of an endpoint in progress: it is repeated until the endpoint serves.
    """

    def __init__(self, port: int) -> None:
        self._script = Script(port)
        self.done = 0

    def close(self) -> None:
        self._script.client.close()

    def model(self, name: str, image: str, number: int) -> None:
        self._script.model(name, image, Environment={"SAGEMAKER_NUMBER": str(number)})

    def create(self, name: str, config: str) -> None:
        self._persist(lambda: self._script.create(name, config))
        self._until(name, config, 1)

    def update(self, name: str, config: str, count: int = 1) -> None:
        self._persist(lambda: self._script.update(name, config))
        self._until(name, config, count)

    def scale(self, name: str, config: str, count: int) -> None:
        desired = [{"VariantName": "AllTraffic", "DesiredInstanceCount": count}]
        self._persist(
            lambda: self._script.client.update_endpoint_weights_and_capacities(
                EndpointName=name, DesiredWeightsAndCapacities=desired
            )
        )
        self._until(name, config, count)

    def delete(self, name: str) -> None:
        self._persist(lambda: self._script.client.delete_endpoint(EndpointName=name))
        deadline = time.monotonic() + SETTLES_WITHIN
        while name in self._persist(self._script.names):
            assert time.monotonic() < deadline, self._persist(lambda: self._script.describe(name))
            time.sleep(0.05)
        self.done += 1

    def _until(self, name: str, config: str, count: int) -> None:
        """Wait until an endpoint serves what it was told to."""
        deadline = time.monotonic() + SETTLES_WITHIN
        while True:
            said = self._persist(lambda: self._script.describe(name))
            assert said["EndpointStatus"] not in {"Failed", "RollingBack"}, said
            if said["EndpointStatus"] == "InService":
                (only,) = said["ProductionVariants"]
                found = (said["EndpointConfigName"], only["CurrentInstanceCount"])
                assert found == (config, count), said
                break
            assert time.monotonic() < deadline, said
            time.sleep(0.05)
        self.done += 1

    def _persist(self, call: Callable[[], Any]) -> Any:
        again = False
        deadline = time.monotonic() + SETTLES_WITHIN
        while True:
            try:
                return call()
            except AWAY:
                if time.monotonic() >= deadline:
                    raise
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                is_early = status == 503 or "in-progress endpoint" in str(error)
                if status == 400 and again and not is_early:
                    return None
                if not is_early or time.monotonic() >= deadline:
                    raise
            again = True
            time.sleep(0.05)


class Stage(Scene):
    """A gateway and an endpoint of the API that stays, with streams."""

    def __init__(
        self, gateway: Gateway, stack: ExitStack, platform: Platform, folder: Path
    ) -> None:
        super().__init__(gateway, stack)
        self.platform = platform
        self.deployments = stack.enter_context(closing(Deployments(gateway.port)))
        self._folder = folder

    def prepare(self) -> None:
        for number, name in enumerate("ab"):
            self.deployments.model(name, self.platform.image, number)
        self.deployments.create("steady", "a")
        self.killed()  # one that has adopted something holds a little more

    def killed(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Kill the gateway process; return the seconds from the next one's start to changes."""
        known = processes(self)
        self.gateway.parent.kill()
        meanwhile()
        until(partial(new_process, self, known))
        return took(lambda: listed(self.gateway) == 200)

    def left(self) -> dict[str, int]:
        """Count what must not grow; connections of clients and to containers are over."""
        counts = {"launched": self.platform.running(self.gateway)}
        counts["temporary files"] = sum(1 for _ in self._folder.rglob("*"))
        counts["supervisor"] = self.gateway.supervisor.num_fds()
        parent = self.gateway.parent
        counts["gateway process"] = parent.num_fds()
        workers = [each for each in self.gateway.forked() if each != parent]
        return counts | {"workers": sum(each.num_fds() for each in workers)}

    @contextmanager
    def deploying(self) -> Iterator[None]:
        """Create, update, scale and delete an endpoint again and again."""
        over = threading.Event()

        def deploy() -> None:
            number = 0
            while not over.is_set():
                number += 1
                self._cycle(f"changing-{number}")

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(deploy)
            try:
                yield
            finally:
                over.set()
            running.result()

    def _cycle(self, name: str) -> None:
        """Its stream goes on through all but the end."""
        deployments = self.deployments
        with ExitStack() as stack:
            deployments.create(name, "a")
            own = Scene(self.gateway, stack)
            own.open(name, 1)
            deployments.update(name, "b")
            assert all(map(echoes, own.streams)), "updated"
            deployments.scale(name, "b", 2)
            own.open(name, 1)
            deployments.scale(name, "b", 1)
            assert all(map(echoes, own.streams)), "scaled"
        deployments.delete(name)


@pytest.fixture
def folder(short_folder: str) -> Path:
    """The gateway's temporary files."""
    return Path(short_folder)


@pytest.fixture
def stage(start, container, platform, tmp_path, folder) -> Iterator[Stage]:
    path = tmp_path / "partway.toml"
    path.write_text(
        f'[endpoints.echo]\nurl = "{container}"\n[endpoints.launched]\n{platform.source}\n'
        f"{platform.images}"
    )
    gateway = start("--config", str(path), TMPDIR=str(folder), **platform.environment)
    with (tmp_path / "gateway.log").open("wb") as log:
        copy = threading.Thread(
            target=lambda: [log.write(line) for line in gateway.process.stderr], daemon=True
        )
        copy.start()
        with ExitStack() as stack:
            yield Stage(gateway, stack, platform, folder)
        gateway.kill()
        copy.join()


def is_at_most(found: dict[str, int], before: dict[str, int]) -> bool:
    slack = {"gateway process": ADOPTED_SLACK}
    return all(found[name] <= count + slack.get(name, 0) for name, count in before.items())


def test_the_gateway_process_is_killed_during_deployments(stage, folder):
    stage.prepare()
    before = stage.left()
    with ExitStack() as stack:
        kept = Scene(stage.gateway, stack)
        for endpoint in ("echo", "launched", "steady"):
            kept.open(endpoint, 6)
        times: list[float] = []
        with stage.deploying():
            for _ in range(ROUNDS):
                time.sleep(random.uniform(0.0, LONGEST))
                until(lambda: listed(stage.gateway) == 200)
                times.append(stage.killed(partial(kept.open, "steady", 1)))
                assert all(map(echoes, kept.streams))
        assert all(map(echoes, kept.streams))
    told("changes worked again", times)
    print(f"{stage.deployments.done} changes")
    left: dict[str, int] = {}

    def nothing_more_is_left() -> bool:
        left.update(stage.left())
        return is_at_most(left, before)

    try:
        until(nothing_more_is_left)
    finally:
        print(f"before: {before}\nafter: {left}")
    ends(stage, folder)
    assert statistics.median(times) <= CHANGES_WITHIN


def ends(stage: Stage, folder: Path) -> None:
    """End the gateway; nothing of it may stay."""
    all_of_it = stage.gateway.supervisor.children(recursive=True)
    stage.gateway.process.terminate()
    assert stage.gateway.process.wait(60) == 0
    _, alive = psutil.wait_procs(all_of_it, 10)
    assert alive == []
    until(lambda: stage.platform.running(stage.gateway) == 0)
    assert [*folder.iterdir()] == []
