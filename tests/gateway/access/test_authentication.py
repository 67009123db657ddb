from __future__ import annotations

import asyncio
import hmac
from contextlib import nullcontext
from datetime import UTC, datetime
from hashlib import sha256
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from partway.gateway.access.authentication import (
    Access,
    AskedRequest,
    Deed,
    NoAuthentication,
)
from partway.gateway.access.principals import Principals
from partway.gateway.access.sigv4_authentication import SigV4Authentication
from partway.gateway.arns import Arns
from partway.protocol.errors import (
    AccessDenied,
    ExpiredToken,
    IncompleteSignature,
    InvalidSignature,
    MissingAuthenticationToken,
    UnrecognizedClient,
)
from partway.protocol.signatures.verification import EventSignatureInvalid, SignableRequest

REGION = "eu-west-1"
AT = datetime(2026, 11, 20, 20, 30, tzinfo=UTC)
ARNS = Arns(REGION, "123456789012")
STREAM = "sagemaker:InvokeEndpointWithBidirectionalStream"
ECHO = ARNS.of("endpoint", "echo")
WHO = "arn:aws:sts::123456789012:federated-user/chat-backend"
EMPTY = sha256(b"").hexdigest()
TOKEN = "0123456789abcdef+/=="
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

FILE = f"""
[[principals]]
name = "chat-backend"
actions = ["{STREAM}"]
resources = ["{ECHO}"]
tokens = ["{TOKEN}"]
[[principals.keys]]
access_key_id = "AKIDONE"
secret_access_key = "{SECRET}"
[[principals.keys]]
access_key_id = "AKIDTWO"
secret_access_key = "second"
[[principals.keys]]
access_key_id = "ASIAOLD"
secret_access_key = "expired"
session_token = "session"
expires = 2020-01-01T00:00:00Z

[[principals]]
name = "other"
[[principals.keys]]
access_key_id = "AKIDOTHER"
secret_access_key = "others"
"""

EACH = pytest.mark.parametrize("access", [each for each in Access if each is not Access.ANYONE])


class Once(AskedRequest):
    """A request like no other, whose payload hash is known beforehand, or by its body alone."""

    request = None

    def __init__(self, request, deed, of_body=None, beforehand=None):
        self.request = request
        self.deed = deed
        self._of_body = of_body
        self._beforehand = beforehand

    def hash_beforehand(self):
        return self._beforehand

    def hash_at_hand(self, access_key_id):
        assert access_key_id.startswith(("AKID", "ASIA"))
        return None if self._beforehand is None else self._of_body()

    async def hash(self):
        return self._of_body()


class Clock:
    def __init__(self) -> None:
        self.now = AT.timestamp()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "principals.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


@pytest.fixture
def authenticate(file, clock):
    authentication = SigV4Authentication(Principals(file, clock), ARNS, clock)

    def authenticate(
        request,
        action=STREAM,
        resource=ECHO,
        payload_hash=lambda: EMPTY,
        stated=None,
        access=Access.SIGNED_OR_BEARER,
        service="sagemaker",
    ):
        return asyncio.run(
            authentication.authenticate(
                Once(request, Deed(action, resource, service), payload_hash, stated), access
            )
        )

    return authenticate


def signed(
    key="AKIDONE",
    secret=SECRET,
    token=None,
    url="https://gw/endpoints/echo/x",
    service="sagemaker",
):
    request = AWSRequest("GET", url)
    with patch("botocore.auth.get_current_datetime", lambda: AT):
        SigV4Auth(Credentials(key, secret, token), service, REGION).add_auth(request)
    return on_the_wire(request)


def presigned(url="https://gw/endpoints/echo/x?path=v1"):
    request = AWSRequest("GET", url)
    with patch("botocore.auth.get_current_datetime", lambda: AT):
        SigV4QueryAuth(Credentials("AKIDONE", SECRET), "sagemaker", REGION, 60).add_auth(request)
    return on_the_wire(request)


def on_the_wire(request: AWSRequest) -> SignableRequest:
    url = urlsplit(request.url)
    headers = (("Host", url.netloc), *request.headers.items())
    return SignableRequest(request.method, url.path, url.query, headers)


def bearer(value=f"Bearer {TOKEN}", query=""):
    headers = (("Host", "gw"), *([("Authorization", value)] if value else []))
    return SignableRequest("GET", "/endpoints/echo/x", query, headers)


