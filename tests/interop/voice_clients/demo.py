"""Four voice clients, unmodified, each in a conversation that breaks. Run by ``make voice``.

Each says the same WAV. It interrupts the answer, the container is killed in the next answer, and a
turn follows once another container runs. The exit status is not zero if one of these went wrong,
and never for being slow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import wave
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr

from tests.interop.aws_sdk import REGION, Hung, Sdk, SdkError, ServedGateway
from tests.interop.chat_clients.servers import in_service, output_of
from tests.interop.pipecat_bot import ADDRESS, hosts_file, own_mounts, with_hosts
from tests.interop.voice_clients.sound import sound, write_wav
from tests.interop.voice_clients.voice_gateway import (
    BASE,
    FLAGS,
    PRINCIPALS,
    STREAMS,
    TOKEN,
    api_key,
    environment,
)

HERE = Path(__file__).parent
#: Seconds for one command of a client, and for all clients.
PATIENCE = 60.0
WHOLE = 600.0

SENTENCE = "Good morning! What is the weather like in Oslo?"
RATE = 16_000


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its name for people, its program, the variable of its interpreter."""

    name: str
    program: str
    python: str

    @property
    def log(self) -> str:
        return f"{self.program}.log"


CLIENTS = (
    Client("pipecat on SageMaker", "talk_pipecat.py", "PIPECAT_PYTHON"),
    Client("deepgram-sdk", "talk_deepgram.py", "VOICE_PYTHON"),
    Client("openai Realtime", "talk_openai.py", "VOICE_PYTHON"),
    Client("LiveKit Realtime", "talk_livekit.py", "VOICE_PYTHON"),
)

HEAD = """\
| client | first audio | told after | history kept | error | the turn after it |
|---|---|---|---|---|---|"""


class DemoError(Exception):
    """Something that the demonstration needs is not there; the message says what."""


# --- The WAV -------------------------------------------------------------------------------------


