"""partway wait, beside a gateway that starts, fails or never comes."""

from __future__ import annotations

import http.server
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from partway.gateway.fleet.status import EndpointState
from tests.conftest import ROOT
from tests.gateway.cli.asked_gateway import (
    PATIENCE,
    commanded,
    commanded_here,
    environment,
    gateway_at,
    words,
)
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
            status = left.pop(0) if len(left) > 1 else left[0]
            body = {200: b"ready\n", 503: b"starting\n"}.get(status, b"")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

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
    assert ended.errors.startswith("partway wait: not ready after 0.3 s: ")
    assert ("http://127.0.0.1:1/readyz: " if url else "no gateway runs") in ended.errors


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that says something of its own on each connection, until the client leaves."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.recv(4096)
                answer(self.request)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def drip_head(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def drip_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n")
    while True:
        connection.sendall(b"x")
        time.sleep(0.05)


def go_on(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        time.sleep(0.05)


def say_nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


@pytest.mark.parametrize("answer", [drip_head, drip_body, go_on, say_nothing])
def test_a_server_that_does_not_come_to_an_end_does_not_outlast_the_timeout(tmp_path, answer):
    with serving(answer) as url:
        began = time.monotonic()
        ended = commanded(tmp_path, "wait", "--gateway", url, "--timeout", "1")
    assert (ended.status, ended.errors) == (
        1, f"partway wait: not ready after 1 s: {url}/readyz does not answer\n"
    )  # fmt: skip
    assert time.monotonic() - began < PATIENCE / 2  # most of it is the start of Python


def test_a_frozen_gateway_does_not_outlast_the_timeout(tmp_path, gateway):
    """Its admin socket is connected with, and nothing is read from it."""
    freed = threading.Event()
    gateway.loop.call_soon_threadsafe(freed.wait, PATIENCE)
    try:
        began = time.monotonic()
        ended = commanded(tmp_path, "wait", "chat", "--timeout", "1")
        assert time.monotonic() - began < 8, "an answer of the admin socket is waited for 10 s"
    finally:
        freed.set()
    assert (ended.status, ended.errors) == (
        1, "partway wait: not ready after 1 s: the gateway does not answer\n"
    )  # fmt: skip


@pytest.mark.parametrize("flood", [b"HTTP/1.1 100 Continue\r\n\r\n", b"x: y\r\n", b"x"])
def test_an_answer_without_end_is_not_read(tmp_path, flood):
    def send(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n")
        while True:
            connection.sendall(flood * 1000)

    with serving(send) as url:
        ended = commanded_here(tmp_path, "wait", "--gateway", url)
    assert (ended.status, ended.errors) == (
        1, f"partway wait: {url}/readyz did not answer in HTTP: is this a gateway?\n"
    )  # fmt: skip


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_is_followed(tmp_path, status):
    followed = threading.Event()

    def note(connection: socket.socket) -> None:
        followed.set()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nready\n")

    with serving(note) as other:
        for target in (other, other.replace("http", "ftp"), f"{other}/readyz"):
            head = f"HTTP/1.1 {status} x\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
            with serving(lambda connection, head=head: connection.sendall(head.encode())) as url:
                ended = commanded_here(tmp_path, "wait", "--gateway", url)
            assert (ended.status, ended.errors) == (
                1, f"partway wait: {url}/readyz answered {status}: is this a gateway?\n"
            )  # fmt: skip
    assert not followed.is_set()


@pytest.mark.parametrize("body", [b"", b"ok\n", b"<html>ready\n</html>", b"ready\n" * 1000])
def test_a_200_that_is_no_gateways_is_not_ready(tmp_path, body):
    def answer(connection: socket.socket) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    with serving(answer) as url:
        ended = commanded_here(tmp_path, "wait", "--gateway", url)
    why = f"{url}/readyz answered 200 with a body that no gateway sends: is this a gateway?"
    assert (ended.status, ended.errors) == (1, f"partway wait: {why}\n")


def test_a_proxy_whose_gateway_has_not_come_yet_is_waited_for(tmp_path):
    with answering(502, 504, 503, 200) as url:
        assert commanded_here(tmp_path, "wait", "--gateway", url) == (0, b"", "")


def test_a_gateway_elsewhere_that_is_not_ready_at_once(tmp_path):
    with answering(503, 503, 200) as url:
        assert commanded_here(tmp_path, "wait", "--gateway", url) == (0, b"", "")
    with answering(503) as url:
        ended = commanded_here(tmp_path, "wait", "--gateway", url, "--timeout", "0.3")
        why = f"{url}/readyz answered 503: endpoints are starting"
        assert (ended.status, ended.errors) == (1, f"partway wait: not ready after 0.3 s: {why}\n")


def test_a_server_that_is_no_gateway_is_not_waited_for(tmp_path):
    with answering(404) as url:
        ended = commanded_here(tmp_path, "wait", "--gateway", url)
        assert (ended.status, ended.errors) == (
            1, f"partway wait: {url}/readyz answered 404: is this a gateway?\n"
        )  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nready\n",
    ],
    ids=["ssh", "chunk of -5 bytes"],
)
def test_a_server_of_another_protocol(tmp_path, answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=greet)
        thread.start()
        ended = commanded_here(tmp_path, "wait", "--gateway", url)
        thread.join()
    assert (ended.status, ended.errors) == (
        1, f"partway wait: {url}/readyz did not answer in HTTP: is this a gateway?\n"
    )  # fmt: skip


def test_an_endpoint_that_has_failed_is_not_waited_for(tmp_path, gateway):
    failed = an_endpoint("chat", state=EndpointState.FAILED, reason="no instance came up")
    gateway.fleet.endpoints = (failed,)
    ended = commanded_here(tmp_path, "wait", "chat")
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
        ended = commanded_here(tmp_path, "wait", name, "--timeout", "0.3")
        assert (ended.status, ended.errors) == (1, f"partway wait: not ready after 0.3 s: {why}\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--gateway", "gw.example"), "--gateway: 'gw.example' was given; it must be http://HOST"),
        (("--gateway", "http://h:abc"), "--gateway: 'http://h:abc' was given; it must be http:"),
        (("--gateway", "http://["), "--gateway: 'http://[' was given; it must be http://HOST:"),
        (("--gateway", "http://h/?x=y"), "--gateway: 'http://h/?x=y' was given; it must be http"),
        (("--gateway", "http://h h"), "--gateway: 'http://h h' was given; it must be http://HO"),
        (("--gateway", "http://"), "--gateway: 'http://' was given; it must be http://HOST:PORT"),
        (
            ("chat", "--gateway", "http://h"),
            "NAME and --gateway were given; NAME works only with",
        ),
        (("--data-dir", "d", "--gateway", "http://h"), "not allowed with argument"),
        (("--timeout", "0"), "it must be a number of seconds"),
    ],
    ids=str,
)
def test_asked_wrongly(tmp_path, arguments, why):
    ended = commanded_here(tmp_path, "wait", *arguments)
    assert ended.status == 2
    assert why in ended.errors


@pytest.mark.parametrize(
    "url",
    ["http://me:secret@127.0.0.1:1", "http://secret@h:abc", "me:secret@h", "ftp://me:secret@h"],
)
def test_a_password_in_the_url_is_not_printed(tmp_path, url):
    ended = commanded_here(tmp_path, "wait", "--gateway", url, "--timeout", "0.3")
    assert (ended.status, ended.output) == (2, b"")
    assert ended.errors.startswith("partway wait: --gateway: a URL with a user name or a password")
    assert "secret" not in ended.errors


def test_the_last_lines_of_a_container_are_quoted_without_the_commands_name(tmp_path, gateway):
    reason = "the container ended with status 1\nit printed last:\nTraceback\n  KeyError"
    failed = an_endpoint("chat", state=EndpointState.FAILED, reason=reason)
    gateway.fleet.endpoints = (failed,)
    ended = commanded_here(tmp_path, "wait", "chat")
    assert ended.errors.splitlines() == [
        "partway wait: chat has failed: the container ended with status 1",
        "    it printed last:",
        "    Traceback",
        "      KeyError",
    ]
