"""The folder in which a gateway keeps what outlives it, and by which its user's commands find it.

A data directory holds::

    lock            held by the gateway that works with the directory; its process's number
    id              of the directory, by which engines' containers are found again
    engine          there once a gateway of the directory has had an engine run containers; the key
                    of the label that says what they are made of
    gateway.json    where the gateway listens, while one runs
    admin.sock      the socket by which it is asked (``partway endpoints``, ``partway logs``)
    logs/           what instances have printed
    models/         unpacked model data
    requests/       large answers to asynchronous requests, on their way
    transforms/     which files transform jobs that run have finished; without names, their outputs
    store.db        what was made while a gateway ran; with store.db-wal beside it, while one runs
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

#: Bytes of a Unix socket's name (``sun_path``), without the zero behind it.
MAX_SOCKET_NAME: Final = 107 if sys.platform == "linux" else 103

#: The files of the directory are a number, an id, and some addresses.
_MAX_FILE: Final = 64 * 1024

_ID: Final = re.compile("[0-9a-f]{32}")

#: As long as what SHA-256 makes, as a key of HMAC's is to be (RFC 2104).
_KEY_BYTES: Final = 32


class DataDirectoryError(Exception):
    """A data directory cannot be used; the message says why, and what to do."""


class DataDirectoryUnavailable(DataDirectoryError, DiskRefusal):
    """The disk does not take or give the directory now; a later try may succeed.

    Args:
        reason: what it says.
        is_full: whether the disk is full.
    """

    def __init__(self, reason: str, *, is_full: bool = False) -> None:
        super().__init__(reason)
        self.is_full = is_full


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a gateway that runs says of itself in its data directory.

    Attributes:
        pid: of its process.
        urls: where it listens.
        since: when it began to, in epoch seconds.
    """

    pid: int
    urls: tuple[str, ...]
    since: float


