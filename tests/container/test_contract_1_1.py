"""What a container does (section 1.1), asked of a process that is started as on the platform."""

from __future__ import annotations

import asyncio
import http.client
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from partway.container.model import Model, Request
from partway.container.server import MODEL_DIR, ModelServer
from tests.conftest import ROOT
from tests.container.wire import PATIENCE, QUICK, STREAM, raw_client, serving
from tests.processes import running

PING_DEADLINE = 2.0  # clause 1.1-2
ACCEPT_DEADLINE = 0.25

#: What an author might write, bad habits included.
MODEL_SOURCE = """
import asyncio
import os
import threading
import time

from partway.container import Model


class Subject(Model):
    def load(self, model_dir):
        self.weights = (model_dir / "weights.txt").read_text()
        self.begun = threading.Event()
        self.enough = threading.Event()

    async def stream(self, stream):
        async for message in stream.messages():
            await stream.send(message)
            if message == "sleep":
                time.sleep(60)
            elif message == "spin":
                while True:
                    pass

    async def invoke(self, request):
        asked = await request.read()
        if asked == b"compute":
            return await self.workers.run(self.compute)
        if asked == b"wait until it does":
            await asyncio.to_thread(self.begun.wait, 10)
        elif asked == b"enough":
            self.enough.set()
        return f"{self.weights} {os.environ.get('FROM_THE_DEFINITION')}"

    def compute(self):
        self.begun.set()
        while not self.enough.is_set():
            sum(range(100_000))
        return b"computed"
"""


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's directory, which it can only read."""
    folder = tmp_path_factory.mktemp("artifacts")
    (folder / "weights.txt").write_text("0.25 0.75")
    (folder / "weights.txt").chmod(0o444)
    folder.chmod(0o555)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image's working directory."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "model.py").write_text(MODEL_SOURCE)
    return folder


def platform(patch: pytest.MonkeyPatch, folder: Path, **environment: str) -> None:
    """What the platform and the image set for a process. There are no flags."""
    patch.chdir(folder)
    for name in os.environ:
        if name.startswith(("PARTWAY_", "SM_", "SAGEMAKER_")):
            patch.delenv(name)
    patch.setenv("PYTHONPATH", str(ROOT / "src"))
    for name, value in environment.items():
        patch.setenv(name, value)


@pytest.fixture(scope="module")
def container(folder: Path, artifacts: Path) -> Iterator[str]:
    """A container's address. At its end SIGTERM makes it exit with 0."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            platform(
                patch,
                folder,
                PARTWAY_MODEL="model:Subject",
                SM_MODEL_DIR=str(artifacts),
                SAGEMAKER_BIND_TO_PORT="0",
                FROM_THE_DEFINITION="set by the model definition",
            )
            url = stack.enter_context(running("partway.container", "serve"))
        yield f"127.0.0.1:{urlsplit(url).port}"


def ask(
    container: str, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of an answer, on a connection of its own."""
    with closing(http.client.HTTPConnection(container, timeout=10)) as connection:
        connection.request(method, path, body or None, headers or {})
        response = connection.getresponse()
        return response.status, response.read(), dict(response.getheaders())


def assert_pings(container: str, method: str = "GET") -> None:
    """/ping answers as it must, in time: where others keep the processors busy, in theirs too."""
    asked = time.monotonic()
    status, body, headers = ask(container, method, "/ping")
    share = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert time.monotonic() - asked < PING_DEADLINE * share
    assert (status, body, headers["Content-Length"]) == (200, b"", "0")


def open_stream(container: str, path: str = STREAM) -> ClientConnection:
    return connect(f"ws://{container}{path}", compression=None)


