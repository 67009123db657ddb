"""partway wait, as a process beside a gateway that starts, fails or never comes."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from partway.gateway.fleet.status import EndpointState
from tests.conftest import ROOT
from tests.gateway.cli.asked_gateway import PATIENCE, commanded, environment, gateway_at, words
from tests.gateway.fleet.statuses import a_variant, an_endpoint
from tests.processes import ready_url


@pytest.fixture
def gateway(tmp_path):
    """The only one of a user whose data is in ``tmp_path``."""
    with gateway_at(tmp_path / "partway" / "gateways" / "8090") as gateway:
        yield gateway


@contextmanager
def answering(*statuses: int) -> Iterator[str]:
    """A server whose answers have these statuses, the last one again and again."""
    left = list(statuses)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/readyz"
            self.send_response(left.pop(0) if len(left) > 1 else left[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("endpoint", [(), ("echo",)], ids=["gateway", "endpoint"])
def test_a_gateway_may_start_later_than_the_command(tmp_path, endpoint):
    where = ("--data-dir", str(tmp_path / "data"))
    with subprocess.Popen(
        words("wait", *endpoint, *where),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
        cwd=ROOT,
    ) as waiting:
        command = f"{sys.executable} -m partway.container serve --model echo"
        with subprocess.Popen(
            words("serve", "--port", "0", *where, "--endpoint", f"echo={command}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(tmp_path),
            cwd=ROOT,
        ) as serving:
            ready_url(serving, PATIENCE)
            assert waiting.communicate(timeout=PATIENCE) == (b"", b"")
            serving.terminate()
            serving.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0


@pytest.mark.parametrize("url", [False, True], ids=["data-dir", "gateway"])
def test_no_gateway_in_time(tmp_path, url):
    where = ("--gateway", "http://127.0.0.1:1/") if url else ()
    ended = commanded(tmp_path, "wait", "--timeout", "0.3", *where)
    assert (ended.status, ended.output) == (1, b"")
    assert ended.errors.startswith("partway wait: not after 0.3 s: ")
    assert ("http://127.0.0.1:1/readyz: " if url else "no gateway runs") in ended.errors


def test_a_gateway_elsewhere_that_is_not_ready_at_once(tmp_path):
    with answering(503, 503, 200) as url:
        assert commanded(tmp_path, "wait", "--gateway", url) == (0, b"", "")
    with answering(503) as url:
        ended = commanded(tmp_path, "wait", "--gateway", url, "--timeout", "0.3")
        assert (ended.status, ended.errors) == (
            1, f"partway wait: not after 0.3 s: {url}/readyz answered 503: endpoints are starting\n"
        )  # fmt: skip


def test_a_server_that_is_no_gateway_is_not_waited_for(tmp_path):
    with answering(404) as url:
        ended = commanded(tmp_path, "wait", "--gateway", url)
        assert (ended.status, ended.errors) == (
            1, f"partway wait: {url}/readyz answered 404: is this a gateway?\n"
        )  # fmt: skip


def test_a_server_of_another_protocol(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        ended = commanded(tmp_path, "wait", "--gateway", url)
        thread.join()
    assert (ended.status, ended.errors) == (
        1, f"partway wait: {url}/readyz answered no HTTP: is this a gateway?\n"
    )  # fmt: skip


def test_an_endpoint_that_has_failed_is_not_waited_for(tmp_path, gateway):
    failed = an_endpoint("chat", state=EndpointState.FAILED, reason="no instance came up")
    gateway.fleet.endpoints = (failed,)
    ended = commanded(tmp_path, "wait", "chat")
    assert (ended.status, ended.errors) == (
        1, "partway wait: chat has failed: no instance came up\n"
    )  # fmt: skip


def test_why_an_endpoint_is_not_in_service_in_time(tmp_path, gateway):
    trouble = a_variant(trouble="nothing listens on 8080")
    gateway.fleet.endpoints = (an_endpoint("chat", trouble, state=EndpointState.CREATING),)
    for name, why in (
        ("chat", "chat is Creating: nothing listens on 8080"),
        ("nobody", "there is no endpoint 'nobody'"),
    ):
        ended = commanded(tmp_path, "wait", name, "--timeout", "0.3")
        assert (ended.status, ended.errors) == (1, f"partway wait: not after 0.3 s: {why}\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--gateway", "gw.example"), "--gateway: 'gw.example' was given; it must be http://HOST"),
        (("--gateway", "http://h:abc"), "--gateway: 'http://h:abc' was given; it must be http:"),
        (("--gateway", "http://["), "--gateway: 'http://[' was given; it must be http://HOST:"),
        (("--gateway", "http://"), "--gateway: 'http://' was given; it must be http://HOST:PORT"),
        (("chat", "--gateway", "http://h"), "NAME and --gateway were given;"),
        (("--data-dir", "d", "--gateway", "http://h"), "not allowed with argument"),
        (("--timeout", "0"), "it must be a number of seconds"),
    ],
    ids=str,
)
def test_asked_wrongly(tmp_path, arguments, why):
    ended = commanded(tmp_path, "wait", *arguments)
    assert ended.status == 2
    assert why in ended.errors
