"""A container of an image on an engine, started for the checks as the platform starts it."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from partway.gateway.fleet.endpoint import Image, Variant
from partway.gateway.fleet.launchers.engine import EngineLauncher
from partway.gateway.fleet.launchers.engine_container import EngineContainer
from partway.gateway.fleet.launchers.engine_image import ImageConfiguration
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance.raw_connection import CONNECT_TIMEOUT
from partway.gateway.workbench.conformance.started_container import Footprint, Started

#: An engine accepts a connection before it has reached its container. If the container does not
#: listen, the engine hangs up within this time.
_HANGS_UP: Final = 0.05

#: The endpoint's name in the labels of a run's containers.
_ENDPOINT: Final = "conform"


class LaunchedImage(Started):
    """A container of an image on an engine. It stays behind if this process is killed.

    The engine knows the image by its name, and pulls a missing one. The other arguments are those
    of :class:`Started`.
    """

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str] | None = None,
        model_dir: Path | None = None,
    ) -> None:
        super().__init__(("image", name), environment, model_dir)
        self._image = Image(name)
        self._run = secrets.token_hex(8)
        self._starts = 0
        self._launcher: EngineLauncher | None = None
        self._container: EngineContainer | None = None

    @property
    def pid(self) -> int | None:
        """The first process's id on the engine's machine; None when the container does not run."""
        container = self._container
        if container is None or container.ended is not None:
            return None
        return container.state.pid

    @property
    def status(self) -> int | None:
        """The exit status; 128 plus the number of a signal; None while the container runs."""
        container = self._container
        return None if container is None or container.ended is None else container.ended.status

    async def configuration(self) -> ImageConfiguration:
        """Ask the engine for the image's configuration.

        Raises:
            LaunchError: there is no such image, or no engine.
        """
        return await self._engine().image(self._image)

    async def _launch(self) -> Address:
        self._starts += 1
        variant = Variant(
            source=self._image,
            environment=tuple(sorted(self.environment.items())),
            model_data=str(self.model_dir.absolute()),
        )
        order = Order(f"{_ENDPOINT}-{self._run}-{self._starts}", _ENDPOINT, variant, 0)
        self._container = await self._engine().launch(order)
        self._container.pass_output(self._take_output)
        return self._container.address

    async def listening_trouble(self) -> str:
        """Return "": the engine listens in the container's place, so nothing is known."""
        return ""

    async def accepts(self) -> bool:
        """Say whether the container, and not only its engine, accepts a connection now."""
        if self.address is None:
            return False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                reader, writer = await asyncio.open_connection(self.address.host, self.address.port)
        except OSError:  # includes TimeoutError
            return False
        try:
            async with asyncio.timeout(_HANGS_UP):
                return bool(await reader.read(1))
        except TimeoutError:
            return True
        except OSError:
            return False
        finally:
            writer.close()

    async def terminate(self) -> None:
        if self._container is not None:
            await self._container.terminate()

    async def ended(self, timeout: float) -> bool:
        """Wait for the container's end; return whether it ended in time.

        The engine ends all processes of the container.
        """
        if self._container is None:
            return True
        try:
            async with asyncio.timeout(timeout):
                await self._container.wait()
        except TimeoutError:
            return False
        return True

    async def kill(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            container.kill()
            await container.wait()

    async def aclose(self) -> None:
        await super().aclose()
        if self._launcher is not None:
            await self._launcher.aclose()
            self._launcher = None

    def footprint(self) -> Footprint | None:
        """The resources of the container's processes.

        None if the engine runs on another machine, or if ``/proc`` may not be read.
        """
        container = self._container
        if container is None or not self.pid:
            return None
        process = Path(f"/proc/{self.pid}")
        try:
            is_its = container.state.container in (process / "cgroup").read_text()
        except OSError:
            return None
        return super().footprint() if is_its and os.access(process / "fd", os.R_OK) else None

    def _engine(self) -> EngineLauncher:
        if self._launcher is None:
            self._launcher = EngineLauncher(f"{_ENDPOINT}-{self._run}")
        return self._launcher
