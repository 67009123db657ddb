"""Chat clients at an engine behind the gateway, at ``chat``, at ``text``, and at LiteLLM's proxy.

``python -m benchmarks.chat_clients`` prints one table in markdown: what each client asked each
server, and the shortest of the times that it took. The clients, their questions and what must come
of them are those of ``tests/interop/chat_clients_check.py``. The exit status is not zero when a
process did not run or an answer was wrong, and never for being slow.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import StartError
from tests.interop.aws_sdk import Hung, SdkError
from tests.interop.chat_clients.clients import CLIENTS, Libraries
from tests.interop.chat_clients.scenarios import SCENARIOS, Asking
from tests.interop.chat_clients.servers import Fleet, fleet

#: The variables that name what is installed, and what each must have.
VARIABLES = {
    "CHAT_PYTHON": "an interpreter with openai, litellm, langchain-openai, langchain-aws and "
    "openai-agents",
    "STRANDS_PYTHON": "an interpreter with strands-agents[openai,sagemaker]",
    "PROXY_PYTHON": "an interpreter with litellm[proxy]",
    "TEXT_PYTHON": "an interpreter with partway[text]",
    "TEXT_MODEL": "the folder of a language model, such as SmolLM2-135M-Instruct",
}

#: The scenarios that are shown, and their columns.
COLUMNS = {
    "whole": "chat",
    "stream": "stream",
    "usage": "usage",
    "tool": "tool call",
    "schema": "JSON schema",
    "leave": "cancellation",
    "error": "error text",
}

#: The servers, and how they are called.
SERVERS = {
    "stub": "an engine",
    "chat": "`chat`",
    "text": "`text`",
    "proxy": "LiteLLM's proxy",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """The outcome of a scenario.

    Attributes:
        text: for the table.
        fault: what was wrong; empty for nothing.
    """

    text: str
    fault: str = ""


async def run(args: argparse.Namespace) -> int:
    """Print the table; return the exit status."""
    place = {name: _named(name) for name in VARIABLES}
    faults = []
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        serving = fleet(
            directory,
            text_python=place["TEXT_PYTHON"],
            text_model=Path(place["TEXT_MODEL"]),
            proxy=place["PROXY_PYTHON"],
        )
        pythons = {"chat": place["CHAT_PYTHON"], "strands": place["STRANDS_PYTHON"]}
        async with (
            serving as served,
            Libraries.start(pythons, served.gateway, directory) as libraries,
        ):
            print(f"| client | at | {' | '.join(COLUMNS.values())} |")
            print("|---|---|" + "---|" * len(COLUMNS))
            async for row, found in _rows(served, libraries, args.rounds):
                print(row, flush=True)
                faults += found
            proxy = _version(place["PROXY_PYTHON"], "litellm")
            versions = [*libraries.versions, f"LiteLLM's proxy {proxy}"]
            print(f"\n{', '.join(versions)}; `text` has {args.model}; {os.cpu_count()} cores.")
    for fault in faults:
        print(f"benchmarks.chat_clients: {fault}", file=sys.stderr)
    return 1 if faults else 0


async def _rows(
    served: Fleet, libraries: Libraries, rounds: int
) -> AsyncIterator[tuple[str, list[str]]]:
    """Yield each client at each server as a row, and its faults."""
    for client in CLIENTS:
        driven = await libraries.of(client)
        for server in SERVERS:
            if client.of_aws and not served.servers[server].gateway:
                continue
            asking = Asking(served, driven, client, served.servers[server])
            await _cell(asking, "whole", 1)  # connects, imports
            cells = [await _cell(asking, scenario, rounds) for scenario in COLUMNS]
            row = (
                f"| {client.name} | {SERVERS[server]} | {' | '.join(cell.text for cell in cells)} |"
            )
            yield row, [f"{client.name} at {server}: {cell.fault}" for cell in cells if cell.fault]


async def _cell(asking: Asking, scenario: str, rounds: int) -> Cell:
    """Play a scenario; return the shortest time, and a word where there is more to say."""
    if scenario not in asking.client.able:
        return Cell("–")
    times, said = [], ""
    for _ in range(1 if asking.server.name == "text" else rounds):
        begun = time.perf_counter()
        try:
            said = await SCENARIOS[scenario](asking)
        except (AssertionError, SdkError, TimeoutError, Hung) as error:
            return Cell("wrong", f"{scenario}: {type(error).__name__}: {error}")
        times.append(time.perf_counter() - begun)
    if said in ("refused", "no call", "cut"):
        return Cell(said)
    milliseconds = f"{min(times) * 1000:.0f} ms"
    return Cell(f"{said}, {milliseconds}" if said else milliseconds)


def _named(variable: str) -> str:
    found = os.environ.get(variable)
    if not found or not Path(found).exists():
        raise StartError(
            f"{variable} is {found!r}; it must name {VARIABLES[variable]}: see make clients"
        )
    return str(Path(found).absolute())


def _version(python: str, package: str) -> str:
    program = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartError(f"{python} has no {package}")
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chat_clients")
    parser.add_argument("--rounds", type=int, default=5, help="of which the shortest is shown (5)")
    parser.add_argument(
        "--model",
        metavar="NAME",
        default=Path(os.environ.get("TEXT_MODEL", "")).name,
        help="how the table calls the language model (its folder's name)",
    )
    args = parser.parse_args()
    try:
        return asyncio.run(run(args))
    except StartError as error:
        print(f"benchmarks.chat_clients: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
