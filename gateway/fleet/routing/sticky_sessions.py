"""Sticky sessions: the instance of each session, for a limited number of sessions.

One owner has at most half of them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from partway.gateway.fleet.limits import STICKY_SESSIONS
from partway.gateway.limits import SHARE_OF_ONE


class StickySession(NamedTuple):
    """A session's name. The owner is a part, so that no principal can enter another's session.

    Attributes:
        owner: the principal of the session; empty without authentication.
        id: the client's id of the session; empty for no session.
    """

    owner: str
    id: str


#: For requests without a session.
NO_SESSION: Final = StickySession("", "")


class StickySessions:
    """The sessions of one endpoint; beyond the limit, the least recently used one is dropped.

    An owner with too many loses its own. If all together are too many, the owner with most loses
    one.
    """

    def __init__(self, most: int = STICKY_SESSIONS) -> None:
        self._most = most
        self._share = max(1, most // SHARE_OF_ONE)
        self._count = 0
        self._of_owners: dict[str, OrderedDict[str, tuple[str, float]]] = {}

    def __len__(self) -> int:
        return self._count

    def get(self, session: StickySession) -> tuple[str, float] | None:
        """Return a session's instance and the end of its validity; None if it is unknown."""
        own = self._of_owners.get(session.owner)
        return None if own is None else own.get(session.id)

    def remember(self, session: StickySession, instance: str, until: float) -> None:
        """Route a session to an instance, until a time in epoch seconds."""
        own = self._of_owners.setdefault(session.owner, OrderedDict())
        self._count += session.id not in own
        own[session.id] = instance, until
        own.move_to_end(session.id)
        if len(own) > self._share:
            self._drop_oldest(session.owner)
        if self._count > self._most:
            self._drop_oldest(max(self._of_owners, key=lambda each: len(self._of_owners[each])))

    def forget(self, session: StickySession) -> None:
        if self.get(session) is not None:
            self._drop(session)

    def _drop_oldest(self, owner: str) -> None:
        self._drop(StickySession(owner, next(iter(self._of_owners[owner]))))

    def _drop(self, session: StickySession) -> None:
        own = self._of_owners[session.owner]
        del own[session.id]
        self._count -= 1
        if not own:
            del self._of_owners[session.owner]
