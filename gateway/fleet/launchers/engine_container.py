"""A running container of an engine: its output and its end, even if the engine restarts."""

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
from partway.gateway.fleet.launchers.launcher import LocalContainer
from partway.gateway.fleet.launchers.process import HOST, ProcessEnd
from partway.gateway.fleet.limits import (
    ENGINE_RETRY_LONGEST,
    ENGINE_RETRY_SHORTEST,
    KILL_TIMEOUT,
    LAST_OUTPUT_TIMEOUT,
    OUTPUT_BURST,
    OUTPUT_RATE,
)
from partway.gateway.fleet.output.held_output import HeldOutput
from partway.gateway.network.dialling import Address
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import pause, set_or_over, time_limit
from partway.log_lines import LogLine
from partway.protocol.token_buckets import Allowance

if TYPE_CHECKING:
    from partway.gateway.fleet.launchers.engine_client import EngineClient

log = logging.getLogger("partway.fleet")

#: Engines add this to a signal's number to make an exit status.
_SIGNALLED: Final = 128


@dataclass(frozen=True, slots=True)
class EngineEnd:
    """The end of an engine's container.

    Attributes:
        status: its exit status, 128 plus the number if a signal ended it; None if unknown.
        reason: further words that complete "the container …"; may be empty.
    """

    status: int | None
    reason: str = ""

    def __str__(self) -> str:
        """Complete the sentence "the container …"."""
        if self.status is None:
            return self.reason
        number = self.status - _SIGNALLED
        known = {each.value for each in signal.Signals}
        words = str(ProcessEnd(-number if number in known else self.status))
        return f"{words}: {self.reason}" if self.reason else words


_NOT_KILLED: Final = EngineEnd(None, "could not be killed: its engine does not report its end")


def end_of(state: EngineState) -> EngineEnd:
    reason = "it used more memory than it may have" if state.out_of_memory else state.trouble
    return EngineEnd(state.status, reason)


def growing_waits() -> Iterator[float]:
    """Yield the waits between attempts to reach an engine that is away, in seconds."""
    wait = ENGINE_RETRY_SHORTEST
    while True:
        yield wait
        wait = min(2 * wait, ENGINE_RETRY_LONGEST)


class EngineContainer(LocalContainer):
    """A started container, which its caller must end.

    Made by :class:`~partway.gateway.fleet.launchers.engine.EngineLauncher`. A lost engine does not
    end it: once the engine is back, it is asked what became of the container.

    Args:
        remove: begins to remove it from the engine, once it has ended.
        since: the epoch second from which output is taken; 0 for all.

    Attributes:
        ended: how it has ended; None before its end.
    """

    def __init__(
        self,
        engine: EngineClient,
        name: str,
        state: EngineState,
        remove: Callable[[str], object],
        clock: Clock,
        since: int = 0,
    ) -> None:
        self._engine = engine
        self._name = name
        self.state = state
        self.ended: EngineEnd | None = None
        self._output = HeldOutput()
        self._remove = remove
        self._clock = clock
        self._since = since
        self._over = asyncio.Event()
        self._killed = asyncio.Event()
        self._life = asyncio.create_task(self._live(), name=f"container {name}")

    @property
    def address(self) -> Address:
        return Address(HOST, self.state.port or 0)  # none once it has ended

    def pass_output(self, receiver: Callable[[bytes], None]) -> None:
        self._output.pass_to(receiver)

    async def verify(self) -> None:
        """Accept: the engine itself holds the port."""

    async def listening_trouble(self) -> str:
        """Return nothing: the engine listens for the container, perhaps on another machine."""
        return ""

    async def wait(self) -> EngineEnd:
        return await asyncio.shield(self._life)

    async def terminate(self) -> None:
        """Send SIGTERM to its first process, as soon as the engine takes it."""
        await self._signal("SIGTERM")

    async def stop(self, grace: float) -> bool:
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
        self._killed.set()

    # --- Its life --------------------------------------------------------------------------------

    async def _live(self) -> EngineEnd:
        """Own the tasks that follow the container, from its start to its end.

        The tasks end with the container. The engine may take long to remove what is left; nothing
        here waits for that.
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
        """Wait for the end that the engine reports; ask again while the engine is away."""
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
                trouble = "the engine reported its end, but says that it still runs"
            if self._clock.time() - asked > ENGINE_RETRY_LONGEST:  # a new trouble
                waits, told = growing_waits(), ""
            if trouble != told:
                told = trouble
                log.warning(
                    LogLine(
                        "asking the engine about a container again",
                        container=self._name,
                        reason=trouble,
                    )
                )
            await pause(self._clock, next(waits))

    async def _kill_when_told(self) -> None:
        """Kill it when asked to; return when it should have ended long since."""
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
            except EngineRefusal:  # it does not run, or is gone: the engine reports its end
                return
            else:
                return

    # --- Its output ------------------------------------------------------------------------------

    async def _follow_output(self) -> None:
        """Pass on its output, once and in order, until all of it has been read."""
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
        """Pass on one answer of the engine to its end; return whether it held any output."""
        output.begin()
        found = False
        pace = Allowance(OUTPUT_BURST, OUTPUT_RATE, self._clock.time())
        async with aclosing(self._engine.output(self._name, output.since)) as stream:
            async for data in stream:
                for piece in output.feed(data):
                    self._output.feed(piece)
                    found = True
                pace.draw(len(data), self._clock.time())
                if wait := pace.overdrawn_for(self._clock.time()):
                    await self._ended_or(wait)  # the engine buffers meanwhile
        return found

    async def _ended_or(self, wait: float) -> None:
        await set_or_over(self._over, self._clock, wait)
