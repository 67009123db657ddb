"""workbench.dev.supervisor: when a container is started, and when that is the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from partway.gateway.workbench.dev.changes import WatchFailed
from partway.gateway.workbench.dev.supervisor import Supervisor
from tests.gateway.workbench.dev.conftest import READY, shell

#: Waits for its end, and takes SIGTERM as such at once.
STAY = "ready; while :; do sleep 0.02; done"


class FakeChanges:
    def __init__(self) -> None:
        self.some = asyncio.Event()
        self.failure: WatchFailed | None = None

    def happen(self) -> None:
        self.some.set()

    def take(self) -> list[str]:
        if self.failure is not None:
            raise self.failure
        self.some.clear()
        return ["a.py", "b.py"]


class Run:
    """A supervisor that runs; its script may be rewritten while it does."""

    def __init__(self, leash, script: Path, changes: FakeChanges | None) -> None:
        self.stop = asyncio.Event()
        self.changes = changes
        self.supervisor = Supervisor(shell(f". {script}"), READY, leash, changes, print)
        self.task = asyncio.create_task(self.supervisor.run(self.stop))

    async def status(self) -> int:
        return await asyncio.wait_for(asyncio.shield(self.task), 10)


Start = Callable[[str, FakeChanges | None], Run]


@pytest.fixture
async def start(anyio_backend, no_leaks, leash, tmp_path) -> AsyncIterator[Start]:
    """Starts a supervisor whose container is the script in ``tmp_path``."""
    runs: list[Run] = []

    def start(script: str, changes: FakeChanges | None = None) -> Run:
        (tmp_path / "script").write_text(script)
        runs.append(Run(leash, tmp_path / "script", changes))
        return runs[-1]

    yield start
    for run in runs:
        run.stop.set()
        run.supervisor.kill()
        await asyncio.wait((run.task,), timeout=10)
        await run.supervisor.end()


@pytest.fixture
def shown(capfdbinary, caplog):
    """Waits until output or log have a text; gives what came of both, and forgets it."""

    async def until(text: str) -> str:
        output = ""
        async with asyncio.timeout(30):
            while text not in output + caplog.text:
                await asyncio.sleep(0.01)
                output += capfdbinary.readouterr().out.decode()
        output += capfdbinary.readouterr().out.decode()
        messages = "".join(f"{message}\n" for message in caplog.messages)
        caplog.clear()
        return output + messages

    return until


async def test_it_runs_until_it_is_to_stop(start, shown):
    run = start(STAY)
    assert await shown("ready\n") == "ready\n"
    run.stop.set()
    assert await run.status() == 0
    container = run.supervisor._container
    assert not container.over.is_set(), "its streams are ended first"
    await run.supervisor.end()
    assert container.over.is_set()


@pytest.mark.parametrize(
    ("script", "status", "says"),
    [
        ("exit 1", 1, ""),  # it has said why
        ("exit 2", 2, ""),
        ("exit 0", 1, "the container ended with status 0\n"),
        ("kill -SEGV $$", 1, "the container was ended by SIGSEGV\n"),
        ("ready; exit 2", 1, "ready\nthe container ended with status 2\n"),
        ("ready; kill -KILL $$", 1, "ready\nthe container was ended by SIGKILL\n"),
    ],
)
async def test_one_that_ends_by_itself_is_the_end(start, shown, script, status, says):
    run = start(script)
    assert await run.status() == status
    assert await shown("") == says


async def test_a_change_brings_a_new_one(start, shown, tmp_path):
    run = start(f"echo old; {STAY}", FakeChanges())
    await shown("ready\n")
    old = run.supervisor._container
    (tmp_path / "script").write_text(f"echo new; {STAY}")
    run.changes.happen()
    assert await shown("ready\n") == "reloading: a.py, b.py\nnew\nready\n"
    assert old.over.is_set()


@pytest.mark.parametrize("script", ["exit 1", "ready; exit 2"])
async def test_one_that_ends_waits_for_a_change(start, shown, tmp_path, script):
    run = start(script, FakeChanges())
    assert "waiting for a change of a .py file" in await shown("waiting")
    (tmp_path / "script").write_text("exit 2")  # what it is asked for is gone for now
    run.changes.happen()
    await shown("ended with status 2; waiting")
    (tmp_path / "script").write_text(STAY)
    run.changes.happen()
    await shown("ready\n")
    assert not run.task.done()


async def test_asked_wrongly_from_the_start_no_change_helps(start, shown):
    run = start("exit 2", FakeChanges())
    assert await run.status() == 2
    assert await shown("") == ""


async def test_a_change_does_not_wait_for_a_slow_start(start, shown, tmp_path):
    run = start("echo loading; sleep 1000", FakeChanges())
    await shown("loading\n")
    (tmp_path / "script").write_text(STAY)
    run.changes.happen()
    assert await shown("ready\n") == "reloading: a.py, b.py\nready\n"


async def test_stopped_while_it_waits_for_a_change(start, shown):
    run = start("exit 1", FakeChanges())
    await shown("waiting")
    run.stop.set()
    assert await run.status() == 0


async def test_stopped_while_the_old_one_ends_there_is_no_new_one(start, shown):
    run = start(f"trap '' TERM; {STAY}", FakeChanges())
    await shown("ready\n")
    run.changes.happen()
    await shown("reloading")
    run.stop.set()
    assert not run.task.done()
    run.supervisor.kill()  # a second signal
    assert await run.status() == 0
    assert run.supervisor._container.over.is_set()


async def test_changes_that_cannot_be_seen(start, shown):
    run = start(STAY, FakeChanges())
    await shown("ready\n")
    run.changes.failure = WatchFailed("why")
    run.changes.happen()
    with pytest.raises(WatchFailed, match="why"):
        await run.status()
