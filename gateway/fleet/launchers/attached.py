"""Containers that somebody else runs: they are there, and stay whatever becomes of us."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from partway.gateway.fleet.endpoint import Attached
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.network.dialling import Address


@dataclass(frozen=True, slots=True)
class LetGo:
    """How an attached container's instance has ended: the container itself has not."""

    def __str__(self) -> str:
        """The end in words, as in "the container …"."""
        return "was let go of, and runs on"


@dataclass(frozen=True, slots=True)
class AttachedContainer:
    """A container that somebody else runs; it is never stopped, only let go of.

    Attributes:
        address: where it listens.
    """

    address: Address
    _let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def verify(self) -> None:
        """It is whatever listens there."""

    async def listening_trouble(self) -> str:
        """Nothing is known of it: it may run on another machine."""
        return ""

    async def wait(self) -> LetGo:
        """Wait until it is let go of: its own end is not ours to know."""
        await self._let_go.wait()
        return LetGo()

    async def stop(self, grace: float) -> bool:
        """Let go of it."""
        self._let_go.set()
        return True

    def kill(self) -> None:
        """Let go of it."""
        self._let_go.set()


class AttachLauncher:
    """Gives each instance of an :class:`~partway.gateway.fleet.endpoint.Attached` its address."""

    async def launch(self, order: Order) -> AttachedContainer:
        """Take the address that is the instance's by its number.

        Raises:
            LaunchError: there are fewer addresses.
        """
        source = order.variant.source
        assert isinstance(source, Attached)
        if order.number >= len(source.addresses):
            raise LaunchError(
                f"{len(source.addresses)} URLs are given for {order.number + 1} instances or more: "
                "there must be one for each",
                passing=False,
            )
        return AttachedContainer(source.addresses[order.number])

    async def aclose(self) -> None:
        """Nothing is held."""
