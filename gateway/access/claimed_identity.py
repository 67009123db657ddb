"""By whom a request says that it is sent, for as long as what is opened by it lasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from partway.gateway.access.principals import Key, Principals
from partway.protocol.signatures.verification import Claim, EventChain


# Not frozen, though nobody changes one: one is made for each request.
@dataclass(slots=True, eq=False)
class Claimant(ABC):
    """A principal by whom a request says that it is sent.

    Attributes:
        principals: whom the gateway knows, at any moment.
        name: the principal's.
        action: what the request needs leave for; empty where its operation sees to that.
        resource: the ARN of what it is done with.
    """

    principals: Principals = field(repr=False)
    name: str
    action: str
    resource: str

    def stands(self, chain: EventChain | None) -> bool:
        """Whether neither key or token nor leave has been taken away, given the events' chain."""
        return self._is_known(chain) and (
            not self.action or self.principals.may(self.name, self.action, self.resource)
        )

    @abstractmethod
    def _is_known(self, chain: EventChain | None) -> bool:
        """Whether the principal has still what it has shown, given the chain of its events."""

    @abstractmethod
    def event_chain(self) -> EventChain | None:
        """A chain that checks a stream's events; None if the request was not signed."""


@dataclass(slots=True, eq=False)
class Bearer(Claimant):
    """A claimant who has brought a token.

    Attributes:
        token: the bearer token.
    """

    token: str = field(repr=False)

    def event_chain(self) -> None:
        return None

    def _is_known(self, chain: EventChain | None) -> bool:
        owner = self.principals.by_token(self.token)
        return owner is not None and owner.name == self.name


@dataclass(slots=True, eq=False)
class Signer(Claimant):
    """A claimant who has signed.

    Attributes:
        claim: what the request says of its signature.
        key: that it names.
        region: the one that events are signed for.
        clock: returns the time in epoch seconds.
    """

    claim: Claim
    key: Key
    region: str
    clock: Callable[[], float] = field(repr=False)

    def event_chain(self) -> EventChain:
        claim = self.claim
        return EventChain(
            [self.key.credentials.secret_access_key],
            self.region,
            claim.timestamp,
            claim.signature,
            # Those of the moment: a client may have changed to a key that came meanwhile.
            self._secrets_now,
            self._has_secret,
        )

    def _is_known(self, chain: EventChain | None) -> bool:
        if chain is None:
            return self._has_secret(self.key.credentials.secret_access_key)
        return chain.stands

    def _secrets_now(self) -> list[str]:
        principal = self.principals.by_name(self.name)
        return [] if principal is None else principal.secrets(self.clock())

    def _has_secret(self, secret: str) -> bool:
        """Whether the principal has a key, be its time over: a stream may outlive its key's."""
        principal = self.principals.by_name(self.name)
        return principal is not None and any(
            key.credentials.secret_access_key == secret for key in principal.keys
        )
