"""The gateway's data directory, with the store and the admin socket in it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from partway.gateway.admin.admin_socket import AdminSocket
from partway.gateway.apis.control import manifest as control
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import (
    DataDirectory,
    DataDirectoryError,
    DataDirectoryUnavailable,
    default_data_directory,
)
from partway.gateway.storage.disk_recovery import ASKING, DiskStep
from partway.gateway.storage.disk_refusals import is_disk_refusal
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.files import is_file_or_folder, is_folder, user_data_folder
from partway.gateway.storage.limits import MODEL_DATA_LOOK_TIMEOUT
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.store import Store, StoreError
from partway.gateway.timing.clock import Clock, LoopClock
from partway.gateway.timing.deadlines import time_limit
from partway.log_lines import LogLine

if TYPE_CHECKING:
    from partway.gateway.admin.operations import (
        AdministeredFleet,
        AdminOperations,
        AnswerOfDeployments,
    )

log = logging.getLogger("partway.serve")


def data_directory(loaded: Settings, warnings: list[LogLine], pid: int = 0) -> DataDirectory | None:
    """Own the folder for the gateway's data; return None if there is no place for one.

    A folder that the disk refuses in part is still used, since the disk may take the rest later. A
    temporary folder replaces the user's own folder if that cannot be made. It does not replace a
    folder on a full disk: changes would be lost when the gateway ends, and earlier ones forgotten.

    Args:
        warnings: takes the lines to log once the gateway listens. If another gateway has the port,
            it also has the folder, and the error about the port is enough.
        pid: the process that users know as the gateway; 0 for this one.

    Raises:
        DataDirectoryError: the folder that the settings name cannot be used. If the settings name
            none, a temporary folder replaces the user's own.
    """
    if loaded.data_dir is not None:
        return DataDirectory.opened(loaded.data_dir, pid)
    if loaded.port:
        try:
            found = DataDirectory.opened(default_data_directory(os.environ, loaded.port), pid)
            if found.is_owned or found.refusal is None or found.refusal.is_full:
                return found
            reason = str(found.refusal)
        except DataDirectoryError as error:
            reason = str(error)
        line = "the gateway's data lasts only until the gateway ends"
        warnings.append(LogLine(line, reason=reason))
    try:
        return DataDirectory.temporary(pid)
    except DataDirectoryError as error:  # for example, a read-only file system
        line = "the gateway keeps no data, and partway endpoints cannot reach it"
        warnings.append(LogLine(line, reason=str(error)))
        return None


@asynccontextmanager
async def opened_store(data: DataDirectory | None, loaded: Settings) -> AsyncIterator[Store]:
    """Open the store of a data directory.

    The store is in memory if there is no directory, or if no served API writes to a store.
    """
    store: Store = MemoryStore()
    if data is not None and is_file_or_folder(data.store) and not uses_store(loaded):
        await _tell_what_stays(data.store)
    elif data is not None and uses_store(loaded):
        store = await _sqlite_store(data.store)
    try:
        yield store
    finally:
        await store.aclose()


def uses_store(loaded: Settings) -> bool:
    """Whether a served API writes to the store: the control plane, and the APIs that need it."""
    return control.MANIFEST.name in loaded.apis


async def _sqlite_store(path: Path) -> Store:
    from partway.gateway.storage.store.sqlite import SqliteStore  # only the control plane needs it

    return await SqliteStore.opened(path, LoopClock())


async def _tell_what_stays(path: Path) -> None:
    """Log the stored endpoints that do not run because the control plane is switched off."""
    try:
        store = await _sqlite_store(path)
        try:
            names = [each.name for each in await store.records("endpoint")]
        finally:
            await store.aclose()
    except StoreError as error:
        log.warning(LogLine("the store cannot be read", reason=str(error)))
        return
    if names:
        log.warning(
            LogLine(
                "endpoints that were created through the API are not started: the API 'control' is "
                "switched off; they stay in the store",
                endpoints=" ".join(names),
            )
        )


def kept_out(config: Path | None) -> Iterator[Path]:
    """Yield the paths that no caller of the API may name: the settings' file, and this user's data.

    The data includes the local CA's key, and other gateways' data directories.
    """
    for path in (config, user_data_folder(os.environ)):
        if path is not None:
            yield path.absolute()


class AdministeredGateway(Protocol):
    """The parts of a gateway that the admin socket uses."""

    @property
    def endpoints(self) -> AdministeredFleet:
        """All endpoints, for the gateway's own user."""

    @property
    def answer_deployments(self) -> AnswerOfDeployments | None:
        """Answers requests for deployments; None if no API takes deployments."""

    @property
    def store(self) -> Store: ...

    @property
    def settings(self) -> Settings: ...


def admin_socket(data: DataDirectory, gateway: AdministeredGateway) -> AdminSocket:
    clock = LoopClock()

    def operations() -> AdminOperations:
        from partway.gateway.admin.operations import AdminOperations  # only for requests

        backup = gateway.store.backup if uses_store(gateway.settings) else None
        return AdminOperations(
            gateway.endpoints, gateway.answer_deployments, data.logs, backup, clock
        )

    return AdminSocket(data.socket, operations, clock)


def admin_socket_step(data: DataDirectory, admin: AdminSocket) -> DiskStep:
    """Return the step of the start that lets this user's commands ask the gateway."""
    return DiskStep(ASKING, partial(_open_admin_socket, data, admin))


async def _open_admin_socket(data: DataDirectory, admin: AdminSocket) -> None:
    """Open the admin socket to this user's commands.

    Raises:
        DataDirectoryUnavailable: the disk refuses the socket now.
        DataDirectoryError: the socket cannot be made.
    """
    try:
        await admin.start()
    except OSError as error:
        why = f"{data.socket}: the admin socket cannot be created: {error.strerror}"
        if is_disk_refusal(error) or not data.is_owned:  # its folder is missing then
            raise DataDirectoryUnavailable(why) from None
        raise DataDirectoryError(why) from None


async def announce(data: DataDirectory | None, urls: Sequence[str]) -> None:
    """Write the gateway's URLs into the data directory, if there is one.

    Raises:
        DataDirectoryUnavailable: the disk refuses the file now.
        DataDirectoryError: the file cannot be written.
    """
    if data is not None:
        data.announce(urls, time.time())


# --- Folders that callers may name ---------------------------------------------------------------


async def tell_missing_folders(loaded: Settings, clock: Clock) -> None:
    """Log the missing folders that callers of the API may name.

    A missing folder is no error: it may be mounted later. A folder on a file system that does not
    answer is not logged.
    """
    with suppress(OSError):  # a TimeoutError is one
        async with time_limit(clock, MODEL_DATA_LOOK_TIMEOUT):
            for each in await on_thread(clock, lambda _: [*missing_folders(loaded)]):
                log.warning(LogLine("a folder named in the settings is missing", reason=each))


def missing_folders(loaded: Settings) -> Iterator[str]:
    for setting in ("local_roots", "local_results"):
        for folder in getattr(loaded, setting):
            if not is_folder(folder):
                yield f"api.{setting}: {folder}: there is no such folder; create it"
