"""A gateway with a fleet that a test makes up, and the commands that ask it, as processes."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import cast
from unittest import mock

from partway.gateway.admin.admin_socket import AdminSocket
from partway.gateway.admin.operations import AdminOperations
from partway.gateway.apis.control.admin_deployments import answer_of_deployments
from partway.gateway.cli.main import main
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.timing.clock import LoopClock
from tests.conftest import ROOT
from tests.gateway.apis.control.fake_deployments import FakeDeployments
from tests.gateway.cli.invoking import Ended
from tests.gateway.fake_fleet import FakeFleet

#: Nothing here takes this long, in seconds.
PATIENCE = 30


class AskedGateway:
    """What of a gateway its user's commands see: its data directory, its socket, its fleet.

    Attributes:
        directory: of its data.
        fleet: what it answers for.
        deployments: what it is asked to deploy.
    """

    def __init__(self, path: Path) -> None:
        self.directory = DataDirectory.opened(path)
        self.fleet: FakeFleet
        self.deployments = FakeDeployments()
        self.loop: asyncio.AbstractEventLoop
        self._ends: asyncio.Event
        self._started = threading.Event()

    async def _serve(self) -> None:
        self.fleet, self.loop, self._ends = FakeFleet(), asyncio.get_running_loop(), asyncio.Event()
        directory = self.directory
        clock = LoopClock()
        operations = AdminOperations(
            self.fleet,
            partial(answer_of_deployments, self.deployments),
            *(directory.logs, MemoryStore().backup, clock),
        )
        admin = AdminSocket(directory.socket, lambda: operations, clock)
        await admin.start()
        self._started.set()
        await self._ends.wait()
        # Who connected before is seen in the next turn of the loop, and given to a transport in the
        # one behind. Python 3.11 leaves the socket open if the server is closed in between.
        for _ in range(3):
            await asyncio.sleep(0)
        await admin.aclose()
        # A connection that was just being accepted is given to a task by another one, and is closed
        # by the loop behind both.
        async with asyncio.timeout(PATIENCE):
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(others)
        turn = asyncio.Event()
        self.loop.call_soon(self.loop.call_soon, turn.set)
        await turn.wait()

    @contextmanager
    def running(self) -> Iterator[AskedGateway]:
        """In a thread of its own, until the block ends or :meth:`stop`."""
        thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        thread.start()
        try:
            assert self._started.wait(PATIENCE)
            yield self
        finally:
            self.stop()
            thread.join(PATIENCE)
            self.directory.close()

    def stop(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._ends.set)

    def printed(self, instance: str, data: bytes) -> None:
        with (self.directory.logs / f"{instance}.log").open("ab") as file:
            file.write(data)


@contextmanager
def gateway_at(path: Path) -> Iterator[AskedGateway]:
    """A gateway whose data directory is at a path."""
    with AskedGateway(path).running() as gateway:
        yield gateway


def environment(data: Path) -> dict[str, str]:
    """The tests' own, of a user whose data is there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PARTWAY_")}
    return kept | {"XDG_DATA_HOME": str(data), "PYTHONUTF8": "1"}


def words(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "partway.gateway.cli.main", *arguments]


def commanded(data: Path, *arguments: str) -> Ended:
    """Run a command of a user whose data is there, to its end."""
    done = subprocess.run(
        words(*arguments),
        capture_output=True,
        env=environment(data),
        cwd=ROOT,
        timeout=PATIENCE,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr.decode())


def commanded_here(data: Path, *arguments: str) -> Ended:
    """Run a command to its end as :func:`commanded` does, but in this process: it starts at once.

    Not for a command that leaves a thread behind.
    """
    output, errors = io.BytesIO(), io.BytesIO()
    with (
        mock.patch.dict(os.environ, environment(data), clear=True),
        redirect_stdout(io.TextIOWrapper(output, "utf-8", write_through=True)),
        redirect_stderr(io.TextIOWrapper(errors, "utf-8", write_through=True)),
    ):
        try:
            status = main(arguments)
        except SystemExit as exit:  # argparse's
            status = cast("int", exit.code)
        return Ended(status, output.getvalue(), errors.getvalue().decode())
