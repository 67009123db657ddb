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
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.access.authentication import AskedRequest, Deed, SigV4Authentication
from partway.gateway.access.principals import Principals
from partway.gateway.arns import Arns
from partway.protocol.errors import ApiError, ServiceUnavailable
from partway.protocol.http1.parser import RequestParser
from partway.protocol.sigv4 import SignableRequest

REGION = "eu-west-1"
AT = datetime(2026, 11, 20, 23, 58, tzinfo=UTC)
ARNS = Arns(REGION, "123456789012")
INVOKE = "sagemaker:InvokeEndpoint"
ECHO, VOICE = ARNS.of("endpoint", "echo"), ARNS.of("endpoint", "voice")
INVOKING = Deed(INVOKE, ECHO)
PATH = "/endpoints/echo/invocations"

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


class OfHead(AskedRequest):
    """A head, and a body that is at hand or still to come; says whether it was looked at."""

    request = None

    def __init__(self, head, body=b"", deed=INVOKING, **how):
        self.request = SignableRequest(head.method, head.path, head.query, tuple(head.raw_headers))
        self.deed = deed
        self.path, self.query = head.path, head.query
        self.anew, self.known = head.says_anew(), head.facts
        self.of_body = how.get("of_body", True)
        self.looked_at = 0
        self._body = body
        self._how = how

    def alone(self):
        """The same request on a connection of its own."""
        self.known = {}
        return self

    def hash_beforehand(self):
        return None

    def hash_at_hand(self, access_key_id):
        self.looked_at += 1
        if "error" in self._how:
            raise self._how["error"]
        return sha256(self._body).hexdigest() if self._how.get("at_hand", True) else None

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


class Connection:
    """An authenticator, and a connection on which one has signed who may."""

    def __init__(self, folder):
        self.file = folder / "principals.toml"
        self.file.write_text(FILE)
        self.file.chmod(0o600)
        self.clock = Clock()
        self.principals = Principals(self.file, self.clock)
        self.authentication = SigV4Authentication(self.principals, ARNS, self.clock)
        self.parser = RequestParser()
        assert self.outcome(OfHead(self.head(headers_of(b"first")), b"first")) == "one"

    def head(self, headers, path=PATH):
        """The head of the connection's next request."""
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        length = int(headers["Content-Length"])
        self.parser.feed("\r\n".join([*lines, "", ""]).encode("latin-1") + b"x" * length)
        return self.parser.requests.pop().head

    def at_once(self, asked):
        """Who sends it, if that is quickly found out."""
        return self.authentication.authenticate_at_once(asked)

    def outcome(self, asked):
        """What is found out from the start."""
        try:
            authenticating = self.authentication.authenticate(asked, bearer_allowed=True)
            identity = asyncio.run(authenticating)
        except ApiError as error:
            return type(error).__name__
        return identity.principal


@pytest.fixture
def asked(tmp_path):
    return Connection(tmp_path)


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
    at = asked.clock.now = AT + timedelta(seconds=seconds)
    if path != PATH:
        other = OfHead(asked.head(headers_of(b"", at, path=path), path))
        assert asked.at_once(other) is None
        assert asked.outcome(other) == "one"
    for body in (b"", b"second", b"third"):
        head = asked.head(headers_of(body, at, path=path), path)
        again = OfHead(head, body)
        assert asked.at_once(again).principal == "one"
        assert again.looked_at == 1
        assert asked.outcome(again.alone()) == "one"


_changes = st.sampled_from(
    [
        *({}, {}, {}, {"path": "/endpoints/echo/invocations-other"}, {"seconds": 1}),
        *({"seconds": 130}, {"key": "AKIDOTHER", "secret": "other"}, {"secret": "wrong"}),
        *({"body": b"longer than others"}, {"deed": Deed(INVOKE, VOICE)}, {"deed": Deed("", "")}),
        *({"service": "logs"}, {"after": {"X-Amz-Date": "20261120T235801Z"}}),
        *({"after": {"Amz-Sdk-Invocation-Id": said}} for said in ("2", "1  1", "%b", "a\tb")),
        *({"before": {"Amz-Sdk-Invocation-Id": said}} for said in ("2", "1  1", "%b", "a\tb")),
        *({"after": {"X-Amz-More": "2"}}, {"before": {"X-Amz-More": "2"}}),
        *({"sent_to": "/endpoints/echo/invocations-other"}, {"sent_to": f"{PATH}?a=b"}),
        *({"after": {"Traceparent": "3"}}, {"of_body": False}, {"now": 400}, {"now": 170}),
    ]
)


@given(st.lists(st.tuples(_changes, _changes), min_size=1, max_size=5))
def test_who_is_known_at_once_is_who_is_found_from_the_start(tmp_path_factory, requests):
    on = Connection(tmp_path_factory.mktemp("on"))
    for one, other in requests:
        how = {"body": b"x", "path": PATH, "seconds": 0, "deed": INVOKING, **one, **other}
        at = AT + timedelta(seconds=how["seconds"])
        on.clock.now = AT + timedelta(seconds=how.get("now", how["seconds"]))
        said = {"Amz-Sdk-Invocation-Id": "1", "X-Amz-More": "1", **how.get("before", {})}
        signed = {name: how[name] for name in ("path", "key", "secret", "service") if name in how}
        headers = headers_of(how["body"], at, headers=said, **signed)
        headers = {**headers, "Traceparent": "1", **how.get("after", {})}
        head = on.head(headers, how.get("sent_to", how["path"]))
        of_body = how.get("of_body", True)
        identity = on.at_once(OfHead(head, how["body"], how["deed"], of_body=of_body))
        # Found out of the head's own bytes, and nothing else.
        asked = OfHead(head, how["body"], how["deed"], of_body=of_body)
        outcome = on.outcome(asked.alone())
        assert identity is None or identity.principal == outcome
        on.outcome(OfHead(head, how["body"], how["deed"], of_body=of_body))


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
    request = OfHead(asked.head(headers), b"x")
    assert asked.at_once(request) is None
    assert asked.outcome(request) == outcome


