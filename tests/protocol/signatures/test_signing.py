"""We sign as botocore does, and what we sign is what we verify."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.protocol.errors import InvalidSignature
from partway.protocol.signatures.verification import (
    EMPTY_SHA256,
    STREAMING_EVENTS,
    Credentials,
    SignableRequest,
    presign,
    read_claim,
    sign_request,
    verify,
)

REGION = "eu-west-1"
NOW = 1_795_206_600.9  # 20261120T203000Z
DATE = "20261120T203000Z"
KEY = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TEMPORARY = replace(KEY, session_token="tok/en+==")
BOTH = pytest.mark.parametrize("credentials", [KEY, TEMPORARY], ids=["permanent", "temporary"])

HEADERS = (
    ("host", "gw.example:8443"),
    ("content-type", "application/vnd.amazon.eventstream"),
    ("x-amzn-sagemaker-model-invocation-path", "v1/realtime"),
    ("x-amzn-sagemaker-model-query-string", ""),
)
REQUEST = SignableRequest("POST", "/base/endpoints/my%2Dvoice/x", "b=2&a=%C3%A9", HEADERS)


def botocores_signature(
    request: SignableRequest, credentials: Credentials, payload_hash: str
) -> str:
    """botocore's pieces, put together for a time of our choice."""
    theirs = AWSRequest(request.method, f"https://gw.example:8443{request.path}?{request.query}")
    for name, value in request.headers:
        theirs.headers[name] = value
    theirs.headers["x-amz-date"] = DATE
    theirs.headers["X-Amz-Content-SHA256"] = payload_hash
    if credentials.session_token:
        theirs.headers["x-amz-security-token"] = credentials.session_token
    theirs.context["timestamp"] = DATE
    signer = SigV4Auth(
        BotoCredentials(credentials.access_key_id, credentials.secret_access_key),
        "sagemaker",
        REGION,
    )
    text = signer.string_to_sign(theirs, signer.canonical_request(theirs))
    return signer.signature(text, theirs)


@pytest.mark.clause("2.1-1", "2.1-2", "2.4-1")
@BOTH
def test_as_botocore_signs(credentials):
    headers, signature = sign_request(
        REQUEST, credentials, region=REGION, payload_hash=STREAMING_EVENTS, now=NOW,
        send_payload_hash=True,
    )  # fmt: skip
    assert signature == botocores_signature(REQUEST, credentials, STREAMING_EVENTS)
    token = [("x-amz-security-token", "tok/en+==")] if credentials is TEMPORARY else []
    names = ";".join(sorted(name for name, _ in (*HEADERS, *headers) if name != "authorization"))
    authorization = (
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261120/{REGION}/sagemaker/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    assert headers == [
        ("x-amz-date", DATE),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-EVENTS"),
        *token,
        ("authorization", authorization),
    ]


TEXTS = st.text("ab/%=&+ é~", max_size=10)


@pytest.mark.clause("2.4-1", "2.4-3")
@settings(max_examples=100)
@given(TEXTS, TEXTS, TEXTS, st.binary(max_size=9), st.booleans())
def test_what_we_sign_we_verify(path, query, value, body, send):
    digest = sha256(body).hexdigest()
    headers = (
        ("Host", "gw"), ("User-Agent", "x"), ("Connection", "close"), ("X-Amzn-Trace-Id", "y"),
        ("X-Amzn-SageMaker-Custom-Attributes", value),
    )  # fmt: skip
    request = SignableRequest("POST", "/" + path, query, headers)
    added, _ = sign_request(
        request, TEMPORARY, region=REGION, payload_hash=digest, now=NOW, send_payload_hash=send
    )
    # What a proxy may change on the way is not signed.
    sent = request.but(headers=(*headers[:1], ("Via", "proxy"), headers[-1], *added))
    claim = read_claim(sent)
    verify(sent, claim, TEMPORARY, payload_hash=digest, region=REGION, now=NOW)
    with pytest.raises(InvalidSignature):
        verify(
            sent.but(path=sent.path + "x"), claim, TEMPORARY,
            payload_hash=digest, region=REGION, now=NOW,
        )  # fmt: skip


@pytest.mark.clause("3-5")
@BOTH
@pytest.mark.parametrize("query", ["", "path=v1/realtime&query=a%3Db&variant=a+b"])
def test_presigned_urls(credentials, query):
    request = SignableRequest("GET", "/endpoints/echo/x", query, (("host", "gw.example"),))
    signed = presign(request, credentials, region=REGION, now=NOW, expires=60)
    assert urlsplit(f"wss://gw.example/x?{signed}").query == signed
    assert signed.startswith(query)
    sent = request.but(query=signed)
    claim = read_claim(sent)
    assert (claim.expires, claim.timestamp) == (60, int(NOW))
    verify(sent, claim, credentials, payload_hash=EMPTY_SHA256, region=REGION, now=NOW + 59)
    with pytest.raises(InvalidSignature, match="60 seconds behind"):
        verify(sent, claim, credentials, payload_hash=EMPTY_SHA256, region=REGION, now=NOW + 61)
