"""Admission control of connections: who is dropped when places or a peer's memory run short."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container

from partway.gateway.http.highest_count import Fullest
from partway.gateway.http.peers import peer_of
from partway.gateway.http.unauthenticated_clients import Account, AccountFrom, uncharged
from partway.gateway.limits import CONNECTION_BYTES, PEER_BYTES, RESERVED_CONNECTIONS
from partway.gateway.quota import NamedCounts
from partway.log_lines import LogLine
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.token_buckets import TokenBucket

log = logging.getLogger("partway.listener")


class Visitor:
    """One connection, from its acceptance to its end.

    Attributes:
        peer: its peer, from :func:`~partway.gateway.http.peers.peer_of`.
        drop: ends the connection at once; set by the protocol of the connection.
        reserved: whether it is in the reserve, where only certain requests are answered.
        trusted: whether it is a trusted proxy's.
        held: bytes of memory that it holds while it is not busy.
        account: the account of its costs until its sender is known.
        among: its peer, which drops it when idle; None if it is never dropped for that.
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
        """Whether any request of its client is under way."""
        return self._under_way > 0

    def admit(self) -> None:
        """Allow the connection requests that the reserve does not answer.

        Raises:
            ServiceUnavailable: it is in the reserve, and there is still no room.
        """
        if self.reserved and self._crowd is not None:
            self._crowd.admit(self)

    def begun(self) -> None:
        """Note that a request is under way, until :meth:`ended`; it prevents a drop."""
        under_way = self._under_way
        self._under_way = under_way + 1
        if not under_way and self.among is not None:
            self.among.begun(self)

    def ended(self) -> None:
        self._under_way = under_way = self._under_way - 1
        if not under_way and self.among is not None:
            self.among.ended(self)

    def weighs(self, more: int) -> None:
        """Note that this kind of connection holds so many more bytes of memory than the minimum."""
        self._base += more
        self.holds(0)

    def holds(self, size: int) -> None:
        """Note how many further bytes of memory it holds, of what its client has sent or not taken.

        They count only while nothing is under way: the limits of streams bound the rest.
        """
        size += self._base
        if size == self.held:
            return
        if self.among is not None and not self._under_way:
            self.among.weighs(self, size)
        else:
            self.held = size

    def leave(self) -> None:
        """Note that the connection is gone; a second call has no effect."""
        crowd, self._crowd = self._crowd, None
        if crowd is not None:
            crowd.left(self)


def uncounted(account: Account | None = None) -> Visitor:
    """Return a connection that is not counted and never dropped.

    Args:
        account: the account of its costs; by default nothing is charged.
    """
    return Visitor(None, "", lambda: None, account or uncharged())


class _Peer:
    """The connections of one peer.

    Args:
        fullest: all peers by their number of idle connections.
        bound: called when the idle ones hold more than PEER_BYTES, so that some are dropped.

    Attributes:
        connections: how many there are, without those in the reserve.
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
        idle = self.idle
        del idle[visitor]
        self.held -= visitor.held
        self._fullest.has(self._name, len(idle))

    def ended(self, visitor: Visitor) -> None:
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
        1. A connection is idle when no request of its client is under way. Its client has sent no
        head yet, an unfinished one or a refused one, or is between two requests.
        2. When all places are taken, the peer with the most idle connections loses the one that is
        idle for longest. When a peer has used up its share, it loses such a connection of its own.
        The same happens when a peer's idle connections hold more than PEER_BYTES.
        3. If no connection is idle, a newcomer gets a place in the reserve, where only health and
        metrics are answered. The same rules hold within the reserve.
        4. A trusted proxy has no share, and its connections are not dropped.

    Args:
        most: connections at once, without the reserve.
        share: the most connections of one peer.
        clock: tells the time in seconds, for the log.
        on_drop: called with the reason when a connection is dropped or not taken.
        account_from: opens the account of a connection; by default nothing is charged.
        counts: shared with other processes, whose connections count too; each makes room among its
            own.
    """

    def __init__(
        self,
        most: int,
        share: int,
        trusted: Container[str] = (),
        clock: Callable[[], float] = lambda: 0.0,
        on_drop: Callable[[str], None] = lambda _: None,
        account_from: AccountFrom = lambda _: uncharged(),
        counts: NamedCounts | None = None,
    ) -> None:
        self.connections = 0
        self._counts = counts
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
            address: the address of its client, as the socket shows it.
            drop: ends the connection at once.

        Returns:
            The visitor; None if the connection must be closed, because even the reserve has no
            room.
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

    # --- For visitors ----------------------------------------------------------------------------

    def admit(self, visitor: Visitor) -> None:
        del self._reserve[visitor]
        if not self._take_place(visitor):
            self._reserve[visitor] = None
            raise ServiceUnavailable(
                f"all {self._most} connections of this gateway, or all {self._share} that one "
                "address may have, are in use; try again, or on another gateway"
            )
        visitor.reserved = False

    def left(self, visitor: Visitor) -> None:
        if visitor.reserved:
            del self._reserve[visitor]
            return
        peer, visitor.among = self._peers[visitor.peer], None
        if visitor in peer.idle:
            peer.begun(visitor)
        self._count(peer, visitor.peer, -1)
        if not peer.connections:
            del self._peers[visitor.peer]

    # --- Room ------------------------------------------------------------------------------------

    def _take_place(self, visitor: Visitor) -> bool:
        """Take a place for a connection, dropping another if necessary; say whether it has one."""
        peer = self._peers.get(visitor.peer)
        of_peer = (0 if peer is None else peer.connections) + self._of_others(visitor.peer)
        if not visitor.trusted and of_peer >= self._share:
            if not self._drop_oldest(visitor.peer, "share"):
                return False
        elif self.connections + self._of_others() >= self._most and not self._drop_oldest(
            self._fullest.top(), "full"
        ):
            return False
        peer = self._peers.get(visitor.peer)  # an entry may be gone after a drop
        if peer is None:
            peer = _Peer(visitor.peer, self._fullest, self._bound_memory)
            self._peers[visitor.peer] = peer
        self._count(peer, visitor.peer, 1)
        if not visitor.trusted:
            visitor.among = peer
            if not visitor.busy:
                peer.ended(visitor)
        return True

    def _count(self, peer: _Peer, name: str, change: int) -> None:
        peer.connections += change
        self.connections += change
        if self._counts is not None:
            self._counts.add("connections", change)
            self._counts.add(f"connections of {name}", change)

    def _of_others(self, name: str = "") -> int:
        """Return how many connections other processes have; by default, of all peers."""
        if self._counts is None:
            return 0
        return self._counts.others(f"connections of {name}" if name else "connections")

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
        """Drop the peer's connection that is idle for longest; return whether there was one."""
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
        """Count a dropped connection, and log once a second at most."""
        self._on_drop(why)
        self._dropped += 1
        if self._mentions.take(self._clock()):
            line = "connections are closed to make room"
            log.warning(LogLine(line, why=why, peer=visitor.peer, closed=self._dropped))
            self._dropped = 0
