"""The process of a command: log, loop, signals, descriptors."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from partway.gateway.containers.limits import MAX_IDLE_CONNECTIONS
from partway.gateway.limits import MAX_FORWARDED
from partway.gateway.settings.settings import Settings
from partway.gateway.timing.deadlines import before, set_or_call
from partway.log_lines import LogLine

log = logging.getLogger("partway.serve")

#: Exit status of a process that Ctrl-C has ended, as shells report it.
INTERRUPTED: Final = 130

_T = TypeVar("_T")


def stop_on_signals(
    again: Callable[[], None], reload: Callable[[], None] | None = None
) -> asyncio.Event:
    """Return an event that the first SIGTERM or SIGINT sets; each further one calls ``again``.

    Args:
        reload: called for each SIGHUP, which is left alone without it.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, set_or_call, stop, again)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reload)
    return stop


async def until_signalled(work: Coroutine[Any, Any, _T]) -> _T | None:
    """Return the result of ``work``; None if SIGINT or SIGTERM has cancelled it."""
    stop = stop_on_signals(again=lambda: None)  # the work ends at once: nothing could hasten it
    return await before(stop, work)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, by a KeyboardInterrupt.

    For a command without an event loop that must leave a terminal or a connection in order.
    """
    earlier = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def descriptors_of(loaded: Settings, of_stream: int = 1) -> int:
    """Most descriptors that a gateway's connections may need at once.

    Args:
        of_stream: connections of each stream besides its client's.
    """
    streams = loaded.max_streams * of_stream
    forwarded = 0 if loaded.workers == 1 else MAX_FORWARDED
    return loaded.max_connections + streams + loaded.max_requests + MAX_IDLE_CONNECTIONS + forwarded


def raise_descriptor_limit(needed: int) -> None:
    """Raise this process's limit of open files as far as allowed; warn if that may not suffice.

    At the limit uvloop closes new connections without a word.

    Args:
        needed: most descriptors that the process may need at once.
    """
    try:
        import resource
    except ImportError:  # not POSIX
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS says "unlimited", and does not take it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft != resource.RLIM_INFINITY and soft < needed:
        log.warning(
            LogLine(
                "the limit of open files is too low for max_connections, max_streams and "
                "max_requests: raise it (ulimit -Hn) or lower these three",
                limit=soft,
                needed=needed,
            )
        )


def run_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run ``main`` on uvloop where that is installed, else on asyncio's own loop."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.run(main)
    import uvloop

    with signal_handlers_restored():
        return uvloop.run(main)


@contextmanager
def signal_handlers_restored() -> Iterator[None]:
    """Restore the signal handlers after the block.

    A loop of uvloop's leaves its handlers behind when it closes: signals would be lost then.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # else Python did not set it
                signal.signal(number, handler)