# --- 1.1-1 ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1")
def test_the_word_serve_is_all_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With nothing configured it still serves, and SIGTERM ends it with 0."""
    platform(monkeypatch, tmp_path, SAGEMAKER_BIND_TO_PORT="0")
    with running("partway.container", "serve") as url:
        port = urlsplit(url).port
        assert_pings(f"127.0.0.1:{port}")
        with open_stream(f"127.0.0.1:{port}") as stream:
            stream.send("x")
            assert stream.recv(10) == "x"


# --- 1.1-2 ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_ping_is_200_and_empty(container: str, method: str) -> None:
    assert_pings(container, method)


@pytest.mark.clause("1.1-2")
def test_ping_while_the_model_computes(container: str) -> None:
    answers: list[bytes] = []
    computing = threading.Thread(
        target=lambda: answers.append(ask(container, "POST", "/invocations", b"compute")[1])
    )
    computing.start()
    ask(container, "POST", "/invocations", b"wait until it does")
    try:
        for method in ("GET", "POST") * 5:
            assert_pings(container, method)
        assert not answers
    finally:
        ask(container, "POST", "/invocations", b"enough")
        computing.join(10)
    assert answers == [b"computed"]


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("how", ["sleep", "spin"])
def test_ping_and_accept_while_a_handler_keeps_the_loop(container: str, how: str) -> None:
    """The handler is at fault; everybody else is served in time, and its client hears of it."""
    host, _, port = container.partition(":")
    with open_stream(container) as stream, ExitStack() as stack:
        stream.send(how)
        assert stream.recv(10) == how  # and does not return from here on
        for _ in range(200):
            stack.enter_context(socket.create_connection((host, int(port)), ACCEPT_DEADLINE))
        assert_pings(container)
        with pytest.raises(ConnectionClosedError) as closed:
            stream.recv(10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize("path", ["/ping", "/invocations"])
def test_headers_that_it_does_not_know(container: str, path: str) -> None:
    headers = {f"X-Amzn-Unknown-{number}": "x" * 100 for number in range(30)}
    headers |= {"Accept": "nothing/known", "Cookie": "a=b", "X-Amzn-Trace-Id": "Root=1-2-3"}
    status, _, _ = ask(container, "POST", path, b"", headers)
    assert status == 200
    with connect(f"ws://{container}{STREAM}", additional_headers=headers) as stream:
        stream.send("x")
        assert stream.recv(10) == "x"


# --- 1.1-3 ---------------------------------------------------------------------------------------


class SlowToLoad(Model):
    """Loads until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def load(self, model_dir: Path) -> None:
        self.let_go.wait(10)

    async def invoke(self, request: Request) -> bytes:
        return b"answered"


async def status_of(port: int, line: str) -> int:
    async with raw_client(port) as client:
        client.send(f"{line} HTTP/1.1\r\nHost: c\r\nContent-Length: 0\r\n\r\n".encode())
        return int((await client.head()).split(b" ", 2)[1])


@pytest.mark.clause("1.1-3")
async def test_ping_passes_once_the_model_is_loaded_and_not_before(no_leaks: None) -> None:
    """So the platform waits as long as it does, and sends nothing to a model that is not there."""
    model = SlowToLoad()
    server = ModelServer(model, times=QUICK)
    port = await server.start()
    loading = asyncio.create_task(server.load())
    try:
        for line in ("GET /ping", "POST /ping", "POST /invocations"):
            assert await status_of(port, line) == 503
        assert not loading.done()
        model.let_go.set()
        await loading
        for line in ("GET /ping", "POST /ping", "POST /invocations"):
            assert await status_of(port, line) == 200
    finally:
        model.let_go.set()
        await loading
        await server.aclose()


# --- 1.1-4 ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-4")
def test_streams_on_the_default_path_with_pongs(container: str) -> None:
    with open_stream(container, "/invocations-bidirectional-stream") as stream:
        for message in ("text", b"bytes"):
            stream.send(message)
            assert stream.recv(10) == message
        for payload in (b"", b"12345678", bytes(125)):
            assert stream.ping(payload).wait(PING_DEADLINE)


