"""Who is connected, and who goes first when connections, or a peer's share of memory, run short."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container
from typing import Generic, TypeVar

from partway.gateway.http.peers import peer_of
from partway.gateway.http.unauthenticated_clients import Account, AccountFrom, uncharged
from partway.gateway.limits import CONNECTION_BYTES, PEER_BYTES, RESERVED_CONNECTIONS
from partway.log_lines import LogLine
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.token_buckets import TokenBucket

_T = TypeVar("_T")


class Fullest(Generic[_T]):
    """Those who have some of a thing, by how many they have.

    How many they have changes often, and who has most is seldom asked: what has changed is put in
    its place then.
    """

    def __init__(self) -> None:
        self._counts: dict[_T, int] = {}
        self._by_count: dict[int, dict[_T, None]] = {}
        #: What has changed since somebody looked, in the order of the last changes.
        self._changed: dict[_T, int] = {}

    def has(self, who: _T, count: int) -> None:
        """Note how many somebody has now; whoever has none is forgotten."""
        changed = self._changed
        changed.pop(who, None)
        if count or who in self._counts:
            changed[who] = count

    def top(self) -> _T | None:
        """Who has most; of several the one that has had so many for longest. None if nobody has."""
        for who, count in self._changed.items():
            self._place(who, count)
        self._changed.clear()
        if not self._by_count:
            return None
        return next(iter(self._by_count[max(self._by_count)]))

    def _place(self, who: _T, count: int) -> None:
        before = self._counts.pop(who, 0)
        if before:
            same = self._by_count[before]
            del same[who]
            if not same:
                del self._by_count[before]
        if count:
            self._counts[who] = count
            self._by_count.setdefault(count, {})[who] = None


log = logging.getLogger("partway.listener")


class Visitor:
    """One connection, from the moment of being accepted to its end.

    Attributes:
        peer: whose it is, as :func:`~partway.gateway.http.peers.peer_of` has it.
        drop: ends the connection at once; whoever speaks on it puts that here.
        reserved: whether it stands in the reserve, where only what is kept for it is answered.
        trusted: whether it is a trusted proxy's.
        held: bytes of memory that it holds while it is not busy.
        account: what it costs as long as nobody is known on it.
        among: whose connection it is, and idle when nothing is under way; None where it is not
            dropped for that.
    """

    __slots__ = (
        "_base",
        "_crowd",
        "_under_way",
        "account",
        "among",
        "drop",
        "held",
        "peer",
        "reserved",
        "trusted",
    )

    def __init__(
        self, crowd: Crowd | None, peer: str, drop: Callable[[], None], account: Account
    ) -> None:
        self._crowd = crowd
        self.among: _Peer | None = None
        self.account = account
        self.peer = peer
        self.drop = drop
        self.reserved = False
        self.trusted = False
        self.held = CONNECTION_BYTES
        self._base = CONNECTION_BYTES
        self._under_way = 0

    @property
    def busy(self) -> bool:
        """Whether something that its client may ask for is under way."""
        return self._under_way > 0

    def admit(self) -> None:
        """Let the connection have what is not kept for the reserve.

        Raises:
            ServiceUnavailable: it stands in the reserve, and there is still no room.
        """
        if self.reserved and self._crowd is not None:
            self._crowd.admit(self)

    def begun(self) -> None:
        """Note that something more is under way, until :meth:`ended`: it is not dropped then."""
        under_way = self._under_way
        self._under_way = under_way + 1
        if not under_way and self.among is not None:
            self.among.begun(self)

    def ended(self) -> None:
        """Note that something is under way no more."""
        self._under_way = under_way = self._under_way - 1
        if not under_way and self.among is not None:
            self.among.ended(self)

    def weighs(self, more: int) -> None:
        """Say that a connection of this kind holds so many bytes of memory more than any one."""
        self._base += more
        self.holds(0)

    def holds(self, size: int) -> None:
        """Say how many bytes of memory it holds now besides, of what its client has sent or owes.

        It counts as long as nothing is under way: the limits of streams bound the rest.
        """
        size += self._base
        if size == self.held:
            return
        if self.among is not None and not self._under_way:
            self.among.weighs(self, size)
        else:
            self.held = size

    def leave(self) -> None:
        """Note that the connection is gone; said again, it means nothing."""
        crowd, self._crowd = self._crowd, None
        if crowd is not None:
            crowd.left(self)


def uncounted(account: Account | None = None) -> Visitor:
    """A connection that belongs to no crowd: nobody drops it.

    Args:
        account: what it costs; by default it is charged nothing.
    """
    return Visitor(None, "", lambda: None, account or uncharged())


class _Peer:
    """The connections of one peer.

    Args:
        name: the peer's.
        fullest: of all peers, by how many idle connections each has.
        bound: called when the idle ones hold more than PEER_BYTES, so that some of them go.

    Attributes:
        connections: how many there are, the reserve's not counted.
        idle: those that may be dropped, the one that is idle for longest first.
        held: bytes of memory that these hold.
    """

    __slots__ = ("_bound", "_fullest", "_name", "connections", "held", "idle")

    def __init__(self, name: str, fullest: Fullest[str], bound: Callable[[_Peer], None]) -> None:
        self._name = name
        self._fullest = fullest
        self._bound = bound
        self.connections = 0
        self.idle: dict[Visitor, None] = {}
        self.held = 0

    def begun(self, visitor: Visitor) -> None:
        """Note that a connection is idle no more."""
        idle = self.idle
        del idle[visitor]
        self.held -= visitor.held
        self._fullest.has(self._name, len(idle))

    def ended(self, visitor: Visitor) -> None:
        """Note that a connection is idle, since nothing is under way on it."""
        idle = self.idle
        idle[visitor] = None
        self.held = held = self.held + visitor.held
        self._fullest.has(self._name, len(idle))
        if held > PEER_BYTES:
            self._bound(self)

    def weighs(self, visitor: Visitor, size: int) -> None:
        """Note how many bytes an idle connection holds now."""
        self.held += size - visitor.held
        visitor.held = size
        if self.held > PEER_BYTES:
            self._bound(self)


class Crowd:
    """The connections of a gateway.

    Rules:
        1. A connection is idle when nothing is under way on it that its client may ask for: it has
           sent no head yet, or an unfinished one, or one that was refused, or waits for the next.
        2. When all places are taken, the connection goes that is idle for longest of the peer with
           the most idle ones. When a peer has its share, that goes which is idle for longest of its
           own. So does it when a peer's idle connections hold more than PEER_BYTES.
        3. Where none is idle, a newcomer gets a place in the reserve, and there only what is kept
           for it: health and metrics. In the reserve the same rules hold.
        4. A trusted proxy has no share, and its connections are not dropped.

    Args:
        most: connections at once, the reserve not counted.
        share: of one peer.
        trusted: addresses of trusted proxies.
        clock: tells the time in seconds, for the log.
        on_drop: told why a connection was dropped, or not taken.
        account_from: opens the account of a connection; by default nothing is charged.
    """

    def __init__(
        self,
        most: int,
        share: int,
        trusted: Container[str] = (),
        clock: Callable[[], float] = lambda: 0.0,
        on_drop: Callable[[str], None] = lambda _: None,
        account_from: AccountFrom = lambda _: uncharged(),
    ) -> None:
        self.connections = 0
        self._most = most
        self._share = share
        self._trusted = trusted
        self._clock = clock
        self._on_drop = on_drop
        self._account_from = account_from
        self._peers: dict[str, _Peer] = {}
        self._reserve: dict[Visitor, None] = {}
        self._fullest = Fullest[str]()  # by peers' idle connections
        self._mentions = TokenBucket(1, 1.0, 0.0)
        self._dropped = 0

    def __len__(self) -> int:
        return self.connections + len(self._reserve)

    def enter(self, address: str, drop: Callable[[], None]) -> Visitor | None:
        """Take in a connection that was accepted.

        Args:
            address: of its client, as the socket tells it.
            drop: ends the connection at once.

        Returns:
            The visitor that it is; None where it is to be closed: not even the reserve has room.
        """
        visitor = Visitor(self, peer_of(address), drop, self._account_from(address))
        visitor.trusted = address in self._trusted
        if self._take_place(visitor):
            return visitor
        if len(self._reserve) >= RESERVED_CONNECTIONS and not self._make_room_in_reserve():
            self._tell("reserve", visitor)
            return None
        visitor.reserved = True
        self._reserve[visitor] = None
        return visitor

    # --- From visitors ---------------------------------------------------------------------------

    def admit(self, visitor: Visitor) -> None:
        """See :meth:`Visitor.admit`."""
        del self._reserve[visitor]
        if not self._take_place(visitor):
            self._reserve[visitor] = None
            raise ServiceUnavailable(
                f"all {self._most} connections of this gateway, or all {self._share} that one "
                "address may have, are in use; try again, or on another gateway"
            )
        visitor.reserved = False

    def left(self, visitor: Visitor) -> None:
        """Note that a connection is gone."""
        if visitor.reserved:
            del self._reserve[visitor]
            return
        peer, visitor.among = self._peers[visitor.peer], None
        if visitor in peer.idle:
            peer.begun(visitor)
        peer.connections -= 1
        self.connections -= 1
        if not peer.connections:
            del self._peers[visitor.peer]

    # --- Room ------------------------------------------------------------------------------------

    def _take_place(self, visitor: Visitor) -> bool:
        """Whether there is a place for a connection, or one could be made; then it is taken."""
        peer = self._peers.get(visitor.peer)
        if not visitor.trusted and peer is not None and peer.connections >= self._share:
            if not self._drop_oldest(visitor.peer, "share"):
                return False
        elif self.connections >= self._most and not self._drop_oldest(self._fullest.top(), "full"):
            return False
        peer = self._peers.get(visitor.peer)  # one may have gone to make room
        if peer is None:
            peer = _Peer(visitor.peer, self._fullest, self._bound_memory)
            self._peers[visitor.peer] = peer
        peer.connections += 1
        self.connections += 1
        if not visitor.trusted:
            visitor.among = peer
            if not visitor.busy:
                peer.ended(visitor)
        return True

    def _make_room_in_reserve(self) -> bool:
        idle = [visitor for visitor in self._reserve if not visitor.busy]
        if not idle:
            return False
        counts = Counter(visitor.peer for visitor in idle)
        self._drop(max(idle, key=lambda visitor: counts[visitor.peer]), "reserve")
        return True

    def _bound_memory(self, peer: _Peer) -> None:
        while peer.held > PEER_BYTES and len(peer.idle) > 1:
            self._drop(next(iter(peer.idle)), "memory")

    def _drop_oldest(self, name: str | None, why: str) -> bool:
        """Drop the connection of a peer that is idle for longest; whether there was one."""
        peer = self._peers.get(name) if name is not None else None
        if peer is None or not peer.idle:
            return False
        self._drop(next(iter(peer.idle)), why)
        return True

    def _drop(self, visitor: Visitor, why: str) -> None:
        self._tell(why, visitor)
        visitor.leave()
        visitor.drop()

    def _tell(self, why: str, visitor: Visitor) -> None:
        """Count a connection that goes, and log some of them: once a second at most."""
        self._on_drop(why)
        self._dropped += 1
        if self._mentions.take(self._clock()):
            line = "connections are closed to make room"
            log.warning(LogLine(line, why=why, peer=visitor.peer, closed=self._dropped))
            self._dropped = 0
