"""The usual loop of aiohttp: some requests at a time, a line each.

``python -m benchmarks.transform_aiohttp URL INPUT OUTPUT CONCURRENT`` prints records a second.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import uvloop


async def _asked(url: str, lines: Sequence[bytes], concurrent: int) -> list[bytes]:
    answers = [b""] * len(lines)
    left = iter(enumerate(lines))
    headers = {"Content-Type": "text/csv"}
    connector = aiohttp.TCPConnector(limit=concurrent)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def some() -> None:
            for number, line in left:
                async with session.post(url, data=line, headers=headers) as response:
                    response.raise_for_status()
                    answers[number] = await response.read()

        await asyncio.gather(*(some() for _ in range(concurrent)))
    return answers


def main(url: str, source: Path, target: Path, concurrent: int) -> None:
    """Ask for all lines of a file, and write the answers."""
    began = time.perf_counter()
    lines = source.read_bytes().splitlines(keepends=True)
    target.write_bytes(b"".join(uvloop.run(_asked(url, lines, concurrent))))
    print(len(lines) / (time.perf_counter() - began))


if __name__ == "__main__":
    main(f"{sys.argv[1]}/invocations", Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
