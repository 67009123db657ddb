"""The data directory, which holds what outlives a gateway and lets its user's commands find it.

A data directory holds::

    lock            held by the gateway that uses the directory; has its process id
    id              of the directory; containers of engines carry it in a label
    engine          exists once an engine has run containers for the directory; the key
                    of the label that tells what a container is made of
    gateway.json    the addresses of the gateway, while one runs
    upgrade.json    the outcome of upgrades of a gateway with workers
    admin.sock      the admin socket (``partway endpoints``, ``partway logs``)
    logs/           the output of instances
    models/         unpacked model data
    requests/       large answers to asynchronous requests, on their way
    transforms/     the lists of files that running transform jobs have finished; their outputs,
                    without names
    store.db        what was made while a gateway ran; with store.db-wal beside it, while one runs
    store.db-copy   a backup, while a gateway copies its store
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from partway.gateway.storage.disk_refusals import FULL, DiskRefusal, is_disk_refusal
from partway.gateway.storage.files import (
    is_file_or_folder,
    locked,
    read_bounded,
    replace_file,
    temporary_folder,
    user_data_folder,
)
from partway.log_lines import LogLine

log = logging.getLogger("partway.fleet")

#: Bytes of a Unix socket's name (``sun_path``), without the final zero.
MAX_SOCKET_NAME: Final = 107 if sys.platform == "linux" else 103

#: Bytes of a file in the directory: each holds a number, an id or some addresses.
_MAX_FILE: Final = 64 * 1024

_ID: Final = re.compile("[0-9a-f]{32}")

#: Bytes of a key: the size of a SHA-256 digest, as RFC 2104 recommends for HMAC.
_KEY_BYTES: Final = 32


class DataDirectoryError(Exception):
    """A data directory cannot be used; the message says why, and what to do."""


class DataDirectoryUnavailable(DataDirectoryError, DiskRefusal):
    """The disk refuses the directory now; a later try may succeed."""

    def __init__(self, reason: str, *, is_full: bool = False) -> None:
        super().__init__(reason)
        self.is_full = is_full


@dataclass(frozen=True, slots=True)
class Announcement:
    """The content of ``gateway.json``: a running gateway's process and addresses.

    Attributes:
        since: when the gateway began to listen, in epoch seconds.
    """

    pid: int
    urls: tuple[str, ...]
    since: float


def gateways_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of this user's data directories, one for each port.

    Raises:
        DataDirectoryError: the user has no home directory.
    """
    data = user_data_folder(environment)
    if data is None:
        raise DataDirectoryError(
            "no folder for the gateway's data: set HOME or XDG_DATA_HOME, "
            "or name a folder with --data-dir DIR"
        )
    return data / "gateways"


def default_data_directory(environment: Mapping[str, str], port: int) -> Path:
    """Return the default data directory of a gateway.

    Args:
        port: the port of the gateway, other than 0.

    Raises:
        DataDirectoryError: the user has no home directory.
    """
    return gateways_folder(environment) / str(port)


def admin_socket(directory: Path) -> Path:
    return directory / "admin.sock"


@contextmanager
def socket_name(socket: Path) -> Iterator[str]:
    """Yield a name for a Unix socket that is short enough for the system.

    The name is valid within the block, to bind the socket or to connect to it.

    Raises:
        OSError: there is no temporary folder for the short name.
    """
    if len(os.fsencode(socket)) <= MAX_SOCKET_NAME:
        yield str(socket)
        return
    # A link's target may have any length. Only this user can write to the folder, so nobody can
    # replace the link.
    with tempfile.TemporaryDirectory(prefix="partway-", dir=_short_temporary()) as folder:
        link = Path(folder) / "to"
        link.symlink_to(socket.parent.absolute())
        yield str(link / socket.name)


def _short_temporary() -> str:
    """Return the folder of temporary files, or ``/tmp`` if names in that folder are too long."""
    usual = str(temporary_folder())
    return usual if len(os.fsencode(usual)) < MAX_SOCKET_NAME // 2 else "/tmp"  # noqa: S108


