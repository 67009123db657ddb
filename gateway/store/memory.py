"""A store that keeps everything until the process ends."""

from __future__ import annotations

import json

from partway.gateway.store.store import Record, Removal


class MemoryStore:
    """Keeps records in memory: for a gateway that has no place for them on disk."""

    def __init__(self) -> None:
        #: As text, so that nobody changes what is kept by changing what was given.
        self._bodies: dict[tuple[str, str], str] = {}

    async def records(self, kind: str) -> tuple[Record, ...]:
        """Return all records of a kind, in the order of their names."""
        found = sorted((key[1], body) for key, body in self._bodies.items() if key[0] == kind)
        return tuple(Record(kind, name, json.loads(body)) for name, body in found)

    async def write(self, *changes: Record | Removal) -> None:
        """Make all these changes."""
        bodies = dict(self._bodies)
        for each in changes:
            if isinstance(each, Record):
                bodies[each.kind, each.name] = json.dumps(each.body)
            else:
                bodies.pop((each.kind, each.name), None)
        self._bodies = bodies

    async def aclose(self) -> None:
        """Forget everything."""
        self._bodies = {}
