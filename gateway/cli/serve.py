"""``partway serve``: run the gateway."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.access.authentication import AuthenticatorError
from partway.gateway.admin.kept_data import (
    admin_socket,
    admin_socket_step,
    announce,
    data_directory,
    kept_out,
    opened_store,
    tell_missing_folders,
    uses_store,
)
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.process import (
    descriptors_of,
    raise_descriptor_limit,
    run_loop,
    stop_on_signals,
)
from partway.gateway.cli.serve_arguments import EXAMPLES, add_arguments
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.health.ping import tell_which_answer
from partway.gateway.gateway import Gateway
from partway.gateway.limits import (
    CERTIFICATE_LOCK_TIMEOUT,
    SETTLING_TIMEOUT,
    THREAD_SWITCH_INTERVAL,
)
from partway.gateway.ports import Listening
from partway.gateway.settings import settings
from partway.gateway.settings.settings import Settings
from partway.gateway.settings_reload import Reloading
from partway.gateway.storage.data_directory import (
    DataDirectory,
    DataDirectoryError,
)
from partway.gateway.storage.disk_recovery import NEEDS_DISK, TLS_PORT, DiskStep
from partway.gateway.storage.store.store import StoreError
from partway.gateway.streams.container_leg import Dialler, dial_container
from partway.gateway.timing.clock import Clock, LoopClock
from partway.gateway.timing.deadlines import before
from partway.gateway.tls.trust import TlsError, TlsUnavailable
from partway.log_lines import LogLine, say_failure, say_listening, start_logging
from partway.variables import KEPT_STATE

log = logging.getLogger("partway.serve")

if TYPE_CHECKING:
    from partway.gateway.cli.serve_faults import Intermediaries
    from partway.gateway.cli.serve_tls import Tls
    from partway.gateway.workers.workers_setup import WorkersSetup

    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway serve"


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "serve",
        help=COMMANDS["serve"],
        description=f"Run the gateway until SIGTERM, then drain: see {page('how-to/operate.md')}",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # only given flags take precedence over the other sources
        argument_default=argparse.SUPPRESS,
    )
    add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.upgrade:
        from partway.gateway.cli.serve_upgrade import upgrade

        return upgrade(vars(options).get("data_dir"))
    known = {field.name for field in dataclasses.fields(Settings)}
    flags = {name: value for name, value in vars(options).items() if name in known}
    config = Path(options.config) if options.config else None

    def load() -> Settings:
        return settings.load(flags, os.environ, config)

    try:
        loaded = load()
        between = _between(options, loaded)
        if options.check:
            from partway.gateway.cli.serve_check import check

            print("\n".join(check(loaded)))
            return 0
    except SettingsError as error:
        say_failure(_NAME, str(error))
        return 2
    start_logging(loaded.log_level, loaded.log_format)
    if between is None:
        raise_descriptor_limit(descriptors_of(loaded))
        if loaded.workers > 1 or KEPT_STATE in os.environ:  # after an upgrade
            from partway.gateway.cli.serve_workers import supervised

            return supervised(lambda now, it: serve(now, load, config, workers=it), loaded, load)
        return run_loop(serve(loaded, load, config))
    raise_descriptor_limit(between.descriptors)
    try:
        between.open()
    except OSError as error:
        why = error.strerror or error
        say_failure(_NAME, f"--record {options.record}: {why}")
        return 1
    return run_loop(between.serve(lambda dialler: serve(loaded, load, config, dialler)))


def _between(options: argparse.Namespace, loaded: Settings) -> Intermediaries | None:
    """Make the intermediaries of the flags; None without any."""
    if options.faults is None and options.record is None and not options.no_payloads:
        return None
    # Imported here, because a gateway in service does not wait for the workbench.
    from partway.gateway.cli.serve_faults import intermediaries_of

    return intermediaries_of(options, loaded)


async def serve(
    loaded: Settings,
    load: Callable[[], Settings],
    config: Path | None,
    dialler: Dialler = dial_container,
    workers: WorkersSetup | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, then drain; a second signal hastens.

    Args:
        config: their file, if there is one.
        dialler: opens every stream's connection with its container.
        workers: the means of workers; None for a gateway of one process.

    Returns:
        The process's exit status.
    """
    tls = None
    try:
        # The port is opened once the disk takes a certificate; a worker can open none later.
        with suppress(TlsUnavailable) if workers is None else nullcontext():
            tls = None if loaded.tls_port is None else _tls(loaded, LoopClock())
        warnings: list[LogLine] = []
        own = data_directory if workers is None else workers.data_directory
        with own(loaded, warnings) or nullcontext() as data:
            context = None if tls is None else tls.reloaded.context
            async with opened_store(data, loaded) as store:
                gateway = Gateway(
                    *(loaded, context),
                    dialler=dialler,
                    data=data,
                    store=store,
                    kept_out=kept_out(config),
                    counts=None if workers is None else workers.counts,
                    kept=None if workers is None else workers.supervision,
                )
                reloading = Reloading(
                    *(loaded, load, gateway.fleet, LoopClock(), config),
                    services=gateway.services,
                )
                status = await _serve(gateway, data, tls, reloading, warnings, workers)
                return status or int(gateway.end_has_failed)
    except (DataDirectoryError, AuthenticatorError, SettingsError, StoreError, TlsError) as error:
        say_failure(_NAME, str(error))
        return 2 if isinstance(error, SettingsError) else 1


