"""partway.gateway.fleet.launchers.programs: real processes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest

from partway.gateway.fleet.endpoints import Program, Source
from partway.gateway.fleet.launchers.launcher import Launcher
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from tests.gateway.fleet.launchers.contract import TRIED, LauncherContract


class TestProgramLauncher(LauncherContract):
    read_only = False  # a folder's mode is all there is, which does not bind root

    @pytest.fixture
    async def launcher(self, anyio_backend: object) -> AsyncIterator[Launcher]:
        launcher = ProgramLauncher()
        yield launcher
        await launcher.aclose()

    @pytest.fixture
    def source(self) -> Source:
        return Program((sys.executable, str(TRIED)))

    @pytest.fixture
    def unknown(self) -> Source:
        return Program(("no-such-program",))
