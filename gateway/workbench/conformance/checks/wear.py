"""Repeated requests: the last one is answered as well as the first."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from typing import Final

from partway.gateway.workbench.conformance.check import Checks, Need
from partway.gateway.workbench.conformance.checks.closing import answer_to
from partway.gateway.workbench.conformance.checks.http import PING_TIMEOUT
from partway.gateway.workbench.conformance.checks.startup import ping as ask_ping
from partway.gateway.workbench.conformance.checks.upgrade import UNKNOWN_PATH
from partway.gateway.workbench.conformance.raw_stream import NotGranted, Peer, upgrade
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried

checks: Final = Checks()

_PROBES, _STREAMS, _REFUSALS = 200, 300, 120
_MESSAGES, _PINGS = 300, 120
#: Messages under way at a time, so that a container's delay is not waited for each time.
_TOGETHER = 10
#: Seconds for a slow container, and the least number of requests; fewer with ``--fast``.
_SECONDS, _FAST_SECONDS = 20.0, 2.0
_LEAST = 20
_ANSWER_TIMEOUT = 5.0
_PONG_TIMEOUT = 5.0

_EACH_TIME = "release all that each request takes: a counter, list, pool or lock fills up"


async def times(trial: Trial, most: int, share: float = 1.0) -> AsyncIterator[int]:
    """Count repetitions from 1 on; the record of earlier ones is dropped each time.

    A container that is slow each time gets fewer repetitions. Its quickest time counts, since a
    busy machine is slow at times. ``share`` is the part of the seconds that they may take.
    """
    seconds = share * trial.scaled(_SECONDS, _FAST_SECONDS)
    quickest = math.inf
    for number in range(1, most + 1):
        began = time.monotonic()
        yield number
        quickest = min(quickest, time.monotonic() - began)
        trial.exchanges.clear()  # only the record of a failure is of interest
        if number >= _LEAST and number * quickest > seconds:
            return


@checks.add(
    "wear.ping",
    "1.1-2",
    title=f"the container answers /ping {_PROBES} times with 200, each within two seconds",
    remedy=f"{_EACH_TIME}; the platform asks for /ping as long as the container lives",
    requires=("ping.get", "ping.quick"),
    limit=60,
    wears=True,
)
async def wear_ping(trial: Trial) -> None:
    async for number in times(trial, _PROBES):
        try:
            answer = await ask_ping(trial)
        except Broken as broken:
            raise Broken(f"probe {number} of {_PROBES}: {broken.what}") from None
        if answer.status != 200 or answer.after > PING_TIMEOUT:
            raise Broken(
                f"probe {number} of {_PROBES}: the container answered /ping with {answer} after "
                f"{answer.after:.1f} s"
            )


@checks.add(
    "wear.streams",
    "1.1-4",
    title=f"the container accepts, answers and closes {_STREAMS} streams, one after the other",
    remedy=f"{_EACH_TIME}; a container lives for weeks",
    requires=("messages.answer", "closing.connection"),
    limit=120,
    wears=True,
)
async def wear_streams(trial: Trial) -> None:
    async for number in times(trial, _STREAMS):
        which = f"stream {number} of {_STREAMS}, one after the other"
        try:
            async with trial.stream(which) as peer:
                if trial.probe.echo:  # the cost of another model's answer is unknown
                    await trial.answered(peer, which)
                await answer_to(peer, 1000, "", which)
        except Broken as broken:
            told = "" if broken.what.startswith(which) else f"{which}: "
            raise Broken(f"{told}{broken.what}", broken.remedy) from None


@checks.add(
    "wear.refused",
    "1.6-1",
    title=f"the container accepts a stream after it has refused {_REFUSALS} upgrades",
    remedy=f"{_EACH_TIME}; also after a refusal: anybody may ask for a wrong path",
    requires=("upgrade.refused", "messages.answer"),
    limit=60,
    wears=True,
)
async def wear_refused(trial: Trial) -> None:
    async for number in times(trial, _REFUSALS):
        try:
            await refused_once(trial)
        except Broken as broken:
            raise Broken(f"refusal {number} of {_REFUSALS}: {broken.what}") from None
    try:
        async with trial.stream("a stream after many refusals") as peer:
            await trial.answered(peer, "on the new stream")
    except Broken as broken:
        raise Broken(f"after {_REFUSALS} refused upgrades: {broken.what}") from None


async def refused_once(trial: Trial) -> None:
    """Ask for a stream on a path that is not there.

    Raises:
        Broken: the upgrade is not answered.
        Untried: the upgrade is granted.
    """
    async with trial.link("an upgrade of an unknown path") as link:
        if not isinstance(await upgrade(link, UNKNOWN_PATH, {}), NotGranted):
            raise Untried("the container accepts streams on any path: it refuses no upgrade")


@checks.add(
    "wear.messages",
    "1.2-1",
    "1.3-1",
    title=f"the container answers each of {_MESSAGES} messages on a stream exactly once",
    remedy="answer each message once: a full buffer or queue must hold the sender back, not drop "
    "messages",
    requires=("messages.order", "messages.binary"),
    needs=(Need.ECHO,),
    limit=60,
)
async def wear_messages(trial: Trial) -> None:
    async with trial.stream("many messages") as peer:
        waiting: list[tuple[int, str | bytes]] = []
        async for number in times(trial, _MESSAGES):
            message = f"message {number}"
            waiting.append((number, message if number % 2 else message.encode()))
            await peer.say(waiting[-1][1])
            if len(waiting) == _TOGETHER:
                await _all_echoed(trial, peer, waiting)
                waiting.clear()
        await _all_echoed(trial, peer, waiting)


async def _all_echoed(trial: Trial, peer: Peer, said: list[tuple[int, str | bytes]]) -> None:
    for number, message in said:
        what = f"as the answer to message {number} of {_MESSAGES}, sent ten at a time"
        await trial.echoed(peer, message, what, _ANSWER_TIMEOUT)


@checks.add(
    "wear.pings",
    "1.4-3",
    severity=Severity.SHOULD,
    title=f"the container answers each of {_PINGS} Pings on a stream, one after the other",
    remedy="answer each Ping; only if several Pings wait, you may answer the last alone "
    "(RFC 6455 §5.5.3)",
    requires=("control.pong",),
    limit=60,
)
async def wear_pings(trial: Trial) -> None:
    async with trial.stream("many pings") as peer:
        async for number in times(trial, _PINGS):
            payload = f"{number:08}".encode()
            await peer.ping(payload)
            try:
                got = await peer.pong(_PONG_TIMEOUT)
            except TimeoutError:
                raise Broken(
                    f"Ping {number} of {_PINGS}, sent after the Pong for the one before, got no "
                    f"Pong within {_PONG_TIMEOUT:g} s"
                ) from None
            if got != payload:
                raise Broken(f"Ping {number} of {_PINGS} got the Pong of another Ping")