def _tls(loaded: Settings, clock: Clock, patience: float = CERTIFICATE_LOCK_TIMEOUT) -> Tls:
    """Load the certificate of the TLS port; modules for certificates are imported only here.

    Raises:
        SettingsError: as :class:`Tls`.
        TlsError: as :class:`Tls`.
    """
    from partway.gateway.cli.serve_tls import Tls

    return Tls(loaded, clock, patience)


async def _serve(
    gateway: Gateway,
    data: DataDirectory | None,
    tls: Tls | None,
    reloading: Reloading,
    warnings: Sequence[LogLine],
    workers: WorkersSetup | None,
) -> int:
    loaded = gateway.settings
    obey = stop_on_signals if workers is None else workers.stop_on_orders
    stop = obey(gateway.hasten, reloading.reload)
    try:
        listening = await (gateway.start() if workers is None else workers.start(gateway, stop))
    except OSError as error:
        where = error.filename
        flag = "--port" if where == f"{loaded.host}:{loaded.port}" else "--tls-port"
        why = f"cannot listen on {where}: {error.strerror}"
        say_failure(_NAME, f"{why}; choose another with --host or {flag}")
        return 1
    if listening is None:
        return int(not stop.is_set())
    for warning in warnings:
        log.warning(warning)
    async with AsyncExitStack() as up:
        admin = None
        if data is not None:
            admin = admin_socket(data, gateway)
            up.push_async_callback(admin.aclose)
        up.push_async_callback(gateway.drain)
        up.push_async_callback(reloading.stop)
        urls = _urls(listening)
        announcing = partial(announce, data, urls)
        if data is not None and admin is not None:
            await _take_orders(gateway, admin_socket_step(data, admin), announcing, workers)
        if loaded.tls_port is not None and tls is None:
            opening = partial(_open_tls_port, gateway, urls, up)
            announced = DiskStep(NEEDS_DISK, announcing)
            await gateway.disk_recovery.attempt(DiskStep(TLS_PORT, opening, announced))
        gateway.disk_recovery.start()
        up.push_async_callback(gateway.disk_recovery.aclose)
        await before(stop, gateway.fleet.settled(SETTLING_TIMEOUT))
        if stop.is_set():
            return 0
        if not gateway.endpoints.describe():
            log.warning(missing_endpoint(loaded))
        # Objects that exist now stay: no collection looks at them again, 40 ms each time.
        gc.freeze()
        sys.setswitchinterval(THREAD_SWITCH_INTERVAL)
        say = say_listening if workers is None else workers.say_listening
        # a late TLS port announces itself
        authorities = ("",) if tls is None else ("", tls.authority)
        for url, authority in zip(urls, authorities, strict=False):
            say(url, authority)
        if tls is not None:
            tls.follow(gateway, up)
        reloading.start()
        telling = [
            asyncio.create_task(each)
            for each in (
                tell_which_answer(loaded.endpoints, LoopClock()),
                tell_missing_folders(loaded, LoopClock()),
            )
        ]
        await stop.wait()
        for each in telling:
            each.cancel()
        await asyncio.wait(telling)
    return 0


def missing_endpoint(settings: Settings) -> str:
    """Return what to do if there is no endpoint."""
    if settings.cluster is not None and settings.cluster.endpoints:
        return "no endpoint yet: apply an Endpoint object in the cluster's namespace"
    if uses_store(settings):
        return "no endpoint yet: add --endpoint NAME=URL, or create one: partway deploy, boto3"
    return "no endpoint: add --endpoint NAME=URL"


async def _take_orders(
    gateway: Gateway,
    admin: DiskStep,
    announcing: Callable[[], Awaitable[None]],
    workers: WorkersSetup | None,
) -> None:
    """Open the admin socket, and let the gateway's commands know of it."""
    await gateway.disk_recovery.attempt(admin)
    await gateway.disk_recovery.attempt(DiskStep(NEEDS_DISK, announcing))
    if workers is not None:
        workers.opened()


def _urls(listening: Listening) -> list[str]:
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    urls = [f"http://{host}:{listening.port}"]
    if listening.tls_port is not None:
        urls.append(f"https://{host}:{listening.tls_port}")
    return urls


async def _open_tls_port(gateway: Gateway, urls: list[str], up: AsyncExitStack) -> None:
    """Open the TLS port late, and add its URL."""
    from partway.gateway.cli.serve_tls import open_late

    tls, port = await open_late(gateway, up)
    urls += _urls(Listening(gateway.settings.host, 0, port))[1:]
    with suppress(OSError):  # the port stays open where standard output has no reader
        say_listening(urls[-1], tls.authority)
