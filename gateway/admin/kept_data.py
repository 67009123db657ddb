"""The data directory of a gateway: its store, its admin socket, and the folders of callers."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
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
from partway.gateway.storage.disk_refusals import is_disk_refusal
from partway.gateway.storage.file_threads import on_thread
from partway.gateway.storage.files import is_file_or_folder, is_folder
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


def data_directory(loaded: Settings, warnings: list[LogLine]) -> DataDirectory | None:
    """Own the folder of what the gateway keeps; None if there is no place for one.

    A folder that the disk refuses in part is the gateway's: the disk may take the rest later. The
    user's own folder gives way to a temporary one if it cannot be made. It does not where the
    disk is full: changes would be lost at the gateway's end, and earlier ones be forgotten.

    Args:
        loaded: the settings.
        warnings: takes what is to be logged once the gateway listens. Where its port is taken, so
            is its folder, and the port is all that there is to say.

    Raises:
        DataDirectoryError: the one that was named cannot be had. Where none was, and the user's own
            cannot be, a temporary one does.
    """
    if loaded.data_dir is not None:
        return DataDirectory.opened(loaded.data_dir)
    if loaded.port:
        try:
            found = DataDirectory.opened(default_data_directory(os.environ, loaded.port))
            if found.is_owned or found.refusal is None or found.refusal.is_full:
                return found
            reason = str(found.refusal)
        except DataDirectoryError as error:
            reason = str(error)
        line = "what the gateway keeps is kept until its end only"
        warnings.append(LogLine(line, reason=reason))
    try:
        return DataDirectory.temporary()
    except DataDirectoryError as error:  # on a file system that is read-only, say
        line = "nothing is kept, and partway endpoints cannot ask this gateway"
        warnings.append(LogLine(line, reason=str(error)))
        return None


@asynccontextmanager
async def opened_store(data: DataDirectory | None, loaded: Settings) -> AsyncIterator[Store]:
    """Open the store of a data directory.

    The store is in memory if there is no directory, or if no API writes to it.
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
    """Whether an API that is served writes to the store: the control plane, and those behind it."""
    return control.MANIFEST.name in loaded.apis


async def _sqlite_store(path: Path) -> Store:
    from partway.gateway.storage.store.sqlite import SqliteStore  # of the control plane alone

    return await SqliteStore.opened(path, LoopClock())


async def _tell_what_stays(path: Path) -> None:
    """Log which endpoints of the store are not run, since the control plane is switched off."""
    try:
        store = await _sqlite_store(path)
        try:
            names = [each.name for each in await store.records("endpoint")]
        finally:
            await store.aclose()
    except StoreError as error:
        log.warning(LogLine("the store is not read", reason=str(error)))
        return
    if names:
        log.warning(
            LogLine(
                "endpoints that were created through the API are not started: the API 'control' is "
                "switched off; they stay in the store",
                endpoints=" ".join(names),
            )
        )


class AdministeredGateway(Protocol):
    """A gateway as the admin socket has it."""

    @property
    def endpoints(self) -> AdministeredFleet:
        """All endpoints, for the gateway's user."""

    @property
    def answer_deployments(self) -> AnswerOfDeployments | None:
        """Answers requests for deployments; None where no API takes any."""

    @property
    def store(self) -> Store:
        """The store, of which backups are made."""

    @property
    def settings(self) -> Settings:
        """All settings."""


def admin_socket(data: DataDirectory, gateway: AdministeredGateway) -> AdminSocket:
    """Make the admin socket of a gateway, in its data directory."""
    clock = LoopClock()

    def operations() -> AdminOperations:
        from partway.gateway.admin.operations import AdminOperations  # for the first who asks

        backup = gateway.store.backup if uses_store(gateway.settings) else None
        return AdminOperations(
            gateway.endpoints, gateway.answer_deployments, data.logs, backup, clock
        )

    return AdminSocket(data.socket, operations, clock)


async def open_admin_socket(data: DataDirectory, admin: AdminSocket) -> None:
    """Let this user's commands ask the gateway.

    Raises:
        DataDirectoryUnavailable: the disk refuses the socket now.
        DataDirectoryError: the socket cannot be made.
    """
    try:
        await admin.start()
    except OSError as error:
        why = f"{data.socket}: the admin socket cannot be made: {error.strerror}"
        if is_disk_refusal(error) or not data.is_owned:  # its folder is missing then
            raise DataDirectoryUnavailable(why) from None
        raise DataDirectoryError(why) from None


async def announce(data: DataDirectory | None, urls: Sequence[str]) -> None:
    """Say in the data directory, if there is one, where the gateway listens.

    Raises:
        DataDirectoryUnavailable: the disk refuses the file now.
        DataDirectoryError: the file cannot be written.
    """
    if data is not None:
        data.announce(urls, time.time())


# --- Folders that callers may name ---------------------------------------------------------------


async def tell_missing_folders(loaded: Settings, clock: Clock) -> None:
    """Log which folders are not there that callers of the API may name.

    Nothing fails of it: they may be mounted later. One that nobody answers for is not told of.
    """
    with suppress(OSError):  # a TimeoutError is one
        async with time_limit(clock, MODEL_DATA_LOOK_TIMEOUT):
            for each in await on_thread(clock, lambda _: [*missing_folders(loaded)]):
                log.warning(LogLine("a folder of the settings is not there", reason=each))


def missing_folders(loaded: Settings) -> Iterator[str]:
    """Yield a line for each of these folders that is not there."""
    for setting in ("local_roots", "local_results"):
        for folder in getattr(loaded, setting):
            if not is_folder(folder):
                yield f"api.{setting}: {folder}: there is no such folder; it must be made"
