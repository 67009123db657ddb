"""Authentication: the sender of a request and the sender's permissions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from partway.protocol.errors import AccessDenied
from partway.protocol.signatures.canonical_form import SERVICE
from partway.protocol.signatures.signed_request import SignableRequest

if TYPE_CHECKING:
    from partway.protocol.signatures.event_chain import EventChain


class AuthenticatorError(ValueError):
    """The settings do not allow to make an authenticator; the message says why."""


def _unsigned() -> EventChain | None:
    return None


def _for_ever(_: EventChain | None) -> bool:
    return True


def _everything(_action: str, _resource: str) -> bool:
    return True


# Not frozen, since one is made for each request and freezing costs time.
@dataclass(slots=True, unsafe_hash=True)
class Identity:
    """The sender of a request.

    Attributes:
        principal: the sender's name; None without authentication.
        event_chain: makes the chain that checks a stream's signed events; None for an unsigned
            request.
        stands: whether the sender may keep an open stream, given its chain of events: neither the
            key or token nor the permission has been withdrawn.
        may: whether the sender may perform an action now, such as ``sagemaker:CreateModel``, on the
            resource with an ARN.
        arn: the sender's ARN, for refusals.
    """

    principal: str | None
    event_chain: Callable[[], EventChain | None] = field(default=_unsigned, repr=False)
    stands: Callable[[EventChain | None], bool] = field(default=_for_ever, repr=False)
    may: Callable[[str, str], bool] = field(default=_everything, repr=False)
    arn: str = ""

    def check(self, action: str, resource: str) -> None:
        """Refuse an action that the sender may not perform.

        Args:
            action: in IAM's words, such as ``sagemaker:CreateModel``.
            resource: its ARN; ``*`` for an action without a particular resource.

        Raises:
            AccessDenied: the sender may not perform it.
        """
        if not self.may(action, resource):
            raise AccessDenied(not_authorized(self.arn, action, resource))

    def watched(self, action: str, resource: str) -> Identity:
        """Return the sender with a stream that stands only as long as this permission too.

        For an operation whose resource is named in the request's body.
        """
        return replace(self, stands=lambda chain: self.stands(chain) and self.may(action, resource))


def not_authorized(user: str, action: str, resource: str) -> str:
    """Say in AWS's words that a user may not perform an action."""
    return (
        f"User: {user} is not authorized to perform: {action} on resource: {resource} because no "
        f"identity-based policy allows the {action} action"
    )


#: The sender of each request to a gateway without authentication.
ANYBODY = Identity(None)


class Deed(NamedTuple):
    """The action that a request asks for.

    Attributes:
        action: the action that the sender must be allowed, such as ``sagemaker:InvokeEndpoint``;
            empty if the operation checks it, because the request's body names the resource.
        service: the operation's service, which the scope of a signature must name.
    """

    action: str
    resource: str
    service: str = SERVICE

    def check(self, sender: Identity) -> None:
        """Refuse a sender who may not perform the action, unless the operation checks that.

        Raises:
            AccessDenied: the sender may not perform it.
        """
        if self.action:
            sender.check(self.action, self.resource)


class Access(Enum):
    """How a request proves its sender, if the gateway authenticates at all (clauses 2.4, 3-5)."""

    ANYONE = "anyone"
    SIGNED = "signed"
    SIGNED_OR_BEARER = "signed or bearer"
    #: One of SageMaker's API keys also proves the sender; OpenAI's clients send them.
    SIGNED_BEARER_OR_API_KEY = "signed, bearer or API key"


class AskedRequest(ABC):
    """A request as an authenticator sees it.

    Attributes:
        deed: the action that it asks for.
    """

    __slots__ = ("deed",)

    deed: Deed

    @property
    @abstractmethod
    def request(self) -> SignableRequest:
        """The request as it is on the wire."""

    @abstractmethod
    def hash_beforehand(self) -> str | None:
        """Return the signed payload hash if it is known without the body; else None.

        A hash that the request states is only a claim; :meth:`hash` verifies it.

        Raises:
            ApiError: the request's statement cannot be read, or cannot be right.
        """

    @abstractmethod
    def hash_at_hand(self, access_key_id: str) -> str | None:
        """Return the payload hash that must be signed; None if the body has not come yet.

        Args:
            access_key_id: the id of the key that the body is gathered for.

        Raises:
            ApiError: the body is not as stated, or cannot be read.
        """

    @abstractmethod
    async def hash(self) -> str:
        """Gather the body, and return the hash that :meth:`hash_at_hand` could not return.

        Raises:
            ApiError: as there; or the body does not come in time.
        """


class Authenticator(ABC):
    """Finds out who sends a request, or refuses the request.

    Attributes:
        asks: whether it looks at requests at all; if not, every sender is ANYBODY.
    """

    asks: ClassVar[bool] = True

    @abstractmethod
    async def authenticate(self, asked: AskedRequest, access: Access) -> Identity:
        """Find out who sends a request; return only if the sender may make it.

        Args:
            asked: the request. Its body is read only if it is signed with a known, valid key, and
                after all checks that need no body.
            access: how it may prove its sender.

        Raises:
            MissingAuthenticationToken: the request does not say who sends it.
            IncompleteSignature: the request's signature or token cannot be read.
            UnrecognizedClient: the request's key or token is unknown.
            ExpiredToken: the key has expired.
            InvalidSignature: the request is not as it was signed.
            AccessDenied: the sender may not perform the action.
        """

    @abstractmethod
    def may(self, name: str, action: str, resource: str) -> bool:
        """Say whether a principal may perform an action now, long after its request.

        Args:
            name: the principal's name, as in :class:`Identity`.
        """


class NoAuthentication(Authenticator):
    """An authenticator for a gateway that allows everything to everybody."""

    asks = False

    async def authenticate(self, asked: AskedRequest, access: Access) -> Identity:
        return ANYBODY

    def may(self, name: str, action: str, resource: str) -> bool:
        return True
