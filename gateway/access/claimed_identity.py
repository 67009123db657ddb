"""The principal that a request claims as its sender, for as long as the request's stream lasts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from partway.gateway.access.principals import Key, Principals
from partway.protocol.signatures.api_keys import ACTION
from partway.protocol.signatures.verification import Claim, EventChain


# Not frozen, since one is made for each request and freezing costs time.
@dataclass(slots=True, eq=False)
class Claimant(ABC):
    """A principal that a request claims as its sender.

    Attributes:
        action: the action that the request needs permission for; empty if its operation checks
            that.
    """

    principals: Principals = field(repr=False)
    name: str
    action: str
    resource: str

    def stands(self, chain: EventChain | None) -> bool:
        """Say whether key or token and permission are still valid, given the chain of events."""
        return self._is_known(chain) and (
            not self.action or self.principals.may(self.name, self.action, self.resource)
        )

    @abstractmethod
    def _is_known(self, chain: EventChain | None) -> bool:
        """Say whether the principal still has its key or token, given the chain of events."""

    @abstractmethod
    def event_chain(self) -> EventChain | None:
        """Return a chain that checks a stream's events; None if the request was not signed."""


@dataclass(slots=True, eq=False)
class Bearer(Claimant):
    token: str = field(repr=False)

    def event_chain(self) -> None:
        return None

    def _is_known(self, chain: EventChain | None) -> bool:
        owner = self.principals.by_token(self.token)
        return owner is not None and owner.name == self.name


@dataclass(slots=True, eq=False)
class ApiKeyBearer(Claimant):
    """A claimant with one of SageMaker's API keys.

    Attributes:
        secret: the secret of the access key that signed it. An open stream may outlive the API key.
    """

    secret: str = field(repr=False)

    def stands(self, chain: EventChain | None) -> bool:
        # super() without arguments does not work in a class with slots.
        return Claimant.stands(self, chain) and self.principals.may_somewhere(self.name, ACTION)

    def event_chain(self) -> None:
        return None

    def _is_known(self, chain: EventChain | None) -> bool:
        principal = self.principals.by_name(self.name)
        return principal is not None and principal.has_secret(self.secret)


@dataclass(slots=True, eq=False)
class Signer(Claimant):
    """A claimant with a signature.

    Attributes:
        claim: the request's statement about its signature.
        key: the key that it names.
        region: the region that events are signed for.
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
            # The current secrets: a client may have changed to a newer key since.
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
        """Say whether the principal has a key, expired or not: a stream may outlive its key."""
        principal = self.principals.by_name(self.name)
        return principal is not None and principal.has_secret(secret)
