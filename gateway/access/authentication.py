"""Who sends a request, and whether they may: what operations and the dispatcher know of that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from partway.protocol.errors import AccessDenied
from partway.protocol.signatures.canonical_form import SERVICE
from partway.protocol.signatures.signed_request import SignableRequest

if TYPE_CHECKING:
    from partway.protocol.signatures.event_chain import EventChain


class AuthenticatorError(ValueError):
    """An authenticator cannot be made of what the settings name; the message says why."""


def _unsigned() -> EventChain | None:
    return None


def _for_ever(_: EventChain | None) -> bool:
    return True


def _everything(_action: str, _resource: str) -> bool:
    return True


# Not frozen, though nobody changes one: one is made for each request.
@dataclass(slots=True, unsafe_hash=True)
class Identity:
    """Who sent a request.

    Attributes:
        principal: the sender's name; None where the gateway does not ask for it.
        event_chain: makes the chain that checks a stream's events; None where the request was not
            signed.
        stands: whether the sender may still have what it has opened, given the chain of its events:
            its key or token, and its leave, have not been taken away.
        may: whether the sender may do something at this moment, such as ``sagemaker:CreateModel``,
            with a resource of this ARN.
        arn: the sender's, for what a refusal says.
    """

    principal: str | None
    event_chain: Callable[[], EventChain | None] = field(default=_unsigned, repr=False)
    stands: Callable[[EventChain | None], bool] = field(default=_for_ever, repr=False)
    may: Callable[[str, str], bool] = field(default=_everything, repr=False)
    arn: str = ""

    def check(self, action: str, resource: str) -> None:
        """Refuse what the sender may not do.

        Args:
            action: in IAM's words, such as ``sagemaker:CreateModel``.
            resource: its ARN; ``*`` where the action is about nothing in particular.

        Raises:
            AccessDenied: they may not.
        """
        if not self.may(action, resource):
            raise AccessDenied(not_authorized(self.arn, action, resource))


def not_authorized(user: str, action: str, resource: str) -> str:
    """Say that somebody may not do something, in AWS's words.

    Args:
        user: their ARN.
        action: in IAM's words.
        resource: its ARN.
    """
    return (
        f"User: {user} is not authorized to perform: {action} on resource: {resource} because no "
        f"identity-based policy allows the {action} action"
    )


#: The sender of a request to a gateway that does not ask who sends it.
ANYBODY = Identity(None)


class Deed(NamedTuple):
    """What a request asks for.

    Attributes:
        action: what the sender must have leave for, such as ``sagemaker:InvokeEndpoint``; empty
            where that is for the operation to check, which learns it from the request's body.
        resource: the ARN of what it is done with.
        service: whose operation it is, which the scope of a signature must name.
    """

    action: str
    resource: str
    service: str = SERVICE

    def check(self, sender: Identity) -> None:
        """Refuse a sender who may not do it, unless that is for the operation to check.

        Raises:
            AccessDenied: they may not.
        """
        if self.action:
            sender.check(self.action, self.resource)


class AskedRequest(ABC):
    """A request, as an authenticator is asked about it.

    Attributes:
        deed: what it asks for.
    """

    __slots__ = ("deed",)

    deed: Deed

    @property
    @abstractmethod
    def request(self) -> SignableRequest:
        """The request as it is on the wire."""

    @abstractmethod
    def hash_beforehand(self) -> str | None:
        """Return the payload hash that is signed if it is known without the body; else None.

        It is a claim if the request states it: :meth:`hash` finds out.

        Raises:
            ApiError: what the request states cannot be read, or cannot be right.
        """

    @abstractmethod
    def hash_at_hand(self, access_key_id: str) -> str | None:
        """Return the payload hash that has to be signed; None if the body has to be waited for.

        Args:
            access_key_id: of the key that the body is gathered for.

        Raises:
            ApiError: the body is not what is stated of it, or cannot be read.
        """

    @abstractmethod
    async def hash(self) -> str:
        """Return what :meth:`hash_at_hand`, which was asked before, could not: gather the body.

        Raises:
            ApiError: as there; or the body does not come in time.
        """


class Authenticator(ABC):
    """Says who sends a request, or refuses it.

    Attributes:
        asks: whether it looks at requests at all; where it does not, everybody is ANYBODY.
    """

    asks: ClassVar[bool] = True

    @abstractmethod
    async def authenticate(self, asked: AskedRequest, *, bearer_allowed: bool) -> Identity:
        """Find out who sends a request; returns only if the sender may make it.

        Args:
            asked: the request. Its body is asked for only where the request is signed with a key
                that is known and good, and all that can be checked before has been.
            bearer_allowed: whether a token may stand for a signature.

        Raises:
            MissingAuthenticationToken: the request does not say who sends it.
            IncompleteSignature: what the request says of its sender cannot be read.
            UnrecognizedClient: nobody has the request's key or token.
            ExpiredToken: the key's time is over.
            InvalidSignature: the request is not as it was signed.
            AccessDenied: the sender may not do this.
        """

    @abstractmethod
    def may(self, name: str, action: str, resource: str) -> bool:
        """Whether a principal may do something at this moment, long behind its request.

        Args:
            name: the principal's, as :class:`Identity` has it.
            action: in IAM's words.
            resource: its ARN.
        """


class NoAuthentication(Authenticator):
    """An authenticator for a gateway where everybody may do everything."""

    asks = False

    async def authenticate(self, asked: AskedRequest, *, bearer_allowed: bool) -> Identity:
        return ANYBODY

    def may(self, name: str, action: str, resource: str) -> bool:
        return True