@pytest.mark.clause("2.4-5")
def test_a_day_that_is_over_is_not_signed_for(asked):
    next_day = AT + timedelta(minutes=2)
    asked.clock.now = next_day
    right = OfHead(asked.head(headers_of(b"x", next_day)), b"x")
    assert asked.at_once(right) is None  # its scope is another
    assert asked.outcome(right.alone()) == "one"
    wrong = {**headers_of(b"x", AT), "X-Amz-Date": "20261121T000000Z"}
    assert asked.at_once(OfHead(asked.head(wrong), b"x")) is None


@pytest.mark.parametrize("digits", ["", "0" * 63, "0" * 64, "\xe9" * 64])
def test_a_signature_is_whole_and_right(asked, digits):
    headers = headers_of(b"x")
    said, _, signature = headers["Authorization"].rpartition("=")
    for wrong in (f"{said}={digits}", f"{said}={signature}0", f"{said}={signature.upper()}"):
        request = OfHead(asked.head({**headers, "Authorization": wrong}), b"x")
        assert asked.at_once(request) is None


@pytest.mark.parametrize(
    "asked_for",
    [{"resource": VOICE}, {"action": "sagemaker:CreateModel"}, {"action": ""}, {"service": "logs"}],
)
def test_leave_for_one_thing_is_leave_for_no_other(asked, asked_for):
    head = asked.head(headers_of(b"x"))
    assert asked.at_once(OfHead(head, b"x", INVOKING._replace(**asked_for))) is None
    assert asked.at_once(OfHead(head, b"x")) is not None


def test_a_file_that_has_changed_is_read(asked):
    request = OfHead(asked.head(headers_of(b"x")), b"x")
    asked.file.write_text(
        FILE.replace(', "*:endpoint/voice"', "").replace("endpoint/echo", "endpoint/none")
    )
    asked.clock.now = AT + timedelta(seconds=2)
    assert asked.at_once(request) is None
    assert asked.outcome(request) == "AccessDenied"


@pytest.mark.parametrize(
    "how", [{"at_hand": False}, {"of_body": False}, {"error": ServiceUnavailable("full")}]
)
def test_what_has_to_be_waited_for_or_goes_wrong_is_for_later(asked, how):
    head = asked.head(headers_of(b"x"))
    assert asked.at_once(OfHead(head, b"x", **how)) is None
    assert asked.at_once(OfHead(head, b"x")) is not None


def test_a_body_is_not_asked_for_before_who_asks_is_known(asked):
    late = headers_of(b"x", AT - timedelta(minutes=6))
    for headers in (headers_of(b"x", key="AKIDOTHER", secret="other"), late):
        request = OfHead(asked.head(headers), b"x")
        assert asked.at_once(request) is None
        assert request.looked_at == 0


def test_who_asks_for_another_thing_is_known_for_that_by_the_key_that_is_good_then(asked):
    for secret, outcome in (("one", "one"), ("new", "one"), ("one", "InvalidSignature")):
        if secret == "new":
            asked.file.write_text(FILE.replace('"one"\nexpires', '"new"\nexpires'))
            asked.clock.now = AT + timedelta(seconds=2)
        for path in ("/a", "/b%20"):
            for again in (False, True):
                head = asked.head(headers_of(b"x", secret=secret, path=path), path)
                request = OfHead(head, b"x")
                known = asked.at_once(request)
                assert (known is not None) is (again and outcome == "one")
                assert asked.outcome(request) == outcome


@pytest.mark.clause("2.4-2")
@pytest.mark.parametrize("target", ["/endpoints/echo/invocations-other", f"{PATH}?a=b"])
def test_who_has_signed_one_target_has_signed_no_other(asked, target):
    head = asked.head(headers_of(b"x"))
    request = OfHead(head, b"x")
    assert asked.at_once(request).principal == "one"
    request.path, _, request.query = target.partition("?")
    assert asked.at_once(request) is None
    elsewhere = OfHead(asked.head(headers_of(b"x"), target), b"x")
    assert asked.at_once(elsewhere) is None
    assert asked.outcome(elsewhere.alone()) == "InvalidSignature"


@pytest.mark.parametrize("wrong", ["refused", "events", "order"])
def test_nobody_is_known_who_was_refused_or_signed_events_or_in_another_order(asked, wrong):
    headers = headers_of(b"x", secret="wrong" if wrong == "refused" else "one")
    if wrong == "order":
        said, _, signature = headers["Authorization"].partition(" ")[2].rpartition(", ")
        headers["Authorization"] = f"AWS4-HMAC-SHA256 {signature}, {said}"
    head = asked.head(headers)
    head.facts.clear()
    outcome = asked.outcome(OfHead(head, b"x", of_body=wrong != "events"))
    assert outcome == ("InvalidSignature" if wrong == "refused" else "one")
    assert head.facts == {}
