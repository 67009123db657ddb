"""``partway.aiohttp.setup``: a gateway becomes part of an application, and lives as long."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Final

from aiohttp import web

from partway.gateway.admin.kept_data import (
    admin_socket,
    admin_socket_step,
    data_directory,
    kept_out,
    opened_store,
)
from partway.gateway.aiohttp_app.application_front import ApplicationFront
from partway.gateway.aiohttp_app.application_settings import ApplicationSettings
from partway.gateway.aiohttp_app.mount import Mount
from partway.gateway.gateway import Gateway
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import DataDirectory, DataDirectoryError
from partway.log_lines import LogLine

log = logging.getLogger("partway.aiohttp")


class AlreadySetUp(RuntimeError):
    """The application has a gateway already."""


class ApplicationFrozen(RuntimeError):
    """The application has been started or added to another, and takes no more routes."""


class ApplicationGateway:
    """The gateway of one application.

    Raises:
        PrefixError: the prefix is no place for a gateway.
    """

    def __init__(self, app: web.Application, settings: ApplicationSettings, prefix: str) -> None:
        self._settings = settings
        self._mount = Mount(app, prefix, self._answer)
        self._front: ApplicationFront
        self._running: Gateway | None = None
        app.cleanup_ctx.append(self._life)
        app.on_shutdown.append(self._drain)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        return await self._front.answer(request)

    @asynccontextmanager
    async def _life(self, app: web.Application) -> AsyncIterator[None]:
        # The user's own folder for a port belongs to the gateway that listens there.
        settings = replace(self._settings.gateway, port=0)
        warnings: list[LogLine] = []
        async with AsyncExitStack() as up:
            data = up.enter_context(_owned(settings, warnings) or nullcontext())
            store = await up.enter_async_context(opened_store(data, settings))
            own = kept_out(self._settings.config)
            gateway = Gateway(settings, data=data, store=store, kept_out=own)
            admin = None
            if data is not None:
                admin = admin_socket(data, gateway)
                up.push_async_callback(admin.aclose)  # after the drain: commands ask until then
            self._front = ApplicationFront(gateway, self._mount)
            await gateway.start_behind(self._front)
            self._running = gateway
            up.push_async_callback(self._drain, app)
            for warning in warnings:
                log.warning(warning)
            if data is not None and admin is not None:
                await gateway.disk_recovery.attempt(admin_socket_step(data, admin))
            gateway.disk_recovery.start()
            yield

    async def _drain(self, app: web.Application) -> None:
        """Drain, once: before aiohttp closes, or where the application does not start."""
        gateway, self._running = self._running, None
        if gateway is not None:
            await gateway.drain()


#: The gateway of an application.
_GATEWAY: Final = web.AppKey("partway gateway", ApplicationGateway)


def setup(app: web.Application, settings: ApplicationSettings, prefix: str = "/models") -> None:
    """Put a gateway into an application, which starts and stops it.

    Args:
        app: an application without a gateway that is neither started nor part of another one;
            it may become a sub-application afterwards.
        settings: the gateway's settings, from :func:`load_settings`.
        prefix: the prefix of the gateway's paths, such as ``/models``. If it is empty, the gateway
            gets every path for which the application has no other route.

    Raises:
        TypeError: an argument has the wrong type.
        ApplicationFrozen: the application has been started, or added to another one.
        AlreadySetUp: the application has a gateway.
        PrefixError: the prefix is no place for a gateway.
    """
    _check_kinds(app, settings)
    if app.frozen or app.pre_frozen:
        raise ApplicationFrozen(
            f"{app!r} has been started, or added to another application; setup() must be called "
            "before that"
        )
    if _GATEWAY in app:
        raise AlreadySetUp(
            f"{app!r} has a gateway already; it must have one at most, but a sub-application may "
            "have its own"
        )
    app[_GATEWAY] = ApplicationGateway(app, settings, prefix)


def _check_kinds(app: object, settings: object) -> None:
    """Check the types of the arguments.

    Raises:
        TypeError: an argument has the wrong type.
    """
    if not isinstance(app, web.Application):
        raise TypeError(f"app: {type(app).__name__} was given; it must be an Application")
    if not isinstance(settings, ApplicationSettings):
        kind = type(settings).__name__
        raise TypeError(f"settings: {kind} was given; it must be the result of load_settings()")


def _owned(settings: Settings, warnings: list[LogLine]) -> DataDirectory | None:
    """Open the data directory, which no other gateway may have.

    Raises:
        DataDirectoryError: the directory cannot be used; the message says why.
    """
    try:
        return data_directory(settings, warnings)
    except DataDirectoryError as error:
        raise DataDirectoryError(f"data_dir: {error}") from None
