"""``partway fetch``: model data in a folder, for a pod's init container."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from partway.documentation import page
from partway.gateway.cli import COMMANDS
from partway.gateway.cli.process import run_loop, until_signalled
from partway.log_lines import say_failure

if TYPE_CHECKING:
    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_NAME: Final = "partway fetch"

_EXAMPLES: Final = """\
examples:
  partway fetch s3://models/chat/ /model-data/model
  partway fetch s3://models/chat.tar.gz /model-data/model
"""


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "fetch",
        help=COMMANDS["fetch"],
        description=(
            "Put model data into a new folder. The folder appears when all is there, and an "
            f"existing one is left as it is. See {page('how-to/run-on-kubernetes.md')}"
        ),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source", metavar="SOURCE", help="s3://BUCKET/KEY.tar.gz or s3://BUCKET/PREFIX/"
    )
    parser.add_argument(
        "folder", metavar="FOLDER", type=Path, help="folder to make, in a writable folder"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return 0, 1 when the data cannot be fetched, 2 on bad usage."""
    if options.folder.is_dir():
        return 0  # an earlier run has finished
    return run_loop(_until_fetched(options.source, options.folder))


async def _until_fetched(source: str, folder: Path) -> int:
    fetched = await until_signalled(_fetched(source, folder))
    return 1 if fetched is None else fetched


async def _fetched(source: str, folder: Path) -> int:
    # Imported here, because the command's help does not need a store.
    from partway.gateway.storage.model_data.model_data import ModelData, ModelDataError

    # A folder that is read-only can be renamed in its own parent only.
    data = ModelData(folder.parent)
    try:
        held = await data.acquire(source)
    except ModelDataError as error:
        say_failure(_NAME, str(error))
        return 1
    finally:
        await data.aclose()
    if held.path.parent != folder.parent.absolute():
        say_failure(_NAME, f"{source}: is a folder of this machine; name an archive, or s3://…")
        return 2
    try:
        held.path.rename(folder)
    except OSError as error:
        say_failure(_NAME, f"{folder}: cannot be made: {error.strerror}")
        return 1
    return 0
