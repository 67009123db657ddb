"""The processes of a run: started, found by the line with their address, and ended."""

from __future__ import annotations

import http.client
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from partway.gateway.tls.context import TlsFiles

#: The code beside this file is measured, whatever else is installed.
_ROOT = Path(__file__).parent.parent
_START_TIMEOUT = 40.0  # a gateway waits for its endpoints for 30 s
_STOP_TIMEOUT = 5.0
_LISTENING = r"listening on {scheme}://([\w.]+:\d+)"

#: HAProxy as an operator would put it in front of one container: after the 101 it moves bytes. It
#: has one thread, as all peers, no costly option, and holds back no answer that comes bit by bit.
_HAPROXY = """\
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout tunnel 1h
    option http-no-delay
frontend clients
    bind fd@{fd}
{rules}    default_backend container
backend container
    server echo {container}
{backends}"""


#: nginx likewise: one process, kept connections with the container, and no buffering.
_NGINX = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream container {{ server {container}; keepalive 64; }}
    server {{
        listen {address};
        keepalive_requests 1000000000;
        location / {{
            proxy_pass http://container;
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_set_header Connection "";
        }}
    }}
}}
"""


class StartError(Exception):
    """A process did not listen in time."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A process that listens.

    Attributes:
        address: ``HOST:PORT``.
    """

    address: str
    pid: int


@dataclass(frozen=True, slots=True)
class Process:
    running: subprocess.Popen[bytes]
    output: Path  # a file, not a pipe: a relay that logs must never wait for its reader

    def said(self) -> str:
        return self.output.read_text(errors="replace")


@contextmanager
def started(
    command: Sequence[str], pass_fds: Sequence[int] = (), root: Path = _ROOT
) -> Iterator[Process]:
    """Start a process in an empty folder of its own; it ends with the block.

    Args:
        root: the checkout whose code it runs.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                pass_fds=pass_fds,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
            )
        try:
            yield Process(process, output)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until_it_listens(
    process: Process, look: Callable[[], str | None], seconds: float = _START_TIMEOUT
) -> Peer:
    """Wait until ``look`` finds the address of a process.

    Raises:
        StartError: the process does not listen, or has ended.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.running.poll() is None:
        address = look()
        if address is not None:
            return Peer(address, process.running.pid)
        time.sleep(0.05)
    raise StartError(f"{process.running.args} does not listen: {process.said()[-2000:]}")


@contextmanager
def listening(
    command: Sequence[str],
    scheme: str = "http",
    seconds: float = _START_TIMEOUT,
    root: Path = _ROOT,
) -> Iterator[Peer]:
    """Start a process that prints its address."""
    with started(command, root=root) as process:

        def said() -> str | None:
            found = re.search(_LISTENING.format(scheme=scheme), process.said())
            return found[1] if found else None

        yield until_it_listens(process, said, seconds)


def python_build() -> str:
    """The Python of all measured processes; its build makes a fifth of their cost."""
    return f"CPython {sys.version}"


@contextmanager
def echo_container() -> Iterator[Peer]:
    with listening([sys.executable, "-m", "benchmarks.echo_container"]) as peer:
        yield peer


@contextmanager
def invoke_container() -> Iterator[Peer]:
    with listening([sys.executable, "-m", "benchmarks.invoke_container"]) as peer:
        yield peer


@contextmanager
def bare_relay(container: Peer) -> Iterator[Peer]:
    """Start :mod:`benchmarks.bare_relay` before a container of requests."""
    command = [sys.executable, "-m", "benchmarks.bare_relay", f"http://{container.address}"]
    with listening(command) as peer:
        yield peer


@contextmanager
def predict_container() -> Iterator[Peer]:
    """Start the container of :mod:`benchmarks.predict_models`, on the runtime that ships."""
    command = find("partway-container", str(Path(sys.executable).parent))
    if command is None:
        raise StartError("the partway-container command is not installed: pip install -e .")
    model = "benchmarks.predict_models:Sums"
    with listening([command, "serve", "--model", model, "--port", "0"]) as peer:
        yield peer


@contextmanager
def token_container() -> Iterator[Peer]:
    with listening([sys.executable, "-m", "benchmarks.token_container"]) as peer:
        yield peer


@contextmanager
def codec_relay(codec: str, container: Peer) -> Iterator[Peer]:
    """Start one of :mod:`benchmarks.codec_relays`."""
    command = [sys.executable, "-m", "benchmarks.codec_relays", codec]
    with listening([*command, f"http://{container.address}"]) as peer:
        yield peer


@contextmanager
def gateway(
    container: Peer, *options: str, tls: TlsFiles | None = None, root: Path = _ROOT
) -> Iterator[Peer]:
    """Start the product, as its user does.

    Args:
        tls: the certificate for clients; the peer is then the port with TLS.
        root: the checkout whose product it is.
    """
    command = find("partway", str(Path(sys.executable).parent))
    if command is None:
        raise StartError("the partway command is not installed: pip install -e .")
    endpoint = f"echo=http://{container.address}"
    line = [command, "serve", "--port", "0", "--endpoint", endpoint, *options]
    if tls is not None:
        line += ["--tls-port", "0", "--tls-cert", str(tls.certificate), "--tls-key", str(tls.key)]
    with listening(line, "http" if tls is None else "https", root=root) as peer:
        yield peer


@contextmanager
def hypercorn() -> Iterator[Peer | None]:
    """Start :mod:`benchmarks.echo_hypercorn`; None where Hypercorn is not installed."""
    if importlib.util.find_spec("hypercorn") is None:
        yield None
        return
    with listening([sys.executable, "-m", "benchmarks.echo_hypercorn"]) as peer:
        yield peer


@contextmanager
def haproxy(container: Peer, endpoints: Sequence[str] = ()) -> Iterator[Peer | None]:
    """Start HAProxy as a byte tunnel; None where it is not installed.

    Args:
        endpoints: names, each of which has a backend of its own, found by the path that
            InvokeEndpoint has; without them all requests have one backend.
    """
    command = find("haproxy", "/usr/sbin")  # where Debian puts it
    if command is None:
        yield None
        return
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        tempfile.TemporaryDirectory() as folder,
    ):
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        config = Path(folder) / "haproxy.cfg"
        server = f"    server echo {container.address}\n"
        config.write_text(
            _HAPROXY.format(
                fd=listener.fileno(),
                container=container.address,
                rules="    use_backend %[path,field(3,/)]\n" if endpoints else "",
                backends="".join(f"backend {name}\n{server}" for name in endpoints),
            )
        )
        with started([command, "-db", "-f", str(config)], [listener.fileno()]) as process:
            yield until_it_listens(process, lambda: address if _answers(address) else None)


@contextmanager
def nginx(container: Peer) -> Iterator[Peer | None]:
    """Start nginx before a container of requests; None where it is not installed."""
    command = find("nginx", "/usr/sbin")
    if command is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = f"127.0.0.1:{listener.getsockname()[1]}"
        config = Path(folder) / "nginx.conf"
        config.write_text(
            _NGINX.format(folder=folder, container=container.address, address=address)
        )
        with started([command, "-c", str(config), "-p", folder]) as process:
            yield until_it_listens(process, lambda: address if _answers(address) else None)


def find(command: str, folder: str) -> str | None:
    """Find a command in ``folder``, or else on the path."""
    return shutil.which(command, path=folder) or shutil.which(command)


def _answers(address: str) -> bool:
    connection = http.client.HTTPConnection(address, timeout=1)
    try:
        connection.request("GET", "/ping")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
