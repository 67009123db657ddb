"""Who has signed before signs again: with the outcome that each request has by itself."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from unittest.mock import patch

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from partway.gateway.access.authentication import SignedPayload, SigV4Authentication
from partway.gateway.access.principals import Principals
from partway.gateway.arns import Arns
from partway.protocol.errors import ApiError, ServiceUnavailable
from partway.protocol.sigv4 import SignableRequest
from partway.protocol.sigv4_request import Alike

REGION = "eu-west-1"
AT = datetime(2026, 11, 20, 23, 58, tzinfo=UTC)
ARNS = Arns(REGION, "123456789012")
INVOKE = "sagemaker:InvokeEndpoint"
ECHO, VOICE = ARNS.of("endpoint", "echo"), ARNS.of("endpoint", "voice")
PATH = "/endpoints/echo/invocations"
ANEW = frozenset({"x-amz-date", "authorization", "x-amz-content-sha256", "content-length"})

FILE = """
[[principals]]
name = "one"
resources = ["arn:aws:sagemaker:*:*:endpoint/echo"]
[[principals.keys]]
access_key_id = "AKIDONE"
secret_access_key = "one"
expires = 2026-11-21T00:01:00Z
[[principals.keys]]
access_key_id = "AKIDOTHER"
secret_access_key = "other"
"""


class Payload(SignedPayload):
    """A body, at hand or still to come; says whether it was looked at."""

    def __init__(self, body=b"", *, at_hand=True, stated=None, of_body=True, error=None):
        self.of_body = of_body
        self.looked_at = 0
        self._body = body
        self._at_hand = at_hand
        self._stated = stated
        self._error = error

    def hash_beforehand(self):
        return self._stated

    def hash_at_hand(self, access_key_id):
        self.looked_at += 1
        if self._error is not None:
            raise self._error
        return sha256(self._body).hexdigest() if self._at_hand else None

    async def hash(self):
        return sha256(self._body).hexdigest()


class Clock:
    """Tells the time that it is set to."""

    def __init__(self):
        self.now = AT

    def __call__(self):
        return self.now.timestamp()


def headers_of(body=b"", at=AT, key="AKIDONE", secret="one", path=PATH, **more):
    """What a client signs, as it is on the wire."""
    request = AWSRequest("POST", f"http://gw{path}", more.get("headers"), body)
    with patch("botocore.auth.get_current_datetime", lambda: at):
        signer = SigV4Auth(Credentials(key, secret), more.get("service", "sagemaker"), REGION)
        signer.add_auth(request)
    return {"Host": "gw", **dict(request.headers.items()), "Content-Length": str(len(body))}


class Asked:
    """An authenticator, and requests that are like one that it has let in."""

    def __init__(self, folder):
        self.file = folder / "principals.toml"
        self.file.write_text(FILE)
        self.file.chmod(0o600)
        self.clock = Clock()
        self.principals = Principals(self.file, self.clock)
        self.authentication = SigV4Authentication(self.principals, ARNS, self.clock)
        headers = headers_of(b"first")
        self.first = SignableRequest("POST", PATH, "", tuple(headers.items()), Alike(ANEW))
        identity = asyncio.run(
            self.authentication.authenticate(
                *(self.first, INVOKE, ECHO, Payload(b"first")), bearer_allowed=True
            )
        )
        assert identity.principal == "one"

    def like_it(self, headers, path=PATH):
        """A request with these headers, which differ from the first one's in what is said anew."""
        theirs = {name.lower(): value for name, value in headers.items()}
        anew = {name: theirs[name] for name in ANEW if name in theirs}
        return self.first.like_this(path, anew)

    def at_once(self, request, payload, action=INVOKE, resource=ECHO, service="sagemaker"):
        """Who sends it, if that is quickly found out."""
        return self.authentication.authenticate_at_once(request, action, resource, payload, service)

    def by_itself(self, request, payload, action=INVOKE, resource=ECHO, service="sagemaker"):
        """The outcome of the same request of nobody who is known."""
        alone = SignableRequest(request.method, request.path, request.query, request.headers)
        try:
            identity = asyncio.run(
                self.authentication.authenticate(
                    *(alone, action, resource, payload, service), bearer_allowed=True
                )
            )
        except ApiError as error:
            return type(error).__name__
        return identity.principal


@pytest.fixture
def asked(tmp_path):
    return Asked(tmp_path)


@pytest.mark.clause("2.4-1", "2.4-3")
@pytest.mark.parametrize(
    ("seconds", "path"),
    [
        (0, PATH),
        (1, PATH),
        (0, "/a%20b/echo"),
        (90, "/x"),
    ],
)
def test_who_signs_again_is_known_at_once(asked, seconds, path):
    at = AT + timedelta(seconds=seconds)
    for body in (b"", b"second", b"third"):
        request = asked.like_it(headers_of(body, at, path=path), path)
        asked.clock.now = at
        payload = Payload(body)
        assert asked.at_once(request, payload).principal == "one"
        assert payload.looked_at == 1
        assert asked.by_itself(request, Payload(body)) == "one"


