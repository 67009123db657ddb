"""The source of discovered instances: the seam to the system that starts them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from partway.gateway.fleet.endpoint import Discovered
from partway.gateway.network.dialling import Address

#: Characters of an instance's key in its id: the rest of the id names it for people.
_KEY_IN_ID: Final = 8


@dataclass(frozen=True, slots=True)
class FoundInstance:
    """An instance as its system sees it.

    Attributes:
        key: the same in all gateways, and no other instance ever has it.
        name: for people.
        address: an IP address and a port.
        is_ready: whether its system calls it ready.
        is_leaving: whether it is being stopped; it never becomes ready again.
    """

    key: str
    name: str
    address: Address
    is_ready: bool = True
    is_leaving: bool = False

    @property
    def takes_streams(self) -> bool:
        return self.is_ready and not self.is_leaving


def short_id(name: str, key: str) -> str:
    """Return an instance's part of its id, which is behind those of endpoint and variant."""
    return f"{name}-{key[:_KEY_IN_ID]}"


@dataclass(frozen=True, slots=True)
class FoundInstances:
    """All instances of one source, as they are now.

    Attributes:
        instances: keys are unique.
        trouble: why there are none, or not all of them; empty otherwise.
        is_refused: whether the source cannot be used at all; the trouble then says why.
    """

    instances: tuple[FoundInstance, ...] = ()
    trouble: str = ""
    is_refused: bool = False


class Following(Protocol):
    """A source that is being followed."""

    @property
    def trouble(self) -> str:
        """Why changes are not heard of now; empty while they are. The last instances serve on."""

    def tell_reachable(self, instance: FoundInstance, trouble: str) -> None:
        """Take note that this gateway cannot reach an instance; or, without trouble, can again."""

    def stop(self) -> None:
        """Follow it no longer; nothing is called any more."""


class InstanceSources(Protocol):
    """Finds the instances of sources by their names."""

    def follow(
        self, source: Discovered, on_change: Callable[[FoundInstances], object]
    ) -> Following:
        """Follow a source; return at once.

        Args:
            on_change: called with all instances, once they are known and after each change. It is
                never called before this method has returned.
        """
