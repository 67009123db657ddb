"""A test that exits has failed, and the run goes on.

Past the test, ``SystemExit`` would end the event loop under those who clean up behind it, and then
pytest: a wrong word in a command line that a coroutine parses would end the whole suite.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any


def failing(test: Callable[..., Awaitable[object]]) -> Callable[..., Awaitable[None]]:
    """The coroutine function, with an ``AssertionError`` where it raises ``SystemExit``."""

    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        try:
            await test(*args, **kwargs)
        except SystemExit as exited:
            raise AssertionError(f"the test exited, with status {exited.code}") from exited

    return run
