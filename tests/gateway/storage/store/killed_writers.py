"""Twenty processes, one after the other, that write to one store and are killed while they do.

Each writes three records with the same number again and again, from the number on that it finds,
and says it once they are written. Prints, for each, the last number said and those found then.
Processes are forked from here: each begins within milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from contextlib import closing
from itertools import count
from pathlib import Path

from partway.gateway.storage.store.database import open_database
from partway.gateway.storage.store.sqlite import SqliteStore
from partway.gateway.storage.store.store import Record
from partway.gateway.timing.clock import LoopClock

ROUNDS = 20


async def write(path: Path, said: int) -> None:
    store = await SqliteStore.opened(path, LoopClock())
    found = await store.records("model")
    for number in count(found[0].body["number"] + 1 if found else 0):
        body = {"number": number, "more": "x" * (number * 977 % 20_000)}
        await store.write(*(Record("model", name, body) for name in "abc"))
        os.write(said, b"%d\n" % number)


def killed(path: Path, after: int, turns: int) -> int:
    """Kill a process some time after it has said so many numbers; returns its last one."""
    reads, writes = os.pipe()
    process = os.fork()
    if not process:
        os.close(reads)
        asyncio.run(write(path, writes))
    os.close(writes)
    with os.fdopen(reads, "rb") as numbers:
        said = [numbers.readline() for _ in range(after)]
        sum(range(turns))  # as long as it takes: somewhere in a later write
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        said += numbers.readlines()
    return int(said[-1])


def main() -> None:
    path, moments = Path(sys.argv[1]), random.Random(20)
    for _ in range(ROUNDS):
        said = killed(path, moments.randrange(1, 8), moments.randrange(50_000))
        with closing(open_database(path)) as connection:
            rows = connection.execute("SELECT body FROM records").fetchall()
        found = [json.loads(body)["number"] for (body,) in rows]
        print(json.dumps({"said": said, "found": found}), flush=True)


main()
