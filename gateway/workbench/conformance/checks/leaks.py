"""Resources that repeated requests leave behind: descriptors, threads, memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from partway.gateway.workbench.conformance.check import Checks, Need
from partway.gateway.workbench.conformance.checks.startup import ping as ask_ping
from partway.gateway.workbench.conformance.checks.wear import refused_once, times
from partway.gateway.workbench.conformance.raw_stream import upgrade
from partway.gateway.workbench.conformance.started_container import Footprint
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried

checks: Final = Checks()

#: A request that is repeated to see whether it leaks.
Deed = Callable[[Trial], Awaitable[None]]

#: Times before anything is counted: pools and caches fill, code is compiled.
_WARM = 20
_TIMES = 30
#: Files that a container may open for reasons of its own meanwhile, and threads, since a pool or a
#: runtime starts some.
_OWN_FILES = 4
_OWN_TASKS = 12
_SETTLE = 5.0
_POLL = 0.1

#: Bytes kept each time that count as a leak. Garbage before its collection is smaller, or stops
#: growing sooner.
_KEPT = 32 << 10
#: Rounds in which memory is measured: the fewest, and the most while the last rounds still grow.
_FEWEST, _MOST = 4, 14
_LAST = 3

_CLOSE_IT = (
    "close everything that the request opened, for example in a finally block, and wait for its "
    "processes and threads"
)
_FORGET_IT = (
    "keep no list, buffer or task of a finished request or stream, and give every cache a bound"
)


_PAIRS = "pairs of a closed stream and a cut stream"


async def _left(trial: Trial, what: str, count: int, before: Footprint) -> None:
    """Wait until the container holds about as many descriptors and threads as ``before``.

    Raises:
        Broken: the container keeps more than it may have taken for reasons of its own.
    """
    deadline = time.monotonic() + _SETTLE
    while more := _more(before, _held(trial)):
        if time.monotonic() > deadline:
            raise Broken(f"during {count} {what} the container's {more}")
        await asyncio.sleep(_POLL)


def _more(before: Footprint, now: Footprint) -> str:
    """Name the resources that grew beyond a container's own needs; "" if none did."""
    for name, had, has, own in (
        ("open files and sockets", before.descriptors, now.descriptors, _OWN_FILES),
        ("threads and processes", before.tasks, now.tasks, _OWN_TASKS),
    ):
        if has > had + own:
            return f"{name} grew from {had} to {has}; they may grow by at most {own}"
    return ""


def _held(trial: Trial) -> Footprint:
    """The resources that the container holds now.

    Raises:
        Untried: this system or the container does not tell.
    """
    footprint = trial.process.footprint()
    if footprint is None:
        raise Untried("this system does not show a process's resources, or the process has ended")
    return footprint


async def _done(trial: Trial, deed: Deed, most: int) -> int:
    """Repeat a request up to ``most`` times, less often if it takes long; return how often."""
    done = 0
    async for done in times(trial, most, share=1 / _FEWEST):  # noqa: B007 (the last one counts)
        await deed(trial)
    return done


async def _nothing_open(trial: Trial, deed: Deed, what: str) -> None:
    await _done(trial, deed, _WARM)
    before = _held(trial)
    count = await _done(trial, deed, _TIMES)
    await _left(trial, what, count, before)


async def _nothing_kept(trial: Trial, deed: Deed, what: str) -> None:
    """Repeat a request in rounds, while memory grows with them.

    Memory that is used for the first time grows for some rounds, and so does garbage before its
    collection. Memory that is kept each time grows for ever.
    """
    sizes, count = [_held(trial).memory], 0
    while len(sizes) <= _MOST:
        done = await _done(trial, deed, _TIMES)
        count += done
        sizes.append(_held(trial).memory)
        if len(sizes) > _FEWEST and sizes[-1] - sizes[-1 - _LAST] < _LAST * done * _KEPT:
            return
    if sizes[-1] - sizes[0] < count * _KEPT:
        return
    raise Broken(
        f"during {count} {what} the container's memory grew from {sizes[0] >> 20} MiB to "
        f"{sizes[-1] >> 20} MiB, by {(sizes[-1] - sizes[0]) // count >> 10} KiB each time, and it "
        "still grows; it must stop growing"
    )


async def _probe(trial: Trial) -> None:
    await ask_ping(trial)


async def _refused(trial: Trial) -> None:
    """Make two refused upgrades, of path and of version: different code may refuse them."""
    await refused_once(trial)
    async with trial.link("an upgrade to version 12") as link:
        target = str(trial.subject.target)
        await upgrade(link, target, {"Sec-WebSocket-Version": "12"})


async def _streams(trial: Trial) -> None:
    """Close one stream and cut another: a container may keep something of either."""
    async with trial.stream("a stream that is closed") as peer:
        if trial.probe.echo:  # the cost of another model's answer is unknown
            await trial.answered(peer, "on a stream that is closed afterwards")
    async with trial.stream("a stream that is cut") as peer:
        peer.link.abort()


@checks.add(
    "leaks.ping",
    "1.1-2",
    title="a probe of /ping leaves no descriptor, thread or process behind",
    remedy=_CLOSE_IT,
    requires=("wear.ping",),
    needs=(Need.PROCESS,),
    limit=60,
)
async def ping(trial: Trial) -> None:
    await _nothing_open(trial, _probe, "probes of /ping")


@checks.add(
    "leaks.ping_memory",
    "1.1-2",
    severity=Severity.SHOULD,
    title="a probe of /ping leaves no memory behind",
    remedy=_FORGET_IT,
    requires=("leaks.ping",),
    needs=(Need.PROCESS,),
    limit=60,
)
async def ping_memory(trial: Trial) -> None:
    await _nothing_kept(trial, _probe, "probes of /ping")


@checks.add(
    "leaks.refused",
    "1.6-1",
    title="an upgrade that is refused leaves no descriptor, thread or process behind",
    remedy=_CLOSE_IT,
    requires=("wear.refused",),
    needs=(Need.PROCESS,),
    limit=60,
)
async def refused(trial: Trial) -> None:
    await _nothing_open(trial, _refused, "pairs of refused upgrades")


@checks.add(
    "leaks.refused_memory",
    "1.6-1",
    severity=Severity.SHOULD,
    title="an upgrade that is refused leaves no memory behind",
    remedy=_FORGET_IT,
    requires=("leaks.refused",),
    needs=(Need.PROCESS,),
    limit=60,
)
async def refused_memory(trial: Trial) -> None:
    await _nothing_kept(trial, _refused, "pairs of refused upgrades")


@checks.add(
    "streams.leak",
    "1.5-9",
    title="a stream that is over leaves no descriptor, thread or process behind",
    remedy="at the end of every stream close its socket and everything that it opened, keep no "
    "copy of either, and end its tasks and threads",
    requires=("wear.streams", "streams.cut", "closing.every_state"),
    needs=(Need.PROCESS,),
    limit=60,
)
async def stream(trial: Trial) -> None:
    await _nothing_open(trial, _streams, _PAIRS)


@checks.add(
    "leaks.stream_memory",
    "1.5-9",
    severity=Severity.SHOULD,
    title="a stream that is over leaves no memory behind",
    remedy=_FORGET_IT,
    requires=("streams.leak",),
    needs=(Need.PROCESS,),
    limit=120,
)
async def stream_memory(trial: Trial) -> None:
    await _nothing_kept(trial, _streams, _PAIRS)
