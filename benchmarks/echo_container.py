"""The container of the benchmarks, which sends every data frame back unchanged.

Its codec is compiled (picows), so that it costs the machine as little as possible. Any path is the
stream's, and ``/ping`` is healthy.
"""

from __future__ import annotations

import asyncio

import uvloop
from picows import (
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_create_server,
)


class Echo(WSListener):
    """Sends each frame back, FIN and type included."""

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code(), frame.get_close_message())
            transport.disconnect()
        elif frame.msg_type != WSMsgType.PONG:
            transport.send(frame.msg_type, frame.get_payload_as_bytes(), frame.fin)

    def pause_writing(self) -> None:
        """Do nothing: the load keeps few messages in flight, so that little is unsent."""

    def resume_writing(self) -> None:
        pass


def _listener(request: WSUpgradeRequest) -> WSListener | WSUpgradeResponseWithListener:
    if request.path == b"/ping":
        response = WSUpgradeResponse.create_ok_response()
        return WSUpgradeResponseWithListener(response, None)
    return Echo()


async def _serve() -> None:
    server = await ws_create_server(_listener, "127.0.0.1", 0, max_frame_size=16 * 1024 * 1024)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve())
