"""The interface between the fleet and its launchers, for processes and engines alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from partway.gateway.fleet.endpoint import Variant
from partway.gateway.fleet.states import StartFailure
from partway.gateway.network.dialling import Address
from partway.gateway.storage.places.pinned_path import OpenFolder


@dataclass(frozen=True, slots=True)
class Order:
    """The order to launch one instance.

    Attributes:
        instance: its unique id, of letters, digits and hyphens.
        number: its number within the variant, from 0; attached instances each have an address.
        model_dir: the read-only folder with the model's artifacts; None for none.
        containers: an order for each container, if it has several; ``instance`` of such an order is
            the container's id.
        opened: the open folder ``model_dir``, if an API caller has named it.
        on_first_end: called as soon as one of several containers has ended, before the others do.
    """

    instance: str
    endpoint: str
    variant: Variant
    number: int
    model_dir: Path | None
    output: Callable[[bytes], None]
    containers: tuple[Order, ...] = ()
    opened: OpenFolder | None = None
    on_first_end: Callable[[], object] = lambda: None


def no_output(_: bytes) -> None:
    """Ignore a container's output."""


class LaunchError(Exception):
    """An instance cannot be launched; the message says why, and what to do.

    Attributes:
        passing: whether a later attempt may succeed. An engine that is away comes back, but a
            missing program does not appear.
        waits: whether it waits for something that this gateway will have again: GPUs of instances,
            file descriptors of streams, or room on the disk.
    """

    def __init__(
        self,
        why: str,
        *,
        passing: bool,
        waits: bool = False,
        failure: StartFailure = StartFailure.NOT_LAUNCHED,
    ) -> None:
        super().__init__(why)
        self.passing = passing
        self.waits = waits
        self.failure = failure


class RunningContainer(Protocol):
    """A launched container, which its caller must end."""

    @property
    def address(self) -> Address:
        """Where it listens, or will; of several containers the first."""

    async def verify(self) -> None:
        """Verify that this container is what answers at its address.

        The port is chosen before the container listens, so another program may have taken it.

        Raises:
            LaunchError: another program listens there; the message says which.
        """

    async def listening_trouble(self) -> str:
        """Say that nothing listens at its address, and where its program listens instead.

        Returns:
            Words such as "nothing listens on 26933; this process listens on 18999". Empty if
            something listens there, or if that cannot be known.
        """

    async def wait(self) -> object:
        """Wait for its end, without a time limit.

        Returns:
            How it has ended; its text completes "the container …".
        """

    async def stop(self, grace: float) -> bool:
        """End it: SIGTERM, and SIGKILL ``grace`` seconds later; return when it has ended.

        Returns:
            Whether SIGTERM was enough.
        """

    def kill(self) -> None:
        """Begin to end it at once; :meth:`wait` takes seconds at most from here on."""


class Launcher(Protocol):
    async def launch(self, order: Order) -> RunningContainer:
        """Return a container as soon as it has an address, whether or not it is ready.

        The container is started, or adopted from a killed gateway if it matches the order.

        Raises:
            LaunchError: it cannot be started. Nothing of it is left then, nor after a cancellation.
        """

    async def aclose(self) -> None:
        """Release what the launcher holds, once all its containers have ended.

        Removals under way are waited for as long as they succeed.
        """