# --- 1.1-5 ---------------------------------------------------------------------------------------


class InPieces(Model):
    """Answers in pieces, each once the test has seen the one before it."""

    def __init__(self) -> None:
        self.seen = [asyncio.Event() for _ in range(3)]

    async def invoke(self, request: Request) -> AsyncIterator[bytes | str]:  # type: ignore[override]
        for event, piece in zip(self.seen, (b"first", "zweites Stück", b"\x00" * 300), strict=True):
            yield piece
            await event.wait()


@pytest.mark.clause("1.1-5")
async def test_a_streamed_response_is_chunked_as_the_model_yields(no_leaks: None) -> None:
    model = InPieces()
    request = b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nhi"
    async with serving(model) as (_, port), raw_client(port) as client, asyncio.timeout(PATIENCE):
        client.send(request)
        head = (await client.head()).lower()
        assert head.startswith(b"http/1.1 200 ")
        assert b"\r\ntransfer-encoding: chunked\r\n" in head
        assert b"content-length" not in head
        for event, chunk in zip(
            model.seen,
            (
                b"5\r\nfirst\r\n",
                b"e\r\nzweites St\xc3\xbcck\r\n",
                b"12c\r\n" + bytes(300) + b"\r\n",
            ),
            strict=True,
        ):
            assert await client.reader.readexactly(len(chunk)) == chunk
            event.set()
        assert await client.reader.readexactly(5) == b"0\r\n\r\n"
        client.send(b"GET /ping HTTP/1.1\r\nHost: c\r\n\r\n")  # the connection goes on
        assert (await client.head()).startswith(b"HTTP/1.1 200 ")


# --- 1.1-6 ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-6")
def test_artifacts_are_found_and_only_read(container: str, artifacts: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        entries = [artifacts, *artifacts.rglob("*")]
        return {str(each): (each.stat().st_mtime_ns, each.stat().st_size) for each in entries}

    before = state()
    status, body, _ = ask(container, "POST", "/invocations", b"weights")
    assert status == 200
    assert body.startswith(b"0.25 0.75 ")
    assert state() == before
    assert len(before) == 2  # nor has anything been written while it was loaded


@pytest.mark.clause("1.1-6")
def test_artifacts_are_where_the_platform_puts_them() -> None:
    assert Path("/opt/ml/model") == MODEL_DIR


@pytest.mark.clause("1.1-6")
def test_the_environment_is_the_model_s(container: str) -> None:
    _, body, _ = ask(container, "POST", "/invocations")
    assert body == b"0.25 0.75 set by the model definition"


@pytest.mark.clause("1.1-6")
def test_the_port_may_be_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Told by the environment. That it is this one shows best where it is taken."""
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        platform(monkeypatch, tmp_path, SAGEMAKER_BIND_TO_PORT=str(port))
        done = subprocess.run(
            [sys.executable, "-m", "partway.container", "serve"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert f" port {port}: " in done.stderr


# --- 1.1-8 ---------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-8")
@pytest.mark.parametrize(
    "pieces", [(b"\xff",), (b"\xe2", b"\x82"), (b"\xc3", b"(")], ids=["whole", "cut", "split"]
)
def test_text_that_is_not_utf_8_fails_the_connection(
    container: str, pieces: tuple[bytes, ...]
) -> None:
    def say(stream: ClientConnection) -> None:
        stream.send(pieces, text=True)  # which may hear of it before its last piece
        stream.recv(10)

    with open_stream(container) as stream, pytest.raises(ConnectionClosedError) as closed:
        say(stream)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1007


@pytest.mark.clause("1.1-8")
def test_a_code_point_may_be_split_between_fragments(container: str) -> None:
    text = "κόσμε 🙂".encode()
    with open_stream(container) as stream:
        stream.send([text[at : at + 1] for at in range(len(text))], text=True)
        assert stream.recv(10) == text.decode()
