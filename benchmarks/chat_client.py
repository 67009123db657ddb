"""The load on a chat: users who ask, read, interrupt and ask again, on streams or by requests.

``python -m benchmarks.chat_client URL`` is a process of its own. With ``ws://`` each user has one
stream in plain text, and with ``http://`` each turn is a request of OpenAI's form. It prints one
JSON object: the delay that was added to each first token, and when each reply was interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Final

import aiohttp
import uvloop
from picows import WSError, WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from benchmarks.load import RAW, LoadError

_REPLY_TIMEOUT: Final = 30.0
_MICRO: Final = 1e6


@dataclass
class Seen:
    """The results of a load; times in seconds.

    Attributes:
        added: of each reply, the time to the first token beyond the engine's own.
        interrupted: the number of each interrupted turn, and when its user interrupted it, by the
            monotonic clock.
    """

    added: list[float] = field(default_factory=list)
    interrupted: dict[int, float] = field(default_factory=dict)


class StreamUser(WSListener):
    """A conversation on a stream: the next turn interrupts a reply."""

    def __init__(self) -> None:
        self._transport: WSTransport
        #: The text of each fragment, and whether it is its reply's last; how the stream ended.
        self._frames: asyncio.Queue[tuple[str, bool] | LoadError] = asyncio.Queue()
        self._interrupted = False

    async def ask(self, turn: str) -> AsyncGenerator[str]:
        """Yield the pieces of the reply to a turn."""
        self.say(turn)
        is_last = not self._interrupted
        while not is_last:
            _, is_last = await self._frame()
        self._interrupted = True
        while True:
            text, is_last = await self._frame()
            if is_last:
                break
            yield text
        self._interrupted = False

    async def _frame(self) -> tuple[str, bool]:
        try:
            frame = await asyncio.wait_for(self._frames.get(), _REPLY_TIMEOUT)
        except TimeoutError:
            raise LoadError(f"no token came for {_REPLY_TIMEOUT:g} s") from None
        if isinstance(frame, LoadError):
            raise frame
        return frame

    def say(self, turn: str) -> None:
        """Send a turn whose reply is not read."""
        self._transport.send(WSMsgType.TEXT, turn.encode())

    def close(self) -> None:
        self._transport.send_close()
        self._transport.disconnect()

    def abort(self) -> None:
        """Leave without a Close."""
        self._transport.disconnect(graceful=False)

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            code, reason = frame.get_close_code(), frame.get_close_message()
            self._frames.put_nowait(LoadError(f"the stream ended: {code} {reason!r}"))
            return
        self._frames.put_nowait((frame.get_payload_as_utf8_text(), frame.fin))

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._frames.put_nowait(LoadError("the stream's connection ended"))


class RequestUser:
    """A user of requests: it leaves to interrupt."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def ask(self, turn: str) -> AsyncGenerator[str]:
        """Yield the pieces of the reply to a turn."""
        body = {"model": "stub", "stream": True, "messages": [{"role": "user", "content": turn}]}
        async with self._session.post(self._url, json=body) as answer:
            if answer.status != 200:
                raise LoadError(f"{answer.status} {(await answer.text())[:300]}")
            async for line in answer.content:
                if line == b"data: [DONE]\n":
                    return
                if line.startswith(b"data: "):
                    piece = json.loads(line[6:])["choices"][0]["delta"].get("content")
                    if piece:
                        yield piece
        raise LoadError("the reply broke off")


User = StreamUser | RequestUser


async def converse(
    user: User, args: argparse.Namespace, numbers: Iterator[int], seen: Seen
) -> None:
    """Ask until the time is over; some replies are interrupted after their second piece."""
    chance = random.Random(next(numbers))
    until = time.monotonic() + args.seconds
    await asyncio.sleep(chance.uniform(0, args.pause))
    while time.monotonic() < until:
        number = next(numbers)
        sent = time.perf_counter()
        async with aclosing(user.ask(f"#{number} tell me more")) as pieces:
            held = int(await anext(pieces)) / _MICRO
            seen.added.append(time.perf_counter() - sent - held)
            if chance.random() < args.interrupt:
                await anext(pieces)
                seen.interrupted[number] = time.monotonic()
                continue
            read = 1
            async for _ in pieces:
                read += 1
        if args.tokens and read != args.tokens:
            raise LoadError(f"a reply had {read} pieces; it must have {args.tokens}")
        await asyncio.sleep(chance.expovariate(1 / args.pause))


async def opened(url: str) -> StreamUser:
    """Open a stream.

    Raises:
        LoadError: the handshake is refused, or breaks off.
    """
    try:
        _, user = await ws_connect(StreamUser, url, extra_headers={"Sec-WebSocket-Protocol": RAW})
    except WSError as error:
        raise LoadError(f"no stream was opened: {error}") from error
    if user is None:  # picows returns None when the peer leaves during the handshake
        raise LoadError("the connection ended during the handshake")
    return user


async def _streams(args: argparse.Namespace) -> Seen:
    """Open all streams, then have a conversation on each."""
    seen, numbers = Seen(), itertools.count(args.first)
    users = [await opened(args.url) for _ in range(args.users)]
    await asyncio.gather(*(converse(user, args, numbers, seen) for user in users))
    for user in users:
        user.close()
    return seen


async def _requests(args: argparse.Namespace) -> Seen:
    seen, numbers = Seen(), itertools.count(args.first)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        users = [RequestUser(session, args.url) for _ in range(args.users)]
        await asyncio.gather(*(converse(user, args, numbers, seen) for user in users))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.chat_client", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--first", type=int, default=1, help="number of the first turn (1)")
    parser.add_argument("--tokens", type=int, default=0, help="of a reply; 0 for any (0)")
    parser.add_argument("--users", type=int, default=100, help="at the same time (100)")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds from a reply to a turn")
    parser.add_argument("--interrupt", type=float, default=0.2, help="share of the replies (0.2)")
    args = parser.parse_args()
    load = _streams if args.url.startswith("ws://") else _requests
    print(json.dumps(asdict(uvloop.run(load(args)))))


if __name__ == "__main__":
    main()
