"""Shares and sessions hold over the workers of a gateway, which are processes."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from botocore.client import BaseClient
from botocore.credentials import Credentials

from tests.gateway.apis.aws_client import aws
from tests.processes import running
from tests.wire.event_signing import KEY_ID, SECRET, EventSigning
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")

WORKERS = 4
#: A principal's streams.
SHARE = 300

#: Nobody reads the logs of these processes, and a pipe takes 64 KiB.
QUIET = "--log-level=warning"

PRINCIPALS = f"""
[[principals]]
name = "me"
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
"""


class SessionContainer(BaseHTTPRequestHandler):
    """Begins sessions, and answers with its port."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer()

    def answer(self) -> None:
        said = str(self.server.server_address[1]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        if self.headers["X-Amzn-SageMaker-Session-Id"] == "NEW_SESSION":
            expiring = "s; Expires=2099-01-01T00:00:00Z"
            self.send_header("X-Amzn-SageMaker-New-Session-Id", expiring)
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def session_container() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SessionContainer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def anyio_backend():
    """One loop is enough: the gateway has its own."""
    return "asyncio"


@pytest.fixture(scope="module")
def port(tmp_path_factory) -> Iterator[int]:
    """The port of a gateway with workers."""
    folder = tmp_path_factory.mktemp("gateway")
    principals, settings = folder / "principals.toml", folder / "partway.toml"
    principals.write_text(PRINCIPALS)
    principals.chmod(0o600)
    words = [f"--workers={WORKERS}", f"--config={settings}", f"--principals={principals}"]
    words += ["--auth=sigv4", "--port=0", f"--data-dir={folder / 'data'}", QUIET]
    echo = running("partway.container", "serve", "--host=127.0.0.1", "--port=0", QUIET)
    with ExitStack() as stack:
        url = stack.enter_context(echo)
        urls = [stack.enter_context(session_container()) for _ in range(2)]
        settings.write_text(
            f'max_streams = {2 * SHARE}\n[endpoints.echo]\nurl = "{url}"\n'
            f"[endpoints.sessions]\nurls = {urls}\n"
        )
        yield urlsplit(stack.enter_context(running("partway", "serve", *words))).port or 0


# --- Shares --------------------------------------------------------------------------------------


async def statuses(port: int, streams: int, connections: int) -> Counter[int]:
    """Ask for streams of one principal, all at once, and count the answers' statuses.

    Args:
        connections: they share the streams.
    """
    path = "/endpoints/echo/invocations-bidirectional-stream"
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(await RawHttp2Client.connect(port))
            for _ in range(connections)
        ]
        for each in clients:
            await each.ready()
        heads = [EventSigning().request(bidirectional_request(path=path)) for _ in range(streams)]
        asked = [client.request(head) for client, head in zip(itertools.cycle(clients), heads)]
        answers = await asyncio.gather(*(each.head() for each in asked))
        return Counter(status for status, _ in answers)


def has_streams(port: int) -> bool:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        return b'partway_streams_open{endpoint="echo"}' in page.read()


@pytest.mark.parametrize("connections", [1, 40])
async def test_a_principals_share_holds_over_workers(port, connections):
    found = await statuses(port, SHARE + 100, connections)
    assert set(found) == {200, 503}
    # Of claims in the same moment, each worker but one may miss one.
    assert SHARE <= found[200] < SHARE + WORKERS
    await eventually(lambda: not has_streams(port))


# --- Sessions ------------------------------------------------------------------------------------


def instance(client: BaseClient, session: str) -> str:
    """Invoke with a session; return the name of the instance that has answered."""
    found = client.invoke_endpoint(EndpointName="sessions", Body=b"hi", SessionId=session)
    return str(found["Body"].read())


def check_sessions(port: int) -> None:
    key = Credentials(KEY_ID, SECRET)
    with ExitStack() as stack:
        clients = [aws("sagemaker-runtime", port, key) for _ in range(3 * WORKERS)]
        for each in clients:  # each has a connection of its own, with any worker
            stack.callback(each.close)
        begun = {}
        for each in itertools.cycle(clients):
            found = each.invoke_endpoint(
                EndpointName="sessions", Body=b"hi", SessionId="NEW_SESSION"
            )
            begun[str(found["Body"].read())] = found["NewSessionId"].partition(";")[0]
            if len(begun) == 2:
                break
        for name, session in begun.items():
            assert {instance(each, session) for each in clients} == {name}
        own = [{instance(each, f"session-{number}") for each in clients} for number in range(4)]
        assert [len(each) for each in own] == [1] * 4


async def test_sessions_stay_with_their_instances_over_workers(port):
    """The sessions of containers, and sessions whose ids clients have made."""
    await asyncio.to_thread(check_sessions, port)
