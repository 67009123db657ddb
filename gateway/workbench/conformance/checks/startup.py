"""The start: the port, the connections, readiness (clauses 1.1-1 to 1.1-3)."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import AsyncExitStack
from typing import Final

from partway.gateway.fleet.launchers.process import ProcessEnd
from partway.gateway.fleet.limits import START_TIMEOUT
from partway.gateway.fleet.processes.unexpanded import unexpanded_variables
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.evidence import NotedExchange
from partway.gateway.workbench.conformance.raw_connection import HttpAnswer, link_to
from partway.gateway.workbench.conformance.started_container import Started
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken

checks: Final = Checks()

#: Seconds to be ready in, in place of eight minutes, with ``--fast``.
_FAST_START = 15.0

#: The platform's patience with a connection, and the connections at once (clause 1.1-2).
_ACCEPT_TIMEOUT = 0.25
_AT_ONCE = 32
_ACCEPT_TRIES = 3

_LISTEN = (
    "listen on 0.0.0.0, on the port in SAGEMAKER_BIND_TO_PORT, or on 8080 if it is not set; "
    "{port} in a command stands for that port"
)

#: Statuses of programs that do not understand their arguments, or print their help: argparse's,
#: EX_USAGE of sysexits.h, and 0.
_ASKED_WRONGLY: Final = (0, 2, 64)
_NO_SERVE = (
    "the command was run as it is written; the platform appends the argument `serve` to an "
    "image's entry point: append it to the command if the program needs it"
)


@checks.add(
    "startup.listens",
    "1.1-1",
    "1.1-2",
    title="the container listens on its port",
    remedy=_LISTEN,
    limit=START_TIMEOUT + 10,
)
async def listens(trial: Trial) -> None:
    process = trial.subject.process
    if process is None:
        async with trial.link("a connection"):
            return
    patience = trial.scaled(START_TIMEOUT, _FAST_START)
    async with trial.slow_start() as slow:
        slow.pinged(f"nothing listens on {process.port}")
        if await process.listening(patience) is not None:
            return
    if process.pid is None:
        raise Broken(
            f"the process {ProcessEnd(process.status)} before it listened on port {process.port}",
            await _why_it_ended(process),
        )
    trouble = await process.listening_trouble() or f"nothing listens on {process.port}"
    raise Broken(
        f"{trouble}, {patience:g} s after the start",
        f"{_LISTEN}; if the container only starts slowly, leave --fast out: it then has eight "
        "minutes"
        if trial.fast
        else None,
    )


@checks.add(
    "startup.ready",
    "1.1-3",
    title="the container answers /ping with 200 within eight minutes of the start",
    remedy="answer GET and POST /ping with 200 once the model is loaded, and listen before that",
    requires=("startup.listens",),
    limit=START_TIMEOUT + 10,
)
async def ready(trial: Trial) -> None:
    await trial.until_ready(trial.scaled(START_TIMEOUT, _FAST_START))


@checks.add(
    "startup.accepts",
    "1.1-2",
    title=f"the container accepts {_AT_ONCE} connections at once within 250 ms",
    remedy="listen with a backlog of 128 or more, and accept without waiting for anything",
    requires=("startup.listens",),
)
async def accepts(trial: Trial) -> None:
    # A slow container is slow in each try; a busy machine, or these checks, are not.
    slowest, beside = min(
        [await _slowest(trial) for _ in range(_ACCEPT_TRIES)], key=lambda each: each[0] - each[1]
    )
    if slowest - beside > _ACCEPT_TIMEOUT:
        raise Broken(
            f"the container accepted the slowest of {_AT_ONCE} connections at once after "
            f"{slowest * 1000:.0f} ms, in the best of {_ACCEPT_TRIES} tries; at the same time "
            f"connections to a socket of the checks themselves took {beside * 1000:.0f} ms"
        )


async def _why_it_ended(process: Started) -> str:
    remedies = [await process.death_remedy(), *unexpanded_variables(process.command)]
    if "serve" not in process.command and process.status in _ASKED_WRONGLY:
        remedies.append(_NO_SERVE)
    return "; ".join(remedies)


async def _slowest(trial: Trial) -> tuple[float, float]:
    """Measure the seconds of the slowest connection, to the container and to a socket here.

    The kernel accepts connections to the socket here, so that their time is this process's own.
    """
    took: list[float] = []
    took_beside: list[float] = []
    async with AsyncExitStack() as links:
        listening = links.enter_context(socket.create_server(("127.0.0.1", 0), backlog=_AT_ONCE))
        beside = Address(*listening.getsockname())

        async def connect() -> None:
            began = time.monotonic()
            await links.enter_async_context(trial.link("one of many connections"))
            took.append(time.monotonic() - began)

        async def connect_beside() -> None:
            began = time.monotonic()
            await links.enter_async_context(link_to(beside, NotedExchange("one of our own")))
            took_beside.append(time.monotonic() - began)

        pairs = (each() for _ in range(_AT_ONCE) for each in (connect, connect_beside))
        await asyncio.gather(*pairs)
    return max(took), max(took_beside)


async def ping(
    trial: Trial, headers: dict[str, str] | None = None, timeout: float = 10
) -> HttpAnswer:
    """Ask ``/ping`` by GET, or by POST where the container refuses GET."""
    answer = await trial.request("GET", "/ping", headers, timeout=timeout)
    if answer.status in (404, 405):
        answer = await trial.request("POST", "/ping", headers, timeout=timeout)
    return answer