def event(secret: str, date_ms: int, prior: str, payload: bytes) -> bytes:
    moment = datetime.fromtimestamp(date_ms // 1000, UTC)
    day = moment.strftime("%Y%m%d")
    lines = (
        "AWS4-HMAC-SHA256-PAYLOAD",
        moment.strftime("%Y%m%dT%H%M%SZ"),
        f"{day}/{REGION}/sagemaker/aws4_request",
        prior,
        sha256(b"\x05:date\x08" + date_ms.to_bytes(8, "big")).hexdigest(),
        sha256(payload).hexdigest(),
    )
    key = ("AWS4" + secret).encode()
    for part in (day, REGION, "sagemaker", "aws4_request"):
        key = hmac.new(key, part.encode(), sha256).digest()
    return hmac.new(key, "\n".join(lines).encode(), sha256).digest()


def test_nobody_asks():
    request = SignableRequest("GET", "/", "access_token=x", (("authorization", "Basic dTpw"),))
    for access in Access:
        identity = asyncio.run(
            NoAuthentication().authenticate(Once(request, Deed(STREAM, ECHO)), access)
        )
        assert identity.principal is None
        assert identity.event_chain() is None


@pytest.mark.clause("2.4-3", "3-5")
@EACH
@pytest.mark.parametrize("request_", [signed(), presigned()], ids=["header", "presigned"])
def test_a_signature(authenticate, request_, access):
    identity = authenticate(request_, access=access)
    assert identity.principal == "chat-backend"
    assert SECRET not in repr(identity)


@pytest.mark.clause("3-5")
@pytest.mark.parametrize(
    "request_",
    [
        bearer(),
        bearer(f"bearer  {TOKEN}"),
        bearer("", "path=v1&access_token=0123456789abcdef%2B%2F%3D%3D"),
        bearer("", f"access_token={TOKEN}"),
    ],
)
def test_a_token(authenticate, request_):
    identity = authenticate(request_)
    assert identity.principal == "chat-backend"
    assert identity.event_chain() is None


@pytest.mark.clause("3-5")
@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (bearer(), IncompleteSignature),
        (bearer("Bearer of-nobody-at-all"), IncompleteSignature),
        (presigned().but(headers=bearer().headers), IncompleteSignature),
        (bearer("", f"access_token={TOKEN}"), MissingAuthenticationToken),
    ],
)
def test_a_token_where_none_is_taken(authenticate, request_, error):
    with pytest.raises(error) as caught:
        authenticate(request_, access=Access.SIGNED)
    assert TOKEN not in caught.value.message
    assert "has a bearer token; this operation takes only a signature" in caught.value.message


@pytest.mark.clause("2.4-6", "3-5")
@pytest.mark.parametrize(
    "request_",
    [
        bearer(f"Bearer {TOKEN}x"), bearer("Bearer"), bearer("Bearer "),
        bearer("", "access_token="), bearer("", f"access_token={TOKEN}%20"),
        bearer("", "access_token=%ff"), bearer("", f"access_token={TOKEN[:-1]}"),
    ],
)  # fmt: skip
def test_a_token_of_nobody(authenticate, request_):
    words = "bearer token included in the request is invalid: it is not one of a principal's tokens"
    with pytest.raises(UnrecognizedClient, match=words):
        authenticate(request_)


@pytest.mark.clause("3-5")
@pytest.mark.parametrize(
    "request_",
    [
        bearer(f"Bearer {TOKEN}", f"access_token={TOKEN}"),
        bearer("", f"access_token={TOKEN}&access_token={TOKEN}"),
        bearer().but(headers=bearer().headers * 2),
        signed(url=f"https://gw/endpoints/echo/x?access_token={TOKEN}"),
        presigned(f"https://gw/endpoints/echo/x?access_token={TOKEN}"),
        presigned().but(headers=bearer().headers),
    ],
)
def test_two_ways_at_once(authenticate, request_):
    with pytest.raises(IncompleteSignature, match="in several ways") as caught:
        authenticate(request_)
    assert TOKEN not in caught.value.message


@pytest.mark.clause("2.4-6")
@EACH
def test_nothing_said(authenticate, access):
    with pytest.raises(MissingAuthenticationToken):
        authenticate(bearer(""), access=access)


@pytest.mark.clause("2.4-6")
@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (signed("AKIDNOBODY"), UnrecognizedClient),
        (signed(secret="wrong"), InvalidSignature),
        (signed("ASIAOLD", "expired", "session"), ExpiredToken),
        (signed("AKIDONE", SECRET, "session"), UnrecognizedClient),
        (signed().but(path="/endpoints/echo/y"), InvalidSignature),
        (bearer("Basic dTpw"), IncompleteSignature),
    ],
)
def test_what_is_refused(authenticate, request_, error):
    with pytest.raises(error):
        authenticate(request_)


@pytest.mark.clause("2.4-1")
def test_the_payload_is_part_of_it(authenticate):
    with pytest.raises(InvalidSignature):
        authenticate(signed(), payload_hash=lambda: sha256(b"x").hexdigest())


