"""The client of the admin socket: it finds the gateway that runs, and asks it."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from partway.gateway.fleet.status import EndpointStatus
from partway.gateway.fleet.status_json import from_json
from partway.gateway.plain_text import safe_lines
from partway.gateway.storage.data_directory import (
    DataDirectoryError,
    admin_socket,
    announced,
    gateways_folder,
    socket_name,
)
from partway.gateway.storage.files import is_file_or_folder

#: Seconds for the beginning of an answer, which takes milliseconds.
PATIENCE: Final = 10.0

#: Most bytes of an answer that is read whole: 40,000 instances.
_MAX_ANSWER: Final = 16 * 1024 * 1024

_START: Final = "start one with: partway serve"


class GatewayNotAsked(Exception):
    """The gateway cannot be asked, or has refused; the message says why, and what to do.

    Attributes:
        status: the command's exit status: 2 for wrong arguments, else 1.
    """

    def __init__(self, why: str, status: int = 1) -> None:
        super().__init__(why)
        self.status = status


class NoGatewayRuns(GatewayNotAsked):
    """No gateway listens at the admin socket of a data directory."""


def say_why(command: str, error: GatewayNotAsked) -> int:
    """Print on standard error why a command cannot go on; return the exit status.

    The first line names the command. The others are indented, as a container's last lines are.
    """
    first, *quoted = safe_lines(str(error)) or [""]
    print(f"{command}: {first}", file=sys.stderr)
    for line in quoted:
        print(f"    {line}", file=sys.stderr)
    return error.status


def add_data_dir(parser: argparse._ActionsContainer) -> None:
    """Add ``--data-dir``, by which :func:`find_gateway` finds the gateway."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        default=argparse.SUPPRESS,  # behind a subcommand the flag may stand before or after it
        help="the gateway's data directory (PARTWAY_DATA_DIR, or that of the only running gateway)",
    )


def find_gateway(named: Path | None, environment: Mapping[str, str]) -> Path:
    """Find the gateway that runs, and return its data directory.

    Args:
        named: the directory that was named; None for that of ``PARTWAY_DATA_DIR``, or else of this
            user's only running gateway.
        environment: ``os.environ``, as a rule.

    Raises:
        GatewayNotAsked: no gateway runs, or several do.
    """
    if named is None and (variable := environment.get("PARTWAY_DATA_DIR")):
        named = Path(variable)
    if named is not None:
        _connect(named).close()
        return named
    try:
        folder = gateways_folder(environment)
    except DataDirectoryError as error:
        raise GatewayNotAsked(str(error)) from None
    running = [each for each in _below(folder) if _runs(each)]
    if len(running) > 1:
        several = "\n".join(f"  --data-dir {each}{_where(each)}" for each in running)
        raise GatewayNotAsked(f"{len(running)} gateways run; name one of them:\n{several}", 2)
    if not running:
        raise GatewayNotAsked(
            f"no gateway runs with a data directory below {folder}; {_START}; if one was started "
            "with --data-dir or port 0, name its directory: --data-dir DIR"
        )
    return running[0]


def find_data_directory(named: Path | None, environment: Mapping[str, str]) -> tuple[Path, bool]:
    """Find a data directory, and say whether a gateway that can be asked works there.

    Args:
        named: the directory that was named; None for that of ``PARTWAY_DATA_DIR``, that of this
            user's only running gateway, or else the only one with a store.
        environment: ``os.environ``, as a rule.

    Raises:
        GatewayNotAsked: not exactly one directory fits, or another user's gateway has it.
    """
    if named is None and (variable := environment.get("PARTWAY_DATA_DIR")):
        named = Path(variable)
    if named is not None:
        try:
            return find_gateway(named, environment), True
        except NoGatewayRuns:
            return named, False
    try:
        folder = gateways_folder(environment)
    except DataDirectoryError as error:
        raise GatewayNotAsked(str(error)) from None
    if any(map(_runs, _below(folder))):
        return find_gateway(None, environment), True
    stopped = [each for each in _below(folder) if is_file_or_folder(each / "store.db")]
    if len(stopped) != 1:
        there = "\n".join(f"  --data-dir {each}" for each in stopped)
        many = f"{len(stopped)} data directories have a store; name one of them:\n{there}"
        none = f"no data directory below {folder} has a store; name one with --data-dir DIR"
        raise GatewayNotAsked(many if stopped else none, 2 if stopped else 1)
    return stopped[0], False


