"""A dialler that reaches each container through an intermediary of its own."""

from __future__ import annotations

import asyncio
import dataclasses
from types import TracebackType
from typing import Final, Self

from partway.gateway.fleet.endpoint import Place
from partway.gateway.network.dialling import Address
from partway.gateway.streams.container_leg import dial_container
from partway.gateway.workbench.intermediary.faults import Rules
from partway.gateway.workbench.intermediary.observer import Observe
from partway.gateway.workbench.intermediary.relay import Intermediary
from partway.protocol.connections.upgrading import Upgraded
from partway.protocol.errors import ServiceUnavailable

#: Unused intermediaries that are kept. Each is one listening socket, and starting one takes a
#: millisecond; the gateway's streams bound the used ones.
MAX_IDLE: Final = 64


@dataclasses.dataclass(eq=False, slots=True)
class _Standing:
    """An intermediary that listens; ``dials`` counts the streams that are being opened now."""

    intermediary: Intermediary
    address: Address
    dials: int = 0

    @property
    def idle(self) -> bool:
        return not self.dials and not self.intermediary.in_use


class InterposingDialler:
    """A :class:`~partway.gateway.streams.container_leg.Dialler` that dials through intermediaries.

    A container's intermediary starts when the container is dialled for the first time. Endpoints
    that appear while the gateway runs have intermediaries too. At most ``max_idle`` unused ones are
    kept. The dialler is an asynchronous context: at its end, once the gateway has drained, all
    intermediaries end.
    """

    def __init__(
        self, rules: Rules, observe: Observe | None = None, *, max_idle: int = MAX_IDLE
    ) -> None:
        self._rules = rules
        self._observe = observe
        self._max_idle = max_idle
        #: The intermediaries, by their containers; the one that was dialled longest ago is the
        #: first.
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
        """End all intermediaries, and drop their open connections."""
        async with self._starting:
            ending = [standing.intermediary.aclose() for standing in self._standing.values()]
            self._standing.clear()
            await asyncio.gather(*ending)

    async def __call__(self, place: Place, target: str, request_id: str) -> Upgraded:
        """Dial as :class:`~partway.gateway.streams.container_leg.Dialler` says."""
        # of two first streams, one starts the intermediary that both use
        async with self._starting:
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
            await intermediary.aclose()  # the caller was cancelled, and this is the only reference
            raise

    async def _end_idle(self) -> None:
        """End the unused intermediaries that were dialled longest ago, to make room for another."""
        idle = [place for place, standing in self._standing.items() if standing.idle]
        for place in idle[: max(0, len(idle) + 1 - self._max_idle)]:
            await self._standing.pop(place).intermediary.aclose()
