"""What a program does that another one tells what to do, line by line.

Reads commands from standard input and answers each on standard output, both one JSON object a line.
Commands run side by side and are answered when they are done, in any order::

    {"id": 1, "do": "greet", "whom": "you"}
    {"id": 1, "result": "hello, you"}
    {"id": 2, "do": "greet", "whom": 7}
    {"id": 2, "error": {"kind": "TypeError", "text": "...", "cause": null}}

The program lies beside this module, and may be run by an interpreter that has nothing of Partway.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

#: Bytes that a command may have.
LIMIT = 2**24


async def follow(driver: object, members: tuple[str, ...] = ()) -> None:
    """Have a driver's methods do what standard input asks for, until it ends.

    Args:
        driver: the commands are its asynchronous methods.
        members: of an exception, which are told besides its class, its text and its cause's class.
    """
    commands = asyncio.StreamReader(limit=LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    running = set()
    async for line in commands:
        task = asyncio.create_task(_answer(driver, line, members))
        running.add(task)
        task.add_done_callback(running.discard)


async def _answer(driver: object, line: bytes, members: tuple[str, ...]) -> None:
    command = json.loads(line)
    number, do = command.pop("id"), command.pop("do")
    try:
        answer: dict[str, Any] = {"result": await getattr(driver, do)(**command)}
    except Exception as error:  # whatever it is, it is the answer
        cause = None if error.__cause__ is None else type(error.__cause__).__name__
        told = {"kind": type(error).__name__, "text": str(error), "cause": cause}
        told |= {name: getattr(error, name, None) for name in members}
        answer = {"error": told}
    sys.stdout.write(json.dumps({"id": number, **answer}) + "\n")
    sys.stdout.flush()
