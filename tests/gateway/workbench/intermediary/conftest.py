"""A gateway whose container is reached through an intermediary, and raw peers at both ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.intermediary.dialler import InterposingDialler
from partway.gateway.workbench.intermediary.faults import Fault, Rule, Rules
from partway.gateway.workbench.intermediary.observer import Sender, UpgradeAnswer, UpgradeRequest
from partway.protocol.websocket.frames import Frame
from tests.wire.conftest import PATIENT, GatewayFor
from tests.wire.peers import RawContainer, RunningGateway

__all__ = ["Between", "Seen", "between", "between_for"]


class Seen:
    """What an observer was told of one stream, in order."""

    def __init__(self, endpoint: str, request: UpgradeRequest) -> None:
        self.endpoint = endpoint
        self.request = request
        self.told: list[tuple[Any, ...]] = []

    def answered(self, answer: UpgradeAnswer) -> None:
        self.told.append(("answered", answer))

    def frame(self, sender: Sender, frame: Frame) -> None:
        self.told.append((sender.value, *frame))

    def ended(self, sender: Sender, error: str = "") -> None:
        self.told.append(("ended", sender.value, error))

    def closed(self) -> None:
        self.told.append(("closed",))


class Between:
    """An intermediary with a gateway before it and a raw container behind it."""

    def __init__(self, gateway: RunningGateway, rules: Rules, seen: list[Seen]) -> None:
        self.gateway = gateway
        self.rules = rules
        #: What was observed, stream by stream.
        self.seen = seen
        self.open = gateway.open

    def break_with(self, *faults: Fault, **which: Any) -> None:
        """Let streams that open from now on have these faults."""
        self.rules.replace([Rule(faults, **which)])


BetweenFor = Callable[..., Awaitable[Between]]


@pytest.fixture
async def between_for(
    gateway_for: GatewayFor, container: RawContainer, anyio_backend: object
) -> AsyncIterator[BetweenFor]:
    """Starts a gateway whose container is dialled through an intermediary.

    Arguments: the rules, the endpoint's policy, and where its container listens.
    """
    async with AsyncExitStack() as running:

        async def start(
            rules: Iterable[Rule] = (),
            policy: StreamPolicy = PATIENT,
            where: Address | None = None,
            **others: Any,
        ) -> Between:
            seen: list[Seen] = []

            def observe(endpoint: str, request: UpgradeRequest) -> Seen:
                seen.append(Seen(endpoint, request))
                return seen[-1]

            where = where or Address("127.0.0.1", container.port)
            shared = Rules(rules)
            dialler = InterposingDialler(shared, observe)
            await running.enter_async_context(dialler)
            gateway = await gateway_for(policy=policy, address=where, dialler=dialler, **others)
            return Between(gateway, shared, seen)

        yield start


@pytest.fixture
async def between(between_for: BetweenFor) -> Between:
    """One without rules."""
    return await between_for()
