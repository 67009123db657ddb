"""One server for each module, on each loop, each with another way of writing a handler."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.container.rfc6455.subjects import FragmentEcho, MessageEcho, Subject
from tests.container.wire import serving

#: Handlers know nothing of loops, nor loops of handlers: hundreds of cases need not be run with
#: each pair of them.
PAIRS = [
    pytest.param((FragmentEcho, False), id="fragments-asyncio"),
    pytest.param(
        (MessageEcho, True),
        id="messages-uvloop",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed"
        ),
    ),
]


@pytest.fixture(scope="module", params=PAIRS)
def pair(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def anyio_backend(pair: Any) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": pair[1]}


@pytest.fixture(scope="module")
async def subject(pair: Any, anyio_backend: object) -> AsyncIterator[Subject]:
    """A server in this process; hundreds of streams follow one another on it."""
    model = pair[0]()
    async with serving(model) as (server, port):
        yield Subject(server, port, model)


@pytest.fixture(autouse=True)
def _no_leaks(subject: Subject, no_leaks: None) -> None:
    """No stream leaves anything behind; the server itself outlives them."""
