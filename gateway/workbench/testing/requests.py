"""Requests to a scripted container: the record of one, and the script's answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDictProxy

from partway.gateway.http.exchange import Exchange
from partway.gateway.workbench.testing.script import (
    CloseWith,
    FailWith,
    Message,
    ScriptedReply,
    frames_of,
)

_ANY_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request that the container received.

    Attributes:
        path: without its first slash.
        query: as it came, percent-encoded.
    """

    path: str
    query: str
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def message(self) -> Message:
        """The body as the script sees it: text if it is UTF-8, else bytes."""
        try:
            return self.body.decode()
        except UnicodeDecodeError:
            return self.body


async def answer_request(exchange: Exchange, replies: Iterable[ScriptedReply]) -> None:
    """Answer with the replies; each fragment of a reply is a chunk of its own.

    An error before the first chunk is the answer's status. An error behind a chunk cuts the
    connection.

    Raises:
        ClientLeft: the gateway has left.
    """
    begun = False
    for reply in replies:
        if isinstance(reply, CloseWith | FailWith):
            if begun:
                exchange.abort()
            else:
                _fail(exchange, reply)
            return
        for frame in frames_of(reply):
            if not begun:
                begun = True
                await exchange.begin(200, {"Content-Type": _type_of_answer(exchange)})
            await exchange.write(frame.payload)
    if begun:
        await exchange.end()
    else:
        exchange.respond(200, b"", {"Content-Type": _type_of_answer(exchange)})


def _fail(exchange: Exchange, reply: CloseWith | FailWith) -> None:
    if isinstance(reply, CloseWith):
        exchange.respond(500, reply.reason.encode(), {"Content-Type": "text/plain; charset=utf-8"})
        return
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    headers = {"Content-Type": _type_of_answer(exchange), **reply.headers}
    exchange.respond(reply.status, body, headers)


def _type_of_answer(exchange: Exchange) -> str:
    """The type that the request accepts, else its own; the script names no type."""
    accepted = exchange.headers.get("Accept", "")
    if accepted and "*" not in accepted and "," not in accepted:
        return accepted
    return exchange.headers.get("Content-Type", _ANY_TYPE)