def say(file: Path) -> str:
    """Write what the users say, at 16 kHz; return the voice's name."""
    program = shutil.which("espeak-ng")
    if program is None:
        samples, voice = np.frombuffer(sound(RATE, 1.0, 0.2, 1.4), "<i2"), "tones"
    else:
        subprocess.run([program, "-w", str(file), SENTENCE], check=True, timeout=PATIENCE)
        samples, voice = _read(file), "espeak-ng"
    silence = np.zeros(RATE, np.int16)
    said = np.concatenate([silence[: RATE // 5], samples, silence])
    write_wav(file, RATE, said.tobytes())
    return voice


def _read(file: Path) -> Any:
    with wave.open(str(file)) as recorded:
        samples = np.frombuffer(recorded.readframes(recorded.getnframes()), "<i2")
        resampled = soxr.resample(samples.astype(np.float32), recorded.getframerate(), RATE)
    return np.clip(np.rint(resampled), -32768, 32767).astype(np.int16)


# --- The endpoint --------------------------------------------------------------------------------


class Endpoint:
    """``voice`` behind a gateway that starts another container when one has died."""

    def __init__(self, gateway: ServedGateway, directory: Path) -> None:
        self.gateway = gateway
        self.directory = directory

    @classmethod
    @asynccontextmanager
    async def start(cls, directory: Path, engines: dict[str, str]) -> AsyncIterator[Endpoint]:
        """Run it.

        Args:
            directory: for files.
            engines: settings of ``voice``.
        """
        words = [sys.executable, "-m", "partway.container", "serve", "--model", "voice"]
        words += ["--host", "127.0.0.1"]
        for name, engine in engines.items():
            words += ["--set", f"{name}={engine}"]
        port = '--port "$SAGEMAKER_BIND_TO_PORT"'
        script = f"echo $$ > {directory}/pid; exec {shlex.join(words)} {port}"
        config = (
            f'host = "{ADDRESS}"\n\n[endpoints.voice]\n'
            f'command = ["sh", "-c", {json.dumps(script)}]\nnormal_close = "end"\n'
        )
        flags = (*FLAGS, "--data-dir", str(directory / "state"))
        async with ServedGateway.start(directory, config, PRINCIPALS, *flags) as gateway:
            endpoint = cls(gateway, directory)
            await in_service("voice", directory / "state")
            yield endpoint

    async def kill(self) -> None:
        """Kill the container; return when another one is in service."""
        killed = self._pid()
        os.kill(int(killed), signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            while not await self._serves_without(killed):
                pass

    def _pid(self) -> str:
        """Return the process id of the newest container; empty while its file is written."""
        return (self.directory / "pid").read_text("utf-8").strip()

    async def _serves_without(self, killed: str) -> bool:
        """Return, after a short wait, whether another container serves."""
        await asyncio.sleep(0.2)
        if self._pid() in ("", killed):
            return False
        words = ("endpoints", "--json", "--data-dir", str(self.directory / "state"))
        listing = json.loads(await output_of(sys.executable, "-m", "partway", *words))
        (variant,) = listing["endpoints"][0]["variants"]
        return variant["serving"] > 0


# --- The clients ---------------------------------------------------------------------------------


async def row(client: Client, endpoint: Endpoint, wav: Path, folder: Path) -> tuple[str, str]:
    """Let a client talk; return its row of the table, and its version."""
    hosts = with_hosts(hosts_file(endpoint.directory, ADDRESS))
    variables = environment(endpoint.gateway, endpoint.directory)
    running = Sdk.start(
        os.environ[client.python],
        endpoint.gateway.ca,
        endpoint.directory / client.log,
        program=HERE / client.program,
        before=hosts,
        environment=variables | {"PYTHONPATH": str(HERE.parent)},
    )
    async with running as process:
        cells = await _conversation(process, endpoint, wav)
        await process.call("save", begin=str(folder / client.program[5:-3]))
        return f"| {client.name} | {' | '.join(cells)} |", process.version


async def _conversation(process: Sdk, endpoint: Endpoint, wav: Path) -> list[str]:
    async def do(command: str, **arguments: str) -> Any:
        return await process.call(command, patience=PATIENCE, **arguments)

    place = {"base": BASE, "key": api_key(), "endpoint": "voice", "region": REGION}
    place |= {"streams": STREAMS, "token": TOKEN, "wav": str(wav)}
    await do("open", **place)
    first = await do("say")
    interruption = await do("interrupt")
    killing = asyncio.create_task(endpoint.kill())
    try:
        error = await do("failure")
        await do("close")
    finally:
        await killing
    await do("open", **place)
    again = await do("say")
    seconds = await do("hear_out")
    await do("close")
    kept = interruption["kept"]
    return [
        _milliseconds(first),
        _milliseconds(interruption["told"]),
        "–" if kept is None else f"“{kept}”",
        error.replace("|", "\\|").replace("\n", " "),
        f"worked: first audio {_milliseconds(again)}, {seconds:.1f} s of it",
    ]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


# --- The command ---------------------------------------------------------------------------------


async def run(folder: Path, engines: dict[str, str]) -> int:
    """Print the table; return the exit status."""
    wav = folder / "user.wav"
    voice = say(wav)
    faults, versions = [], []
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        async with asyncio.timeout(WHOLE), AsyncExitStack() as stack:
            starting = Endpoint.start(directory, engines)
            try:
                endpoint = await stack.enter_async_context(starting)
            except (AssertionError, TimeoutError):
                log = _end(directory / "gateway.log")
                raise DemoError(f"voice does not start:\n{log}") from None
            print(HEAD, flush=True)
            for client in CLIENTS:
                try:
                    line, version = await row(client, endpoint, wav, folder)
                except (AssertionError, Hung, SdkError, TimeoutError) as error:
                    faults.append(f"{client.name}: {error}\n{_end(directory / client.log)}")
                    continue
                versions.append(version)
                print(line, flush=True)
    said = ", ".join(f"{name} {engine}" for name, engine in engines.items())
    print(f"\n{', '.join(versions)}. The user: {voice}. Engines: {said}.")
    print(f"{folder} has what was said, and the answers.")
    for fault in faults:
        print(f"make voice: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _end(log: Path) -> str:
    return log.read_text("utf-8")[-2000:]


def check() -> None:
    """Raise DemoError for what is missing."""
    for client in CLIENTS:
        if not Path(os.environ.get(client.python, "")).is_file():
            raise DemoError(
                f"{client.python} must name an interpreter that has the client of {client.name}"
            )
    try:
        subprocess.run([*own_mounts(), "true"], check=True, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        raise DemoError(
            "some clients connect to SageMaker's host name alone, so they need a file of hosts of "
            f"their own: Linux, unshare, and root or user namespaces ({error})"
        ) from None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.voice_clients.demo")
    parser.add_argument("folder", type=Path, help="for WAV files")
    for name in ("hears", "speaks"):
        parser.add_argument(f"--{name}", metavar="ENGINE", default="stub")
    args = parser.parse_args()
    turns = "stub" if args.hears == "stub" else "energy"
    engines = {"hears": args.hears, "speaks": args.speaks, "answers": "stub", "turns": turns}
    try:
        check()
        args.folder.mkdir(parents=True, exist_ok=True)
        for file in args.folder.glob("*-?.wav"):
            file.unlink()  # of an earlier run, which may have had more answers
        return asyncio.run(run(args.folder.absolute(), engines))
    except DemoError as error:
        print(f"make voice: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
