"""A program that is started for a replay, and ended after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

from partway.gateway.fleet.health.startup_pace import pinged
from partway.gateway.fleet.launchers.empty_model import empty_model_dir
from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.fleet.launchers.process import Command, free_port, launch
from partway.gateway.fleet.launchers.programs import MODEL_DIR
from partway.gateway.fleet.processes.leash import Leash
from partway.gateway.network.dialling import Address


@asynccontextmanager
async def started_program(
    words: Sequence[str], on_output: Callable[[bytes], None]
) -> AsyncIterator[Address]:
    """Start a program, wait until its ``/ping`` says 200, and yield its address.

    The program ends with the block. ``words`` are as ``partway serve`` takes them.

    Raises:
        LaunchError: the program cannot be started, has ended, or is not ready within eight minutes.
    """
    with closing(Leash()) as leash, empty_model_dir() as model_dir:
        command = Command(words, free_port(), {MODEL_DIR: model_dir}, Path.cwd())
        process = await launch(command, leash, on_output, readiness=pinged)
        try:
            ready = asyncio.create_task(process.ready.wait())
            ended = asyncio.create_task(process.wait())
            try:
                await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
            finally:
                ready.cancel()
                ended.cancel()
            if not process.ready.is_set():
                assert process.ended is not None, "one of the two is done"
                how = process.ended.reason or process.ended
                raise LaunchError(f"the container {how}", passing=False)
            yield process.address
        finally:
            await process.stop()
