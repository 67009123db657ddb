"""The services of a gateway: each brings routes, and has a part in the start and in the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from partway.log_lines import LogLine

if TYPE_CHECKING:
    from partway.gateway.http.routes import Route
    from partway.gateway.settings.settings import Settings
    from partway.gateway.storage.disk_recovery import DiskStep

log = logging.getLogger("partway.gateway")


class Service:
    """A part of a gateway with a life of its own, such as an API.

    The gateway calls the methods of all services in the order of this class. It calls a service
    before those that need it, except for :meth:`aclose`, which it calls in the opposite order. A
    method does nothing unless a service overrides it.

    The gateway logs a fault by the service's name and goes on with the other services, if the fault
    is that of a method that is no coroutine, or comes on the way down. After one on the way down
    the exit status of ``partway serve`` is 1.
    """

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of its operations; read once, after all services have been made."""
        return ()

    # --- The way up ------------------------------------------------------------------------------

    def disk_steps(self) -> Iterable[DiskStep]:
        """The first steps of its start; the disk may refuse each, and it is tried again then."""
        return ()

    async def start(self) -> None:
        """Begin: the disk has been asked, and attached endpoints are in service.

        Raises:
            StoreError: what was written down cannot be read. The gateway does not start.
        """

    def on_listening(self) -> None:
        """Go on with what waits until the gateway listens."""

    # --- While the gateway runs ------------------------------------------------------------------

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Forget what was counted of all endpoints but these, which are all that are left."""

    def take_settings(self, settings: Settings) -> None:
        """Work by other settings from now on; the fleet is about to follow them."""

    async def settings_taken(self) -> None:
        """Do what other settings make possible; the fleet follows them."""

    # --- The way down ----------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the way down short: a second signal. It may come before any of the rest."""

    async def close_to_new(self) -> None:
        """Take nothing new."""

    async def drain(self, grace: float) -> None:
        """Return once nothing is under way; break off what has not ended after so many seconds."""

    async def stop(self) -> None:
        """Stop what works with instances, while the fleet stops."""

    async def aclose(self) -> None:
        """Close everything; all instances have stopped."""


def call_each(services: Iterable[Service], call: Callable[[Service], object]) -> None:
    """Call a method of all services; a fault of one keeps no other from being called."""
    for each in services:
        try:
            call(each)
        except Exception:  # whatever it is, the other services have their parts to do
            log.exception(has_failed(each))


def has_failed(service: Service) -> LogLine:
    """What the log says of a service that has failed."""
    return LogLine("a service has failed", service=type(service).__name__)
