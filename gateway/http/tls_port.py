"""A port with TLS, whose connections count from their acceptance on (clause 2.5-3)."""

from __future__ import annotations

import asyncio
import errno
import functools
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from partway.gateway.http.connection_admission import Visitor
from partway.gateway.limits import (
    ACCEPT_PAUSE,
    TLS_CONNECTION_BYTES,
    TLS_CONNECTION_BYTES_ASYNCIO,
    TLS_HANDSHAKE_TIMEOUT,
)
from partway.gateway.network.listening import listening_sockets
from partway.log_lines import LogLine
from partway.protocol.limits import REQUEST_HEAD_TIMEOUT

log = logging.getLogger("partway.listener")

#: The first byte of a client that speaks TLS: the record type of a handshake (RFC 8446 §5.1).
_HANDSHAKE: Final = b"\x16"

#: The answer to any other beginning: a fatal alert, unexpected_message (RFC 8446 §5, §6).
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x0a"

#: Bytes that are read from such a client: closing with unread bytes sends TCP's RST, which may
#: erase the alert.
_DISCARDED: Final = 64 * 1024

#: Errors of accept() that leave a connection in the kernel's queue: no descriptor, no memory.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class TlsPort:
    """A port that accepts connections and does their TLS handshakes, each in a task.

    An asyncio server reports a connection only after its handshake, so thousands of unfinished ones
    would not count.

    Args:
        factory: makes the protocol of a connection after its handshake.
        enter: admits a connection, given its client's address and a function that ends it; returns
            None if it must be closed.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        factory: Callable[[Visitor], asyncio.Protocol],
        enter: Callable[[str, Callable[[], None]], Visitor | None],
    ) -> None:
        self._context = context
        self._factory = factory
        self._enter = enter
        self._tasks: set[asyncio.Task[None]] = set()
        self._handshakes: set[asyncio.Task[None]] = set()

    @property
    def handshakes(self) -> int:
        return len(self._handshakes)

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen on all of a host's addresses; return one of them, and the real port.

        Raises:
            OSError: an address is taken, or not this machine's.
        """
        listening = await listening_sockets(host, port)
        self.accept_on(listening)
        name = listening[0].getsockname()
        return name[0], name[1]

    def accept_on(self, listening: Sequence[socket.socket]) -> None:
        """Accept connections from sockets that listen; they belong to this port then."""
        for sock in listening:
            self._own(self._tasks, self._accept(sock))

    def stop(self, *, cut: bool = True) -> None:
        """Accept nothing more; end handshakes under way if they are to be cut."""
        for task in (*self._tasks, *(self._handshakes if cut else ())):
            task.cancel()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    accepted, peer = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in _EXHAUSTED:
                        log.warning(LogLine("no connection can be accepted", reason=error.strerror))
                        await asyncio.sleep(ACCEPT_PAUSE)  # no event tells when there is room
                    continue  # otherwise the client has left already
                visitor = self._enter(peer[0], functools.partial(_end, accepted))
                if visitor is None:
                    accepted.close()
                    continue
                plain = isinstance(loop, asyncio.BaseEventLoop)
                visitor.weighs(TLS_CONNECTION_BYTES_ASYNCIO if plain else TLS_CONNECTION_BYTES)
                self._own(self._handshakes, self._take(accepted, peer[0], visitor))

    async def _take(self, accepted: socket.socket, peer: str, visitor: Visitor) -> None:
        """Do a connection's handshake; without it the connection leaves."""
        done = False
        try:
            done = await self._shake_hands(accepted, peer, visitor)
        finally:
            if not done:
                visitor.leave()

    async def _shake_hands(self, accepted: socket.socket, peer: str, visitor: Visitor) -> bool:
        """Do a handshake; return whether it succeeded, so that the protocol owns the connection."""
        begun = False
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(TLS_HANDSHAKE_TIMEOUT):
                begins = await _first_byte(accepted)
            async with asyncio.timeout(REQUEST_HEAD_TIMEOUT):
                await visitor.account.turn()  # waiting is not charged
            if begins not in (_HANDSHAKE, b""):
                visitor.account.left(encrypted=False)
                _refuse_cleartext(accepted)
                log.info(
                    LogLine("no TLS handshake", peer=peer, reason="the client does not speak TLS")
                )
                return False
            begun = True
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._factory(visitor),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=TLS_HANDSHAKE_TIMEOUT,
            )
        except OSError as error:  # an SSLError is one, and so is the timeout
            reason = getattr(error, "reason", None) or type(error).__name__
            if begun:
                visitor.account.left(encrypted=True)
            log.info(LogLine("no TLS handshake", peer=peer, reason=reason))
            accepted.close()
            return False
        return True

    @staticmethod
    def _own(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _first_byte(accepted: socket.socket) -> bytes:
    """Wait until a client has sent something, or left; return its first byte, left unread."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(accepted, readable.set)
    try:
        await readable.wait()
    except BaseException:
        accepted.close()
        raise
    finally:
        loop.remove_reader(accepted)
    return accepted.recv(1, socket.MSG_PEEK)


def _end(accepted: socket.socket) -> None:
    """End a connection during its handshake, which then closes it."""
    with suppress(OSError):  # the client has left
        accepted.shutdown(socket.SHUT_RDWR)


def _refuse_cleartext(accepted: socket.socket) -> None:
    """Tell a client that does not speak TLS that this port does, and close."""
    with accepted:
        accepted.send(_ALERT)
        accepted.shutdown(socket.SHUT_WR)
        accepted.recv(_DISCARDED)
