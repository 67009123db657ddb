"""Dials containers through intermediaries, of which one stands before each container."""

from __future__ import annotations

import asyncio
import dataclasses
from types import TracebackType
from typing import Final, Self

from partway.gateway.fleet.endpoint import Place
from partway.gateway.network.dialling import Address, Upgraded
from partway.gateway.streams.container_leg import dial_container
from partway.gateway.workbench.intermediary.faults import Rules
from partway.gateway.workbench.intermediary.observer import Observe
from partway.gateway.workbench.intermediary.relay import Intermediary
from partway.protocol.errors import ServiceUnavailable

#: Intermediaries that are kept though no stream uses them. Each is one listening socket, and to
#: start it anew takes a millisecond; those in use are no more than the gateway has streams.
MAX_IDLE: Final = 64


@dataclasses.dataclass(eq=False, slots=True)
class _Standing:
    """An intermediary that listens.

    Attributes:
        intermediary: what listens.
        address: where the intermediary listens.
        dials: how many streams are being opened through it just now.
    """

    intermediary: Intermediary
    address: Address
    dials: int = 0

    @property
    def idle(self) -> bool:
        return not self.dials and not self.intermediary.in_use


class InterposingDialler:
    """A :class:`~partway.gateway.streams.container_leg.Dialler` that dials through intermediaries.

    A container's intermediary is started when the container is dialled for the first time, so the
    containers of endpoints that appear while the gateway runs have one too. The dialler is an
    asynchronous context: at its end, once the gateway has drained, all intermediaries end.

    Args:
        rules: which streams have which faults, shared by all endpoints.
        observe: asked for each stream who wants to watch it.
        max_idle: intermediaries that are kept though no stream uses them.
    """

    def __init__(
        self, rules: Rules, observe: Observe | None = None, *, max_idle: int = MAX_IDLE
    ) -> None:
        self._rules = rules
        self._observe = observe
        self._max_idle = max_idle
        #: By what they stand before; the one that was dialled longest ago is the first.
        self._standing: dict[Place, _Standing] = {}
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Start nothing yet: the first stream starts the first intermediary."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End all intermediaries, and drop what is open on them."""
        async with self._starting:
            ending = [standing.intermediary.aclose() for standing in self._standing.values()]
            self._standing.clear()
            await asyncio.gather(*ending)

    async def __call__(self, place: Place, target: str, request_id: str) -> Upgraded:
        """See :class:`~partway.gateway.streams.container_leg.Dialler`."""
        async with self._starting:  # of two streams that are the first, one starts what both use
            standing = self._standing.pop(place, None) or await self._start(place)
            self._standing[place] = standing
            standing.dials += 1
        try:
            before = dataclasses.replace(place, container=standing.address, tls=None)
            return await dial_container(before, target, request_id)
        finally:
            standing.dials -= 1

    async def _start(self, place: Place) -> _Standing:
        intermediary = Intermediary(
            place.endpoint,
            place.container,
            self._rules,
            self._observe,
            place.policy,
            place.tls,
        )
        await self._end_idle()
        try:
            return _Standing(intermediary, await intermediary.start())
        except OSError as error:
            raise ServiceUnavailable(
                "this gateway cannot listen on loopback, which its faults and recordings need: "
                f"{error.strerror or error}"
            ) from None
        except BaseException:
            await intermediary.aclose()  # who asked has left; nobody else knows of it
            raise

    async def _end_idle(self) -> None:
        """Make room for one more intermediary: end those dialled longest ago that are unused."""
        idle = [place for place, standing in self._standing.items() if standing.idle]
        for place in idle[: max(0, len(idle) + 1 - self._max_idle)]:
            await self._standing.pop(place).intermediary.aclose()
