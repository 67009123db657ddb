"""Both directions of a crossing: bytes pass as they come, or spoiled by faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from partway.gateway.workbench.intermediary.connection_side import TcpSide
from partway.gateway.workbench.intermediary.delays import Pacer
from partway.gateway.workbench.intermediary.faults import Delay, Fault, Throttle
from partway.gateway.workbench.intermediary.frame_faults import (
    Piece,
    RawFrames,
    Spoiler,
    SpoilerState,
)
from partway.gateway.workbench.intermediary.heads import AnswerReader
from partway.gateway.workbench.intermediary.observer import Observer

#: Seconds for the other side, once one side has ended its half. Linux gives a closed socket as long
#: (tcp_fin_timeout).
HALF_OPEN_TIMEOUT: Final = 60.0


async def splice(gateway: TcpSide, container: TcpSide) -> None:
    await _until_both_end(_pass_all(gateway, container), _pass_all(container, gateway))


async def _pass_all(source: TcpSide, sink: TcpSide) -> None:
    while data := await source.read():
        await sink.write(data)
    sink.end()


async def _until_both_end(up: Coroutine[Any, Any, None], down: Coroutine[Any, Any, None]) -> None:
    """Run both directions; an error of one ends the other too, and is raised."""
    tasks = {asyncio.create_task(up), asyncio.create_task(down)}
    try:
        ended, going = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
        async with asyncio.timeout(HALF_OPEN_TIMEOUT):
            await asyncio.gather(*going)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PassedStream:
    """A stream without faults: every byte passes as it comes.

    Args:
        gateway: the gateway's connection, of which the request's head has been read.
        container: the container's connection, to which the head has been passed on.
        observer: told of everything; None if the stream is not watched.
    """

    def __init__(self, gateway: TcpSide, container: TcpSide, observer: Observer | None) -> None:
        self._gateway = gateway
        self._container = container
        self._observer = observer

    async def run(self) -> None:
        """Pass everything on, until both sides have ended.

        Raises:
            OSError: a side's connection broke, or a side takes nothing.
        """
        await _until_both_end(self._up(), self._down())

    async def _up(self) -> None:
        while data := await self._gateway.read():
            # The observer hears of a frame before it is written, so that no answer can overtake it.
            await self._gateway.watch.feed(data)
            await self._container.write(data)
        self._gateway.watch.ended()
        self._container.end()

    async def _down(self) -> None:
        frames = await self._answer()
        if frames is not None:
            await self._frames(frames)

    async def _answer(self) -> bytes | None:
        """Pass the container's answer to the upgrade.

        Returns:
            The bytes behind a 101, which are not passed yet; None if the container has refused
            the upgrade, and ended.
        """
        answer = AnswerReader()
        told = False
        try:
            while True:
                data = await self._container.read()
                answer.receive(data)
                if answer.answer is not None and not told:
                    told = True
                    self._answered(answer)
                if answer.frames is not None:
                    await self._gateway.write(data[: len(data) - len(answer.frames)])
                    return answer.frames
                if not data:
                    break
                await self._gateway.write(data)
        finally:
            if not told:
                answer.receive(b"")  # the rest of a refusal is not awaited
                self._answered(answer)
        self._container.watch.ended()
        self._gateway.end()
        return None

    def _answered(self, answer: AnswerReader) -> None:
        if self._observer is not None and answer.answer is not None:
            self._observer.answered(answer.answer)

    async def _frames(self, first: bytes) -> None:
        data = first
        while True:
            await self._container.watch.feed(data)
            await self._gateway.write(data)
            data = await self._container.read()
            if not data:
                break
        self._container.watch.ended()
        self._gateway.end()


class SpoiledStream(PassedStream):
    """A stream whose container has faults.

    Args:
        observer: sees the same as the gateway; None if the stream is not watched.
        faults: the faults of the stream; a Refuse must not be among them.
        applied: told of each fault, each time it does something.
    """

    def __init__(
        self,
        gateway: TcpSide,
        container: TcpSide,
        observer: Observer | None,
        faults: Sequence[Fault],
        applied: Callable[[Fault], None],
    ) -> None:
        super().__init__(gateway, container, observer)
        self._faults = faults
        self._applied = applied
        self._spoiler = Spoiler(faults, applied)
        self._gateway_ended = asyncio.Event()
        #: Whether the gateway's bytes are dropped, because the container is gone.
        self._container_gone = False

    async def _up(self) -> None:
        while data := await self._gateway.read():
            await self._gateway.watch.feed(data)
            if self._container_gone:
                continue
            try:
                await self._container.write(data)
            except OSError as error:
                if isinstance(error, TimeoutError) and self._spoiler.state is SpoilerState.OPEN:
                    raise
                # The container's last bytes may still be on their way: the other direction ends the
                # stream.
                self._container_gone = True
        self._gateway.watch.ended()
        self._container.end()
        self._gateway_ended.set()

    async def _frames(self, first: bytes) -> None:
        spoiler, frames = self._spoiler, RawFrames()
        pacer = Pacer(self._gateway.write, self._container.watch.frame, self._faults)
        for fault in self._faults:
            if isinstance(fault, (Delay, Throttle)):
                self._applied(fault)
        pacer.put(spoiler.begin())
        data = first
        while True:
            for piece in frames.feed(data):
                pacer.put(spoiler.spoil(piece))
                await pacer.make_room()
            if spoiler.state is SpoilerState.CUT:
                await self._cut(pacer)
                return
            data = await self._read_on(pacer)
            if not data:
                break
        if spoiler.state is SpoilerState.STALLED:
            await pacer.pass_all()
            # The client must see no end either: the gateway's limits decide how long.
            await self._gateway_ended.wait()
            return
        rest = frames.rest() if spoiler.state is SpoilerState.OPEN else b""
        pacer.put([Piece(rest, None)])
        await pacer.pass_all()
        self._container.watch.ended("in the middle of a frame" if rest else "")
        self._gateway.end()

    async def _cut(self, pacer: Pacer) -> None:
        await pacer.pass_all()
        self._container.watch.ended("in the middle of a frame")
        self._container_gone = True
        self._container.reset()
        self._gateway.end()

    async def _read_on(self, pacer: Pacer) -> bytes:
        """Read the container's next bytes; pieces that are due go to the gateway meanwhile."""
        while True:
            await pacer.pass_due()
            waiting = asyncio.timeout_at(pacer.next_at)
            try:
                async with waiting:
                    return await self._container.read()
            except OSError:  # includes TimeoutError
                if not waiting.expired():
                    if self._spoiler.state is SpoilerState.OPEN:
                        await pacer.pass_all()  # the end is as late as the frames
                        raise
                    return b""
