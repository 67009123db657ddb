"""A launcher whose instances run on other hosts: it asks an agent of each (:mod:`.far_agent`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from partway.gateway.fleet.launchers.launcher import Launcher, LaunchError, Loss, Order
from partway.gateway.fleet.limits import ADDRESS_TIMEOUT, KILL_TIMEOUT
from partway.gateway.fleet.output.held_output import HeldOutput
from partway.gateway.fleet.states import StartFailure
from partway.gateway.network.dialling import Address
from tests.gateway.fleet.launchers.far_agent import KEEP, receive, send
from tests.gateway.fleet.launchers.order_bytes import encoded

#: Seconds for an agent's answer. A page comes after one at the latest.
PATIENCE: Final = 2.0
#: Seconds until an agent that does not answer is asked again.
_AGAIN: Final = 0.2


@asynccontextmanager
async def _connected(
    agent: Address,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(agent.host, agent.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(agent: Address, *message: object, seconds: float = PATIENCE) -> Any:
    """Ask an agent.

    Raises:
        OSError: it does not answer, or not in time.
    """
    async with asyncio.timeout(seconds), _connected(agent) as (reader, writer):
        send(writer, message)
        try:
            return await receive(reader)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError from None


class FarContainer:
    """A container on another host.

    An agent that refuses connections has ended, and its containers with it. One that does not
    answer may come back.
    """

    def __init__(self, agent: Address, instance: str, address: Address) -> None:
        self.address = address
        self.loss: Loss | None = None
        self._agent = agent
        self._instance = instance
        self._on_loss: Callable[[], object] = lambda: None
        self._output = HeldOutput()
        self._killed = asyncio.Event()
        self._life = asyncio.create_task(self._live(), name=f"container {address}")

    def watch(self, on_loss: Callable[[], object]) -> None:
        self._on_loss = on_loss

    def pass_output(self, receiver: Callable[[bytes], None]) -> None:
        self._output.pass_to(receiver)

    async def verify(self) -> None:
        with suppress(OSError):
            if (error := await self._ask("verify")) is not None:
                raise _error_of(error)

    async def listening_trouble(self) -> str:
        with suppress(OSError):
            return await self._ask("trouble") or ""
        return ""

    async def wait(self) -> str:
        return await asyncio.shield(self._life)

    async def stop(self, grace: float) -> bool:
        if self._life.done():
            return True
        try:
            enough = await self._ask("stop", grace, seconds=grace + KILL_TIMEOUT)
        except OSError:
            enough = False
        self.kill()
        await self.wait()
        return bool(enough)

    def kill(self) -> None:
        self._killed.set()

    async def _ask(self, method: str, *arguments: object, seconds: float = PATIENCE) -> Any:
        return await ask(self._agent, method, self._instance, *arguments, seconds=seconds)

    async def _live(self) -> str:
        killing = asyncio.create_task(self._kill_when_told())
        try:
            return await self._pages(killing)
        finally:
            killing.cancel()
            await asyncio.wait((killing,))

    async def _pages(self, killing: asyncio.Task[None]) -> str:
        """Pull its output in pages; return how it has ended."""
        position = 0
        while True:
            try:
                page = await self._ask("page", position)
            except ConnectionRefusedError:
                return "is gone: the agent of its host has ended"
            except ConnectionResetError:  # the next time says why
                await asyncio.sleep(0)
                continue
            except OSError:
                if killing.done():
                    return "could not be killed: its host does not answer"
                self._become(Loss.UNREACHABLE)
                await asyncio.sleep(_AGAIN)
                continue
            self._become(None)
            if page is None:
                return "is gone: its host does not know it"
            begin, data, end = page
            if begin > position:
                note = f"\n[{begin - position} bytes of output were left out here]\n"
                self._output.feed(note.encode())
            self._output.feed(data)
            position = begin + len(data)
            if end is not None:
                return str(end)

    async def _kill_when_told(self) -> None:
        """Kill it when asked to; return when it should have ended long since."""
        await self._killed.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_TIMEOUT):
                while True:
                    with suppress(OSError):
                        await self._ask("kill")
                    await asyncio.sleep(_AGAIN)

    def _become(self, loss: Loss | None) -> None:
        if loss is not self.loss:
            self.loss = loss
            self._on_loss()


class FarLauncher(Launcher):
    """Launches at the first of some agents; after a failure at the next.

    Args:
        agents: where agents listen.
        address_timeout: see :class:`Launcher`.
    """

    def __init__(
        self, agents: Iterable[Address], address_timeout: float | None = ADDRESS_TIMEOUT
    ) -> None:
        self._agents = deque(agents)
        self._address_timeout = address_timeout
        self._asking: set[asyncio.Task[Any]] = set()

    @property
    def address_timeout(self) -> float | None:
        return self._address_timeout

    async def launch(self, order: Order) -> FarContainer:
        agent = self._agents[0]
        try:
            return await self._launched(agent, order)
        except (OSError, asyncio.IncompleteReadError) as error:
            self._leave(agent)
            raise LaunchError(f"the agent at {agent}: {error}", passing=True) from error
        except BaseException:
            self._leave(agent)
            raise

    def release(self, version: str) -> None:
        for agent in self._agents:
            asking = asyncio.create_task(ask(agent, "release", version))
            self._asking.add(asking)

    async def aclose(self) -> None:
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _leave(self, agent: Address) -> None:
        """Go to another place the next time."""
        if self._agents[0] == agent:
            self._agents.rotate(-1)

    async def _launched(self, agent: Address, order: Order) -> FarContainer:
        async with _connected(agent) as (reader, writer):
            send(writer, ("launch", encoded(order)))
            try:
                answer = await receive(reader)
            except asyncio.CancelledError:
                writer.write_eof()
                with suppress(OSError):
                    async with asyncio.timeout(PATIENCE):
                        await reader.read()  # its end says that nothing is left
                raise
            if "error" in answer:
                raise _error_of(answer["error"])
            writer.write(KEEP)
            return FarContainer(agent, order.instance, Address(answer["host"], answer["port"]))


def _error_of(said: Any) -> LaunchError:
    why, passing, waits, failure = said
    return LaunchError(why, passing=passing, waits=waits, failure=StartFailure(failure))
