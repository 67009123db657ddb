"""The agent of a launcher whose instances run on another host: it starts programs on its own.

``python -m tests.gateway.fleet.launchers.far_agent HOST PORT FOLDER`` listens there, and says so. A
request has a connection of its own: a list of the method and its arguments, in MessagePack after
its length, and an answer likewise. Its programs do not outlive it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from partway.gateway.fleet.launchers.launcher import LaunchError, RunningContainer
from partway.gateway.fleet.launchers.local_models import LocalModels
from partway.gateway.fleet.launchers.programs import ProgramLauncher
from partway.gateway.fleet.output.capture import OutputFolder
from partway.gateway.fleet.output.reader import Printed
from partway.gateway.storage.model_data.model_data import HeldData, ModelData
from partway.gateway.storage.places.pinned_path import PinnedPath
from tests.gateway.fleet.launchers.order_bytes import decoded

#: Bytes of a page of output.
PAGE: Final = 64 * 1024
#: A page without output is given after so many looks, and the seconds between two.
_LOOKS, _PAUSE = 20, 0.05
#: What a caller says to an answered launch: keep it. Anything else undoes it.
KEEP: Final = b"k"


def send(writer: asyncio.StreamWriter, message: object) -> None:
    data = msgspec.msgpack.encode(message)
    writer.write(len(data).to_bytes(4, "big") + data)


async def receive(reader: asyncio.StreamReader) -> Any:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return msgspec.msgpack.decode(await reader.readexactly(size))


class _Container:
    """A running container, and its output as files, from which pages are read.

    Attributes:
        end: how it has ended, once all its output can be read; None before.
    """

    def __init__(self, folder: Path, instance: str, running: RunningContainer) -> None:
        self.running = running
        self.end: str | None = None
        self._path, self._instance = folder / instance, instance
        self._folder = OutputFolder(self._path)
        self._output = self._folder.open(instance, "tried")
        running.pass_output(self._output.feed)
        self.life = asyncio.create_task(self._live())

    async def page(self, position: int) -> tuple[int, bytes, str | None]:
        """Wait a moment for output from a position on.

        Returns:
            Where the page begins, the page, and how it has ended if nothing more will come.
        """
        for _ in range(_LOOKS):
            end = self.end
            printed = Printed.opened(self._path, self._instance) if self._path.is_dir() else None
            if printed is not None:
                with printed:
                    position = max(position, printed.begin)
                    if data := printed.read(position, PAGE):
                        return position, data, None
            if end is not None:
                return position, b"", end
            await asyncio.sleep(_PAUSE)
        return position, b"", None

    async def _live(self) -> None:
        how = str(await self.running.wait())
        self._output.close()
        await self._folder.aclose()
        self.end = how


class Agent:
    def __init__(self, host: str, folder: Path) -> None:
        self._folder = folder
        self._data = ModelData(folder / "models")
        self._launcher = ProgramLauncher(models=LocalModels(self._acquire), host=host)
        self._containers: dict[str, _Container] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            method, *arguments = await receive(reader)
            if method == "launch":
                await self._launch(arguments[0], reader, writer)
            elif method == "release":
                self._launcher.release(arguments[0])
                send(writer, None)
            else:
                container = self._containers.get(arguments[0])
                found = None if container is None else await self._of(container, method, arguments)
                send(writer, found)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):  # whoever asked is gone
            pass
        finally:
            writer.close()

    async def _of(self, container: _Container, method: str, arguments: list[Any]) -> Any:
        match method, arguments:
            case "page", [instance, position]:
                page = await container.page(position)
                if page[-1] is not None:
                    self._containers.pop(instance, None)
                return page
            case "stop", [_, grace]:
                return await container.running.stop(grace)
            case "kill", _:
                container.running.kill()
                return True
            case "trouble", _:
                return await container.running.listening_trouble()
            case "verify", _:
                try:
                    await container.running.verify()
                except LaunchError as error:
                    return _said(error)
        return None

    async def _launch(
        self, data: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Launch what is ordered; undo it unless the caller wants to keep it."""
        order = decoded(data)
        launching = asyncio.create_task(self._launcher.launch(order))
        verdict = asyncio.create_task(reader.read(1))
        await asyncio.wait((launching, verdict), return_when=asyncio.FIRST_COMPLETED)
        if not launching.done():
            launching.cancel()
            await asyncio.wait((launching,))
        if launching.cancelled():
            return
        if (error := launching.exception()) is not None:
            if not isinstance(error, LaunchError):
                raise error
            send(writer, {"error": _said(error)})
        else:
            running = launching.result()
            self._containers[order.instance] = _Container(self._folder, order.instance, running)
            send(writer, {"host": running.address.host, "port": running.address.port})
            if await verdict != KEEP:
                running.kill()
                await self._containers.pop(order.instance).life
        verdict.cancel()

    async def _acquire(
        self, source: str, _maker: str | None, pinned: PinnedPath | None
    ) -> HeldData:
        return await self._data.acquire(source, pinned=pinned)


def _said(error: LaunchError) -> tuple[str, bool, bool, str]:
    return str(error), error.passing, error.waits, error.failure


async def main() -> None:
    host, port, folder = sys.argv[1:]
    agent = Agent(host, Path(folder))
    server = await asyncio.start_server(agent.serve, host, int(port))
    print("listening on", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
