"""The services of a gateway: each has routes, and takes part in the gateway's start and drain."""

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

    A fault in a method that is not a coroutine, or during the drain, does not stop the other
    services: the gateway logs the service's name. After a fault during the drain, the exit status
    of ``partway serve`` is 1.
    """

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of its operations; read once, after all services have been made."""
        return ()

    # --- The start -------------------------------------------------------------------------------

    def disk_steps(self) -> Iterable[DiskStep]:
        """Return the first steps of its start; a step that the disk refuses is tried again."""
        return ()

    async def start(self) -> None:
        """Begin: the disk has been asked, and attached endpoints are in service.

        Raises:
            StoreError: the store cannot be read. The gateway does not start.
        """

    def on_listening(self) -> None:
        """Begin the work that must wait until the gateway listens."""

    # --- While the gateway runs ------------------------------------------------------------------

    def keep_only(self, endpoints: Collection[str]) -> None:
        """Drop the metrics of all endpoints but these, the only ones left."""

    def take_settings(self, settings: Settings) -> None:
        """Apply new settings; the fleet is about to follow them."""

    async def settings_taken(self) -> None:
        """Do work that the new settings make possible; the fleet follows them."""

    # --- The drain -------------------------------------------------------------------------------

    def hasten(self) -> None:
        """Cut the drain short: a second signal. It may come before all other methods below."""

    async def close_to_new(self) -> None:
        """Refuse new work."""

    async def drain(self, grace: float) -> None:
        """Return once no work is under way; break off the rest after so many seconds."""

    async def stop(self) -> None:
        """Stop the work that uses instances, while the fleet stops."""

    async def aclose(self) -> None:
        """Close everything; all instances have stopped."""


def call_each(services: Iterable[Service], call: Callable[[Service], object]) -> None:
    """Call a method of all services; a fault of one does not stop the others."""
    for each in services:
        try:
            call(each)
        except Exception:  # the other services have their parts to do
            log.exception(has_failed(each))


def has_failed(service: Service) -> LogLine:
    return LogLine("a service has failed", service=type(service).__name__)
