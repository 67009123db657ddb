"""A container that does what a stream tells it, of nothing but the standard library: it echoes,
requests too, and

- ``who`` is answered with its process's number,
- ``exit`` ends it with status 3 in the midst of the stream,
- ``slow`` and ``500`` are what its pings are from then on,
- ``refuse`` has it take no connections any more,
- ``deaf`` has it accept none, nor the system for it: as many wait as may,
- ``fork`` is answered with the number of a child that does not care for SIGTERM.

What SAGEMAKER_SAYS is, it prints, and adds to what it answers to a request.

Its arguments: ``exit`` has it end at its start, ``unready`` have no ping answered with 200,
``stubborn`` ignore SIGTERM.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import signal
import socket
import sys
import time
from contextlib import suppress

READY, UNREADY, SLOW = b"200 OK", b"503 Unavailable", b""
TEXT, CLOSE = 1, 8

SAYS = os.environ.get("SAGEMAKER_SAYS", "")


class Container:
    def __init__(self) -> None:
        self.ping = UNREADY if "unready" in sys.argv else READY
        self.server: asyncio.Server
        self.waiting: list[socket.socket] = []

    async def run(self) -> None:
        port = int(os.environ["SAGEMAKER_BIND_TO_PORT"])
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", port)
        await asyncio.get_running_loop().create_future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET /ping "):
                while self.ping is SLOW:  # until who asks has gone
                    await reader.readexactly(1)
                writer.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % self.ping)
            elif head.startswith(b"POST /invocations "):
                while head:  # connections are kept
                    length = head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]
                    body = await reader.readexactly(int(length)) + SAYS.encode()
                    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
                    writer.write(head + body)
                    head = await reader.readuntil(b"\r\n\r\n")
            else:
                writer.write(switching(head))
                while await self.answer(reader, writer):
                    pass
        except (EOFError, OSError):
            pass
        finally:
            writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one frame of up to 125 bytes; returns whether more may come."""
        first, length = await reader.readexactly(2)
        key = await reader.readexactly(4)
        data = await reader.readexactly(length & 0x7F)
        data = bytes(byte ^ key[at % 4] for at, byte in enumerate(data))
        opcode = first & 0xF
        if opcode == TEXT:
            data = self.do(data.decode()).encode()
        elif opcode != CLOSE:
            return True
        writer.write(bytes([0x80 | opcode, len(data)]) + data)
        return opcode != CLOSE

    def do(self, word: str) -> str:
        if word == "exit":
            print("these are my last words", flush=True)
            os._exit(3)
        if word == "refuse":
            self.server.close()
        if word == "deaf":
            self.accept_nothing()
        if word == "fork":
            return str(fork())
        self.ping = {"slow": SLOW, "500": b"500 Internal Server Error"}.get(word, self.ping)
        return str(os.getpid()) if word == "who" else word

    def accept_nothing(self) -> None:
        (served,) = self.server.sockets
        asyncio.get_running_loop().remove_reader(served.fileno())
        same = socket.socket(fileno=os.dup(served.fileno()))
        same.listen(1)
        for _ in range(8):  # more than may wait: the rest try on, one after the other
            client = socket.socket()
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(same.getsockname())
            self.waiting.append(client)


def switching(head: bytes) -> bytes:
    (key,) = [
        line.partition(b":")[2].strip()
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"sec-websocket-key:")
    ]
    digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
    )


def fork() -> int:
    child = os.fork()
    if not child:
        os.closerange(3, 1024)  # the streams are not its
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1000)
    return child


if __name__ == "__main__":
    if SAYS:
        print(f"this is{SAYS}", flush=True)
    if "exit" in sys.argv:
        sys.exit("there is no model")
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    asyncio.run(Container().run())
