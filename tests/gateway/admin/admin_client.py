"""An admin socket whose fleet a test turns, and a client of it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from partway.gateway.admin.admin_socket import AdminSocket
from partway.gateway.admin.operations import AdminOperations
from partway.gateway.apis.control.admin_deployments import answer_of_deployments
from partway.gateway.storage.data_directory import socket_name
from partway.gateway.storage.store.store import ReadBackup, StoreError
from tests.gateway.apis.control.fake_deployments import FakeDeployments
from tests.gateway.fake_fleet import FakeFleet
from tests.gateway.streams.fakes import FakeClock

#: The instance that prints where a test names none.
ID = "echo-AllTraffic-1a2b3c"


class Asked:
    """A socket whose fleet a test turns, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self.fleet = FakeFleet()
        self.deployments = FakeDeployments()
        self.clock = FakeClock()
        self.logs = folder / "logs"
        self.logs.mkdir(exist_ok=True)
        self.path = folder / "admin.sock"
        self.backed_up: bytes | Exception = b"a file"
        self.breaks_at: int | None = None
        self.let_go = 0
        self.may_back_up = asyncio.Event()
        self.may_back_up.set()
        self.operations = AdminOperations(
            self.fleet,
            partial(answer_of_deployments, self.deployments),
            *(self.logs, self.backup, self.clock),
        )
        self.socket = AdminSocket(self.path, lambda: self.operations, self.clock)
        self.session: aiohttp.ClientSession

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Asked]:
        await self.socket.start()
        with socket_name(self.path) as name:
            connector = aiohttp.UnixConnector(name)
            async with aiohttp.ClientSession("http://localhost", connector=connector) as session:
                self.session = session
                yield self
                await self.socket.aclose()

    @asynccontextmanager
    async def backup(self) -> AsyncIterator[ReadBackup]:
        await self.may_back_up.wait()
        if isinstance(self.backed_up, Exception):
            raise self.backed_up
        content = io.BytesIO(self.backed_up)

        async def read() -> bytes:
            if self.breaks_at is not None and content.tell() >= self.breaks_at:
                raise StoreError("the disk does not answer")
            return content.read(1 << 20)

        try:
            yield read
        finally:
            self.let_go += 1

    async def ask(self, method: str, path: str) -> tuple[int, str]:
        async with self.session.request(method, path) as answer:
            return answer.status, await answer.text()

    async def refused(self, method: str, path: str) -> tuple[int, str]:
        status, text = await self.ask(method, path)
        return status, json.loads(text)["Message"]

    def written(self, data: bytes, instance: str = ID) -> None:
        with (self.logs / f"{instance}.log").open("ab") as file:
            file.write(data)


@pytest.fixture
async def asked(tmp_path, no_leaks) -> AsyncIterator[Asked]:
    async with Asked(tmp_path).running() as asked:
        yield asked