def announced(directory: Path) -> Announcement | None:
    """Return the announcement in a data directory; None if there is no readable one."""
    try:
        said = json.loads(read_bounded(directory / "gateway.json", _MAX_FILE))
        return Announcement(int(said["pid"]), tuple(map(str, said["urls"])), float(said["since"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


class DataDirectory:
    """A data directory that this process owns until :meth:`close`.

    Made by :meth:`opened` or :meth:`temporary`. Nothing may be written into the directory before
    this process owns it. Only :meth:`complete` makes the folders, so nothing can be.

    Attributes:
        id: 32 hexadecimal digits that stay with the directory when its owner changes.
        requests: the folder of answers to asynchronous requests.
        transforms: the folder of the lists of files that transform jobs have finished.
        keeps: whether the directory stays after :meth:`close`.
        refusal: the error of the disk; None if the directory is complete.
    """

    def __init__(self, path: Path, pid: int = 0, *, keep: bool) -> None:
        self.path = path
        self.keeps = keep
        self._pid = pid or os.getpid()
        self.id = uuid.uuid4().hex
        self.logs = path / "logs"
        self.models = path / "models"
        self.requests = path / "requests"
        self.transforms = path / "transforms"
        self.socket = admin_socket(path)
        self.store = path / "store.db"
        self.refusal: DataDirectoryUnavailable | None = None
        self._lock: int | None = None

    @classmethod
    def opened(cls, path: Path, pid: int = 0, *, keep: bool = True) -> Self:
        """Own a directory, and make it if it is missing.

        Args:
            pid: the process that users know as the gateway; 0 for this one.
            keep: whether the directory stays after :meth:`close`.

        If the disk refuses a part, ``refusal`` holds the error, and :meth:`complete` tries again.

        Raises:
            DataDirectoryError: another gateway owns the directory, other users may write to it, or
                it cannot be used.
        """
        directory = cls(path.absolute(), pid, keep=keep)
        with suppress(DataDirectoryUnavailable):
            directory.complete()
        return directory

    @classmethod
    def temporary(cls, pid: int = 0) -> Self:
        """Own a new directory, which :meth:`close` removes.

        Raises:
            DataDirectoryError: the directory cannot be made.
        """
        try:
            path = Path(tempfile.mkdtemp(prefix="partway-gateway-", dir=temporary_folder()))
        except OSError as error:
            raise DataDirectoryError(
                f"a temporary data directory cannot be created: {error.strerror}"
            ) from None
        directory = cls(path, pid, keep=False)
        try:
            directory.complete()
        except DataDirectoryError:
            directory.close()
            raise
        return directory

    @property
    def is_owned(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock is not None

    def check_owned(self) -> None:
        """Return if this process holds the lock.

        Raises:
            DataDirectoryUnavailable: the disk has refused the lock.
        """
        if not self.is_owned:
            assert self.refusal is not None, "it says why"
            raise self.refusal

    def complete(self) -> None:
        """Own the directory and make its missing parts; may be called again.

        Raises:
            DataDirectoryUnavailable: the disk refuses a part; all other parts are made.
            DataDirectoryError: as :meth:`opened`; another gateway may take the directory then.
        """
        try:
            self._own()
            self._make_parts()
        except OSError as error:
            reason = (
                f"{error.filename or self.path}: the gateway cannot keep its data here: "
                f"{error.strerror}; name another folder with --data-dir DIR"
            )
            if is_disk_refusal(error):
                is_full = error.errno in FULL
                self.refusal = DataDirectoryUnavailable(reason, is_full=is_full)
                raise self.refusal from None
            self._disown()
            raise DataDirectoryError(reason) from None
        except DataDirectoryError:
            self._disown()
            raise
        self.refusal = None

    def _own(self) -> None:
        if self._lock is None:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(self.path)
            self._lock = _locked(self.path)

    def _make_parts(self) -> None:
        """Make all parts that the disk accepts.

        Raises:
            OSError: the first refusal.
        """
        refused = []
        folders = (self.logs, self.models, self.requests, self.transforms)
        parts: list[Callable[[], None]] = [
            partial(_write_holder, self.path, self._pid),
            self._settle_id,
            *(partial(each.mkdir, mode=0o700, exist_ok=True) for each in folders),
        ]
        for make in parts:
            try:
                make()
            except OSError as error:
                if not is_disk_refusal(error):
                    raise
                refused.append(error)
        if refused:
            raise refused[0]

    def _settle_id(self) -> None:
        self.id = _id_of(self.path, self.id)

    def _disown(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def announce(self, urls: Sequence[str], since: float) -> None:
        """Write the gateway's addresses into the directory.

        Args:
            since: when the gateway began to listen, in epoch seconds.

        Raises:
            DataDirectoryError: the file cannot be written.
        """
        said = asdict(Announcement(self._pid, tuple(urls), since))
        reason = f"{self.path}: the gateway cannot write its addresses here"
        if not self.is_owned:
            raise DataDirectoryUnavailable(f"{reason}: it does not own this folder yet")
        try:
            replace_file(self.path / "gateway.json", json.dumps(said).encode() + b"\n", 0o600)
        except OSError as error:
            kind = DataDirectoryUnavailable if is_disk_refusal(error) else DataDirectoryError
            raise kind(f"{reason}: {error.strerror}") from None

    @property
    def has_used_engine(self) -> bool:
        """Whether an engine may run containers for gateways of this directory."""
        return is_file_or_folder(self.path / "engine")

    def engine_key(self) -> bytes:
        """Return the key of the labels on an engine's containers; make a missing one.

        The file also notes that an engine runs containers, until the file is removed.
        """
        file = self.path / "engine"
        try:
            key = bytes.fromhex(read_bounded(file, _MAX_FILE).decode())
        except (OSError, ValueError):
            key = b""
        if len(key) == _KEY_BYTES:
            return key
        key = secrets.token_bytes(_KEY_BYTES)
        try:
            replace_file(file, f"{key.hex()}\n".encode(), 0o600)
        # No reason to refuse a start: the key matters only after a kill -9.
        except OSError as error:
            log.warning(
                LogLine(
                    "the use of a container engine cannot be recorded",
                    directory=str(self.path),
                    reason=error.strerror,
                )
            )
        return key

    def close(self) -> None:
        """Release the directory; remove a temporary one."""
        try:
            if self.is_owned:
                with suppress(OSError):  # a file that stays is harmless: its process has ended
                    (self.path / "gateway.json").unlink()
            if not self.keeps:
                shutil.rmtree(self.path)
        except OSError as error:
            log.warning(
                LogLine(
                    "the temporary data directory could not be removed",
                    directory=str(self.path),
                    reason=error.strerror,
                )
            )
        finally:
            self._disown()


def _check_private(path: Path) -> None:
    """Refuse a directory that other users may write to.

    Raises:
        DataDirectoryError: other users may write to the directory.
    """
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise DataDirectoryError(
            f"{path}: another user (number {found.st_uid}) owns this folder; a data directory must "
            "belong to the gateway's user: name another with --data-dir DIR"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DataDirectoryError(
            f"{path}: users other than its owner can write to this folder (mode "
            f"{stat.S_IMODE(found.st_mode):04o}); chmod 700 it, and remove files that they may "
            "have written, or name another with --data-dir DIR"
        )


def _locked(path: Path) -> int:
    """Lock other gateways out; the kernel releases the lock of a dead process.

    Returns:
        The descriptor that holds the lock.

    Raises:
        DataDirectoryError: another gateway holds the lock.
    """
    file = path / "lock"
    try:
        return locked(file)
    except BlockingIOError:
        raise DataDirectoryError(
            f"{path}: a running gateway, {_holder(file)}, uses this data directory; stop "
            "it, or name another directory with --data-dir DIR"
        ) from None


def _write_holder(path: Path, process: int) -> None:
    """Overwrite the lock's content with a process's id, which a full disk accepts.

    The function opens a descriptor of its own. The lock's descriptor is read-only where the disk
    was read-only.
    """
    file, number = path / "lock", b"%d\n" % process
    descriptor = os.open(file, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        os.pwrite(descriptor, number, 0)
        os.ftruncate(descriptor, len(number))
    except OSError as error:
        error.filename = str(file)
        raise
    finally:
        os.close(descriptor)


def _holder(lock: Path) -> str:
    """Return the process in a lock file; for a moment a new holder has not written its id."""
    try:
        number = read_bounded(lock, _MAX_FILE).decode(errors="replace").strip()
    except (OSError, ValueError):
        number = ""
    return f"process {number}" if number.isdigit() else "another process"


def _id_of(path: Path, new: str) -> str:
    """Return the directory's id.

    Args:
        new: the id that the directory gets if it has none.

    Raises:
        OSError: the disk refuses to read the id, or to write the new one.
        DataDirectoryError: the file holds something else.
    """
    file = path / "id"
    try:
        text = read_bounded(file, _MAX_FILE).decode().strip()
    except FileNotFoundError:
        text = new
        replace_file(file, f"{text}\n".encode(), 0o600)
    except ValueError:
        text = ""
    if _ID.fullmatch(text) is None:
        raise DataDirectoryError(
            f"{file}: this must be 32 hexadecimal digits; put the right ones back, or remove the "
            "file, and then stop the containers that an engine still runs for this directory"
        )
    return text
