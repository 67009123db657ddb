"""``partway backup``: all objects that were created through the API, as one file."""

from __future__ import annotations

import argparse
import http.client
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.admin_client import (
    PATIENCE,
    GatewayNotAsked,
    add_data_dir,
    ask,
    find_data_directory,
    gone,
    say_why,
)
from partway.gateway.cli.process import INTERRUPTED, interrupted_by_sigterm
from partway.gateway.storage.data_directory import DataDirectory, DataDirectoryError
from partway.gateway.storage.files import is_file_or_folder, replacing
from partway.gateway.storage.store.backups import check_backup, copy_stopped
from partway.gateway.storage.store.limits import STORE_BACKUP_TIMEOUT
from partway.gateway.storage.store.store import BackupError, StoreError
from partway.log_lines import say_failure

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway backup"

#: Bytes of one read of an answer.
_BLOCK: Final = 1 << 20

#: Seconds for the beginning of an answer: the gateway copies its store first.
_COPIED_WITHIN: Final = STORE_BACKUP_TIMEOUT + PATIENCE


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "backup",
        help=COMMANDS["backup"],
        description=(
            "Write models, configurations, endpoints and everything else that was created through "
            "the API to one file. The gateway may run or be stopped. "
            f"See {page('how-to/operate.md')}"
        ),
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="the backup, readable only by its owner"
    )
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 once the backup is whole, and 1 without a backup."""
    file: Path = options.file
    try:
        with interrupted_by_sigterm():
            records = _written(file, getattr(options, "data_dir", None))
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except (BackupError, DataDirectoryError, StoreError) as error:
        say_failure(_NAME, str(error))
        return 1
    except OSError as error:
        say_failure(_NAME, f"{error.filename or file}: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    print(f"{file}: {records} records, {file.stat().st_size} bytes")
    return 0


def _written(file: Path, named: Path | None) -> int:
    """Write a backup, whole or not at all; return the number of its records."""
    directory, runs = find_data_directory(named, os.environ)
    _check_replaceable(file)
    with replacing(file, 0o600) as whole:
        if runs:
            for piece in _asked(directory):
                whole.write(piece)
            whole.flush()
        else:
            _copy_stopped(directory, Path(whole.name), file)
        return check_backup(Path(whole.name), file)


def _check_replaceable(file: Path) -> None:
    """Refuse the name of a link, a device or a folder, which the backup would replace.

    Raises:
        BackupError: the name is not free for a backup.
    """
    try:
        found = file.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        kind = "a link" if stat.S_ISLNK(found.st_mode) else "not a regular file"
        raise BackupError(f"{file}: this is {kind}; a backup needs another name")


def _asked(directory: Path) -> Iterator[bytes]:
    """Read a backup from the gateway that runs, in pieces.

    Raises:
        GatewayNotAsked: the backup does not come whole.
    """
    with ask(directory, "GET", "store", patience=_COPIED_WITHIN) as answer:
        try:
            while piece := answer.read(_BLOCK):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise gone(directory, error) from None


def _copy_stopped(directory: Path, into: Path, file: Path) -> None:
    """Back up a data directory that no gateway uses, and keep gateways out meanwhile.

    Raises:
        BackupError: nothing is stored there, or the backup cannot be written.
        DataDirectoryError: a gateway works with it, or it cannot be locked.
    """
    if not is_file_or_folder(directory / "store.db"):  # no folder is made for it either
        raise BackupError(f"{directory}: this directory has no store, and no gateway runs with it")
    with DataDirectory.opened(directory) as data:
        data.check_owned()
        print(f"{_NAME}: no gateway runs with {directory}; its files are copied", file=sys.stderr)
        copy_stopped(data.store, into, file)
