"""Google's SDK for Vertex AI, unmodified, against ``partway serve`` with TLS.

Run by ``make interop-google GOOGLE_PYTHON=…``. The program is the page's own, as it is printed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.gateway.requests.containers import HOST, Call, ScriptedContainer
from tests.interop.aws_sdk import ServedGateway
from tests.interop.served_api import blocks, ended, interpreter

pytestmark = pytest.mark.timeout(300)

PAGE = "how-to/online-prediction.md"
TOKEN = "a-token-of-sixteen-characters-or-more"

#: What of the program is changed, to what, and what the SDK's last line has to say of it then.
FAULTS = [
    ("endpoints/classifier", "endpoints/unknown", "404"),
    (TOKEN, "nobodys-token-at-all", "RefreshError"),
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


async def test_the_pages_program(anyio_backend: str, python: str, tmp_path: Path) -> None:
    principals = f'[[principals]]\nname = "me"\ntokens = ["{TOKEN}"]\n'
    (program,) = blocks(PAGE, "python")
    async with ScriptedContainer(add) as container:
        config = f'[endpoints.classifier]\nurl = "http://{HOST}:{container.port}"\n'
        async with ServedGateway.start(tmp_path, config, principals) as gateway:
            port = gateway.https.rpartition(":")[2]
            assert "localhost:8443" in program
            assert "endpoints/classifier" in program
            program = program.replace("localhost:8443", f"localhost:{port}")
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "REQUESTS_CA_BUNDLE": str(gateway.ca),
            }
            told = await ended(
                *(python, "-W", "ignore", "-c", program),
                environment=environment,
                directory=tmp_path,
            )
            log = gateway.log.read_text("utf-8")
            assert told.status == 0, told.output + told.errors + log
            assert told.output.splitlines() == [
                "[3, 7]",
                "[3]",
                "b'any bytes\\nthere'",
                "b'any bytes'",
                "b'there'",
            ]
            for old, new, said in FAULTS:
                told = await ended(
                    *(python, "-W", "ignore", "-c", program.replace(old, new)),
                    environment=environment,
                    directory=tmp_path,
                )
                assert told.status == 1
                assert said in told.errors.splitlines()[-1]
