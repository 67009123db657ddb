"""Pipecat in its own interpreter, which finds a gateway where it looks for SageMaker.

::

    hosts = with_hosts(hosts_file(directory, ADDRESS))
    async with Pipecat.start(python, gateway.ca, log, program=CLIENT, before=hosts) as pipecat:
        bot = await pipecat.bot(listens={"endpoint_name": "deepgram"})
        await bot.meets("on_connected")
        await bot.hear(spoken("hello"))
        assert await bot.meets("InterimTranscriptionFrame") == [{"text": "hello"}]
        await bot.end()
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from tests.interop.aws_sdk import KEY, REGION, Key, Sdk

CLIENT = Path(__file__).with_name("pipecat_client.py")

#: Where pipecat connects to, and cannot be told otherwise (clause 2.5-6).
HOST = f"runtime.sagemaker.{REGION}.amazonaws.com"
PORT = 8443

#: A loopback address of this process's own: the port is given, and others may run the same check.
ADDRESS = f"127.84.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"

#: Seconds for what pipecat does by itself, and at once; importing it takes a while.
PATIENCE = 20.0


def with_hosts(hosts: Path) -> list[str]:
    """Words of a command that runs the rest of its words with another ``/etc/hosts``.

    A mount namespace holds the change: no other process sees it, and it ends with the last of them.
    """
    mount = 'mount --bind "$0" /etc/hosts && exec "$@"'
    return [*own_mounts(), "sh", "-c", mount, str(hosts)]


def own_mounts() -> list[str]:
    """Words of a command that runs the rest of its words in a mount namespace of its own."""
    mine = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *mine, "--mount"]


def hosts_file(directory: Path, address: str) -> Path:
    """Write a file of hosts in which SageMaker's is at an address of this machine."""
    hosts = directory / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{address} {HOST}\n", "utf-8")
    return hosts


def environment(directory: Path, key: Key = KEY) -> dict[str, str]:
    """Variables for pipecat's process: who signs, and a home that has nothing in it.

    The SDK's thread may still write of a cancelled read while the interpreter ends. A buffer whose
    lock it holds then aborts a Python that has something to write too; without one, none does.
    """
    return {
        "PYTHONUNBUFFERED": "1",
        "AWS_ACCESS_KEY_ID": key.access_key_id,
        "AWS_SECRET_ACCESS_KEY": key.secret_access_key,
        "HOME": str(directory),
    }


class Bot:
    """A pipeline in pipecat's process."""

    def __init__(self, pipecat: Pipecat, name: str) -> None:
        self._pipecat = pipecat
        self._name = name

    async def _do(self, do: str, patience: float = PATIENCE, **arguments: Any) -> Any:
        return await self._pipecat.call(do, bot=self._name, patience=patience, **arguments)

    async def hear(self, *audio: bytes) -> None:
        """The user says this."""
        for each in audio:
            await self._do("hear", audio=base64.b64encode(each).decode())

    async def pause(self) -> None:
        """The user has stopped speaking."""
        await self._do("pause")

    async def say(self, text: str) -> None:
        await self._do("say", text=text)

    async def next(self, patience: float = PATIENCE) -> dict[str, Any]:
        return await self._do("next", patience)

    async def meets(self, *whats: str, patience: float = PATIENCE) -> list[dict[str, Any]]:
        """It meets all of these next, in any order, and nothing else; returns them in yours."""
        met: dict[str, dict[str, Any]] = {}
        for _ in whats:
            thing = await self.next(patience)
            what = thing.pop("what")
            assert what in whats, (what, thing)
            assert what not in met, (what, thing)
            met[what] = thing
        return [met[what] for what in whats]

    async def end(self, patience: float = PATIENCE) -> list[dict[str, Any]]:
        """The orderly end of the pipeline; returns what it met that nobody asked for.

        Raises:
            Hung: the pipeline has not ended in time.
        """
        return await self._do("end", patience)

    async def cancel(self, patience: float = PATIENCE) -> list[dict[str, Any]]:
        """Cancel the pipeline; returns and raises as :meth:`end` does."""
        return await self._do("cancel", patience)


class Pipecat(Sdk):
    """The process that runs :mod:`tests.interop.pipecat_client`."""

    async def bot(
        self,
        listens: dict[str, Any] | None = None,
        speaks: dict[str, Any] | None = None,
        **worker: Any,
    ) -> Bot:
        """Start a pipeline.

        Args:
            listens: arguments of its service that transcribes, and the ``model`` that it asks for;
                None for no such service.
            speaks: arguments of its service that speaks.
            worker: more for its ``PipelineWorker``.
        """
        bot = Bot(self, f"bot-{next(self._numbers)}")
        await bot._do("start", region=REGION, listens=listens, speaks=speaks, **worker)
        return bot
