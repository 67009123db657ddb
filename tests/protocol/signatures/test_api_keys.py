"""partway.protocol.signatures.api_keys: keys as AWS's own generator writes them."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import UTC, datetime
from unittest.mock import patch

import pytest
from botocore import auth, awsrequest
from botocore.credentials import Credentials as BotoCredentials
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.errors import IncompleteSignature
from partway.protocol.signatures.api_keys import (
    PREFIX,
    make_api_key,
    request_of_api_key,
)
from partway.protocol.signatures.verification import Credentials

AT = datetime(2026, 11, 20, 20, 30, tzinfo=UTC)
REGION = "eu-west-1"
URL = "sagemaker.amazonaws.com/?Action=CallWithBearerToken&X-Amz-Expires=60&Version=1"


def of_aws(secret: str, token: str | None, expires: int) -> str:
    """A key by the recipe of sagemaker-core 2.27."""
    request = awsrequest.AWSRequest(
        "POST",
        "https://sagemaker.amazonaws.com/",
        headers={"host": "sagemaker.amazonaws.com"},
        params={"Action": "CallWithBearerToken"},
    )
    credentials = BotoCredentials("AKIDEXAMPLE", secret, token)
    with patch("botocore.auth.get_current_datetime", return_value=AT.replace(tzinfo=None)):
        auth.SigV4QueryAuth(credentials, "sagemaker", REGION, expires=expires).add_auth(request)
    url = request.url.replace("https://", "") + "&Version=1"
    return PREFIX + base64.b64encode(url.encode()).decode()


def key_of(url: str) -> str:
    return PREFIX + base64.b64encode(url.encode()).decode()


@pytest.mark.parametrize("token", [None, "a/session+token=="])
@pytest.mark.parametrize("expires", [1, 43_200])
def test_a_key_is_aws_s_own_byte_for_byte(token, expires):
    credentials = Credentials("AKIDEXAMPLE", "se/cret+", token)
    ours = make_api_key(credentials, region=REGION, now=AT.timestamp(), expires=expires)
    assert ours == of_aws("se/cret+", token, expires)


def test_a_key_contains_the_presigned_request():
    request = request_of_api_key(of_aws("secret", None, 60))
    assert (request.method, request.path) == ("POST", "/")
    assert request.headers == (("host", "sagemaker.amazonaws.com"),)
    names = [name for name, _ in request.parameters()]
    assert names[0] == b"Action"
    assert b"Version" not in names


def test_a_key_in_base64url_is_the_same():
    key = of_aws("secret", "a/session+token==", 60)
    encoded = key.removeprefix(PREFIX)
    url_safe = encoded.replace("+", "-").replace("/", "_").rstrip("=")
    assert request_of_api_key(PREFIX + url_safe) == request_of_api_key(key)


@pytest.mark.parametrize(
    "key",
    [
        PREFIX,
        f"{PREFIX}not base64!",
        f"{PREFIX}é",
        key_of("\u00e9"),
        key_of(URL.replace("sagemaker.", "evil.")),
        key_of(URL.replace("/?", "/other?")),
        key_of(URL.replace("CallWithBearerToken", "Other")),
        key_of(URL.replace("&Version", "&Action=CallWithBearerToken&Version")),
        PREFIX + "A" * 8192,
    ],
)
def test_another_form_is_refused(key):
    with pytest.raises(IncompleteSignature, match="the API key cannot be read; it must be"):
        request_of_api_key(key)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    with suppress(IncompleteSignature):
        request_of_api_key(PREFIX + text)
