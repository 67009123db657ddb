"""``partway restore``: a backup replaces all objects that were created through the API."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.admin_client import (
    GatewayNotAsked,
    add_data_dir,
    find_data_directory,
    say_why,
)
from partway.gateway.cli.process import INTERRUPTED, interrupted_by_sigterm
from partway.gateway.storage.data_directory import DataDirectory, DataDirectoryError
from partway.gateway.storage.store.backups import restore
from partway.gateway.storage.store.store import BackupError
from partway.log_lines import say_failure

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway restore"


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "restore",
        help=COMMANDS["restore"],
        description=(
            "Replace everything that was created through the API by a backup. The gateway must be "
            f"stopped. The previous store is kept aside. See {page('how-to/operate.md')}"
        ),
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a file of partway backup")
    add_data_dir(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0 once the backup is in place, and 1 if nothing has changed.

    Return 130 if a signal came first, or while the files took their places.
    """
    file: Path = options.file
    try:
        with interrupted_by_sigterm():
            directory, _ = find_data_directory(getattr(options, "data_dir", None), os.environ)
            with DataDirectory.opened(directory) as data:
                data.check_owned()
                records, aside = restore(data.store, file)
    except GatewayNotAsked as error:
        return say_why(_NAME, error)
    except (BackupError, DataDirectoryError) as error:
        say_failure(_NAME, str(error))
        return 1
    except OSError as error:
        say_failure(_NAME, f"{error.filename or file}: {error.strerror or error}")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    print(f"{directory}: {records} records of {file} were restored")
    if aside is not None:
        print(f"the previous store is now {aside}")
    return 0
