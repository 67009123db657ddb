"""Replay protection: signatures that are good for one request only."""

from __future__ import annotations

from collections import deque
from typing import Final

from partway.gateway.limits import MAX_USED_SIGNATURES
from partway.protocol.errors import InvalidSignature, ServiceUnavailable

#: A query parameter with a random value: a request that has it may be made only once.
ONCE: Final = b"once"


class UsedSignatures:
    """The used signatures of requests that may be made once, for as long as these are valid.

    Other requests are not remembered. SigV4 signs to the second, so two equal requests within one
    second have the same signature, and both may be honest.
    """

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._until: deque[tuple[float, str]] = deque()  # in the order of arrival

    def __len__(self) -> int:
        return len(self._used)

    def use(self, signature: str, good_until: float, now: float) -> None:
        """Use a signature, which must have been verified.

        Args:
            signature: in hex.
            good_until: epoch seconds.
            now: epoch seconds.

        Raises:
            InvalidSignature: it has been used.
            ServiceUnavailable: there is no room to remember it.
        """
        while self._until and self._until[0][0] < now:
            self._used.discard(self._until.popleft()[1])
        if signature in self._used:
            raise InvalidSignature(
                "this signature has been used, and its query has once; sign another request"
            )
        if len(self._used) >= MAX_USED_SIGNATURES:
            raise ServiceUnavailable(
                f"{MAX_USED_SIGNATURES} requests with once in their query came within minutes; try "
                "again later, or leave once out of the query"
            )
        self._used.add(signature)
        self._until.append((good_until, signature))
