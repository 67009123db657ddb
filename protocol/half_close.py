"""The end of one side of TCP, while the other side is still read."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol


class HalfClosable(Protocol):
    """What half_close needs of a transport: see ``asyncio.WriteTransport``."""

    def can_write_eof(self) -> bool:
        """Whether the writing side can be ended by itself."""

    def write_eof(self) -> None:
        """End the writing side, once the unsent bytes have been taken."""


def half_close(transport: HalfClosable) -> bool:
    """Send FIN behind the unsent bytes; what the peer still sends is read as before.

    A connection that the peer has reset is left as it is: its next read reports the end.

    Args:
        transport: an open transport that has not been half-closed yet.

    Returns:
        False where the transport cannot be half-closed, as over TLS; it is then unchanged.
    """
    if not transport.can_write_eof():
        return False
    # asyncio's own transport shuts its socket down on the spot, and ENOTCONN is how the kernel says
    # that the peer's RST is there already, unread.
    with suppress(OSError):
        transport.write_eof()
    return True
