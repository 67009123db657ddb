"""Flags and settings of a bridge, for ``partway-container serve --upstream``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from partway.container.bridge.settings import BridgeSettings, Given, bridge_settings
from partway.container.cli import CommandError
from partway.container.cli.target import ModelTarget

_ROUTES: Final = "PARTWAY_UPSTREAM_ROUTES"
_HEALTH: Final = "PARTWAY_UPSTREAM_HEALTH"
#: Without a flag: other users of a machine see the flags of its processes.
_AUTHORIZATION: Final = "PARTWAY_UPSTREAM_AUTHORIZATION"
_PROGRAM: Final = "PARTWAY_UPSTREAM_PROGRAM"


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream",
        metavar="URL",
        help="a WebSocket server, ws:// or wss://, that takes the streams; -- and a command behind "
        "all flags start it; also PARTWAY_UPSTREAM and PARTWAY_UPSTREAM_PROGRAM",
    )
    parser.add_argument(
        "--route",
        action="append",
        default=[],
        metavar="PATH[=URL]",
        help="a further path of streams, and its URL; without one, the same path at the upstream; "
        "may be repeated; also PARTWAY_UPSTREAM_ROUTES, with spaces between several",
    )
    parser.add_argument(
        "--health",
        metavar="URL",
        help="answers 2xx while the upstream is healthy; also PARTWAY_UPSTREAM_HEALTH (/health at "
        "the upstream, any answer below 500)",
    )


def read_bridge(
    options: argparse.Namespace, target: ModelTarget, environ: Mapping[str, str]
) -> BridgeSettings | None:
    """Return the settings of a bridge; None if the target is no upstream.

    Args:
        options: the flags, and ``program``: the words after ``--``.

    Raises:
        CommandError: a setting is not what it must be, or its flag needs an upstream.
    """
    program: list[str] = options.program
    if target.kind != "upstream":
        flags = {"--route": options.route, "--health": options.health, "--": program}
        for flag, value in flags.items():
            if value:
                raise CommandError(
                    f"{flag} was given with {target.source} {target.name}; it is allowed only "
                    "with --upstream"
                )
        return None

    def variable(name: str) -> Given | None:
        text = environ.get(name)
        return Given(text, name) if text else None

    texts = environ.get(_ROUTES, "").split()
    routes = [Given(text, "--route") for text in options.route]
    health = Given(options.health, "--health") if options.health else variable(_HEALTH)
    try:
        return bridge_settings(
            Given(target.name, target.source),
            routes or [Given(text, _ROUTES) for text in texts],
            health,
            variable(_AUTHORIZATION),
            program or variable(_PROGRAM) or (),
        )
    except ValueError as error:
        raise CommandError(str(error)) from None