def unread():
    raise AssertionError("the body is of no interest yet")


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize(
    ("request_", "late", "error"),
    [
        (signed(service="logs"), 0, InvalidSignature),
        (signed(), 301, InvalidSignature),
        (signed("AKIDONE", SECRET, "session"), 0, UnrecognizedClient),
        (signed().but(headers=(*signed().headers, ("x-amz-more", "1"))), 0, InvalidSignature),
    ],
)
def test_what_the_body_has_no_part_in_is_checked_before_it(
    authenticate, clock, request_, late, error
):
    clock.now += late
    with pytest.raises(error):
        authenticate(request_, payload_hash=unread)


@pytest.mark.clause("2.4-1")
def test_where_the_hash_is_stated_signature_and_leave_come_before_the_body(authenticate):
    with pytest.raises(InvalidSignature):
        authenticate(signed(secret="wrong"), payload_hash=unread, stated=EMPTY)
    with pytest.raises(AccessDenied):
        authenticate(signed(), action="sagemaker:Other", payload_hash=unread, stated=EMPTY)
    assert authenticate(signed(), stated=EMPTY).principal == "chat-backend"


@pytest.mark.clause("2.4-1")
def test_a_stated_hash_is_no_more_than_stated(authenticate):
    with pytest.raises(InvalidSignature):
        authenticate(signed(), payload_hash=lambda: sha256(b"x").hexdigest(), stated=EMPTY)


@pytest.mark.clause("2.4-3")
def test_a_signature_is_good_for_one_service(authenticate):
    assert authenticate(signed(service="logs"), service="logs").principal == "chat-backend"
    with pytest.raises(InvalidSignature, match="scoped to the service 'logs'"):
        authenticate(signed(), service="logs")
    with pytest.raises(InvalidSignature, match="scoped to the service 'sagemaker'"):
        authenticate(signed(service="logs"))


@pytest.mark.clause("2.4-5")
def test_by_the_clock_given(authenticate, clock):
    request = signed()
    clock.now += 301
    with pytest.raises(InvalidSignature, match="Signature expired"):
        authenticate(request)


@pytest.mark.clause("2.4-6")
@pytest.mark.parametrize("request_", [signed(), presigned(), bearer()])
@pytest.mark.parametrize(
    ("action", "resource"),
    [
        ("sagemaker:InvokeEndpoint", ECHO),
        (STREAM, ARNS.of("endpoint", "voice")),
        ("sagemaker:CreateModel", ARNS.of("model", "m")),
        ("sagemaker:ListModels", "*"),
    ],
)
def test_what_is_not_allowed_is_refused_in_aws_words(authenticate, request_, action, resource):
    said = (
        f"User: {WHO} is not authorized to perform: {action} on resource: {resource} "
        f"because no identity-based policy allows the {action} action"
    )
    with pytest.raises(AccessDenied) as caught:
        authenticate(request_, action, resource)
    assert caught.value.message == said
    identity = authenticate(request_, "", "")  # its operation asks for leave, and hears the same
    assert not identity.may(action, resource)
    with pytest.raises(AccessDenied) as caught:
        identity.check(action, resource)
    assert caught.value.message == said


@pytest.mark.clause("2.4-6")
@pytest.mark.parametrize("request_", [signed(), presigned(), bearer()])
def test_leave_is_what_the_file_says_at_that_moment(authenticate, clock, file, request_):
    identity = authenticate(request_)
    identity.check(STREAM, ECHO)
    file.write_text(FILE.replace(f'["{ECHO}"]', '["*"]'))
    clock.now += 2
    identity.check(STREAM, ARNS.of("endpoint", "voice"))
    file.write_text(FILE.replace("chat-backend", "renamed"))
    clock.now += 2
    assert not identity.may(STREAM, ECHO)


@pytest.mark.clause("2.4-6")
def test_who_may_not_learns_nothing_without_a_signature(authenticate):
    with pytest.raises(InvalidSignature):
        authenticate(signed(secret="wrong"), "sagemaker:CreateModel", ARNS.of("model", "m"))


@pytest.mark.clause("2.4-4", "2.4-5")
def test_the_chain_of_events(authenticate, clock):
    request = signed()
    identity = authenticate(request)
    prior = dict(request.headers)["Authorization"].rpartition("=")[2]
    chain = identity.event_chain()
    date_ms = int(clock.now * 1000)
    for secret, payload in ((SECRET, b"one"), ("second", b"two"), ("second", b"")):
        signature = event(secret, date_ms, prior, payload)
        chain.check(date_ms, signature, payload, clock.now)
        prior = signature.hex()
    first = dict(request.headers)["Authorization"].rpartition("=")[2]
    for secret, fits in (("second", True), ("expired", False), ("others", False)):
        chain = identity.event_chain()
        signature = event(secret, date_ms, first, b"")
        with nullcontext() if fits else pytest.raises(EventSignatureInvalid):
            chain.check(date_ms, signature, b"", clock.now)


