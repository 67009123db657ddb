"""``partway serve``: run the gateway."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway import settings
from gateway.gateway import Gateway
from gateway.settings import Settings, SettingsError

log = logging.getLogger("partway.serve")

if TYPE_CHECKING:
    # argparse has no public name for what add_subparsers() returns.
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

_EXAMPLE = """\
example:
  partway-container serve --port 8080 &
  partway serve --endpoint echo=http://127.0.0.1:8080
"""


def add_to(commands: Commands) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "serve",
        help="run the gateway",
        description="Run the gateway until SIGTERM, then drain: see docs/how-to/operate.md.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,  # only what is given goes before the other sources
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=os.environ.get("PARTWAY_CONFIG"),
        help="settings as TOML; flags and PARTWAY_… variables go before it",
    )
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port, 0 for a free one (8090)")
    parser.add_argument(
        "--endpoint",
        action="append",
        metavar="NAME=URL",
        dest="endpoints",
        help="an endpoint and its running container; may be repeated",
    )
    parser.add_argument("--auth", choices=["none"], help="how clients prove who they are (none)")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen beyond loopback without authentication",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        metavar="ORIGIN",
        dest="allow_origins",
        help="origin of web pages that may open streams; may be repeated",
    )
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], help="(info)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns its exit status."""
    known = {"host", "port", "endpoints", "auth", "insecure", "allow_origins", "log_level"}
    flags = {name: value for name, value in vars(options).items() if name in known}
    try:
        loaded = settings.load(flags, os.environ, Path(options.config) if options.config else None)
    except SettingsError as error:
        print(f"partway serve: {error}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=loaded.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    _raise_descriptor_limit(loaded.max_connections + loaded.max_streams)
    return _run_loop(serve(loaded))


async def serve(loaded: Settings) -> int:
    """Serve until SIGTERM or SIGINT, then drain; a second signal hastens."""
    gateway = Gateway(loaded)
    stop = asyncio.Event()

    def signalled() -> None:
        if stop.is_set():
            gateway.hasten()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled)
    try:
        host, port = await gateway.start()
    except OSError as error:
        where = f"{loaded.host}:{loaded.port}"
        print(f"partway serve: cannot listen on {where}: {error.strerror}", file=sys.stderr)
        return 1
    shown = f"[{host}]" if ":" in host else host
    print(f"listening on http://{shown}:{port}", flush=True)
    await stop.wait()
    await gateway.drain()
    return 0


def _raise_descriptor_limit(needed: int) -> None:
    """Let this process have all the file descriptors it may; warn if they may not suffice.

    At the limit uvloop closes new connections without a word.

    Args:
        needed: one for each connection, and one more for each stream's container.
    """
    try:
        import resource
    except ImportError:  # not POSIX
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS says "unlimited", and does not take it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft != resource.RLIM_INFINITY and soft < needed:
        log.warning(
            "the limit of open files is %d; max_connections and max_streams can need %d: "
            "raise it (ulimit -Hn) or lower them",
            soft,
            needed,
        )


def _run_loop(main: Coroutine[Any, Any, int]) -> int:
    """Run on uvloop where there is one, else on asyncio's own loop."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.run(main)
    import uvloop

    return uvloop.run(main)
