"""How long a client may take over what it has been sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from partway.gateway.limits import RESPONSE_TAKEN_TIMEOUT
from partway.protocol.connection import Cancellable


class Sending(Protocol):
    """A transport, as far as it is watched here."""

    def get_write_buffer_size(self) -> int:
        """Bytes that are unsent."""

    def abort(self) -> object:
        """End it at once."""


class TakingWatch:
    """Aborts a transport whose client takes nothing of what is unsent, until it is cancelled.

    However slow, a client that takes some of it between two looks is waited for (nginx's
    ``send_timeout`` is between two writes too): its connection weighs meanwhile, and is among the
    first to go where they run short. What TLS has handed on to its own transport is not seen
    here: behind TLS a client has one interval for that.

    Args:
        transport: the client's, which is sent nothing more meanwhile.
        call_later: calls back after a time, in seconds.
    """

    __slots__ = ("_call_later", "_timer", "_transport", "_unsent_before")

    def __init__(self, transport: Sending, call_later: Callable[..., Cancellable]) -> None:
        self._transport = transport
        self._call_later = call_later
        self._look_later()

    def cancel(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _look_later(self) -> None:
        self._unsent_before = self._transport.get_write_buffer_size()
        self._timer = self._call_later(RESPONSE_TAKEN_TIMEOUT, self._look)

    def _look(self) -> None:
        if self._transport.get_write_buffer_size() < self._unsent_before:
            self._look_later()
        else:
            self._transport.abort()
