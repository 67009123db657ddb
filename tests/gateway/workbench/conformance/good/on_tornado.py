"""A container on Tornado."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import ClassVar

from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

#: Bytes of a message; Tornado's own limit is 10 MiB.
LIMIT = 16 << 20


class Ping(RequestHandler):
    def get(self) -> None:
        self.set_status(200)

    post = get


class Invocations(RequestHandler):
    def post(self) -> None:
        self.write(self.request.body)
        self.flush()  # in chunks: its length is not said


class Stream(WebSocketHandler):
    open_ones: ClassVar[set[Stream]] = set()

    def open(self) -> None:
        self.set_nodelay(True)
        self.open_ones.add(self)

    async def on_message(self, message: str | bytes) -> None:
        await self.write_message(message, binary=isinstance(message, bytes))

    def on_close(self) -> None:
        self.open_ones.discard(self)


async def main(port: int) -> None:
    application = Application(
        [
            ("/ping", Ping),
            ("/invocations", Invocations),
            ("/invocations-bidirectional-stream", Stream),
        ],
        websocket_max_message_size=LIMIT,
    )
    server = HTTPServer(application)
    server.listen(port, "0.0.0.0", backlog=512)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    server.stop()
    for stream in list(Stream.open_ones):
        stream.close(1001, "the container stops")
    async with asyncio.timeout(5):
        await server.close_all_connections()


if __name__ == "__main__":
    if sys.argv[1:] != ["serve"]:
        sys.exit("usage: on_tornado.py serve")
    asyncio.run(main(int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))))
