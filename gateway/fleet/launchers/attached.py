"""Attached containers: they run outside the gateway, before and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from partway.gateway.fleet.endpoint import Attached
from partway.gateway.fleet.launchers.launcher import LaunchError, LocalContainer, Order
from partway.gateway.network.dialling import Address


@dataclass(frozen=True, slots=True)
class LetGo:
    """The end of an attached container's instance; the container itself runs on."""

    def __str__(self) -> str:
        """Complete the sentence "the container …"."""
        return "was released, and keeps running"


@dataclass(frozen=True, slots=True)
class AttachedContainer(LocalContainer):
    """A container that runs outside the gateway; it is released, never stopped."""

    address: Address
    _let_go: asyncio.Event = field(default_factory=asyncio.Event)

    def pass_output(self, receiver: Callable[[bytes], None]) -> None:
        """Do nothing: its output goes elsewhere."""

    async def verify(self) -> None:
        """Accept whatever listens there."""

    async def listening_trouble(self) -> str:
        """Return nothing: the container may run on another machine."""
        return ""

    async def wait(self) -> LetGo:
        """Wait until it is released; the gateway cannot know the container's own end."""
        await self._let_go.wait()
        return LetGo()

    async def stop(self, grace: float) -> bool:
        self._let_go.set()
        return True

    def kill(self) -> None:
        self._let_go.set()


class AttachLauncher:
    """Gives each instance of an :class:`~partway.gateway.fleet.endpoint.Attached` its address."""

    address_timeout = None

    async def launch(self, order: Order) -> AttachedContainer:
        """Take the address with the instance's number.

        Raises:
            LaunchError: there are fewer addresses.
        """
        source = order.variant.source
        assert isinstance(source, Attached)
        if order.number >= len(source.addresses):
            raise LaunchError(
                f"{len(source.addresses)} URLs were given for at least {order.number + 1} "
                "instances; each instance must have one",
                passing=False,
            )
        return AttachedContainer(source.addresses[order.number])

    def release(self, version: str) -> None:
        """Do nothing: they share nothing."""

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""
