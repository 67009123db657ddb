"""What the fleet expects of whatever launches containers, be it a process or an engine."""

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
    """One instance that is to be launched.

    Attributes:
        instance: its id, of letters, digits and hyphens; no other instance of any time has it.
        endpoint: the name of its endpoint.
        variant: what it is an instance of.
        number: which of the variant's instances it is, from 0; attached ones have an address each.
        model_dir: the folder with the model's artifacts, not to be written to; None for none.
        output: takes what it prints, as it comes.
        containers: where it has several, an order for each; the instance of such an order is the
            container's own id.
        opened: the folder ``model_dir``, kept open, where a caller of the API has named it.
        on_first_end: called as soon as one of several containers has ended; the others have yet to.
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
    """Take what a container prints of which nothing comes here."""


class LaunchError(Exception):
    """An instance cannot be launched; the message says why, and what to do.

    Attributes:
        passing: whether a later attempt may fare better: an engine that is away comes back, but no
            program appears where there is none.
        waits: whether it waits for what others of this gateway have, and give back: GPUs of its
            instances, file descriptors of its streams; or for room on the gateway's disk.
        failure: how the start was in vain.
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
    """A container that was launched: its caller's to end."""

    @property
    def address(self) -> Address:
        """Where it listens, or will; of several containers the first."""

    async def verify(self) -> None:
        """Make sure, once something answers at its address, that it is this container.

        A port is chosen before its container listens: somebody else may have taken it meanwhile.

        Raises:
            LaunchError: somebody else listens there; the message says who.
        """

    async def listening_trouble(self) -> str:
        """Say that nothing listens at its address, and where its program listens instead.

        Returns:
            Words such as "nothing listens on 26933; this process listens on 18999"; empty where
            something listens there, or where that cannot be known.
        """

    async def wait(self) -> object:
        """Wait for its end, for as long as it lives.

        Returns:
            How it has ended; its text completes "the container …".
        """

    async def stop(self, grace: float) -> bool:
        """End it: SIGTERM, and SIGKILL ``grace`` seconds later; returns when it has ended.

        Returns:
            Whether SIGTERM was enough.
        """

    def kill(self) -> None:
        """Begin to end it at once; :meth:`wait` takes seconds at most from here on."""


class Launcher(Protocol):
    """Launches containers of one kind."""

    async def launch(self, order: Order) -> RunningContainer:
        """Have a container; returns as soon as it has an address, whether or not it is ready.

        It is started, unless one is there already that is nobody's, and all that the order says.

        Raises:
            LaunchError: it cannot be started. Nothing of it is left then, nor if this is cancelled.
        """

    async def aclose(self) -> None:
        """Give back what the launcher itself holds, once all its containers have ended.

        What is left of them may go away meanwhile: that is waited for here, as long as it does.
        """
