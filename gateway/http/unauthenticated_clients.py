"""Budgets of CPU time for clients that have not been authenticated."""

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
        1. A request is charged if it is refused before its sender is known, or if anyone may make
        it. The cost is drawn from the budgets of its address and of its connection. A connection
        that ends without a request of a known sender is charged too.
        2. While an address's budget is overdrawn, its connections without a known sender are not
        read. As the budget allows, one after the other goes on in order of arrival; those that had
        a turn and are still unknown come last. So a client is not refused because of a neighbour
        behind the same address. With a valid signature it waits once for each connection.
        3. A connection without a known sender takes turns with others that have a backlog
        (:mod:`partway.protocol.connections.fair_turns`), even for a short read. Hundreds of them
        may ask in the same moment.
        4. A connection whose own budget is overdrawn takes no more requests.
        5. An address that stands for many clients (a proxy's) has no budget; rule 4 bounds its
        connections.

    Args:
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
    """The costs of one connection. Its owner calls :meth:`left` once it has ended.

    Args:
        allowance: the connection's own budget; None if nothing is counted.
        address: the connection's address; None if it stands for many clients, or nothing is
            counted.

    Attributes:
        known: whether a request on it had a known sender.
        measured: whether the time of its next request is measured, in case of a refusal. It is not
            measured after a request of a known sender: one refusal after that costs only
            STRANGER_REQUEST, which saves reading the clock.
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
        return Visit(self)

    def recognised(self) -> None:
        """Note that a request's sender is known, and may make it.

        Has no effect if a sender is known already and the next request is not measured.
        """
        self.known = True
        self.measured = False

    @property
    def overdrawn(self) -> bool:
        """Whether the connection may take no more requests (rule 4)."""
        if not self._spent or self._allowance is None or self._clock is None:
            return False  # called after every turn, so it avoids reading the clock
        return self._allowance.overdrawn_for(self._clock.time()) > 0

    def has_to_wait(self, go_on: Callable[[], None]) -> Timer | None:
        """Say whether the connection may not be read now (rule 2).

        Args:
            go_on: called once it may be read; its next call of this method need not wait.

        Returns:
            A timer that cancels ``go_on``; None if there is no need to wait.
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
        may_go_on = asyncio.Event()
        waits = self.has_to_wait(may_go_on.set)
        if waits is not None:
            try:
                await may_go_on.wait()
            finally:
                waits.cancel()

    def left(self, *, encrypted: bool) -> None:
        """Note that the connection has ended, or that its TLS handshake has failed."""
        if not self.known:
            self.draw(STRANGER_CONNECTION + (STRANGER_TLS if encrypted else 0.0))
            self.known = True  # it is counted once

    def draw(self, seconds: float) -> None:
        """Draw CPU seconds from the budgets of connection and address; negative returns them."""
        if self._allowance is None or self._clock is None:
            return
        now = self._clock.time()
        self._allowance.draw(seconds, now)
        self._spent = self._allowance.overdrawn_for(now) > 0
        if self._address is not None:
            self._address.allowance.draw(seconds, now)


class Visit:
    """The cost of one request, until its sender is known.

    On a connection without a known sender, part of the cost is drawn at once. A read may bring
    several requests, and many connections are read before the first request is refused.
    """

    __slots__ = ("_account", "_drawn")

    def __init__(self, account: Account) -> None:
        self._account = account
        self._drawn = 0.0 if account.known else STRANGER_REQUEST
        if self._drawn:
            account.draw(self._drawn)

    def in_vain(self) -> None:
        """Note that a request without authentication was at fault."""
        self._account.known = False

    def recognised(self) -> None:
        self._account.recognised()
        drawn, self._drawn = self._drawn, 0.0
        if drawn:
            self._account.draw(-drawn)

    def cost(self, seconds: float) -> None:
        """Charge a request that was answered although its sender is not known.

        Args:
            seconds: CPU time of the answer; 0.0 if it was not measured.
        """
        self._account.measured = True
        self._account.draw(STRANGER_REQUEST - self._drawn + min(seconds, STRANGER_MOST))


def uncharged() -> Account:
    """Return the account of a connection that is charged nothing."""
    account = Account()
    account.known = True
    return account


class _Address:
    def __init__(self, clock: Clock, address: str, mentions: TokenBucket) -> None:
        self.allowance = Allowance(STRANGER_BURST, STRANGER_SHARE, clock.time(), STRANGER_DEBT)
        self._clock = clock
        self._name = address
        self._mentions = mentions
        self._waiting: OrderedDict[_Place, None] = OrderedDict()
        self._waiting_again: OrderedDict[_Place, None] = OrderedDict()
        self._timer: Timer | None = None

    def place(self, let_on: Callable[[], None], *, again: bool) -> _Place | None:
        """Give a connection its place in the line, or None if it need not wait.

        ``again`` says whether the connection has been let on before.
        """
        now = self._clock.time()
        someone_waits = self._waiting or self._waiting_again
        if not someone_waits and not self.allowance.overdrawn_for(now):
            return None
        if not someone_waits and self._mentions.take(now):
            spent = "an address has used up its CPU budget: its connections wait"
            log.warning(LogLine(spent, peer=self._name))
        place = _Place(self, let_on)
        (self._waiting_again if again else self._waiting)[place] = None
        self._look_later()
        return place

    def give_up(self, place: _Place) -> None:
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
            # Its requests are charged as they are read, so that the next one finds the true rest.
            try:
                place.let_on()
            finally:  # a fault of one connection must not stop the others
                self._look_later()
        else:
            self._look_later()


class _Place:
    __slots__ = ("_address", "let_on")

    def __init__(self, address: _Address, let_on: Callable[[], None]) -> None:
        self._address = address
        self.let_on = let_on

    def cancel(self) -> None:
        self._address.give_up(self)
