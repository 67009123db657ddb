"""Processes that are killed at random moments, while endpoints are created, changed and removed."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.gateway.workers.test_workers import (
    Gateway,
    connections_of,
    echoes,
    listed,
    start,  # noqa: F401 (a fixture)
    until,
)
from tests.processes import ready_url

ROUNDS = int(os.environ.get("KILL_ROUNDS", "20"))

#: Seconds between two rounds, at most. An end within two seconds makes the next start wait longer.
LONGEST = 4.0

#: Seconds until changes work again from a gateway process's start, and until a worker accepts. The
#: median counts: other programs on the machine may hold up any round.
CHANGES_WITHIN = 5.0
ACCEPTS_WITHIN = 2.0

CONTAINER = [sys.executable, "-m", "partway.container", "serve", "--port", "0"]

PROGRAM = json.dumps([sys.executable, "-m", "partway.container", "serve", "--port", "{port}"])


def settings(url: str, number: int) -> str:
    """Two endpoints that stay, and one that is changed, scaled and removed in turn."""
    text = f'[endpoints.echo]\nurl = "{url}"\n[endpoints.launched]\ncommand = {PROGRAM}\n'
    if number % 4 == 3:
        return text
    return (
        f"{text}[endpoints.changing]\ncommand = {PROGRAM}\ninstances = {1 + number % 2}\n"
        f'environment = {{ NUMBER = "{number // 2}" }}\n'
    )


def replace(path: Path, text: str) -> None:
    """Replace a file whole: a gateway process that starts reads the old text or the new one."""
    written = path.with_suffix(".new")
    written.write_text(text)
    written.replace(path)


@contextmanager
def changing(gateway: Gateway, path: Path, url: str) -> Iterator[None]:
    """Change the settings again and again."""
    over = threading.Event()

    def change() -> None:
        number = 0
        while not over.wait(random.uniform(0.2, 1.5)):
            number += 1
            replace(path, settings(url, number))
            gateway.process.send_signal(signal.SIGHUP)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(change)
        try:
            yield
        finally:
            over.set()
        running.result()


class Scene:
    def __init__(self, gateway: Gateway, stack: ExitStack) -> None:
        self.gateway = gateway
        self._stack = stack
        self.streams: list[ClientConnection] = []

    def open(self, endpoint: str, number: int) -> None:
        where = f"{self.gateway.url.replace('http', 'ws')}/endpoints/{endpoint}"
        for _ in range(number):
            stream = connect(
                f"{where}/invocations-bidirectional-stream",
                subprotocols=["payloadpart.v1.raw"],
                compression=None,
            )
            self.streams.append(self._stack.enter_context(stream))


@pytest.fixture
def container() -> Iterator[str]:
    """An echo container's URL; nobody reads its log, which must not fill a pipe."""
    process = subprocess.Popen(CONTAINER, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        yield ready_url(process)
        process.kill()


@pytest.fixture
def scene(start, container, tmp_path) -> Iterator[Scene]:  # noqa: F811 (fixtures)
    path = tmp_path / "partway.toml"
    path.write_text(settings(container, 0))
    gateway = start("--config", str(path))
    drain = threading.Thread(target=gateway.process.stderr.read, daemon=True)
    drain.start()
    with ExitStack() as stack:
        scene = Scene(gateway, stack)
        scene.open("echo", 8)
        scene.open("launched", 8)
        with changing(gateway, path, container):
            yield scene


def rounds(scene: Scene) -> Iterator[int]:
    for number in range(ROUNDS):
        time.sleep(random.uniform(0.0, LONGEST))
        until(lambda: listed(scene.gateway) == 200)
        yield number


def processes(scene: Scene) -> set[int]:
    return {each.pid for each in scene.gateway.forked()}


def new_process(scene: Scene, before: set[int]) -> bool:
    return bool(processes(scene) - before)


def took(condition: Callable[[], object]) -> float:
    began = time.monotonic()
    until(condition)
    return time.monotonic() - began


def told(what: str, times: list[float]) -> None:
    middle = statistics.median(times)
    print(f"{what} within {max(times):.1f} s, median {middle:.1f} s, {len(times)} times")


def test_the_gateway_process_is_killed(scene):
    times = []
    for _ in rounds(scene):
        before = processes(scene)
        scene.gateway.parent.kill()
        scene.open("echo", 1)
        scene.open("launched", 1)
        until(partial(new_process, scene, before))  # it waits longer after each early end
        times.append(took(lambda: listed(scene.gateway) == 200))
        assert all(map(echoes, scene.streams))
    told("changes worked again", times)
    assert statistics.median(times) <= CHANGES_WITHIN


def test_a_worker_is_killed(scene):
    times = []
    for _ in rounds(scene):
        counts = connections_of(scene.gateway)
        victim = max(counts, key=counts.__getitem__)
        before = len(scene.streams)
        os.kill(victim, signal.SIGKILL)
        alive = [each for each in scene.streams if echoes(each)]
        assert len(alive) == before - counts[victim]
        scene.streams[:] = alive
        times.append(took(lambda: all(accept(scene))))
        scene.open("echo", 8)
        scene.open("launched", 8)
    told("both workers accepted again", times)
    assert statistics.median(times) <= ACCEPTS_WITHIN


def accept(scene: Scene) -> list[int]:
    """Open some connections; return how many each of two workers has."""
    scene.open("echo", 4)
    counts = list(connections_of(scene.gateway).values())
    return counts if len(counts) == 2 else [0]


def test_the_supervisor_is_held_up(start, container):  # noqa: F811 (fixtures)
    """The gateway process leaves it; another one starts once it goes on."""
    gateway = start("--endpoint", f"echo={container}")
    with ExitStack() as stack:
        scene = Scene(gateway, stack)
        scene.open("echo", 16)
        parent, counts = gateway.parent, connections_of(gateway)
        victim = max(counts, key=counts.__getitem__)
        gateway.process.send_signal(signal.SIGSTOP)
        os.kill(victim, signal.SIGKILL)
        until(lambda: parent.status() == psutil.STATUS_ZOMBIE)
        assert sum(map(echoes, scene.streams)) == 16 - counts[victim]
        gateway.process.send_signal(signal.SIGCONT)
        until(lambda: listed(gateway) == 200)
        until(lambda: len(gateway.workers) == 2)
        scene.open("echo", 16)
        assert sum(map(echoes, scene.streams)) == 32 - counts[victim]
    gateway.process.terminate()
    assert gateway.ended()[0] == 0
