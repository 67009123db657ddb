"""A fleet in a process of its own, whose kept state is in the process that has started it.

``python -m tests.gateway.fleet.kept_fleet SOCKET DATA`` reads pickled calls from its standard
input, each after its length: the name of a method of :class:`Commands`, and its arguments.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.fleet import Fleet
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.routing.router import Lease, Router
from partway.gateway.kept_state import KeptEntry
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.timing.clock import LoopClock
from tests.conftest import ROOT
from tests.gateway.fleet.waiting import soon
from tests.gateway.kept_in_memory import KeptInMemory

_MESSAGE = 65536


class KeptElsewhere:
    """Sends entries to the process that keeps them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def keep(self, name: str, record: bytes, descriptors: Sequence[int] = (), pid: int = 0) -> None:
        message = pickle.dumps((name, record, pid))
        socket.send_fds(self._connection, [message], descriptors)

    def forget(self, name: str) -> None:
        self._connection.send(pickle.dumps((name, None, 0)))

    def take(self, prefix: str) -> Mapping[str, KeptEntry]:
        return {}


class FleetProcess:
    """The process as its supervisor sees it.

    Attributes:
        kept: the entries that it keeps.
    """

    def __init__(self, data: Path | None) -> None:
        self.kept = KeptInMemory()
        self._loop = asyncio.get_running_loop()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno()), str(data or "")]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, cwd=ROOT, pass_fds=[theirs.fileno()]
            )
        self._ours.setblocking(False)
        self._loop.add_reader(self._ours, self._receive)
        self._ended = asyncio.Event()

    def call(self, method: str, *arguments: object) -> None:
        assert self._process.stdin is not None
        data = pickle.dumps((method, arguments))
        self._process.stdin.write(len(data).to_bytes(4, "big") + data)
        self._process.stdin.flush()

    async def kill(self) -> KeptInMemory:
        """Kill it with SIGKILL; return what the next process sees."""
        self._process.kill()
        await soon(self._ended.wait())  # it has been read to the end
        self._process.wait()
        self._ours.close()
        self._process.stdin.close()
        return self.kept.next_process()

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while True:
                message, descriptors, _, _ = socket.recv_fds(self._ours, _MESSAGE, 8)
                if not message:
                    self._loop.remove_reader(self._ours)
                    self._ended.set()
                    return
                name, record, pid = pickle.loads(message)
                if record is None:
                    self.kept.forget(name)
                else:
                    self.kept.keep(name, record, descriptors, pid)
                for each in descriptors:
                    os.close(each)


class Commands:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._leases: list[Lease] = []

    def apply(self, endpoint: Endpoint, anew: bool = False) -> None:
        self._fleet.apply(endpoint, anew=anew)

    def remove(self, name: str) -> None:
        self._fleet.remove(name)

    def lease(self, name: str) -> None:
        self._leases.append(self._fleet.router.lease(name))


async def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.setblocking(True)
    folder = sys.argv[2]
    with DataDirectory.opened(Path(folder)) if folder else nullcontext() as data:
        provisions = Provisions(LoopClock(), data, kept=KeptElsewhere(connection))
        commands = Commands(Fleet(Router(), provisions.means, provisions.kept_instances))
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while True:
            length = int.from_bytes(await reader.readexactly(4), "big")
            method, arguments = pickle.loads(await reader.readexactly(length))
            getattr(commands, method)(*arguments)


if __name__ == "__main__":
    asyncio.run(main())
