"""Containers on the usual libraries pass every *must*, and fast."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from partway.gateway.fleet.launchers.process import free_port
from partway.gateway.workbench.conformance.verdict import Severity, Verdict
from tests.gateway.workbench.conformance.mutants.trying import failed, is_fast, tried

#: On a busy machine there are two runs of all checks.
pytestmark = pytest.mark.timeout(300)

GOOD = Path(__file__).with_name("good")


def bridged(name: str) -> dict[str, str]:
    """Settings of a bridge that starts one of the containers as its upstream."""
    port = free_port()
    words = ("env", f"SAGEMAKER_BIND_TO_PORT={port}", sys.executable, str(GOOD / name), "serve")
    return {
        "PARTWAY_UPSTREAM": f"ws://127.0.0.1:{port}/invocations-bidirectional-stream",
        "PARTWAY_UPSTREAM_PROGRAM": shlex.join(words),
    }


#: Commands and environments, by what the containers are built on.
CONTAINERS = {
    "partway": ((sys.executable, "-m", "partway.container"), {"PARTWAY_MODEL": "echo"}),
    "fastapi": ((sys.executable, str(GOOD / "on_fastapi.py")), {}),
    "chat": ((sys.executable, str(GOOD / "chat_on_fastapi.py")), {}),
    "websockets": ((sys.executable, str(GOOD / "on_websockets.py")), {}),
    "aiohttp": ((sys.executable, str(GOOD / "on_aiohttp.py")), {}),
    "tornado": ((sys.executable, str(GOOD / "on_tornado.py")), {}),
    "bridge": ((sys.executable, "-m", "partway.container"), bridged("on_websockets.py")),
}

#: What is left to their authors, and is no *must*.
KNOWN = {
    # The echo model and the sample answer with one piece of known length.
    "partway": {"invocations.chunked"},
    "fastapi": {"invocations.chunked"},
    "chat": {"invocations.chunked"},
    # websockets takes no request with a body.
    "websockets": {"invocations.post"},
    # aiohttp does not look for the mask, and neither does Tornado, which sends any code back.
    "aiohttp": {"violations.unmasked"},
    "tornado": {"violations.unmasked", "violations.close_code"},
    # It takes no requests.
    "bridge": {"invocations.post"},
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the containers have their own."""
    return "asyncio"


@pytest.mark.parametrize("name", CONTAINERS)
async def test_every_must_is_kept(name: str) -> None:
    command, environment = CONTAINERS[name]
    report = await tried(command, environment)
    found = failed(report)
    assert set(found) == KNOWN[name], found
    assert not report.count(Verdict.FAIL, Severity.MUST)
    assert not report.count(Verdict.BLOCKED, Severity.MUST)
    assert report.conformant
    assert await is_fast(report, command, environment)
    skipped = {each.check.id for each in report.results if each.verdict is Verdict.SKIP}
    assert ("openai.chat" in skipped) == (name != "chat")
