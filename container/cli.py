"""The command ``partway-container``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from container.models import MODELS
from container.server import ModelServer

_PROG = "partway-container"

try:
    import uvloop
except ImportError:  # a platform it is not made for
    _new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    _new_event_loop = uvloop.new_event_loop


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, without the usage above it; the status is argparse's."""
        self.exit(2, f"{_PROG}: {message}; see {self.prog} --help\n")


def _port(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 0 to 65535")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=_PROG, description="A model container for bidirectional streams.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="serve")
    serve = commands.add_parser(
        "serve",  # the platform appends this word to the image's entry point (clause 1.1-1)
        help="serve a model until SIGTERM",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    serve.add_argument("--model", choices=sorted(MODELS), default="echo", help="which model")
    serve.add_argument(
        "--host",
        default="0.0.0.0",  # noqa: S104 (a container is reached from outside: clause 1.1-2)
        help="address to listen on",
    )
    serve.add_argument("--port", type=_port, default=8080, help="TCP port; 0 takes a free one")
    serve.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="what is written to standard error",
    )
    return parser


async def _serve(model: str, host: str, port: int) -> None:
    server = ModelServer(MODELS[model](), host, port)
    try:
        port = await server.start()
    except OSError as error:
        # asyncio words a failed bind at length; a failed look-up of a name has negative numbers.
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise SystemExit(
            f"{_PROG}: cannot listen on {host} port {port}: {why}; "
            "choose another with --host or --port"
        ) from None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    shown = f"[{host}]" if ":" in host else host
    sys.stdout.write(f"listening on http://{shown}:{port}\n")
    sys.stdout.flush()
    await server.stopped()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0 after an orderly end, 1 or 2 otherwise."""
    options = _parser().parse_args(argv)
    logging.basicConfig(
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    with asyncio.Runner(loop_factory=_new_event_loop) as runner:
        runner.run(_serve(options.model, options.host, options.port))
    return 0