def ask(
    directory: Path,
    method: str,
    *path: str,
    query: Mapping[str, str] | None = None,
    body: object = None,
    patience: float | None = PATIENCE,
) -> http.client.HTTPResponse:
    """Ask the gateway of a data directory; return its answer, whose body is not read yet.

    Args:
        method: ``GET``, ``POST``, ``PUT`` or ``DELETE``.
        path: parts of the path.
        body: the body of the request, to be sent as JSON; None for none.
        patience: seconds for each read, the first included; None for as long as it takes.

    Raises:
        GatewayNotAsked: the gateway does not answer, or answers with an error.
    """
    target = "".join(f"/{quote(part, safe='')}" for part in path)
    connection = _AdminConnection(directory, patience)
    try:
        # A gateway that refuses by the path alone answers and closes before the body has come.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(
                method,
                f"{target}?{urlencode(query)}" if query else target,
                None if body is None else json.dumps(body),
                {"Connection": "close"},  # so that the connection ends with its answer
            )
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise gone(directory, error) from None
    if answer.status >= http.client.BAD_REQUEST:
        said = whole(directory, answer)
        connection.close()
        try:
            why = str(json.loads(said)["Message"])
        except (ValueError, TypeError, KeyError):
            why = f"the gateway has answered with status {answer.status}"
        raise GatewayNotAsked(why, 2 if answer.status == http.client.BAD_REQUEST else 1)
    return answer


def whole(directory: Path, answer: http.client.HTTPResponse) -> bytes:
    """Read an answer's body, and end its connection.

    Raises:
        GatewayNotAsked: the body does not come whole.
    """
    with answer:
        try:
            return answer.read(_MAX_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            raise gone(directory, error) from None


def endpoints_of(directory: Path) -> tuple[EndpointStatus, ...]:
    """Ask the gateway of a data directory for the states of its endpoints.

    Raises:
        GatewayNotAsked: the gateway does not answer, or its answer is not understood.
    """
    answer = whole(directory, ask(directory, "GET", "endpoints"))
    try:
        return from_json(answer)
    except ValueError:
        raise not_understood(directory) from None


def not_understood(directory: Path) -> GatewayNotAsked:
    return GatewayNotAsked(
        f"this command does not understand the answer of the gateway of {directory}; both must be "
        "of the same version"
    )


def gone(directory: Path, error: Exception) -> GatewayNotAsked:
    if isinstance(error, TimeoutError):
        return GatewayNotAsked(f"the gateway of {directory} does not answer")
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "it ended"
    return GatewayNotAsked(f"the gateway of {directory} is gone: {why}")


class _AdminConnection(http.client.HTTPConnection):
    def __init__(self, directory: Path, patience: float | None) -> None:
        super().__init__("localhost", timeout=patience)
        self._directory = directory

    def connect(self) -> None:
        self.sock = _connect(self._directory)
        self.sock.settimeout(self.timeout)


def _connect(directory: Path) -> socket.socket:
    """Connect to the admin socket of a data directory.

    Raises:
        GatewayNotAsked: no gateway listens there, or it is another user's.
    """
    path = admin_socket(directory)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(PATIENCE)
        with socket_name(path) as name:
            connection.connect(name)
    except OSError as error:
        connection.close()
        if isinstance(error, FileNotFoundError | ConnectionRefusedError | NotADirectoryError):
            raise NoGatewayRuns(
                f"no gateway runs with the data directory {directory}; {_START} --data-dir "
                f"{directory}"
            ) from None
        if isinstance(error, PermissionError):
            raise GatewayNotAsked(
                f"{path}: this is another user's gateway; only that user and root may reach it"
            ) from None
        raise GatewayNotAsked(f"{path}: {error.strerror or error}") from None
    return connection


def _below(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_dir())
    except OSError:  # there has never been a gateway
        return []


def _runs(directory: Path) -> bool:
    try:
        _connect(directory).close()
    except GatewayNotAsked:
        return False
    return True


def _where(directory: Path) -> str:
    said = announced(directory)
    return "" if said is None else f"  ({', '.join((*said.urls, f'process {said.pid}'))})"
