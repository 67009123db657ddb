"""All checks on a gateway in this process, with a fault or without one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Literal

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.settings.settings import Settings
from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.platform.checks import ALL
from partway.gateway.workbench.conformance.platform.container import InstrumentedContainer
from partway.gateway.workbench.conformance.platform.run import PlatformRun
from partway.gateway.workbench.conformance.platform.trial import Platform, Times
from partway.gateway.workbench.conformance.run import Report
from partway.gateway.workbench.conformance.verdict import Verdict
from tests.gateway.workbench.conformance.platform.relay import Distortion, relayed

TIMES = Times(ping_interval=0.04, close_timeout=0.2, connect_timeout=0.25)

#: Of the endpoint whose times are looked at.
HURRIED = StreamPolicy(ping_interval=0.04, close_timeout=0.2, connect_timeout=0.25)

#: A machine that is busy with other tests accepts a connection later than in 250 ms.
_PATIENT = StreamPolicy(connect_timeout=5.0)

#: What a relay does not let through: it accepts whatever the container does.
_NOT_RELAYED = "platform.upgrade.accept_timeout"


async def tried(
    *,
    distortion: Callable[[], Distortion] | None = None,
    hurried: StreamPolicy = HURRIED,
    only: Collection[str] | None = None,
    transport: Literal["websocket", "http2"] = "websocket",
    patience: float = 5.0,
    checks: Iterable[Check] = ALL,
) -> Report:
    """What the checks say of a gateway.

    Args:
        distortion: of what goes between it and its container.
        hurried: policy of the endpoint with short times.
        only: ids of checks, with what they require; all by default.
        transport: which surface its client speaks to.
        patience: seconds for what is due at once.
        checks: to be tried.
    """
    async with AsyncExitStack() as stack:
        container = await stack.enter_async_context(InstrumentedContainer())
        where = container.address
        if distortion is not None:
            where = await stack.enter_async_context(relayed(where, distortion))
            checks = tuple(check for check in checks if check.id != _NOT_RELAYED)
            # It is the relay that is reached, and it may be slow about it.
            hurried = replace(hurried, connect_timeout=5.0)
        settings = Settings(
            port=0,
            endpoints=(
                Endpoint.attached("model", where, _PATIENT),
                Endpoint.attached("hurried", where, hurried),
            ),
            shutdown_grace=0.0,
            shutdown_spread=0.0,
            shutdown_hard=1.0,
        )
        gateway = Gateway(settings)
        listening = await gateway.start()
        stack.push_async_callback(gateway.drain)
        stack.callback(gateway.hasten)
        url = f"http://127.0.0.1:{listening.port}"
        platform = Platform(url, "model", "hurried", TIMES, transport, patience)
        return await PlatformRun(checks, only=only).run(platform, container)


def failed(report: Report) -> dict[str, str]:
    """What has failed, by the checks' ids, and what was said of it."""
    wrong = (Verdict.FAIL, Verdict.NOTE)
    return {each.check.id: each.said for each in report.results if each.verdict in wrong}