@pytest.mark.clause("2.4-1", "2.4-3", "2.4-5", "2.4-6")
@pytest.mark.parametrize(
    ("headers", "now", "outcome"),
    [
        (headers_of(b"x", secret="wrong"), AT, "InvalidSignature"),
        (headers_of(b"y"), AT, "InvalidSignature"),
        (headers_of(b"x", AT - timedelta(minutes=6)), AT, "InvalidSignature"),
        (headers_of(b"x", AT + timedelta(minutes=6)), AT, "InvalidSignature"),
        (headers_of(b"x"), AT + timedelta(minutes=6), "ExpiredToken"),
        (headers_of(b"x"), AT + timedelta(minutes=3), "ExpiredToken"),
        (headers_of(b"x", key="AKIDOTHER", secret="other"), AT, "one"),
        (headers_of(b"x", key="AKIDNONE", secret="other"), AT, "UnrecognizedClient"),
        (headers_of(b"x", service="logs"), AT, "InvalidSignature"),
        ({**headers_of(b"x"), "X-Amz-Date": "20261121T000000Z"}, AT, "InvalidSignature"),
        ({**headers_of(b"x"), "X-Amz-Date": "20261120T235801Z"}, AT, "InvalidSignature"),
        ({**headers_of(b"x"), "X-Amz-Date": "no date"}, AT, "IncompleteSignature"),
        ({**headers_of(b"x"), "Authorization": "AWS4-HMAC-SHA256 no"}, AT, "IncompleteSignature"),
    ],
)
def test_whoever_signs_otherwise_is_looked_at_from_the_start(asked, headers, now, outcome):
    asked.clock.now = now
    request = asked.like_it(headers)
    assert asked.at_once(request, Payload(b"x")) is None
    assert asked.by_itself(request, Payload(b"x")) == outcome


@pytest.mark.clause("2.4-5")
def test_a_day_that_is_over_is_not_signed_for(asked):
    next_day = AT + timedelta(minutes=2)
    asked.clock.now = next_day
    right = asked.like_it(headers_of(b"x", next_day))
    assert asked.at_once(right, Payload(b"x")) is None  # its scope is another
    assert asked.by_itself(right, Payload(b"x")) == "one"
    wrong = {**headers_of(b"x", AT), "X-Amz-Date": "20261121T000000Z"}
    assert asked.at_once(asked.like_it(wrong), Payload(b"x")) is None


@pytest.mark.parametrize("digits", ["", "0" * 63, "0" * 64, "\xe9" * 64])
def test_a_signature_is_whole_and_right(asked, digits):
    headers = headers_of(b"x")
    said, _, signature = headers["Authorization"].rpartition("=")
    for wrong in (f"{said}={digits}", f"{said}={signature}0", f"{said}={signature.upper()}"):
        request = asked.like_it({**headers, "Authorization": wrong})
        assert asked.at_once(request, Payload(b"x")) is None


@pytest.mark.parametrize(
    "asked_for",
    [{"resource": VOICE}, {"action": "sagemaker:CreateModel"}, {"action": ""}, {"service": "logs"}],
)
def test_leave_for_one_thing_is_leave_for_no_other(asked, asked_for):
    request = asked.like_it(headers_of(b"x"))
    assert asked.at_once(request, Payload(b"x"), **asked_for) is None


def test_a_file_that_has_changed_is_read(asked):
    request = asked.like_it(headers_of(b"x"))
    asked.file.write_text(
        FILE.replace(', "*:endpoint/voice"', "").replace("endpoint/echo", "endpoint/none")
    )
    asked.clock.now = AT + timedelta(seconds=2)
    assert asked.at_once(request, Payload(b"x")) is None
    assert asked.by_itself(request, Payload(b"x")) == "AccessDenied"


@pytest.mark.parametrize(
    "payload",
    [
        Payload(b"x", at_hand=False),
        Payload(b"x", of_body=False),
        Payload(b"x", error=ServiceUnavailable("full")),
    ],
)
def test_what_has_to_be_waited_for_or_goes_wrong_is_for_later(asked, payload):
    assert asked.at_once(asked.like_it(headers_of(b"x")), payload) is None


def test_a_body_is_not_asked_for_before_who_asks_is_known(asked):
    payload = Payload(b"x")
    headers = headers_of(b"x", key="AKIDOTHER", secret="other")
    assert asked.at_once(asked.like_it(headers), payload) is None
    assert payload.looked_at == 0


def test_nobody_is_known_who_was_refused_or_signed_a_url_or_in_another_order(tmp_path):
    for wrong in ("refused", "events", "order"):
        asked = Asked(tmp_path)
        asked.first.alike.signer = None
        headers = headers_of(b"x", secret="wrong" if wrong == "refused" else "one")
        if wrong == "order":
            said, _, signature = headers["Authorization"].partition(" ")[2].rpartition(", ")
            headers["Authorization"] = f"AWS4-HMAC-SHA256 {signature}, {said}"
        request = asked.like_it(headers)
        payload = Payload(b"x", of_body=wrong != "events")
        try:
            asyncio.run(
                asked.authentication.authenticate(
                    *(request, INVOKE, ECHO, payload), bearer_allowed=True
                )
            )
        except ApiError:
            assert wrong == "refused"
        assert request.alike.signer is None
