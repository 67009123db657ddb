"""A container of an engine: what it prints and its end, though the engine may come and go."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from partway.gateway.fleet.launchers.engine_answers import (
    NOT_FOUND,
    EngineAway,
    EngineRefusal,
    EngineState,
)
from partway.gateway.fleet.launchers.engine_output import EngineOutput, EngineOutputError
from partway.gateway.fleet.launchers.process import HOST, ProcessEnd
from partway.gateway.fleet.limits import (
    ENGINE_RETRY_LONGEST,
    ENGINE_RETRY_SHORTEST,
    KILL_TIMEOUT,
    LAST_OUTPUT_TIMEOUT,
    OUTPUT_BURST,
    OUTPUT_RATE,
)
from partway.gateway.network.dialling import Address
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause, set_or_over, time_limit
from partway.log_lines import LogLine
from partway.protocol.token_buckets import Allowance

if TYPE_CHECKING:
    from partway.gateway.fleet.launchers.engine_client import EngineClient

log = logging.getLogger("partway.fleet")

#: What an engine adds to a signal's number where it has an exit status only.
_SIGNALLED: Final = 128


@dataclass(frozen=True, slots=True)
class EngineEnd:
    """How an engine's container has ended.

    Attributes:
        status: its exit status, 128 more than a signal's number for one that was ended by it; None
            where nobody knows.
        reason: what else there is to say, completing "the container …"; may be empty.
    """

    status: int | None
    reason: str = ""

    def __str__(self) -> str:
        """The end in words, as in "the container …"."""
        if self.status is None:
            return self.reason
        number = self.status - _SIGNALLED
        known = {each.value for each in signal.Signals}
        words = str(ProcessEnd(-number if number in known else self.status))
        return f"{words}: {self.reason}" if self.reason else words


_NOT_KILLED: Final = EngineEnd(None, "could not be killed: its engine does not tell of its end")


def end_of(state: EngineState) -> EngineEnd:
    """What an engine says of a container's end."""
    reason = "it had used up its memory" if state.out_of_memory else state.trouble
    return EngineEnd(state.status, reason)


def growing_waits() -> Iterator[float]:
    """How long to wait before an engine that is away is asked again, time after time."""
    wait = ENGINE_RETRY_SHORTEST
    while True:
        yield wait
        wait = min(2 * wait, ENGINE_RETRY_LONGEST)


