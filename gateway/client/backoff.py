"""Reconnecting: streams that are opened again after passing errors, with growing delays.

::

    async for attempt in reconnecting(lambda: connect("http://127.0.0.1:8090", "echo")):
        async with attempt as stream:
            print(await stream.ask("hello"))  # hello
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final, Self

from partway.gateway.client.errors import PartwayError
from partway.gateway.client.stream import ClientStream
from partway.gateway.timing.clock import Clock, LoopClock
from partway.gateway.timing.deadlines import pause
from partway.log_lines import LogLine

log = logging.getLogger("partway.client")

#: Each delay is this many times the one before (AWS's SDKs double theirs).
_GROWTH: Final = 2.0

#: A delay is drawn between this share of it and all of it. So clients that lost their streams
#: together do not come back together, nor at once.
_LEAST_SHARE: Final = 0.5

#: The shortest time, in seconds, after which an attempt counts as good, however short the delays
#: are. Otherwise attempts with short delays that fail soon after their start would never be given
#: up.
_WELL_AFTER: Final = 30.0

Opener = Callable[[], AbstractAsyncContextManager[ClientStream]]


def reconnecting(
    opener: Opener,
    *,
    attempts: int | None = 10,
    first_delay: float = 0.5,
    longest_delay: float = 30.0,
) -> Reconnecting:
    """Open a stream, and another one whenever it fails with an error whose ``reconnect`` is true.

    Each turn of the loop is an attempt, whose block has a stream of its own. A block that ends,
    also by ``break``, ends the loop. After an error whose ``reconnect`` is true, or a group of such
    errors alone, the next attempt follows; any other error is raised. A new stream has a new model
    stream behind it, and only the caller knows which messages to send again. ``async with`` opens
    an attempt's stream, and retries until there is one.

    Args:
        opener: called for each attempt; returns the context manager that opens a stream, such as
            ``lambda: connect(url, endpoint)``.
        attempts: how many in a row may fail until the error is raised; None for any number.
        first_delay: seconds before the second attempt. Each further delay is twice as long. A
            random part of each delay, at most half of it, is left out.
        longest_delay: the maximum of a delay, in seconds. After an attempt that lasted as long, and
            at least 30 s, attempts and delays are counted anew.

    Raises:
        ValueError: a number is out of its range.
    """
    if attempts is not None and attempts < 1:
        raise ValueError(f"attempts: {attempts} was given; it must be 1 or more, or None")
    if not 0 <= first_delay <= longest_delay:
        raise ValueError(
            f"first_delay: {first_delay:g} was given; it must be from 0 to longest_delay, which is "
            f"{longest_delay:g}"
        )
    return Reconnecting(
        opener, attempts, first_delay, longest_delay, clock=LoopClock(), chance=random.random
    )


class Reconnecting:
    """An async iterator of attempts; made by :func:`reconnecting`, which documents the arguments.

    Args:
        clock: measures delays, and how long attempts last.
        chance: gives a number from 0 to 1, evenly.
    """

    def __init__(
        self,
        opener: Opener,
        attempts: int | None,
        first_delay: float,
        longest_delay: float,
        *,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self.clock = clock
        self._opener = opener
        self._attempts = attempts
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._chance = chance
        self._failed = 0
        self._delay = 0.0
        self._over = False
        self._awaited: Attempt | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Attempt:
        """Return the next attempt, which opens its stream when it is entered.

        Raises:
            RuntimeError: the attempt before it was not entered.
        """
        if self._over:
            raise StopAsyncIteration
        if self._awaited is not None:
            raise RuntimeError(
                "the last attempt was not entered; each attempt must be entered with `async with "
                "attempt as stream`"
            )
        self._awaited = Attempt(self)
        return self._awaited

    async def open(
        self, attempt: Attempt
    ) -> tuple[AbstractAsyncContextManager[ClientStream], ClientStream]:
        """Open an attempt's stream, with as many tries as necessary, each after its delay.

        Returns:
            The context manager that opened the stream, and the stream.

        Raises:
            PartwayError: no stream was opened, and there is no further attempt.
            RuntimeError: the attempt has been entered before.
        """
        if attempt is not self._awaited:
            raise RuntimeError(
                "an attempt was entered twice; each stream must have its own attempt from the loop"
            )
        self._awaited = None
        while True:
            if self._failed:
                await pause(self.clock, self._delay)  # a delay of 0 lets other tasks run
            self._over = True  # unless it fails
            opening = self._opener()
            try:
                return opening, await opening.__aenter__()
            except PartwayError as error:
                if not self.goes_on(error, lasted=0.0):
                    raise

    def goes_on(self, error: BaseException, *, lasted: float) -> bool:
        """Note that an attempt has failed after some seconds; return whether another follows."""
        if lasted >= max(self._longest_delay, _WELL_AFTER):
            self._failed = 0
        self._failed += 1
        self._over = not _may_pass(error) or self._failed == self._attempts
        if self._over:
            return False
        whole = self._first_delay * _GROWTH ** min(self._failed - 1, 64)
        share = _LEAST_SHARE + (1 - _LEAST_SHARE) * self._chance()
        self._delay = share * min(whole, self._longest_delay)
        log.info(LogLine("a stream failed", next_in=round(self._delay, 3), error=str(error)))
        return True


class Attempt(AbstractAsyncContextManager[ClientStream]):
    """One stream, open for one ``async with`` block.

    Args:
        series: opens it, and decides whether another attempt follows.
    """

    def __init__(self, series: Reconnecting) -> None:
        self._series = series

    async def __aenter__(self) -> ClientStream:
        self._opening, stream = await self._series.open(self)
        self._opened_at = self._series.clock.time()
        return stream

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        lasted = self._series.clock.time() - self._opened_at
        if await self._opening.__aexit__(error_type, error, traceback):
            return True
        return error is not None and self._series.goes_on(error, lasted=lasted)


def _may_pass(error: BaseException) -> bool:
    match error:
        case PartwayError():
            return error.reconnect
        case BaseExceptionGroup():  # from tasks that used the stream side by side
            return all(_may_pass(each) for each in error.exceptions)
        case _:
            return False