@pytest.mark.clause("2.4-5")
def test_a_key_that_came_while_the_stream_was_open(authenticate, clock, file):
    request = signed()
    chain = authenticate(request).event_chain()
    prior = dict(request.headers)["Authorization"].rpartition("=")[2]
    file.write_text(FILE.replace('"second"', '"brand-new"'))
    clock.now += 2
    date_ms = int(clock.now * 1000)
    chain.check(date_ms, event("brand-new", date_ms, prior, b""), b"", clock.now)


@pytest.mark.clause("2.4-5")
def test_a_principal_that_went_while_the_stream_was_open(authenticate, clock, file):
    request = signed()
    chain = authenticate(request).event_chain()
    prior = dict(request.headers)["Authorization"].rpartition("=")[2]
    file.write_text(FILE.replace("chat-backend", "renamed"))
    clock.now += 2
    date_ms = int(clock.now * 1000)
    with pytest.raises(EventSignatureInvalid):
        chain.check(date_ms, event("brand-new", date_ms, prior, b""), b"", clock.now)


@pytest.mark.clause("2.4-5", "3-5")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"AKIDONE"', '"AKIDTHREE"'),
        (f'"{SECRET}"', '"another"'),
        ("chat-backend", "renamed"),
        (f'["{STREAM}"]', '["sagemaker:InvokeEndpoint"]'),
        (ECHO, ECHO.replace("echo", "voice")),
    ],
    ids=["the same secret under another id", "secret", "principal", "operation", "endpoint"],
)  # fmt: skip
@pytest.mark.parametrize("request_", [signed(), presigned(), bearer()])
def test_what_has_been_taken_away_stands_no_more(
    authenticate, clock, file, request_, before, after
):
    identity = authenticate(request_)
    chain = identity.event_chain() if request_ == signed() else None
    assert identity.stands(chain)
    file.write_text(FILE.replace(before, after))
    clock.now += 2
    of_keys = before in ('"AKIDONE"', f'"{SECRET}"')
    assert identity.stands(chain) is (before == '"AKIDONE"' or (of_keys and request_ == bearer()))


@pytest.mark.clause("3-5")
def test_a_token_that_has_been_taken_away_stands_no_more(authenticate, clock, file):
    identity = authenticate(bearer())
    file.write_text(FILE.replace(TOKEN, TOKEN + "="))
    clock.now += 2
    assert not identity.stands(None)


@pytest.mark.clause("2.4-5")
def test_a_key_whose_time_is_over_stands_on_where_it_has_opened_something(
    authenticate, clock, file
):
    ends = "2026-11-20T20:31:00Z"
    file.write_text(FILE.replace('"AKIDONE"', f'"AKIDONE"\nexpires = {ends}'))
    clock.now += 2
    identity = authenticate(signed())
    clock.now += 120
    with pytest.raises(ExpiredToken):
        authenticate(signed())
    assert identity.stands(identity.event_chain())


@pytest.mark.clause("3-5")
@pytest.mark.parametrize("how", [signed, presigned])
def test_a_request_that_says_once_is_good_once(authenticate, clock, how):
    url = "https://gw/endpoints/echo/x?once=8f2c"
    assert authenticate(how(url=url)).principal == "chat-backend"
    for _ in range(2):
        with pytest.raises(InvalidSignature, match="has been used"):
            authenticate(how(url=url))
    assert authenticate(how(url=url + "1")).principal == "chat-backend"
    clock.now += 400
    with pytest.raises(InvalidSignature, match="Signature expired"):
        authenticate(how(url=url))


@pytest.mark.clause("3-5")
@pytest.mark.parametrize("how", [signed, presigned])
def test_others_that_ask_for_the_same_in_the_same_second_are_let_in(authenticate, how):
    """Their signatures are the same, and nobody can tell them from a replay."""
    assert how() == how()
    for _ in range(3):
        assert authenticate(how()).principal == "chat-backend"


@pytest.mark.clause("3-5")
def test_who_may_not_call_uses_nothing_up(authenticate):
    url = "https://gw/endpoints/echo/x?once=8f2c"
    with pytest.raises(AccessDenied):
        authenticate(presigned(url), resource=ARNS.of("endpoint", "other"))
    assert authenticate(presigned(url)).principal == "chat-backend"


@pytest.mark.clause("2.4-6")
def test_what_only_a_signature_is_about_is_not_looked_at_before_there_is_one(authenticate):
    def refuse():
        raise AssertionError("the payload's hash is of no interest yet")

    with pytest.raises(MissingAuthenticationToken):
        authenticate(
            SignableRequest("POST", "/endpoints/echo/x", "", (("host", "gw"),)),
            payload_hash=refuse,
        )