class EngineContainer:
    """A container that was started: its caller's to end.

    Made by :class:`~partway.gateway.fleet.launchers.engine.EngineLauncher`. An engine that goes
    away is no end of it: once the engine is back it is asked what became of the container.

    Args:
        engine: the engine, where the container was started.
        name: the container's.
        state: how it was once it had been started.
        output: takes what it prints, as it comes.
        remove: begins to have it removed from the engine, once it has ended.
        clock: measures all times.
        since: the second from which on what it prints is taken; 0 for all.

    Attributes:
        state: the same.
        ended: how it has ended; None before its end.
    """

    def __init__(
        self,
        engine: EngineClient,
        name: str,
        state: EngineState,
        output: Callable[[bytes], None],
        remove: Callable[[str], object],
        clock: Clock,
        since: int = 0,
    ) -> None:
        self._engine = engine
        self._name = name
        self.state = state
        self.ended: EngineEnd | None = None
        self._output = output
        self._remove = remove
        self._clock = clock
        self._since = since
        self._over = asyncio.Event()
        self._killed = asyncio.Event()
        self._life = asyncio.create_task(self._live(), name=f"container {name}")

    @property
    def address(self) -> Address:
        """Where it listens, or will."""
        return Address(HOST, self.state.port or 0)  # one that has ended by now has none

    async def verify(self) -> None:
        """It is its engine that has its port."""

    async def listening_trouble(self) -> str:
        """Nothing is known of it: its engine listens in its place, perhaps on another machine."""
        return ""

    async def wait(self) -> EngineEnd:
        """Wait for its end, for as long as it lives."""
        return await asyncio.shield(self._life)

    async def terminate(self) -> None:
        """Send SIGTERM to its first process, as soon as the engine takes it."""
        await self._signal("SIGTERM")

    async def stop(self, grace: float) -> bool:
        """End it: SIGTERM, and SIGKILL ``grace`` seconds later; returns when it has ended.

        Returns:
            Whether SIGTERM was enough.
        """
        enough = not self._killed.is_set()
        try:
            async with time_limit(self._clock, grace):
                await self.terminate()
                await self._over.wait()
        except TimeoutError:
            enough = False
            self.kill()
        await self.wait()
        return enough

    def kill(self) -> None:
        """Begin to end it at once; :meth:`wait` takes seconds at most from here on."""
        self._killed.set()

    # --- Its life --------------------------------------------------------------------------------

    async def _live(self) -> EngineEnd:
        """Own what follows the container, from the start to the end.

        It ends with the container, whose streams go elsewhere from then on: that the engine may
        take its time to remove what is left is waited for by nobody here.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                following = tasks.create_task(self._follow_output())
                killing = tasks.create_task(self._kill_when_told())
                asking = tasks.create_task(self._ask_for_end())
                await asyncio.wait((asking, killing), return_when=asyncio.FIRST_COMPLETED)
                self.ended = asking.result() if asking.done() else _NOT_KILLED
                self._over.set()
                with suppress(TimeoutError):
                    async with time_limit(self._clock, LAST_OUTPUT_TIMEOUT):
                        await asyncio.wait((following,))
                for task in (following, killing, asking):
                    task.cancel()
        finally:
            self._over.set()
            self._remove(self._name)
        return self.ended

    async def _ask_for_end(self) -> EngineEnd:
        """Wait for the end as the engine tells of it, and for an engine that is away to be back."""
        waits, told = growing_waits(), ""
        while True:
            asked = self._clock.time()
            try:
                await self._engine.wait(self._name)
                state = await self._engine.state(self._name)
            except EngineAway as away:
                trouble = str(away)
            except EngineRefusal as refusal:
                if refusal.status == NOT_FOUND:
                    return EngineEnd(None, "was removed from its engine by somebody else")
                trouble = str(refusal)
            else:
                if not state.running:
                    return end_of(state)
                trouble = "the engine told of its end, and says that it runs"
            if self._clock.time() - asked > ENGINE_RETRY_LONGEST:  # a trouble of its own
                waits, told = growing_waits(), ""
            if trouble != told:
                told = trouble
                log.warning(LogLine("engine is asked again", container=self._name, reason=trouble))
            await pause(self._clock, next(waits))

    async def _kill_when_told(self) -> None:
        """Kill it when that is asked for; returns when it should have ended long since."""
        await self._killed.wait()
        with suppress(TimeoutError):
            async with time_limit(self._clock, KILL_TIMEOUT):
                await self._signal("SIGKILL")
                await self._over.wait()

    async def _signal(self, name: str) -> None:
        """Send it a signal, as soon as the engine takes one."""
        for wait in growing_waits():
            try:
                await self._engine.signal(self._name, name)
            except EngineAway:
                await pause(self._clock, wait)
            except EngineRefusal:  # it does not run, or is gone: the engine tells of its end
                return
            else:
                return

    # --- What it prints --------------------------------------------------------------------------

    async def _follow_output(self) -> None:
        """Pass on what it prints, once and in order, until all is read that it has printed."""
        output = EngineOutput(self._since)
        waits = growing_waits()
        while True:
            ended = self._over.is_set()
            try:
                if await self._read_output(output):
                    waits = growing_waits()
            except EngineAway:
                await self._ended_or(next(waits))
                if ended:
                    await pause(self._clock, next(waits))
            except (EngineRefusal, EngineOutputError) as error:
                log.warning(
                    LogLine("container's output is lost", container=self._name, reason=str(error))
                )
                return
            else:
                if ended:
                    return
                await self._ended_or(next(waits))

    async def _read_output(self, output: EngineOutput) -> bool:
        """Pass on what one answer of the engine brings, to its end; whether that was anything."""
        output.begin()
        found = False
        pace = Allowance(OUTPUT_BURST, OUTPUT_RATE, self._clock.time())
        async with aclosing(self._engine.output(self._name, output.since)) as stream:
            async for data in stream:
                for piece in output.feed(data):
                    self._output(piece)
                    found = True
                pace.draw(len(data), self._clock.time())
                if wait := pace.overdrawn_for(self._clock.time()):
                    await self._ended_or(wait)  # the engine keeps what comes meanwhile
        return found

    async def _ended_or(self, wait: float) -> None:
        """Wait for its end, but no longer than so many seconds."""
        await set_or_over(self._over, self._clock, wait)
