"""What the tests of worker processes share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from partway.container import Processes, Workers
from tests.container.wire import PATIENCE
from tests.container.workers.models import Worked


@asynccontextmanager
async def working(
    model_dir: Path, settings: Processes | None = None
) -> AsyncIterator[tuple[Workers, Worked]]:
    """Worker processes, that are all gone in the end."""
    model = Worked()
    model.runs_on = settings or Processes()  # type: ignore[misc]  # each test has its own
    workers = Workers(model, grace=0.2, restart_delay=0.02)
    try:
        async with asyncio.timeout(20):
            await workers.start(model_dir)
        yield workers, model
    finally:
        await workers.stop()
        assert not left_over(model_dir)


async def eventually(condition: Callable[[], object]) -> None:
    """Wait for what another process does. It gets the time that asking more often would take."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 (it has no event)
            await asyncio.sleep(0.01)


def loads(model_dir: Path) -> list[int]:
    """The processes that have begun to load the model, in order."""
    return [int(line) for line in (model_dir / "loads").read_text().split()]


def left_over(model_dir: Path) -> set[int]:
    """Those of them that there are still."""
    return {child.pid for child in active_children() if child.pid} & set(loads(model_dir))


async def last(items: AsyncIterator[Any]) -> Any:
    return [item async for item in items][-1]
