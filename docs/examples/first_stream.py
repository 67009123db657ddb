"""One conversation through the real wire: gateway, echo container, client. Run by ``make demo``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from partway import CompletionState, DataType, PayloadPart, connect
from partway.gateway.cli.invoke_output import FramePrinter

PARTIAL, COMPLETE = CompletionState.PARTIAL, CompletionState.COMPLETE
UTF8, BINARY = DataType.UTF8, DataType.BINARY

CONVERSATION = [
    ("a whole text message", [PayloadPart(b"Hello", UTF8, COMPLETE)]),
    (
        "a text message in three fragments, a code point split between two",
        [
            PayloadPart("Grüße, ".encode(), UTF8, PARTIAL),
            PayloadPart("🌍".encode()[:2], UTF8, PARTIAL),
            PayloadPart("🌍".encode()[2:], UTF8, COMPLETE),
        ],
    ),
    ("a whole binary message", [PayloadPart(bytes(range(32)), BINARY, COMPLETE)]),
    (
        "a binary message in two fragments, one of them empty",
        [PayloadPart(b"\x00\x01\x02", BINARY, PARTIAL), PayloadPart(b"", BINARY, COMPLETE)],
    ),
]


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[str]:
    """A command that prints ``listening on URL``; stopped with SIGTERM at the end."""
    program = Path(sys.executable).with_name(command[0])  # of the same environment
    process = await asyncio.create_subprocess_exec(
        program, *command[1:], stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        if not line.startswith("listening on "):
            raise SystemExit(f"{command[0]} did not start: {line!r}")
        print(f"$ {' '.join(command)}\n  {line}")
        yield line.removeprefix("listening on ")
    finally:
        if process.returncode is None:
            process.terminate()
        status = await asyncio.wait_for(process.wait(), 35)
        print(f"{command[0]} stopped with status {status}")
    if status != 0:
        raise SystemExit(f"{command[0]} ended with status {status}")


async def main() -> None:
    """Start everything, talk, stop everything."""
    container = (
        "partway-container",
        "serve",
        "--model",
        "echo",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
    )
    async with running(*container) as container_url:
        gateway = ("partway", "serve", "--port", "0", "--endpoint", f"echo={container_url}")
        async with running(*gateway) as gateway_url:
            await converse(gateway_url)


async def converse(gateway_url: str) -> None:
    """Send each message, see each of its parts come back as it went."""
    printer = FramePrinter(sys.stdout)
    async with connect(gateway_url, "echo") as stream:
        print(f"stream {stream.request_id} is open")
        for title, parts in CONVERSATION:
            print(f"\n{title}")
            for part in parts:
                printer.show(part, sent=True)
                await stream.send(part)
            for part in parts:
                echoed = await stream.receive()
                if echoed is None:
                    raise SystemExit("the stream ended early")
                printer.show(echoed, sent=False)
                if echoed != part:
                    raise SystemExit(f"{part} came back as {echoed}")
        await stream.end_input()
        if await stream.receive() is not None:
            raise SystemExit("a part came back that was never sent")
        print("\nevery part came back as it went; the stream ended cleanly")


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(), 120))
