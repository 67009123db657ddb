"""Which instance a session sticks to: so many are remembered, and of one owner half of them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from partway.gateway.fleet.limits import STICKY_SESSIONS
from partway.gateway.limits import SHARE_OF_ONE


class StickySession(NamedTuple):
    """A session's name: nobody comes into another one's by its id.

    Attributes:
        owner: the principal whose it is; empty where nobody is asked who they are.
        id: the session's, which the client gives; empty for no session.
    """

    owner: str
    id: str


#: What belongs to no session.
NO_SESSION: Final = StickySession("", "")


class StickySessions:
    """The sessions of one endpoint: for one too many goes the one that was seen longest ago.

    It is the owner's own, or where all of them are too many, the owner's who has most.

    Args:
        most: how many are remembered.
    """

    def __init__(self, most: int = STICKY_SESSIONS) -> None:
        self._most = most
        self._share = max(1, most // SHARE_OF_ONE)
        self._count = 0
        self._of_owners: dict[str, OrderedDict[str, tuple[str, float]]] = {}

    def __len__(self) -> int:
        return self._count

    def get(self, session: StickySession) -> tuple[str, float] | None:
        """The instance of a session, and until when it holds; None where it is not known."""
        own = self._of_owners.get(session.owner)
        return None if own is None else own.get(session.id)

    def remember(self, session: StickySession, instance: str, until: float) -> None:
        """Have a session stick to an instance, until a time."""
        own = self._of_owners.setdefault(session.owner, OrderedDict())
        self._count += session.id not in own
        own[session.id] = instance, until
        own.move_to_end(session.id)
        if len(own) > self._share:
            self._drop_oldest(session.owner)
        if self._count > self._most:
            self._drop_oldest(max(self._of_owners, key=lambda each: len(self._of_owners[each])))

    def forget(self, session: StickySession) -> None:
        """Drop a session, if it is known."""
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
