"""Where a container engine is, and what it can answer; what asks it is imported where one is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from partway.gateway.fleet.launchers.launcher import LaunchError
from partway.gateway.plain_text import cut, safe

#: The status of an answer about what the engine does not have.
NOT_FOUND: Final = 404

#: Where Docker's daemon listens.
ENGINE_SOCKET: Final = Path("/var/run/docker.sock")

#: Characters of an engine's own words that a message repeats.
MAX_SHOWN: Final = 600


class EngineAway(Exception):
    """The engine does not answer, or not in time; the message says how, and where it was asked."""


class NoEngine(EngineAway):
    """There is no engine at all, neither where it was said to be nor at the usual places."""


class EngineNotAsked(EngineAway):
    """The engine could not be asked: this process has no file descriptor left."""


class EngineRefusal(Exception):
    """The engine answered that it will not, or cannot; the message has its words.

    Attributes:
        status: the answer's; 0 where a pull that had begun has failed.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(cut(safe(why), MAX_SHOWN))
        self.status = status


@dataclass(frozen=True, slots=True)
class EngineState:
    """What an engine says of one of its containers.

    Attributes:
        running: whether it runs.
        status: its exit status, which counts once it does not run.
        out_of_memory: whether it has been killed for that.
        trouble: what else the engine says of its end.
        port: of this machine, by which the container's is reached; None where there is none.
        container: its id.
        pid: of its first process on the engine's machine; 0 where it does not run.
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
    """What an engine's list says of a container.

    Attributes:
        id: the container's.
        labels: by their names.
        running: whether it runs.
        created: when it was made, in epoch seconds.
    """

    id: str
    labels: Mapping[str, str]
    running: bool
    created: int


def find_engine(environment: Mapping[str, str] = os.environ) -> str:
    """Return where the engine is: ``unix://PATH`` or ``tcp://HOST:PORT``.

    By ``DOCKER_HOST`` or, without it, the first of the sockets that Docker and Podman have usually.

    Raises:
        NoEngine: there is none.
        LaunchError: it is on another machine, or spoken to in another way.
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
    if runtime := environment.get("XDG_RUNTIME_DIR"):  # engines of a user's own
        sockets += [Path(runtime, "docker.sock"), Path(runtime, "podman/podman.sock")]
    return [*sockets, Path("/run/podman/podman.sock")]


def _checked(where: str) -> str:
    """Refuse an engine elsewhere: it can neither mount our folders nor publish on our loopback."""
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
        "without TLS: the engine must run on this machine, whose folders it mounts and on whose "
        "loopback it publishes ports",
        passing=False,
    )