def gateways_folder(environment: Mapping[str, str]) -> Path:
    """Return where this user's data directories are, one for each port.

    Args:
        environment: ``os.environ``, as a rule.

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
    """Return where a gateway keeps its data unless it is told.

    Args:
        environment: ``os.environ``, as a rule.
        port: on which it listens, other than 0.

    Raises:
        DataDirectoryError: the user has no home directory.
    """
    return gateways_folder(environment) / str(port)


def admin_socket(directory: Path) -> Path:
    """Where the gateway of a data directory is asked."""
    return directory / "admin.sock"


@contextmanager
def socket_name(socket: Path) -> Iterator[str]:
    """Give a name for a Unix socket that is short enough for the system, whatever its path.

    The name is good for as long as the block runs: to bind the socket, or to connect with it.

    Args:
        socket: where the socket is, or shall be.

    Raises:
        OSError: there is no temporary folder to name it by.
    """
    if len(os.fsencode(socket)) <= MAX_SOCKET_NAME:
        yield str(socket)
        return
    # A link has as long a target as it likes. The folder is this user's alone, so that nobody puts
    # another link in its place.
    with tempfile.TemporaryDirectory(prefix="partway-", dir=_short_temporary()) as folder:
        link = Path(folder) / "to"
        link.symlink_to(socket.parent.absolute())
        yield str(link / socket.name)


def _short_temporary() -> str:
    """The folder of temporary files, or ``/tmp`` if the names in that one were too long again."""
    usual = str(temporary_folder())
    return usual if len(os.fsencode(usual)) < MAX_SOCKET_NAME // 2 else "/tmp"  # noqa: S108


def announced(directory: Path) -> Announcement | None:
    """Return what the gateway of a data directory has announced, if it can be read."""
    try:
        said = json.loads(read_bounded(directory / "gateway.json", _MAX_FILE))
        return Announcement(int(said["pid"]), tuple(map(str, said["urls"])), float(said["since"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


class DataDirectory:
    """A data directory, whose one owner this process is until :meth:`close`.

    Made by :meth:`opened` or :meth:`temporary`. Nothing may be written below it before this process
    owns it; its folders are made by :meth:`complete` alone, so that nothing can be.

    Attributes:
        path: the directory's.
        id: stays with the directory, whoever owns it: 32 hexadecimal digits.
        logs: the folder of what instances print.
        models: the folder of unpacked model data.
        requests: the folder of answers to asynchronous requests.
        transforms: the folder of what transform jobs have finished.
        socket: where the admin socket belongs.
        store: where the file of the store belongs.
        refusal: what the disk refuses of the directory; None if the directory is whole.
    """

    def __init__(self, path: Path, *, keep: bool) -> None:
        self.path = path
        self.id = uuid.uuid4().hex
        self.logs = path / "logs"
        self.models = path / "models"
        self.requests = path / "requests"
        self.transforms = path / "transforms"
        self.socket = admin_socket(path)
        self.store = path / "store.db"
        self.refusal: DataDirectoryUnavailable | None = None
        self._lock: int | None = None
        self._keep = keep

    @classmethod
    def opened(cls, path: Path) -> Self:
        """Own a directory, which is made if need be.

        Where the disk refuses a part of that, ``refusal`` says so, and :meth:`complete` tries
        again.

        Raises:
            DataDirectoryError: another gateway owns it, others may write to it, or it cannot be
                used.
        """
        directory = cls(path.absolute(), keep=True)
        with suppress(DataDirectoryUnavailable):
            directory.complete()
        return directory

    @classmethod
    def temporary(cls) -> Self:
        """Own a new directory, of which nothing is left after :meth:`close`.

        Raises:
            DataDirectoryError: it cannot be made.
        """
        try:
            path = Path(tempfile.mkdtemp(prefix="partway-gateway-", dir=temporary_folder()))
        except OSError as error:
            raise DataDirectoryError(f"no temporary data directory: {error.strerror}") from None
        directory = cls(path, keep=False)
        try:
            directory.complete()
        except DataDirectoryError:
            directory.close()
            raise
        return directory

    @property
    def is_owned(self) -> bool:
        """Whether other gateways are locked out."""
        return self._lock is not None

    def check_owned(self) -> None:
        """Go on if other gateways are locked out.

        Raises:
            DataDirectoryUnavailable: the disk has refused the lock.
        """
        if not self.is_owned:
            assert self.refusal is not None, "it says why"
            raise self.refusal

    def complete(self) -> None:
        """Own the directory, and make what is missing in it; may be called again.

        Raises:
            DataDirectoryUnavailable: the disk refuses a part of that, and gets the rest.
            DataDirectoryError: as :meth:`opened`; the directory is another gateway's to take then.
        """
        try:
            self._own()
            self._make_parts()
        except OSError as error:
            reason = (
                f"{error.filename or self.path}: the gateway's data cannot be kept here: "
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
        """Make all parts that the disk takes.

        Raises:
            OSError: the first that it does not take.
        """
        refused = []
        folders = (self.logs, self.models, self.requests, self.transforms)
        parts: list[Callable[[], None]] = [
            partial(_write_holder, self.path),
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
        """Say where this gateway listens.

        Args:
            urls: where.
            since: when it began to, in epoch seconds.

        Raises:
            DataDirectoryError: that cannot be written.
        """
        said = asdict(Announcement(os.getpid(), tuple(urls), since))
        reason = f"{self.path}: the gateway cannot say here where it listens"
        if not self.is_owned:
            raise DataDirectoryUnavailable(f"{reason}: it does not own this folder yet")
        try:
            replace_file(self.path / "gateway.json", json.dumps(said).encode() + b"\n", 0o600)
        except OSError as error:
            kind = DataDirectoryUnavailable if is_disk_refusal(error) else DataDirectoryError
            raise kind(f"{reason}: {error.strerror}") from None

    @property
    def has_used_engine(self) -> bool:
        """Whether an engine may have containers of this directory's gateways."""
        return is_file_or_folder(self.path / "engine")

    def engine_key(self) -> bytes:
        """The key of what containers of an engine are found fit by; made if there is none.

        From here on it is remembered that an engine runs containers, until the file is removed.
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
        except OSError as error:  # no reason to start nothing: it counts after a kill -9 alone
            log.warning(
                LogLine(
                    "that an engine is used cannot be noted",
                    directory=str(self.path),
                    reason=error.strerror,
                )
            )
        return key

    def close(self) -> None:
        """Let another gateway own the directory; remove it if it is a temporary one."""
        try:
            if self.is_owned:
                with suppress(OSError):  # what it says holds for nobody, and is asked of nobody
                    (self.path / "gateway.json").unlink()
            if not self._keep:
                shutil.rmtree(self.path)
        except OSError as error:
            log.warning(
                LogLine(
                    "the temporary data directory is not removed",
                    directory=str(self.path),
                    reason=error.strerror,
                )
            )
        finally:
            self._disown()


def _check_private(path: Path) -> None:
    """Refuse a directory in which others could put files of theirs.

    Raises:
        DataDirectoryError: the directory is such a one.
    """
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise DataDirectoryError(
            f"{path}: another user (number {found.st_uid}) owns this folder; a data directory must "
            "be the gateway's user's own: name another with --data-dir DIR"
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DataDirectoryError(
            f"{path}: others than its owner may write to this folder (mode "
            f"{stat.S_IMODE(found.st_mode):04o}); chmod 700 it, and remove what is in it if they "
            "may have, or name another with --data-dir DIR"
        )


def _locked(path: Path) -> int:
    """Lock other gateways out; the kernel frees the lock of a dead one.

    Returns:
        The descriptor with which the lock goes.

    Raises:
        DataDirectoryError: another gateway holds the lock.
    """
    file = path / "lock"
    try:
        return locked(file)
    except BlockingIOError:
        raise DataDirectoryError(
            f"{path}: a gateway that runs, {_holder(file)}, works with this data directory; stop "
            "it, or name another directory with --data-dir DIR"
        ) from None


def _write_holder(path: Path) -> None:
    """Write this process's number into the lock, over the one before: a full disk takes that.

    By a descriptor of its own: the lock's is for reading where the disk was read-only.
    """
    file, number = path / "lock", b"%d\n" % os.getpid()
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
    """Who has written its number into a lock; for a moment a new holder has written none yet."""
    try:
        number = read_bounded(lock, _MAX_FILE).decode(errors="replace").strip()
    except (OSError, ValueError):
        number = ""
    return f"process {number}" if number.isdigit() else "another process"


def _id_of(path: Path, new: str) -> str:
    """The directory's id.

    Args:
        path: the directory's.
        new: is the directory's from now on, if it has none.

    Raises:
        OSError: the disk does not give it, or does not take the new one.
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
            "file: containers that an engine runs for this directory are not found any more then"
        )
    return text
