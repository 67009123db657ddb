"""AWS's JavaScript SDK in node, driven from here; and a relay that keeps what passes it.

::

    async with JsClient.start(installed(), gateway.http, KEY) as client:
        stream = await client.open("echo")
        await stream.send(text="hi", DataType="UTF8")
        assert await stream.part() == {"Bytes": b"hi", "DataType": "UTF8", …}
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from hyperframe.frame import Frame

from tests.interop.aws_sdk import PATIENCE, REGION, Hung, Key

SOURCES = Path(__file__).with_name("js")

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def installed(sources: Path = SOURCES) -> Path:
    """A folder with programs and all they import, made once for each ``package.json``.

    It lies in the environment that runs the tests, so the checkout stays as it is and
    ``make clean`` takes it along.

    Args:
        sources: the folder of the programs and their ``package.json``.
    """
    program = shutil.which("npm")
    assert program, "this check needs node 20 or newer, with npm: apt-get install nodejs npm"
    package = (sources / "package.json").read_bytes()
    where = Path(sys.prefix) / "interop-js" / hashlib.sha256(package).hexdigest()[:16]
    if not where.exists():
        where.parent.mkdir(exist_ok=True)
        making = Path(tempfile.mkdtemp(dir=where.parent))
        (making / "package.json").write_bytes(package)
        flags = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        subprocess.run([program, "install", *flags], cwd=making, check=True, timeout=300)
        making.rename(where)
    for module in sources.glob("*.mjs"):
        shutil.copy(module, where)
    return where


# --- The client ----------------------------------------------------------------------------------


class JsError(Exception):
    """An exception that the SDK threw; its members are ours too.

    Attributes:
        name: as in ``error.name``.
        message: as in ``error.message``.
        status: of HTTP, where the response was one.
        members: what the API's errors have besides.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(f"{told['name']}: {told['message']}")
        self.name: str = told.pop("name")
        self.message: str = told.pop("message")
        self.status: int | None = told.pop("status", None)
        self.members: dict[str, Any] = told


class JsClient:
    """One client of the SDK, in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._streams: dict[int, JsStream] = {}

    @classmethod
    @asynccontextmanager
    async def start(
        cls, where: Path, uri: str, key: Key, log: Path, ca: Path | None = None, **options: Any
    ) -> AsyncIterator[Self]:
        """Run it.

        Args:
            where: :func:`installed`.
            uri: of the gateway.
            key: to sign with.
            log: takes its standard error.
            ca: trusted besides the public ones, PEM.
            options: more for ``client.mjs``.
        """
        environment = {"PATH": os.environ["PATH"]}
        if ca is not None:
            environment["NODE_EXTRA_CA_CERTS"] = str(ca)
        made = {
            "endpoint": uri,
            "region": REGION,
            "key_id": key.access_key_id,
            "secret": key.secret_access_key,
            "token": key.session_token,
            **options,
        }
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *("node", "client.mjs", json.dumps(made)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=where,
                env=environment,
                limit=2**24,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        client = cls(process)
        ready = await asyncio.wait_for(process.stdout.readline(), 30)
        assert b"ready" in ready, f"node did not start: see {log}"
        reading = asyncio.create_task(client._read(process.stdout))
        try:
            yield client
        finally:
            with suppress(ConnectionError):
                await client.order("quit")
            try:
                await asyncio.wait_for(process.wait(), PATIENCE)
            except TimeoutError:
                process.kill()
                await process.wait()
            await reading

    async def open(self, endpoint: str, **members: str) -> JsStream:
        """Call ``client.send()``; it resolves when the model's first part has come.

        Args:
            endpoint: its name.
            members: of the input, such as ``ModelInvocationPath``.
        """
        number = next(self._numbers)
        stream = self._streams[number] = JsStream(self, number)
        await self.order("open", stream=number, input={"EndpointName": endpoint, **members})
        return stream

    async def order(self, do: str, **arguments: Any) -> None:
        """Tell the process what to do."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        await self._process.stdin.drain()

    async def _read(self, news: asyncio.StreamReader) -> None:
        async for line in news:
            told = json.loads(line)
            stream = self._streams[told.pop("stream")]
            ((kind, value),) = told.items()
            if kind == "sent":
                stream.sent = value
            else:
                stream.news.put_nowait((kind, value))
        for stream in self._streams.values():
            stream.news.put_nowait(("gone", "the SDK's process ended; see its log"))


