"""Intermediaries before every container of a gateway's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from partway.gateway.settings import Settings
from partway.gateway.workbench.intermediary.faults import Rule, Rules
from partway.gateway.workbench.intermediary.observer import Observe
from partway.gateway.workbench.intermediary.relay import Intermediary


@asynccontextmanager
async def interposed(
    settings: Settings, rules: Rules | Iterable[Rule] = (), observe: Observe | None = None
) -> AsyncIterator[Settings]:
    """The same settings, with an intermediary in each container's place.

    They listen until the block's end; the gateway is to be drained before.

    Args:
        settings: of the gateway that is to be started.
        rules: of faults, shared by all endpoints; see :class:`Intermediary`.
        observe: asked for each stream who wants to watch it.

    Raises:
        OSError: no port on loopback can be listened on.
    """
    shared = rules if isinstance(rules, Rules) else Rules(rules)
    async with AsyncExitStack() as running:
        endpoints = []
        for endpoint in settings.endpoints:
            intermediary = Intermediary(
                endpoint.name, endpoint.container, shared, observe, endpoint.policy
            )
            running.push_async_callback(intermediary.aclose)
            container = await intermediary.start()
            endpoints.append(dataclasses.replace(endpoint, container=container))
        yield dataclasses.replace(settings, endpoints=tuple(endpoints))
