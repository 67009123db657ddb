"""Google's SDK for Vertex AI, unmodified, against ``partway serve`` with TLS.

Run by ``make interop-google GOOGLE_PYTHON=…``. One program is the page's own, as it is printed.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.gateway.containers.containers import HOST, Call, ScriptedContainer
from tests.interop.aws_sdk import ROOT, ServedGateway
from tests.interop.served_api import Ended, blocks, ended, interpreter

pytestmark = pytest.mark.timeout(300)

PAGE = "how-to/online-prediction.md"
GENERATED_CLIENT = ROOT / "tests" / "interop" / "google_client.py"
TOKEN = "a-token-of-sixteen-characters-or-more"

#: What of the program is changed, to what, and what the SDK's last line has to say of it then.
FAULTS = [
    ("endpoints/classifier", "endpoints/unknown", {"grpc": "404", "rest": "404"}),
    (TOKEN, "nobodys-token-at-all", {"grpc": "Unauthenticated", "rest": "RefreshError"}),
]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has the SDK."""
    return interpreter("GOOGLE_PYTHON", "google-cloud-aiplatform", "interop-google")


async def add(call: Call) -> None:
    """Answer instances with their sums, and other bytes with the same, in two chunks."""
    while True:
        head = await call.head()
        if head.startswith(b"GET /ping "):
            call.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            continue
        body = await call.body(head)
        if body.startswith(b"{"):
            sums = [sum(each) for each in json.loads(body)["instances"]]
            said = json.dumps({"predictions": sums}).encode()
            call.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said), said)
        else:
            call.say(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"%x\r\n%b\r\n6\r\n\nthere\r\n0\r\n\r\n" % (len(body), body)
            )


@pytest.fixture
async def gateway(anyio_backend: str, tmp_path: Path) -> AsyncIterator[ServedGateway]:
    """A gateway that asks who asks, before such a container."""
    principals = f'[[principals]]\nname = "me"\ntokens = ["{TOKEN}"]\n'
    async with ScriptedContainer(add) as container:
        config = f'[endpoints.classifier]\nurl = "http://{HOST}:{container.port}"\n'
        async with ServedGateway.start(tmp_path, config, principals) as gateway:
            yield gateway


@pytest.fixture
def run(gateway: ServedGateway, python: str, tmp_path: Path) -> Callable[..., Awaitable[Ended]]:
    """Runs a program on the SDK, which trusts the gateway's CA."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "REQUESTS_CA_BUNDLE": str(gateway.ca),
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(gateway.ca),
    }
    return lambda *words: ended(
        *(python, "-W", "ignore", *words), environment=environment, directory=tmp_path
    )


def host_of(gateway: ServedGateway) -> str:
    return f"localhost:{gateway.https.rpartition(':')[2]}"


@pytest.mark.parametrize("transport", ["grpc", "rest"])
async def test_the_pages_program(
    gateway: ServedGateway, run: Callable[..., Awaitable[Ended]], transport: str
) -> None:
    (program,) = (each for each in blocks(PAGE, "python") if "aiplatform" in each)
    for each in ("localhost:8443", *(old for old, _, _ in FAULTS)):
        assert each in program
    assert "api_transport" not in program, "gRPC is what it does by itself"
    asked = f'"{host_of(gateway)}",\n    api_transport="{transport}"'
    program = program.replace('"localhost:8443"', asked)
    told = await run("-c", program)
    assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    assert told.output.splitlines() == [
        "[3, 7]",
        "[3]",
        "b'any bytes\\nthere'",
        "b'any bytes'",
        "b'there'",
    ]
    for old, new, said in FAULTS:
        told = await run("-c", program.replace(old, new))
        assert told.status == 1
        assert said[transport] in told.errors.splitlines()[-1]


@pytest.mark.parametrize("transport", ["grpc", "rest"])
async def test_the_generated_client(
    gateway: ServedGateway, run: Callable[..., Awaitable[Ended]], transport: str
) -> None:
    host, parent = host_of(gateway), "projects/any/locations/us-central1"
    told = await run(
        str(GENERATED_CLIENT), transport, host, TOKEN, f"{parent}/endpoints/classifier"
    )
    assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    assert told.output.splitlines() == [
        f"[3.0] AllTraffic {parent}/models/classifier",
        "text/plain b'any bytes \\xff\\nthere'",
        "text/plain b'any bytes \\xff'",
        "text/plain b'\\nthere'",
        "NotFound Endpoint classifier-unknown of account 000000000000 not found.",
        "True {'AllTraffic': 100} True",
    ]
