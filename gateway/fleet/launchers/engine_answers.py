"""Locating a container engine, and its possible answers.

The client that asks an engine is imported only where there is one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.plain_text import cut, safe

#: The status of an answer about an object that the engine does not have.
NOT_FOUND: Final = 404

#: Where Docker's daemon listens.
ENGINE_SOCKET: Final = Path("/var/run/docker.sock")

#: Characters of an engine's own words that a message repeats.
MAX_SHOWN: Final = 600


class EngineAway(Exception):
    """The engine does not answer, or not in time; the message says why, and where it was asked."""


class NoEngine(EngineAway):
    """There is no engine, neither at the given place nor at the usual ones."""


class EngineNotAsked(EngineAway):
    """The engine could not be asked: this process has no file descriptor left."""


class EngineRefusal(Exception):
    """The engine answered with a refusal; the message has its words.

    Attributes:
        status: the answer's status; 0 if a pull failed after it had begun.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(cut(safe(why), MAX_SHOWN))
        self.status = status


@dataclass(frozen=True, slots=True)
class EngineState:
    """The state of one of an engine's containers.

    Attributes:
        status: its exit status; valid once it does not run.
        out_of_memory: whether it was killed for using up its memory.
        trouble: anything else that the engine says about its end.
        port: the port of this machine that leads to the container; None without such a port.
        pid: its first process's id on the engine's machine; 0 if it does not run.
    """

    running: bool
    status: int
    out_of_memory: bool
    trouble: str
    port: int | None
    container: str = ""
    pid: int = 0


@dataclass(frozen=True, slots=True)
class ListedContainer:
    """An entry of an engine's list of containers.

    Attributes:
        created: when it was made, in epoch seconds.
    """

    id: str
    labels: Mapping[str, str]
    running: bool
    created: int


def find_engine(environment: Mapping[str, str] = os.environ) -> str:
    """Return where the engine is: ``unix://PATH`` or ``tcp://HOST:PORT``.

    ``DOCKER_HOST`` decides; without it, the first usual socket of Docker or Podman that exists.

    Raises:
        NoEngine: there is none.
        LaunchError: it is on another machine, or uses another protocol.
    """
    if where := environment.get("DOCKER_HOST"):
        return _checked(where)
    usual = _usual_sockets(environment)
    for path in usual:
        if path.is_socket():
            return f"unix://{path}"
    places = ", ".join(map(str, usual))
    raise NoEngine(
        f"there is no container engine: DOCKER_HOST is not set, and there is no socket at {places}"
    )


def _usual_sockets(environment: Mapping[str, str]) -> Sequence[Path]:
    sockets = [ENGINE_SOCKET]
    if home := environment.get("HOME"):
        sockets.append(Path(home, ".docker/run/docker.sock"))
    if runtime := environment.get("XDG_RUNTIME_DIR"):  # engines that run as the user
        sockets += [Path(runtime, "docker.sock"), Path(runtime, "podman/podman.sock")]
    return [*sockets, Path("/run/podman/podman.sock")]


def _checked(where: str) -> str:
    """Refuse a remote engine: it can neither mount our folders nor publish on our loopback."""
    parts = urlsplit(where)
    if parts.scheme == "unix" and parts.path:
        return where
    try:
        here = parts.hostname in ("localhost", "127.0.0.1", "::1") and parts.port
    except ValueError:
        here = None
    if parts.scheme in ("tcp", "http") and here:
        return where
    raise LaunchError(
        f"DOCKER_HOST is {cut(where, 200)!r}; it must be unix://PATH, or tcp://127.0.0.1:PORT "
        "without TLS: the engine must run on this machine, because it mounts folders of this "
        "machine and publishes ports on its loopback address",
        passing=False,
    )
