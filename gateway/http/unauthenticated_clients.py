"""What those may cost the gateway who have not shown who they are: a budget of CPU time."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

from partway.gateway.http.peers import peer_of
from partway.gateway.limits import (
    STRANGER_ADDRESSES,
    STRANGER_BURST,
    STRANGER_CONNECTION,
    STRANGER_DEBT,
    STRANGER_MOST,
    STRANGER_REQUEST,
    STRANGER_SHARE,
    STRANGER_TLS,
)
from partway.gateway.timing.clock import Clock, Timer
from partway.log_lines import LogLine
from partway.protocol.token_buckets import Allowance, TokenBucket

log = logging.getLogger("partway.listener")

#: Makes the account of a connection, from its address.
AccountFrom = Callable[[str], "Account"]


class Strangers:
    """The budgets of all addresses.

    Rules:
        1. What a request costs that is refused before it is known who sends it, or that anybody may
           make, is drawn from the budget of its address, and from that of its connection. So is
           what a connection has cost that ends without a request of somebody who is known.
        2. While an address's budget is overdrawn, its connections are not read on which nobody is
           known; when the budget allows it, one after the other goes on, in the order in which they
           came, but those behind the others that have been let on and are still not known. So
           nobody is refused for what a neighbour behind the same address does: a client with a
           right signature waits once for each connection, and never again on it.
        3. A connection on which nobody is known takes its turns with others that have a backlog
           (:mod:`partway.protocol.connections.fair_turns`), also for a short read. Hundreds
           of them may ask in the same moment.
        4. A connection whose own budget is overdrawn takes no more requests.
        5. An address that stands for many (a proxy's) has no budget of its own; what its
           connections have is rule 4.

    Args:
        clock: tells the time, and calls back after a time.
        shared: whether an address stands for many clients.
        addresses: how many addresses are remembered.
    """

    def __init__(
        self,
        clock: Clock,
        shared: Callable[[str], bool] = lambda _: False,
        addresses: int = STRANGER_ADDRESSES,
    ) -> None:
        self._clock = clock
        self._shared = shared
        self._most = addresses
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._mentions = TokenBucket(1, 1.0, clock.time())

    def account(self, address: str) -> Account:
        """Open the account of a connection from an address."""
        own = Allowance(STRANGER_BURST, STRANGER_SHARE, self._clock.time(), STRANGER_DEBT)
        return Account(own, self._clock, None if self._shared(address) else self._address(address))

    def _address(self, address: str) -> _Address:
        key = peer_of(address)
        found = self._addresses.get(key)
        if found is None:
            found = self._addresses[key] = _Address(self._clock, address, self._mentions)
            if len(self._addresses) > self._most:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(key)
        return found


class Account:
    """What one connection costs. Its owner tells :meth:`left` once it has ended.

    Args:
        allowance: the connection's own budget; None if nothing is counted.
        clock: tells the time; None if nothing is counted.
        address: the connection's address; None if that stands for many, or nothing is counted.

    Attributes:
        known: whether somebody has shown on it who they are.
        measured: whether what its next request takes is to be measured, should it be refused. It
            is not where the last one was somebody's who is known: of what they send after it, one
            refusal is drawn as STRANGER_REQUEST alone, and each clock that is not read is saved.
    """

    __slots__ = (
        "_address",
        "_allowance",
        "_clock",
        "_had_its_turn",
        "_let_on",
        "_spent",
        "known",
        "measured",
    )

    def __init__(
        self,
        allowance: Allowance | None = None,
        clock: Clock | None = None,
        address: _Address | None = None,
    ) -> None:
        self.known = False
        self.measured = True
        self._allowance = allowance
        self._clock = clock
        self._address = address
        self._let_on = False
        self._had_its_turn = False
        self._spent = False

    def asked(self) -> Visit:
        """Note that a request's head has come."""
        return Visit(self)

    def recognised(self) -> None:
        """Note that it is known who has sent a request, and that they may.

        Changes nothing where somebody is known, and the next request is not measured.
        """
        self.known = True
        self.measured = False

    @property
    def overdrawn(self) -> bool:
        """Whether the connection is to take no more requests (rule 4)."""
        if not self._spent or self._allowance is None or self._clock is None:
            return False  # asked after every turn of a connection: no clock is looked at for it
        return self._allowance.overdrawn_for(self._clock.time()) > 0

    def has_to_wait(self, go_on: Callable[[], None]) -> Timer | None:
        """Whether nothing more of the connection may be read now (rule 2).

        Args:
            go_on: called once it may be; it asks again, and then need not wait.

        Returns:
            Takes ``go_on`` back; None if there is nothing to wait for.
        """
        if self.known or self._address is None:
            return None
        if self._let_on:
            self._let_on = False
            return None

        def let_on() -> None:
            self._let_on = self._had_its_turn = True
            go_on()

        return self._address.place(let_on, again=self._had_its_turn)

    async def turn(self) -> None:
        """Wait until the connection may be read (rule 2)."""
        may_go_on = asyncio.Event()
        waits = self.has_to_wait(may_go_on.set)
        if waits is not None:
            try:
                await may_go_on.wait()
            finally:
                waits.cancel()

    def left(self, *, encrypted: bool) -> None:
        """Note that the connection has ended, or that its TLS handshake has failed.

        Args:
            encrypted: whether it had TLS.
        """
        if not self.known:
            self.draw(STRANGER_CONNECTION + (STRANGER_TLS if encrypted else 0.0))
            self.known = True  # it is counted once

    def draw(self, seconds: float) -> None:
        """Draw CPU seconds from the connection's budget and its address's; or give them back."""
        if self._allowance is None or self._clock is None:
            return
        now = self._clock.time()
        self._allowance.draw(seconds, now)
        self._spent = self._allowance.overdrawn_for(now) > 0
        if self._address is not None:
            self._address.allowance.draw(seconds, now)


class Visit:
    """What one request costs, until it is known whose it is.

    Where nobody is known on the connection yet, part of it is drawn at once: a read brings more
    requests than one, and many connections are read before the first request is refused.

    Args:
        account: that of the request's connection.
    """

    __slots__ = ("_account", "_drawn")

    def __init__(self, account: Account) -> None:
        self._account = account
        self._drawn = 0.0 if account.known else STRANGER_REQUEST
        if self._drawn:
            account.draw(self._drawn)

    def in_vain(self) -> None:
        """Note that nobody was asked for their name, and that what they asked was at fault."""
        self._account.known = False

    def recognised(self) -> None:
        """Note that it is known who sends the request, and that they may."""
        self._account.recognised()
        drawn, self._drawn = self._drawn, 0.0
        if drawn:
            self._account.draw(-drawn)

    def cost(self, seconds: float) -> None:
        """Note that the request was answered without its being known who sends it.

        Args:
            seconds: CPU time that the answer took; 0.0 where that was not measured.
        """
        self._account.measured = True
        self._account.draw(STRANGER_REQUEST - self._drawn + min(seconds, STRANGER_MOST))


def uncharged() -> Account:
    """The account of a connection that is charged nothing."""
    account = Account()
    account.known = True
    return account


class _Address:
    """One address: its budget, and the connections that wait for it, in their order."""

    def __init__(self, clock: Clock, address: str, mentions: TokenBucket) -> None:
        self.allowance = Allowance(STRANGER_BURST, STRANGER_SHARE, clock.time(), STRANGER_DEBT)
        self._clock = clock
        self._name = address
        self._mentions = mentions
        self._waiting: OrderedDict[_Place, None] = OrderedDict()
        self._waiting_again: OrderedDict[_Place, None] = OrderedDict()
        self._timer: Timer | None = None

    def place(self, let_on: Callable[[], None], *, again: bool) -> _Place | None:
        """Give a connection its place, or None if it need not wait.

        Args:
            let_on: called when it is its turn.
            again: whether it has been let on before.
        """
        now = self._clock.time()
        someone_waits = self._waiting or self._waiting_again
        if not someone_waits and not self.allowance.overdrawn_for(now):
            return None
        if not someone_waits and self._mentions.take(now):
            spent = "an address has spent what it may cost: its connections wait"
            log.warning(LogLine(spent, peer=self._name))
        place = _Place(self, let_on)
        (self._waiting_again if again else self._waiting)[place] = None
        self._look_later()
        return place

    def give_up(self, place: _Place) -> None:
        """Take a place back."""
        self._waiting.pop(place, None)
        self._waiting_again.pop(place, None)

    def _look_later(self) -> None:
        if self._timer is None and (self._waiting or self._waiting_again):
            owed = self.allowance.overdrawn_for(self._clock.time())
            self._timer = self._clock.call_later(owed, self._let_one_on)

    def _let_one_on(self) -> None:
        self._timer = None
        first = self._waiting or self._waiting_again
        if first and not self.allowance.overdrawn_for(self._clock.time()):
            place, _ = first.popitem(last=False)
            # Its requests are drawn as they are read, so that the next one finds what is left.
            try:
                place.let_on()
            finally:  # whatever is wrong with one connection, the others go on
                self._look_later()
        else:
            self._look_later()


class _Place:
    """A connection's place among those that wait."""

    __slots__ = ("_address", "let_on")

    def __init__(self, address: _Address, let_on: Callable[[], None]) -> None:
        self._address = address
        self.let_on = let_on

    def cancel(self) -> None:
        """Give the place up."""
        self._address.give_up(self)
