"""SageMaker's API keys in place of a signature, at routes that take them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from partway.gateway.access.authentication import Access, Deed
from partway.gateway.access.principals import Principals
from partway.gateway.access.sigv4_authentication import SigV4Authentication
from partway.gateway.arns import Arns
from partway.protocol.errors import (
    AccessDenied,
    ExpiredToken,
    IncompleteSignature,
    InvalidSignature,
    UnrecognizedClient,
)
from partway.protocol.signatures.api_keys import PREFIX, make_api_key
from partway.protocol.signatures.verification import Credentials, SignableRequest
from tests.gateway.access.test_authentication import Once

NOW = 1_800_000_000.0
REGION = "eu-west-1"
ARNS = Arns(REGION, "123456789012")
CHAT = Deed("sagemaker:InvokeEndpoint", ARNS.of("endpoint", "chat"))

FILE = """
[[principals]]
name = "chat-backend"
actions = ["sagemaker:InvokeEndpoint*", "sagemaker:CallWithBearerToken"]
resources = ["arn:aws:sagemaker:*:*:endpoint/chat"]
tokens = ["0123456789abcdef"]
[[principals.keys]]
access_key_id = "AKIDCHAT"
secret_access_key = "secret"
[[principals.keys]]
access_key_id = "AKIDOLD"
secret_access_key = "old"
expires = 2020-01-01T00:00:00Z

[[principals]]
name = "signs-only"
[[principals.keys]]
access_key_id = "AKIDSIGN"
secret_access_key = "signs"
"""


def api_key(key_id="AKIDCHAT", secret="secret", region=REGION, at=NOW, expires=43_200):
    return make_api_key(Credentials(key_id, secret), region=region, now=at, expires=expires)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "principals.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


@pytest.fixture
def authenticate(file):
    now = [NOW]
    authentication = SigV4Authentication(Principals(file, lambda: now[0]), ARNS, lambda: now[0])

    def authenticate(*headers, access=Access.SIGNED_BEARER_OR_API_KEY, deed=CHAT, later=0.0):
        now[0] += later
        request = SignableRequest("POST", "/openai/v1/chat/completions", "", headers)
        return asyncio.run(authentication.authenticate(Once(request, deed), access))

    return authenticate


def bearer(token):
    return ("authorization", f"Bearer {token}")


def offered(token):
    return ("sec-websocket-protocol", f"realtime, openai-insecure-api-key.{token}")


@pytest.mark.parametrize("header", [bearer, offered])
@pytest.mark.parametrize("token", [api_key(), "0123456789abcdef"], ids=["API key", "token"])
def test_a_key_is_its_owner_s(authenticate, header, token):
    identity = authenticate(header(token))
    assert identity.principal == "chat-backend"
    assert identity.event_chain() is None
    assert identity.stands(None)


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (api_key("AKIDNONE"), UnrecognizedClient, None),
        (api_key(secret="other"), InvalidSignature, "does not match"),
        (api_key(region="us-east-1"), InvalidSignature, "region 'eu-west-1'"),
        (api_key(at=NOW - 61, expires=60), InvalidSignature, "60 seconds"),
        (api_key(at=NOW + 301), InvalidSignature, "not yet current"),
        (api_key("AKIDOLD", "old"), ExpiredToken, None),
        (api_key("AKIDSIGN", "signs"), AccessDenied, "sagemaker:CallWithBearerToken"),
        (f"{PREFIX}x", IncompleteSignature, "API key cannot be read"),
    ],
    ids=["unknown", "forged", "region", "expired", "early", "old key", "not allowed", "malformed"],
)
def test_a_wrong_key(authenticate, key, error, words):
    with pytest.raises(error, match=words):
        authenticate(bearer(key))


def test_a_key_lasts_twelve_hours_at_most(authenticate):
    authenticate(bearer(api_key()), later=43_199)
    with pytest.raises(InvalidSignature, match="Signature expired"):
        authenticate(bearer(api_key()), later=2)
    with pytest.raises(IncompleteSignature, match="1 to 43200 seconds"):
        authenticate(bearer(api_key(expires=43_201)))


def test_a_key_opens_no_other_route(authenticate):
    with pytest.raises(
        UnrecognizedClient, match=r"takes only one of a principal's tokens$"
    ) as caught:
        authenticate(bearer(api_key()), access=Access.SIGNED_OR_BEARER)
    assert api_key() not in caught.value.message
    with pytest.raises(IncompleteSignature, match="takes only a signature"):
        authenticate(bearer(api_key()), access=Access.SIGNED)


def test_the_action_needs_a_permission_too(authenticate):
    delete = Deed("sagemaker:DeleteEndpoint", ARNS.of("endpoint", "chat"))
    with pytest.raises(AccessDenied, match="sagemaker:DeleteEndpoint"):
        authenticate(bearer(api_key()), deed=delete)


def test_two_ways_at_once(authenticate):
    with pytest.raises(IncompleteSignature, match="in several ways"):
        authenticate(bearer(api_key()), offered(api_key()))


@pytest.mark.parametrize(
    "change",
    [
        ('"sagemaker:InvokeEndpoint*", ', ""),
        (', "sagemaker:CallWithBearerToken"', ""),
        ('secret_access_key = "secret"', 'secret_access_key = "newer"'),
        ('name = "chat-backend"', 'name = "another"'),
    ],
    ids=["action", "API keys", "secret", "principal"],
)
def test_a_stream_stands_as_long_as_key_and_permissions(authenticate, file, change):
    identity = authenticate(bearer(api_key()))
    file.write_text(FILE.replace(*change))
    with suppress(AccessDenied, InvalidSignature):
        authenticate(bearer(api_key()), later=2)  # the file is read again
    assert not identity.stands(None)
