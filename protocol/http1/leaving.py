"""Whether a client has ended a connection that is not read from."""

from __future__ import annotations

import select
from typing import Any, Final, Protocol

#: What Linux says of a client that sends nothing more; elsewhere only that all of it is over.
_ENDED: Final = getattr(select, "POLLRDHUP", select.POLLHUP)


class Connected(Protocol):
    """A transport, as far as it is looked at here."""

    def get_extra_info(self, name: str) -> Any:
        """Its socket, by that name; None if it has none."""


def has_ended(transport: Connected) -> bool:
    """Whether the client has ended its side, or all of it, behind whatever it has sent.

    An event loop that does not read from a connection is not told, and neither are we.

    Args:
        transport: the connection's, which must not be closing.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), _ENDED)
    return bool(poll.poll(0))
