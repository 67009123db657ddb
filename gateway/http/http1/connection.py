"""A client's connection of HTTP/1.1, as the gateway has it: weighed, open both ways."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from partway.gateway.http.connection_admission import Visitor
from partway.gateway.limits import HTTP1_STUCK_BYTES, TLS_READ_HELD
from partway.log_lines import LogLine
from partway.protocol.connections.answerer import Answerer
from partway.protocol.connections.http1_connection import RequestConnection
from partway.protocol.http1.parser import RequestBroken

if TYPE_CHECKING:
    from partway.gateway.http.http1.duplex import Http1Duplex

log = logging.getLogger("partway.http1")


class Http1Connection(RequestConnection):
    """One connection of those that the crowd counts and weighs.

    Args:
        server: has its requests answered.
        visitor: the connection, as the crowd has it.

    Attributes:
        duplex: hears of the transport, while a response is open both ways.
        visitor: the connection, as the crowd has it.
    """

    __slots__ = ("_tls_read", "_weighed", "duplex", "visitor")

    def __init__(self, server: Answerer, visitor: Visitor) -> None:
        super().__init__(server)
        self.duplex: Http1Duplex | None = None
        self.visitor = visitor
        self._tls_read = 0
        self._weighed = 0

    # --- What the loop says ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.visitor.drop = self.abort
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.encrypted and len(data) > self._tls_read:
            self._tls_read = len(data)
            self._weigh()
        # super() would make an object for each read.
        RequestConnection.data_received(self, data)

    def pause_writing(self) -> None:
        if self.duplex is None:
            super().pause_writing()
        else:
            self.writing_paused = True
            self.duplex.writing_paused()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.duplex is not None:
            self.duplex.writing_resumed()

    # --- What it does its own way ----------------------------------------------------------------

    def _comes_in_turn(self) -> bool:
        return not self.visitor.account.known

    def _take_turn(self) -> None:
        account = self.visitor.account
        if not account.known and (waits := account.has_to_wait(self._take_turn)) is not None:
            self._pause()
            self._turn = waits
            self._weigh()
        else:
            super()._take_turn()

    def _break(self, broken: RequestBroken) -> None:
        log.info(LogLine("bad request", peer=self.peer, reason=str(broken)))
        super()._break(broken)
        if self._broken is None and self.duplex is not None:
            self.duplex.request_broken()

    def _weigh(self) -> None:
        held = len(self._unparsed) + self._parser.held + self._tls_read * TLS_READ_HELD
        if self._not_taken is not None:
            held += HTTP1_STUCK_BYTES
        if held != self._weighed:
            self._weighed = held
            self.visitor.holds(held)

    def _may_be_sent_to(self) -> bool:
        return self.duplex is not None and self.duplex.half_closed()

    def _end_is_leaving(self) -> bool:
        return self.duplex is None

    def _let_go(self) -> None:
        self.visitor.account.left(encrypted=self.encrypted)
        self.visitor.leave()
        super()._let_go()

    def _tell_lost(self) -> None:
        if self.duplex is not None:  # its operation sees the stream to its end
            self.duplex.connection_lost()
        else:
            super()._tell_lost()

    # --- The end ---------------------------------------------------------------------------------

    def release(self) -> None:
        self.duplex = None
        super().release()

    def _end(self) -> None:
        if self.duplex is None:
            super()._end()
