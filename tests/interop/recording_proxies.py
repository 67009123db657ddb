"""nginx and HAProxy before a backend that records what they forward, as llhttp alone reads it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple, Self, cast

from tests.wire.llhttp_alone import End, Reader, Whole

#: Seconds for which a proxy waits for the rest of a request that does not come.
CLIENT_TIMEOUT = 5

#: Seconds for one case, and for a proxy's start.
PATIENCE = 60.0

#: Seconds for which a proxy waits for the backend, which has all that it will get.
PROXY_PATIENCE = 10

#: How many cases go to a proxy at a time. Most of those that wait, wait for CLIENT_TIMEOUT.
AT_ONCE = 60

#: A proxy names the client's connection by this header, so that a forwarded request has its case.
_CLIENT = re.compile(rb"\r\nx-client-port: (\d+)\r\n", re.IGNORECASE)

#: Statuses by which a proxy gives up a request whose rest does not come.
_REST_HAS_NOT_COME = {408, 504}

_NGINX = """\
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_header_timeout {timeout}s;
    client_body_timeout {timeout}s;
    keepalive_timeout {timeout}s;
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{backend};
            proxy_http_version 1.1;
            proxy_set_header X-Client-Port $remote_port;
        }}
    }}
}}
"""

_HAPROXY = """\
global
    nbthread 1
    maxconn 2000
defaults
    mode http
    timeout connect {patience}s
    timeout server {patience}s
    timeout tunnel {patience}s
    timeout client {timeout}s
    timeout http-request {timeout}s
    timeout http-keep-alive {timeout}s
frontend clients
    bind 127.0.0.1:{port}
    http-request set-header X-Client-Port %[src_port]
    default_backend recorder
backend recorder
    option http-server-close
    server recorder 127.0.0.1:{backend}
"""


class Forwarded(NamedTuple):
    """The outcome of a case at a proxy.

    Attributes:
        requests: those that the backend has seen.
        refused: whether the proxy has answered with an error of its own or closed for one.
    """

    requests: tuple[Whole, ...]
    refused: bool


class _Connection(asyncio.Protocol):
    """One connection of a proxy with the backend, which has one request."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._raw = b""
        self._recorded = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._raw += data
        client = _CLIENT.search(self._raw)
        if client is None:
            return
        seen = self._backend.requests.setdefault(int(client[1]), [])
        if self._recorded:
            seen.append(Whole(b"BEHIND", b"", data))
            return
        # llhttp would leave out the body of a request for an upgrade. No upgrade is made here.
        reader = Reader(re.sub(rb"(?i)\r\nupgrade:", b"\r\nx-upgrade:", self._raw))
        status = b"200 OK"
        if reader.end is End.REFUSED:
            seen.append(Whole(b"REFUSED", self._raw.partition(b"\r\n")[0], b""))
            status = b"400 Bad Request"
        elif reader.requests[-1].upgrades:
            seen.append(Whole(reader.requests[-1].method, reader.requests[-1].target, b""))
            status = b"403 Forbidden"
        elif not reader.requests[-1].whole:
            return
        else:
            seen.extend(reader.outcome.requests)
        self._recorded = True
        self._transport.write(b"HTTP/1.1 %b\r\nX-Backend: a\r\nContent-Length: 0\r\n\r\n" % status)


class Backend:
    """Records what comes on each connection.

    Attributes:
        requests: by the client's port.
        port: where it listens.
    """

    def __init__(self) -> None:
        self.requests: dict[int, list[Whole]] = {}
        self.port = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._listener.close()


class Proxy:
    """A proxy that runs.

    Args:
        backend: what it forwards to.
        port: where it listens.
    """

    def __init__(self, backend: Backend, port: int) -> None:
        self._backend = backend
        self._port = port
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def forwards(self, data: bytes) -> Forwarded:
        """Send bytes on a connection of their own, and see what becomes of them."""
        async with self._turns, asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            port = writer.get_extra_info("sockname")[1]
            self._backend.requests[port] = []
            writer.write(data)
            received = b""
            with contextlib.suppress(ConnectionError):
                while piece := await reader.read(1 << 16):
                    received += piece
            writer.transport.abort()
        heads = re.findall(rb"HTTP/1\.[01] (\d{3}) [^\r]*\r\n((?:[^\r]+\r\n)*)", received)
        own = {int(status) for status, head in heads if b"x-backend" not in head.lower()}
        refused = any(status >= 400 for status in own - _REST_HAS_NOT_COME)
        return Forwarded(tuple(self._backend.requests.pop(port)), refused)


@contextlib.asynccontextmanager
async def running(name: str, folder: Path) -> AsyncIterator[Proxy]:
    """Start ``nginx`` or ``haproxy``, which must be installed."""
    command = shutil.which(name, path="/usr/sbin") or shutil.which(name)
    assert command is not None, f"this needs {name}: apt-get install {name}"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with Backend() as backend:
        template = {"nginx": _NGINX, "haproxy": _HAPROXY}[name]
        file = folder / f"{name}.conf"
        file.write_text(
            template.format(
                folder=folder,
                port=port,
                backend=backend.port,
                timeout=CLIENT_TIMEOUT,
                patience=PROXY_PATIENCE,
            )
        )
        options = {"nginx": ["-p", str(folder), "-c"], "haproxy": ["-db", "-f"]}[name]
        process = await asyncio.create_subprocess_exec(command, *options, str(file))
        try:
            await _listens(process, port)
            yield Proxy(backend, port)
        finally:
            process.terminate()
            await process.wait()


async def _listens(process: asyncio.subprocess.Process, port: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            assert process.returncode is None, "the proxy has ended; its words are above"
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)
