"""Session affinity without a table: the id of a session names the instance that keeps it.

A container makes the ids of its sessions, so nothing but the id could tell which instance has
begun one. The client gets the id with a mark of the instance behind it, and the container gets the
id as it made it (section 5). Every process that knows the instances finds the same one.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, NamedTuple

_DIGITS: Final = 10
_MARKED: Final = re.compile(rf"(?P<id>.+)-i(?P<mark>[0-9a-f]{{{_DIGITS}}})")

#: The number of digests.
_DIGESTS: Final = 16.0**_DIGITS


class StickySession(NamedTuple):
    """A session of a client.

    Attributes:
        id: the id that the container knows; empty for no session.
        mark: that of the instance that has begun it; empty if the client made the id itself.
    """

    id: str
    mark: str = ""

    @classmethod
    def of_client(cls, text: str) -> StickySession:
        """Read an id that a client has sent."""
        match = _MARKED.fullmatch(text)
        return cls(text) if match is None else cls(match["id"], match["mark"])

    @property
    def for_client(self) -> str:
        return f"{self.id}-i{self.mark}" if self.mark else self.id

    def rank(self, mark: str) -> bytes:
        """Return the rank of an instance for this session: the highest one takes it.

        An instance that comes or goes moves no session but its own (rendezvous hashing,
        https://doi.org/10.1109/90.663936).
        """
        return _digest(f"{self.id} {mark}")

    @property
    def fraction(self) -> float:
        """A number from 0 to 1, always the same for an id."""
        return int.from_bytes(_digest(self.id)) / _DIGESTS


#: For requests without a session.
NO_SESSION: Final = StickySession("")


def mark_of(name: str) -> str:
    """Return the mark of an instance, from a name that no other instance has."""
    return _digest(name).hex()


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_DIGITS // 2).digest()
