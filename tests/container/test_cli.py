"""The command as a process of its own."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest
from websockets.sync.client import connect

from container.cli import main
from tests.container.wire import STREAM, upgrade_request
from tests.frame_factory import BINARY, KEY, frame

MIB = 1 << 20


@contextmanager
def command(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """``partway-container serve`` on a free port; gives the process and the port."""
    arguments = ["serve", "--host", "127.0.0.1", "--port", "0", *options]
    with subprocess.Popen(
        [sys.executable, "-m", "container", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on http://127.0.0.1:"), line
            yield process, int(line.rsplit(":", 1)[1])
        finally:
            process.kill()


@pytest.mark.clause("1.1-1")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_at_once_with_0(number: signal.Signals) -> None:
    with command() as (process, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping") as response:
            assert (response.status, response.read()) == (200, b"")
        process.send_signal(number)
        assert process.wait(10) == 0


@pytest.mark.clause("1.1-1")
def test_sigterm_drains() -> None:
    with command() as (process, port):
        with connect(f"ws://127.0.0.1:{port}{STREAM}") as client:
            client.send("before")
            assert client.recv() == "before"
            process.send_signal(signal.SIGTERM)
            # The signal is taken once the log says so.
            assert process.stderr is not None
            assert "stopping: 1 streams open" in process.stderr.readline()
            with pytest.raises(urllib.error.HTTPError, match="503"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ping")
            client.send("after")
            assert client.recv() == "after"
        assert process.wait(10) == 0


def test_a_second_sigterm_closes_the_streams() -> None:
    with command() as (process, port):
        with connect(f"ws://127.0.0.1:{port}{STREAM}") as client:
            process.send_signal(signal.SIGTERM)
            assert process.stderr is not None
            assert "stopping: 1 streams open" in process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            with pytest.raises(Exception, match="1001"):
                client.recv(timeout=5)
        assert process.wait(10) == 0


def test_a_client_that_reads_nothing_costs_bounded_memory() -> None:
    payload = frame(BINARY, bytes(64 * 1024), mask=KEY)
    with command() as (process, port), socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        sock.connect(("127.0.0.1", port))
        sock.sendall(upgrade_request())
        assert sock.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 101"
        server = psutil.Process(process.pid)
        before = server.memory_info().rss
        sock.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 256 * MIB:
                sent += sock.send(payload[sent % len(payload) :])
        assert sent < 64 * MIB  # mostly the kernel's
        assert server.memory_info().rss - before < 16 * MIB
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping") as response:
            assert response.status == 200  # nobody else is held up


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required: serve"),
        (["serve", "--model", "nope"], "choose from"),
        (["serve", "--port", "65536"], "give a number from 0 to 65535"),
        (["serve", "--port", "-1"], "give a number from 0 to 65535"),
        (["serve", "--port", "http"], "give a number from 0 to 65535"),
        (["serve", "--log-level", "loud"], "choose from"),
        (["serve", "--nope"], "--nope"),
    ],
)
def test_bad_arguments_are_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("partway-container: ")
    assert shown.count("\n") == 1
    assert says in shown
    assert "--help" in shown


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_cannot_be_had(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = ["serve", "--host", host, "--port", str(taken.getsockname()[1])]
        done = subprocess.run(
            [sys.executable, "-m", "container", *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"partway-container: cannot listen on {host} port ")
    assert done.stderr.endswith("; choose another with --host or --port\n")
    assert done.stderr.count("\n") == 1
