"""The load on a language model: streams that ask at once, and note the time of each part.

``python -m benchmarks.text_client URL`` is a process of its own with a compiled codec (picows). It
prints the replies as one JSON array.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from benchmarks.load import RAW, LoadError
from benchmarks.text_replies import Reply, prompts


class Stream(WSListener):
    """One request and its reply.

    Attributes:
        over: done once the reply or an error is there.
    """

    def __init__(self) -> None:
        self._transport: WSTransport | None = None
        self._sent = 0.0
        self._at: list[float] = []
        self._text = bytearray()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask(self, request: bytes) -> None:
        assert self._transport is not None, "connected"
        self._sent = time.perf_counter()
        self._transport.send(WSMsgType.TEXT, request)

    def reply(self) -> Reply:
        return Reply(self._sent, self._at, self._text.decode())

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            self._fail(f"Close {frame.get_close_code()}: {frame.get_close_message()}")
        elif self.over.done() or frame.msg_type == WSMsgType.BINARY:
            self._fail(f"a frame that nobody asked for: {frame}")
        elif frame.msg_type in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            self._at.append(time.perf_counter())
            self._text += frame.get_payload_as_memoryview()
            if frame.fin:
                self.over.set_result(None)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._fail("the stream ended")

    def pause_writing(self) -> None:
        """Do nothing: one request never fills a socket."""

    def resume_writing(self) -> None:
        pass

    def _fail(self, what: str) -> None:
        if not self.over.done():
            self.over.set_exception(LoadError(what))


async def ask(url: str, count: int, tokens: int, seconds: float) -> list[Reply]:
    """Open ``count`` streams; once they are open, ask on all of them.

    Raises:
        LoadError: a stream ended without its whole reply.
        TimeoutError: a reply is not there in time.
    """
    streams = []
    async with asyncio.timeout(seconds):
        for _ in range(count):
            _, stream = await ws_connect(Stream, url, extra_headers={"Sec-WebSocket-Protocol": RAW})
            if stream is None:  # picows returns None when the peer leaves during the handshake
                raise LoadError("the connection ended during the handshake")
            streams.append(stream)
        for stream, prompt in zip(streams, prompts(count), strict=True):
            options = {"format": "text", "max_new_tokens": tokens, "temperature": 0}
            stream.ask(json.dumps({"type": "session", **options}).encode())
            stream.ask(prompt.encode())
        await asyncio.gather(*(stream.over for stream in streams))
    return [stream.reply() for stream in streams]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text_client", description=__doc__)
    parser.add_argument("url", help="ws://… of the stream")
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True, help="of each reply")
    parser.add_argument("--seconds", type=float, required=True, help="until all replies are there")
    args = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        replies = runner.run(ask(args.url, args.streams, args.tokens, args.seconds))
    # Where PYTHONUNBUFFERED is set, print() loses bytes that the pipe does not take at once.
    with open(sys.stdout.fileno(), "w", closefd=False) as output:
        json.dump([reply.as_json() for reply in replies], output)


if __name__ == "__main__":
    main()
