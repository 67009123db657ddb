"""Output that is read before its receiver is known, so that its program need not wait."""

from __future__ import annotations

from collections.abc import Callable

from partway.gateway.fleet.limits import OUTPUT_WAITING_BYTES


class HeldOutput:
    """Holds output up to a bound, and leaves out more, until it has a receiver."""

    def __init__(self) -> None:
        self._receiver: Callable[[bytes], None] | None = None
        self._held = bytearray()
        self._left_out = 0

    def feed(self, data: bytes) -> None:
        if self._receiver is not None:
            self._receiver(data)
            return
        # Once output is left out, more is left out, so that the note is at the right place.
        taken = 0 if self._left_out else min(OUTPUT_WAITING_BYTES - len(self._held), len(data))
        self._held += data[:taken]
        self._left_out += len(data) - taken

    def pass_to(self, receiver: Callable[[bytes], None]) -> None:
        """Give the receiver all that is held, and pass everything on from now on."""
        if self._held:
            receiver(bytes(self._held))
        if self._left_out:
            receiver(
                f"\n[partway: {self._left_out} bytes of output were left out here, while no "
                "gateway process took them]\n".encode()
            )
        self._held.clear()
        self._receiver = receiver
