"""``partway-container new``: write a starter project."""

from __future__ import annotations

import argparse
import shlex
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from partway.container.cli import COMMANDS, CommandError

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

#: The files of a new project; they are copied from ``container/starter``.
FILES = (
    "model.py",
    "test_model.py",
    "requirements.txt",
    "Dockerfile",
    ".dockerignore",
    "README.md",
)


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "new",
        help=COMMANDS["new"],
        description="Write a model that streams, its test and its image into a new folder.",
    )
    parser.add_argument("directory", type=Path, metavar="DIR", help="a folder that is new or empty")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return its exit status.

    Raises:
        CommandError: the folder is not empty, or cannot be written.
    """
    folder: Path = options.directory
    starter = resources.files("partway.container") / "starter"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CommandError(f"{folder} has files in it; the folder must be new or empty")
        for name in FILES:
            (folder / name).write_bytes((starter / name).read_bytes())
    except OSError as error:
        raise CommandError(
            f"cannot write {error.filename or folder}: {error.strerror}", status=1
        ) from None
    print(
        f"{folder} has a model, its test and its image. Next:\n"
        f"  cd {shlex.quote(str(folder))}\n"
        "  python -m pip install pytest 'partway[dev]'\n"
        "  python -m pytest\n"
        "  partway dev model:Chat --reload"
    )
    return 0
