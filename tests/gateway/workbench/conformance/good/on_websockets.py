"""A container on websockets: streams, and nothing for /invocations, since it takes no bodies."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from http import HTTPStatus

from websockets.asyncio.server import Request, Response, ServerConnection, serve


async def stream(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


def answer(connection: ServerConnection, request: Request) -> Response | None:
    """What is no stream; None for what is one."""
    match request.path.partition("?")[0]:
        case "/ping":
            return connection.respond(HTTPStatus.OK, "")
        case "/invocations-bidirectional-stream":
            return None
    return connection.respond(HTTPStatus.NOT_FOUND, "")


async def main() -> None:
    port = int(os.environ.get("SAGEMAKER_BIND_TO_PORT", "8080"))
    async with serve(
        stream, "0.0.0.0", port, process_request=answer, compression=None, max_size=16 << 20
    ) as server:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.close)
        await server.wait_closed()


if __name__ == "__main__":
    if sys.argv[1:] != ["serve"]:
        sys.exit("usage: on_websockets.py serve")
    asyncio.run(main())