class JsStream:
    """One stream of the SDK.

    Attributes:
        sent: how many parts the SDK has taken.
        resolved: whether :meth:`opened` has been asked for.
        news: what it has told and nobody has asked for yet.
    """

    def __init__(self, client: JsClient, number: int) -> None:
        self._client = client
        self._number = number
        self.sent = 0
        self.resolved = False
        self.news: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

    async def send(self, payload: bytes | None = None, **part: Any) -> None:
        """Send a part: ``payload``, or as ``client.mjs`` says."""
        if payload is not None:
            part["base64"] = base64.b64encode(payload).decode()
        await self._client.order("send", stream=self._number, parts=[part])

    async def end_input(self) -> None:
        """End the iterable that is the request's body."""
        await self._client.order("end", stream=self._number)

    async def leave(self) -> None:
        """``break`` at the next part."""
        await self._client.order("break", stream=self._number)
        await self._next("leaving")

    async def abort(self) -> None:
        """Abort the signal given with the command."""
        await self._client.order("abort", stream=self._number)

    async def opened(self) -> dict[str, Any]:
        """The output that ``send()`` has resolved to, but for its body."""
        self.resolved = True
        return await self._next("opened")

    async def part(self) -> dict[str, Any]:
        part = await self._next("part")
        if "Bytes" in part:
            part["Bytes"] = base64.b64decode(part["Bytes"])
        return part

    async def end(self) -> None:
        """The loop over the response is over; ``send()`` has resolved by then, at the latest."""
        if not self.resolved:
            await self.opened()
        await self._next("end")

    async def error(self) -> JsError:
        """What ``send()`` or the loop has thrown."""
        return JsError(await self._next("error"))

    async def _next(self, wanted: str) -> Any:
        try:
            kind, value = await asyncio.wait_for(self.news.get(), PATIENCE)
        except TimeoutError:
            raise Hung(f"waited {PATIENCE:g} s for {wanted}") from None
        assert kind == wanted, (kind, value)
        return value


# --- What is on the wire -------------------------------------------------------------------------


class Chunk(NamedTuple):
    """What was read at once, and from whom."""

    from_client: bool
    data: bytes


class Recorder:
    """A relay in front of the gateway that keeps every byte of one connection after another.

    Args:
        port: the gateway's, without TLS.
        tls: what it shows to clients; None to speak in clear. The gateway sees clear text.

    Attributes:
        uri: its own.
        conversations: of each connection, in order.
    """

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._port = port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._to_clients: list[asyncio.StreamWriter] = []
        self._to_gateway: list[asyncio.StreamWriter] = []
        self._cut = False
        self._heard = asyncio.Event()
        self.uri = ""
        self.conversations: list[list[Chunk]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.uri = f"{'http' if self._tls is None else 'https'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._drop()

    async def heard(self, kind: type[Frame]) -> None:
        """Return once the client has sent a frame of the kind on the connection made last."""
        async with asyncio.timeout(PATIENCE):
            while not any(
                from_client and isinstance(each, kind)
                for from_client, each in frames(self.conversations[-1])
            ):
                self._heard.clear()
                await self._heard.wait()

    def cut(self) -> None:
        """Lose all connections: to the client comes a FIN, without GOAWAY or close_notify.

        The sockets stay: a closed one would answer what the client still says with an RST, and
        that is another loss.
        """
        self._cut = True
        for writer in self._to_gateway:
            writer.transport.abort()
        for writer in self._to_clients:
            writer.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Lose all connections: to the client comes an RST."""
        for writer in self._to_clients:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._drop()

    def _drop(self) -> None:
        for writer in self._to_clients + self._to_gateway:
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._to_clients.append(writer)
        self._to_gateway.append(up_writer)
        kept: list[Chunk] = []
        self.conversations.append(kept)

        async def copy(
            source: asyncio.StreamReader, target: asyncio.StreamWriter, *, from_client: bool
        ) -> None:
            # asyncio's TLS minds what still comes once it has said that it closes.
            with suppress(ConnectionError, ssl.SSLError):
                while data := await source.read(2**16):
                    kept.append(Chunk(from_client, data))
                    self._heard.set()
                    target.write(data)
                    await target.drain()
            # TLS that was closed twice can no longer be dropped by asyncio of an early Python 3.11.
            if not self._cut and not target.is_closing():
                target.close()

        async with asyncio.TaskGroup() as both:
            both.create_task(copy(reader, up_writer, from_client=True))
            both.create_task(copy(up_reader, writer, from_client=False))


def frames(chunks: list[Chunk]) -> Iterator[tuple[bool, Frame]]:
    """The HTTP/2 frames of a conversation, each when its last byte passed; whose, and what."""
    left = {True: b"", False: b""}
    preface = len(PREFACE)
    for from_client, data in chunks:
        if from_client and preface:
            data, preface = data[preface:], max(0, preface - len(data))
        left[from_client] += data
        while len(left[from_client]) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(left[from_client][:9]))
            if len(left[from_client]) < 9 + length:
                break
            frame.parse_body(memoryview(left[from_client][9 : 9 + length]))
            left[from_client] = left[from_client][9 + length :]
            yield from_client, frame
