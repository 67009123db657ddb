"""The container's end, and its changes in the model directory (1.1-1, 1.1-6)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from partway.gateway.fleet.limits import START_TIMEOUT, STOP_GRACE
from partway.gateway.workbench.conformance.check import Checks, Need
from partway.gateway.workbench.conformance.raw_stream import Peer
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Untried

checks: Final = Checks()


@checks.add(
    "files.artifacts",
    "1.1-6",
    title="the container writes nothing in the model directory",
    remedy="write to /tmp or to /opt/ml/output: /opt/ml/model is read-only on the platform",
    requires=("startup.listens",),
    needs=(Need.PROCESS,),
)
async def artifacts(trial: Trial) -> None:
    changed = trial.process.changed_artifacts()
    if changed:
        raise Broken(f"the container has written {changed[0]} in the model directory")


@checks.add(
    "shutdown.sigterm",
    "1.1-1",
    title="SIGTERM ends the container within thirty seconds",
    remedy="use the exec form of ENTRYPOINT, and end on SIGTERM: a shell in between swallows the "
    "signal",
    requires=("startup.listens",),
    needs=(Need.PROCESS,),
    limit=STOP_GRACE + 30,
)
async def sigterm(trial: Trial) -> None:
    await _ended(trial, STOP_GRACE, "without a stream")


@checks.add(
    "shutdown.streams",
    "1.1-1",
    "1.5-9",
    title="SIGTERM ends the container within thirty seconds while a stream is open",
    remedy="on SIGTERM close open streams with 1001, or wait for them for less than thirty seconds "
    "(aiohttp: run_app(shutdown_timeout=5))",
    requires=("shutdown.sigterm", "messages.answer"),
    needs=(Need.PROCESS,),
    limit=START_TIMEOUT + STOP_GRACE + 60,
)
async def streams(trial: Trial) -> None:
    if trial.fast:
        raise Untried("takes up to thirty seconds: leave --fast out")
    await trial.subject.start_again(START_TIMEOUT)
    await trial.until_ready(START_TIMEOUT)
    async with trial.stream("an open stream") as peer:
        await trial.answered(peer, "before SIGTERM")
        # The platform reads on, and answers the container's Close.
        reading = asyncio.create_task(_read_on(peer))
        try:
            await _ended(trial, STOP_GRACE, "with an open stream")
        finally:
            reading.cancel()
            await asyncio.wait((reading,))


async def _read_on(peer: Peer) -> None:
    with suppress(TimeoutError, Broken):
        await peer.closed(STOP_GRACE)


async def _ended(trial: Trial, patience: float, how: str) -> None:
    process = trial.process
    await process.terminate()
    if not await process.ended(patience):
        await process.kill()
        raise Broken(f"{patience:g} s after SIGTERM, {how}, the container still runs")
