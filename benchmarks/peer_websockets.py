"""The same container on the websockets package: an author's code without Partway.

``python -m benchmarks.peer_websockets`` echoes messages on any path and answers ``/ping``, on
uvloop as the runtime does.
"""

from __future__ import annotations

import asyncio
import http

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from partway.container.limits import ACCEPT_BACKLOG


async def _echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


def _ping(connection: ServerConnection, request: Request) -> Response | None:
    if request.path == "/ping":
        return connection.respond(http.HTTPStatus.OK, "")
    return None


async def _serve() -> None:
    # The package would send pings of its own; the runtime leaves that to the gateway.
    async with serve(
        _echo,
        "127.0.0.1",
        0,
        process_request=_ping,
        ping_interval=None,
        backlog=ACCEPT_BACKLOG,
    ) as server:
        print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
