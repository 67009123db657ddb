"""Authentication by SigV4, or by a bearer token where it is allowed (2.4, 3-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from partway.gateway.access.authentication import (
    Access,
    AskedRequest,
    Authenticator,
    Deed,
    Identity,
    not_authorized,
)
from partway.gateway.access.claimed_identity import ApiKeyBearer, Bearer, Claimant, Signer
from partway.gateway.access.principals import Key, Principal, Principals
from partway.gateway.access.replay_protection import ONCE, UsedSignatures
from partway.gateway.arns import Arns
from partway.protocol.errors import (
    AccessDenied,
    ExpiredToken,
    IncompleteSignature,
    MissingAuthenticationToken,
    UnrecognizedClient,
)
from partway.protocol.limits import MAX_CLOCK_SKEW
from partway.protocol.signatures.api_keys import ACTION as CALL_WITH_API_KEY
from partway.protocol.signatures.api_keys import (
    MAX_API_KEY_EXPIRES,
    request_of_api_key,
)
from partway.protocol.signatures.api_keys import PREFIX as API_KEY_PREFIX
from partway.protocol.signatures.canonical_form import ALGORITHM, EMPTY_SHA256
from partway.protocol.signatures.verification import (
    Claim,
    SignableRequest,
    check_claim,
    check_signature,
    read_claim,
)
from partway.protocol.websocket.offered_subprotocols import OfferedSubprotocols

#: The schemes of a bearer token: Deepgram's clients send the second.
_BEARER: Final = ("bearer", "token")

#: The beginning of a signed request's Authorization header.
_SIGNED: Final = f"{ALGORITHM} "

_SIGNATURE_ALONE: Final = (
    "the request has a bearer token; this operation takes only a signature (AWS Signature "
    "Version 4), made with an access key"
)


_INVALID: Final = "The bearer token included in the request is invalid"
_OF_NOBODY: Final = f"{_INVALID}: it is not one of a principal's tokens"
_NO_API_KEYS: Final = (
    f"{_INVALID}: it is an API key, as `partway token` makes; this operation takes only one of a "
    "principal's tokens"
)


class SigV4Authentication(Authenticator):
    """An authenticator of principals, by their signatures or, where allowed, their tokens.

    Args:
        arns: the ARNs of the region that the scope of a signature must name.
        clock: returns the time in epoch seconds.

    Attributes:
        used: the signatures of requests that may be made once, as far as this process knows them.
        use_signature: uses such a signature until its epoch second; a gateway with workers has one
            process decide.
    """

    def __init__(self, principals: Principals, arns: Arns, clock: Callable[[], float]) -> None:
        self._principals = principals
        self._arns = arns
        self._clock = clock
        self.used = UsedSignatures()
        self.use_signature: Callable[[str, float], Awaitable[None]] = self._use_here

    async def authenticate(self, asked: AskedRequest, access: Access) -> Identity:
        request, deed = asked.request, asked.deed
        token = None
        if access is Access.SIGNED:
            _check_not_bearer(request)
        else:
            token = _bearer_token(request)
        if token is not None:
            takes_api_keys = access is Access.SIGNED_BEARER_OR_API_KEY
            is_api_key = takes_api_keys and token.startswith(API_KEY_PREFIX)
            bearer = self._by_api_key(token, deed) if is_api_key else self._by_token(token, deed)
            identity = self._identity(bearer)
            # This action has no resource, so a principal whose resources are endpoints may have it.
            if is_api_key and not self._principals.may_somewhere(bearer.name, CALL_WITH_API_KEY):
                raise AccessDenied(not_authorized(identity.arn, CALL_WITH_API_KEY, "*"))
            deed.check(identity)
            return identity
        signer = self._claimed(request, deed)
        identity = self._identity(signer)
        claim, credentials = signer.claim, signer.key.credentials
        # The permission is checked after the signature: someone who knows only a key's id must not
        # learn what its owner may do. So without a stated hash, a body is gathered for anyone who
        # knows an id. The budget of such bodies bounds that.
        beforehand = asked.hash_beforehand()
        if beforehand is not None:
            check_signature(request, claim, credentials, beforehand)
            deed.check(identity)
        actual = asked.hash_at_hand(claim.access_key_id)
        if actual is None:
            actual = await asked.hash()
        if actual != beforehand:
            check_signature(request, claim, credentials, actual)
            deed.check(identity)
        if request.query:
            await self._use_once(request, claim)
        return identity

    def may(self, name: str, action: str, resource: str) -> bool:
        return self._principals.may(name, action, resource)

    def _identity(self, claimant: Claimant) -> Identity:
        name = claimant.name
        may = partial(self._principals.may, name)
        arn = self._arns.of_principal(name)
        return Identity(name, claimant.event_chain, claimant.stands, may, arn)

    async def _use_once(self, request: SignableRequest, claim: Claim) -> None:
        """Refuse a second use of a request that may be made once (clause 3-5)."""
        if any(name == ONCE for name, _ in request.parameters()):
            good_until = claim.timestamp + (claim.expires or MAX_CLOCK_SKEW)
            await self.use_signature(claim.signature, good_until)

    async def _use_here(self, signature: str, good_until: float) -> None:
        self.used.use(signature, good_until, self._clock())

    def _by_token(self, token: str, deed: Deed) -> Bearer:
        principal = self._principals.by_token(token)
        if principal is None:
            is_api_key = token.startswith(API_KEY_PREFIX)
            raise UnrecognizedClient(_NO_API_KEYS if is_api_key else _OF_NOBODY)
        return Bearer(self._principals, principal.name, deed.action, deed.resource, token)

    def _by_api_key(self, key: str, deed: Deed) -> ApiKeyBearer:
        """Return the owner of the access key that signed an API key."""
        request = request_of_api_key(key)
        claim = read_claim(request, MAX_API_KEY_EXPIRES)
        principal, signing_key = self._owner(claim)
        region = self._arns.region
        check_claim(request, claim, signing_key.credentials, region=region, now=self._clock())
        check_signature(request, claim, signing_key.credentials, EMPTY_SHA256)
        who = (self._principals, principal.name, deed.action, deed.resource)
        return ApiKeyBearer(*who, signing_key.credentials.secret_access_key)

    def _claimed(self, request: SignableRequest, deed: Deed) -> Signer:
        """Return the claimed sender of a signed request; the signature is not checked yet."""
        claim = read_claim(request)
        principal, key = self._owner(claim)
        region, now = self._arns.region, self._clock()
        check_claim(request, claim, key.credentials, region=region, now=now, service=deed.service)
        who = (self._principals, principal.name, deed.action, deed.resource)
        return Signer(*who, claim, key, region, self._clock)

    def _owner(self, claim: Claim) -> tuple[Principal, Key]:
        """Return the access key that a claim names, and its owner; expired keys are refused."""
        found = self._principals.by_access_key(claim.access_key_id)
        if found is None:
            raise UnrecognizedClient  # clause 2.4-6
        if found[1].expired(self._clock()):
            raise ExpiredToken
        return found


def _check_not_bearer(request: SignableRequest) -> None:
    """Refuse a token in place of a signature, whether or not the token is valid.

    Raises:
        IncompleteSignature: the Authorization header has a token.
        MissingAuthenticationToken: the query has a token, and there is no signature.
    """
    authorizations = request.values("authorization")
    if any(_is_bearer(each) for each in authorizations):
        raise IncompleteSignature(_SIGNATURE_ALONE)
    if authorizations or not request.query:
        return
    names = {name for name, _ in request.parameters()}
    if b"access_token" in names and b"X-Amz-Signature" not in names:
        raise MissingAuthenticationToken(_SIGNATURE_ALONE)


def _is_bearer(authorization: str) -> bool:
    return authorization.partition(" ")[0].lower() in _BEARER


def _bearer_token(request: SignableRequest) -> str | None:
    """Return the bearer token that replaces a signature (clause 3-5); None if there is no token.

    Raises:
        IncompleteSignature: the request has several tokens, or a signature beside its token.
    """
    authorizations = request.values("authorization")
    is_signed = len(authorizations) == 1 and authorizations[0].startswith(_SIGNED)
    offered = request.values("sec-websocket-protocol")
    if is_signed and not request.query and not offered:
        return None  # the usual case
    tokens = [each.partition(" ")[2].strip() for each in authorizations if _is_bearer(each)]
    others = len(authorizations) - len(tokens)
    for name, value in request.parameters():
        if name == b"access_token":
            tokens.append(value.decode("utf-8", "surrogateescape"))
        elif name == b"X-Amz-Signature":
            others += 1
    tokens += OfferedSubprotocols.of(offered).tokens
    if not tokens:
        return None
    if len(tokens) > 1 or others:
        raise IncompleteSignature(
            "the request identifies its sender in several ways; send one token, or one signature"
        )
    return tokens[0]
