"""The interface between the fleet and its launchers, wherever these have their instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from partway.gateway.fleet.endpoint import Variant
from partway.gateway.fleet.limits import ADDRESS_TIMEOUT
from partway.gateway.fleet.states import StartFailure
from partway.gateway.network.dialling import Address


@dataclass(frozen=True, slots=True)
class Order:
    """The order to launch one instance: a value, which may be sent to another machine.

    The launcher brings the variant's model data to where its instances run.

    Attributes:
        instance: its unique id, of letters, digits and hyphens.
        number: its number within the variant, from 0; attached instances each have an address.
        version: names the version of the variant, whose instances share their model data.
        containers: an order for each container, if it has several; ``instance`` of such an order is
            the container's id.
    """

    instance: str
    endpoint: str
    variant: Variant
    number: int
    version: str = ""
    containers: tuple[Order, ...] = ()


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


class Loss(StrEnum):
    #: Its place does not answer. It may come back, and so may its place. The caller waits for that
    #: for UNREACHABLE_TIMEOUT, and then kills it.
    UNREACHABLE = "unreachable"
    #: It has ended, or never comes back.
    GONE = "gone"


class RunningContainer(Protocol):
    """A launched container, which its caller must end."""

    @property
    def address(self) -> Address:
        """Where it listens, or will; of several containers the first."""

    @property
    def loss(self) -> Loss | None:
        """How it is lost; None while nothing is known. Of several the worst."""

    def watch(self, on_loss: Callable[[], object]) -> None:
        """Have a function called when :attr:`loss` has changed.

        The end of an only container is told by :meth:`wait` alone.
        """

    def pass_output(self, receiver: Callable[[bytes], None]) -> None:
        """Pass on its output from its start, as it comes; all of it before :meth:`wait` returns.

        Until then output is held, up to a bound.
        """

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
        """Wait until it is gone, without a time limit.

        Returns:
            How it has ended; its text completes "the container …".
        """

    async def stop(self, grace: float) -> bool:
        """End it: SIGTERM, and SIGKILL ``grace`` seconds later; return when it has ended.

        Returns:
            Whether SIGTERM was enough.
        """

    def kill(self) -> None:
        """Begin to end it at once; :meth:`wait` takes seconds at most from here on.

        So :meth:`wait` returns even if its place does not answer.
        """


class LocalContainer:
    """A container that is gone or not, but never out of reach."""

    loss = None

    def watch(self, on_loss: Callable[[], object]) -> None:
        """Do nothing: only its end is ever told."""


class Launcher(Protocol):
    @property
    def address_timeout(self) -> float | None:
        """Seconds within which :meth:`launch` must give an address, else it is cancelled.

        None for a launcher with limits of its own, such as for the pull of an image.
        """
        return ADDRESS_TIMEOUT

    async def launch(self, order: Order) -> RunningContainer:
        """Return a container as soon as it has an address, whether or not it is ready.

        The container is started, or adopted from a killed gateway if it matches the order. After a
        failure or a cancellation the next order may go to another place.

        Raises:
            LaunchError: it cannot be started. Nothing of it is left then, nor after a cancellation.
        """

    def release(self, version: str) -> None:
        """Release what the instances of a version have shared; all of them have ended."""

    async def aclose(self) -> None:
        """Release what the launcher holds, once all its containers have ended.

        Removals under way are waited for as long as they succeed.
        """
