"""The largest parts in each subprotocol of WebSocket clients: the delay of other clients.

A client in a process of its own sends parts of 16 MiB to an echoing container. It sends them one
after the other, as fast as they come back. Beside it small parts go to and fro on a connection of
their own.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import subprocess
import sys
import time

import msgpack
import psutil
import uvloop
from websockets.asyncio.client import connect

from benchmarks.floods import Client, FloodError
from benchmarks.peers import StartError, echo_container, gateway

_PATH = "/endpoints/echo/invocations-bidirectional-stream"
_SIZE = 16 << 20
_SETTLING = 1.0


def message(subprotocol: str) -> str | bytes:
    """The largest part, as a client of the subprotocol sends it."""
    payload = os.urandom(_SIZE)
    if subprotocol == "raw":
        return payload
    if subprotocol == "msgpack":
        return msgpack.packb({"PayloadPart": {"Bytes": payload}})
    return json.dumps({"PayloadPart": {"Bytes": base64.b64encode(payload).decode()}})


async def attack(subprotocol: str, address: str, seconds: float) -> int:
    """Send the part again and again; return how often it came back."""
    url = f"ws://{address}{_PATH}"
    large, count = message(subprotocol), 0
    async with connect(
        url, subprotocols=[f"payloadpart.v1.{subprotocol}"], max_size=None, compression=None
    ) as client:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await client.send(large)
            await client.recv(decode=False)
            count += 1
    return count


async def waits(address: str, command: list[str]) -> tuple[float, int]:
    """The slowest round trip of small parts beside the attacker, in seconds, and its parts."""
    other = await Client.open(address)
    chat = asyncio.create_task(other.chat())
    attacker = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    await asyncio.sleep(_SETTLING)  # the attacker has loaded, and made its part
    other.slowest = 0.0
    output, _ = await attacker.communicate()
    slowest = other.slowest
    chat.cancel()
    await asyncio.wait([chat])
    await other.leave()
    return slowest, int(output)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_parts", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each (5)")
    for option in ("--attack", "--address"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.attack:
        print(asyncio.run(attack(args.attack, args.address, args.seconds)))
        return 0
    print("| subprotocol | parts a second | slowest of others, ms |\n|---|---:|---:|")
    try:
        for subprotocol in ("raw", "msgpack", "json"):
            with echo_container() as container, gateway(container) as peer:
                command = [sys.executable, "-m", "benchmarks.large_parts", "--attack", subprotocol]
                command += ["--address", peer.address, "--seconds", str(args.seconds)]
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    slowest, count = runner.run(waits(peer.address, command))
                psutil.Process(peer.pid).kill()
            print(f"| {subprotocol} | {count / args.seconds:.1f} | {slowest * 1e3:.0f} |")
    except (StartError, FloodError) as error:
        print(f"benchmarks.large_parts: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
