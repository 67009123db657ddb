"""botocore signs, we verify; then one thing is changed, and we do not."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import botocore.session
import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.credentials import Credentials as BotoCredentials
from hypothesis import example, given, settings
from hypothesis import strategies as st

from partway.protocol.errors import (
    ApiError,
    IncompleteSignature,
    InvalidSignature,
    MissingAuthenticationToken,
    UnrecognizedClient,
)
from partway.protocol.signatures.payload_hashes import payload_hash_of_body, payload_hash_of_stream
from partway.protocol.signatures.verification import (
    Claim,
    Credentials,
    Scope,
    SignableRequest,
    check_claim,
    read_claim,
    verify,
)

REGION = "eu-west-1"
KEY = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TEMPORARY = Credentials("ASIAEXAMPLE", "MDENG+bPxRfiCYEXAMPLEKEYwJalrXUtnFEMI/K7", "tok/en+==")
KEYS = {key.access_key_id: key for key in (KEY, TEMPORARY)}
STREAMING = "STREAMING-AWS4-HMAC-SHA256-EVENTS"
EMPTY = sha256(b"").hexdigest()

#: Contract section 5, and 2.1: everything that a client may send.
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json;q=0.9, */*",
    "X-Amzn-SageMaker-Custom-Attributes": 'trace="1"; a=b,  c',
    "X-Amzn-SageMaker-Target-Model": "model.tar.gz",
    "X-Amzn-SageMaker-Target-Variant": "AllTraffic",
    "X-Amzn-SageMaker-Target-Container-Hostname": "second",
    "X-Amzn-SageMaker-Inference-Id": "id-1",
    "X-Amzn-SageMaker-Enable-Explanations": "`true`",
    "X-Amzn-SageMaker-Inference-Component": "component",
    "X-Amzn-SageMaker-Session-Id": "NEW_SESSION",
    "X-Amzn-SageMaker-Prefix-Aware-Id": "prefix",
    "X-Amzn-SageMaker-Accept": "text/event-stream",
    "X-Amzn-SageMaker-InputLocation": "s3://bucket/key with space",
    "X-Amzn-SageMaker-Filename": "out.json",
    "X-Amzn-SageMaker-RequestTTLSeconds": "60",
    "X-Amzn-SageMaker-InvocationTimeoutSeconds": "3600",
    "X-Amzn-SageMaker-S3OutputPathExtension": "a/b",
    "X-Amzn-SageMaker-Model-Invocation-Path": "v1/realtime",
    "X-Amzn-SageMaker-Model-Query-String": "model=a%20b&language=en",
    "X-Amz-Target": "SageMaker.CreateModel",
    "X-Amz-Content-SHA256": STREAMING,
}
#: The one's value is the payload's hash.
OTHER_HEADERS = [name for name in HEADERS if name != "X-Amz-Content-SHA256"]


def boto(credentials: Credentials) -> BotoCredentials:
    return BotoCredentials(
        credentials.access_key_id, credentials.secret_access_key, credentials.session_token
    )


def on_the_wire(signed: AWSRequest, host: str = "Host") -> SignableRequest:
    url = urlsplit(signed.url)
    headers = ((host, url.netloc), ("Accept-Encoding", "identity"), *signed.headers.items())
    return SignableRequest(signed.method, url.path, url.query, headers)


def signed_by_botocore(
    method: str = "POST",
    url: str = "https://gw.example:8443/endpoints/echo/invocations",
    headers: list[tuple[str, str]] | None = None,
    body: bytes = b"",
    credentials: Credentials = KEY,
    host: str = "Host",
) -> SignableRequest:
    request = AWSRequest(method, url, data=body)
    for name, value in headers or []:
        request.headers[name] = value  # adds, and never replaces
    SigV4Auth(boto(credentials), "sagemaker", REGION).add_auth(request)
    return on_the_wire(request, host)


def presigned_by_botocore(url: str, credentials: Credentials = KEY, expires: int = 300):
    request = AWSRequest("GET", url)
    SigV4QueryAuth(boto(credentials), "sagemaker", REGION, expires).add_auth(request)
    return on_the_wire(request)


def check(request: SignableRequest, payload_hash: str = EMPTY, now: float | None = None) -> Claim:
    """What a server does: read, look the key up, verify."""
    claim = read_claim(request)
    if claim.access_key_id not in KEYS:
        raise UnrecognizedClient
    verify(
        request,
        claim,
        KEYS[claim.access_key_id],
        payload_hash=payload_hash,
        region=REGION,
        now=claim.timestamp if now is None else now,
    )
    return claim


def header(request: SignableRequest, name: str) -> str:
    (value,) = [value for key, value in request.headers if key.lower() == name.lower()]
    return value


def with_header(request: SignableRequest, name: str, value: str | None) -> SignableRequest:
    """``request`` with one header's value changed, or without it."""
    headers = tuple(
        (key, value if key.lower() == name.lower() else old)
        for key, old in request.headers
        if value is not None or key.lower() != name.lower()
    )
    return request.but(headers=headers)


# --- What botocore signs -------------------------------------------------------------------------


@pytest.mark.clause("2.4-1", "2.4-3", "2.4-4")
@pytest.mark.parametrize("credentials", [KEY, TEMPORARY], ids=["permanent", "temporary"])
@pytest.mark.parametrize("host", ["Host", ":authority"])
def test_every_header(credentials, host):
    request = signed_by_botocore(headers=list(HEADERS.items()), credentials=credentials, host=host)
    claim = check(request, payload_hash_of_stream(request.headers))
    assert claim.access_key_id == credentials.access_key_id
    assert claim.session_token == credentials.session_token
    assert claim.expires is None
    assert {name.lower() for name in HEADERS} < set(claim.signed_headers)
    date = datetime.strptime(header(request, "x-amz-date"), "%Y%m%dT%H%M%S%z")
    assert claim.timestamp == date.timestamp()


@pytest.mark.clause("2.4-1", "2.4-3")
@pytest.mark.parametrize("name", OTHER_HEADERS)
@pytest.mark.parametrize("value", ["", "x", "  a   b  ", 'a,b;c="d"', "*" * 1024])
def test_each_header(name, value):
    check(signed_by_botocore(headers=[(name, value)]))


@pytest.mark.clause("2.4-2")
@pytest.mark.parametrize(
    "tail",
    [
        "/",
        "",
        "/?",
        "/endpoints/echo/invocations-bidirectional-stream?",
        "/base/path/endpoints/echo/invocations",
        "/endpoints/my%2Dvoice%20%e2%82%ac/invocations",
        "/endpoints/a~b-c_d.e/invocations",
        "/endpoints/a:b@c!$&'()*+,;=/invocations",
        "/p?b=2&a=1&a=0&c",
        "/p?c=&b&a",
        "/p?query=a=b=c",
        "/p?path=v1/audio/speech&query=model%3Dnova",
        "/p?x=%c3%a9&y=%C3%A9&z=a%2Bb+c%20d",
        "/p?a=1&&b=2",
        "/p?a=1&",
        "/p?X-Amz-Foo=1",
        "/p?a=%zz&b=%",
    ],
)
def test_paths_and_queries(tail):
    url = f"https://gw.example:8443{tail}"
    request = signed_by_botocore(url=url)
    check(request.but(path=request.path or "/"))


PATHS = st.lists(
    st.text("abcXYZ019-._~%!$&'()*+,;=:@ é€", min_size=1).filter(lambda s: s not in (".", "..")),
    max_size=4,
).map(
    lambda segments: (
        "/" + "/".join(quote(segment, safe="-._~!$&'()*+,;=:@%") for segment in segments)
    )
)
QUERY_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=8)
QUERIES = st.lists(st.tuples(QUERY_TEXT.filter(bool), QUERY_TEXT), max_size=5)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20)
SPACED = st.lists(VALUES, max_size=4).map("  ".join)
HEADER_LISTS = st.lists(st.tuples(st.sampled_from(OTHER_HEADERS), SPACED), max_size=5)


@pytest.mark.clause("2.4-1", "2.4-2", "2.4-3")
@settings(max_examples=200)
@given(PATHS, QUERIES, HEADER_LISTS, st.binary(max_size=20), st.sampled_from([KEY, TEMPORARY]))
@example("/", [("a", "1"), ("a", ""), ("a", "0")], [("Accept", "a"), ("Accept", "b")], b"", KEY)
def test_whatever_botocore_signs(path, query, headers, body, credentials):
    pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    url = f"https://gw.example{path}?{pairs}"
    request = signed_by_botocore("POST", url, headers, body, credentials)
    check(request, payload_hash_of_body(request.headers, body))
    with pytest.raises(InvalidSignature):
        check(request, payload_hash_of_body(request.headers, body + b"x"))


@pytest.mark.clause("3-5")
@settings(max_examples=100)
@given(PATHS, QUERIES, st.integers(1, 300), st.sampled_from([KEY, TEMPORARY]))
@example("/endpoints/echo/x", [("path", "v1/realtime"), ("query", "a=b")], 300, TEMPORARY)
def test_presigned(path, query, expires, credentials):
    pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query)
    request = presigned_by_botocore(f"https://gw.example{path}?{pairs}", credentials, expires)
    claim = check(request, payload_hash_of_body(request.headers, b""))
    assert claim.expires == expires
    assert claim.session_token == credentials.session_token
    with pytest.raises(InvalidSignature):
        check(request.but(method="POST"))


@pytest.fixture(scope="module")
def boto_session():
    return botocore.session.Session()


@pytest.mark.clause("2.4-1", "2.4-3", "2.5-5")
@pytest.mark.parametrize("endpoint_url", ["http://127.0.0.1:8090", "https://gw.example/base/"])
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        (
            "invoke_endpoint",
            {
                "EndpointName": "my-voice", "Body": b"{}", "ContentType": "application/json",
                "Accept": "*/*", "CustomAttributes": "a  b", "TargetModel": "m.tar.gz",
                "TargetVariant": "v", "TargetContainerHostname": "h", "InferenceId": "i",
                "EnableExplanations": "`true`", "InferenceComponentName": "c",
                "SessionId": "NEW_SESSION",
            },
        ),
        ("invoke_endpoint", {"EndpointName": "my-voice", "Body": b""}),
        (
            "invoke_endpoint_with_response_stream",
            {"EndpointName": "my-voice", "Body": b"\x00" * 1000, "Accept": "text/plain"},
        ),
        (
            "invoke_endpoint_async",
            {"EndpointName": "my-voice", "InputLocation": "s3://b/k", "RequestTTLSeconds": 60},
        ),
    ],
)  # fmt: skip
def test_what_boto3_sends(boto_session, endpoint_url, operation, arguments):
    client = boto_session.create_client(
        "sagemaker-runtime",
        REGION,
        endpoint_url=endpoint_url,
        aws_access_key_id=TEMPORARY.access_key_id,
        aws_secret_access_key=TEMPORARY.secret_access_key,
        aws_session_token=TEMPORARY.session_token,
    )
    sent = []

    def instead_of_sending(request, **_):
        sent.append(request)
        return AWSResponse(request.url, 400, {"x-amzn-errortype": "Enough"}, _Raw())

    client.meta.events.register("before-send.sagemaker-runtime", instead_of_sending)
    with pytest.raises(client.exceptions.ClientError):
        getattr(client, operation)(**arguments)
    (prepared,) = sent
    url = urlsplit(prepared.url)
    headers = tuple(
        (name, value.decode() if isinstance(value, bytes) else str(value))
        for name, value in prepared.headers.items()
    )
    request = SignableRequest(
        prepared.method, url.path, url.query, (("Host", url.netloc), *headers)
    )
    body = prepared.body or b""
    check(request, payload_hash_of_body(request.headers, body))


class _Raw:
    """An empty response's stream."""

    def stream(self, *_, **__):
        return iter([b"{}"])

    def read(self, *_):
        return b""


# --- What no longer fits -------------------------------------------------------------------------

BASE = signed_by_botocore(
    url="https://gw.example:8443/base/endpoints/my%2Dvoice/invocations?b=2&a=%C3%A9&a=&flag=1",
    headers=[(name, HEADERS[name]) for name in OTHER_HEADERS],
    credentials=TEMPORARY,
)
PRESIGNED = presigned_by_botocore(
    "https://gw.example/endpoints/my-voice/invocations?path=v1%2Frealtime&variant=a", TEMPORARY
)


def spoiled(text: str) -> list[str]:
    """Every way to change a text by a character, but for whitespace's amount."""
    found = set()
    for at in range(len(text)):
        found.add(text[:at] + ("Z" if text[at] != "Z" else "Y") + text[at + 1 :])
        found.add(text[:at] + "7" + text[at:])
        if not text[at].isspace():
            found.add(text[:at] + text[at + 1 :])
    found.add(text + "7")
    return sorted(found - {text})


@dataclass(frozen=True)
class Mutation:
    what: str
    request: SignableRequest
    error: type[ApiError]
    payload_hash: str = EMPTY


def authorization(request: SignableRequest, **members: str) -> SignableRequest:
    old = header(request, "authorization")
    scheme, _, rest = old.partition(" ")
    found = dict(member.strip().split("=", 1) for member in rest.split(","))
    text = ", ".join(f"{name}={value}" for name, value in (found | members).items())
    return with_header(request, "authorization", f"{scheme} {text}")


def member(request: SignableRequest, name: str) -> str:
    return header(request, "authorization").partition(f"{name}=")[2].partition(",")[0]


def same_query(one: str, other: str) -> bool:
    return sorted(parse_qsl(one, keep_blank_values=True)) == sorted(
        parse_qsl(other, keep_blank_values=True)
    )


def is_date(text: str) -> bool:
    try:
        # strptime is content with fewer digits.
        return (
            len(text) == 16
            and text.endswith("Z")
            and bool(datetime.strptime(text, "%Y%m%dT%H%M%S%z"))
        )
    except ValueError:
        return False


def of_scope(scope: str, original: str) -> type[ApiError]:
    """The error that a changed Credential is due."""
    parts = scope.split("/")
    if len(parts) != 5 or not all(parts) or parts[4] != "aws4_request":
        return IncompleteSignature
    return InvalidSignature if parts[0] == original.split("/")[0] else UnrecognizedClient


def mutations_of_the_head():
    for method in ("GET", "PUT", "post", "POST ", "HEAD", ""):
        yield Mutation("method", BASE.but(method=method), InvalidSignature)
    for path in spoiled(BASE.path):
        yield Mutation("path", BASE.but(path=path), InvalidSignature)
    yield Mutation("path", BASE.but(path=unquote(BASE.path)), InvalidSignature)
    for query in spoiled(BASE.query):
        if not same_query(query, BASE.query):
            yield Mutation("query", BASE.but(query=query), InvalidSignature)
    for query in ("", BASE.query + "&a=", BASE.query.replace("%C3%A9", "%C3%A9%20")):
        yield Mutation("query", BASE.but(query=query), InvalidSignature)
    yield Mutation("payload", BASE, InvalidSignature, sha256(b"x").hexdigest())
    yield Mutation("payload", BASE, InvalidSignature, "UNSIGNED-PAYLOAD")
    yield Mutation("payload", BASE, InvalidSignature, STREAMING)


def mutations_of_headers():
    signed = member(BASE, "SignedHeaders").split(";")
    for name in signed:
        missing = IncompleteSignature if name == "x-amz-date" else InvalidSignature
        missing = UnrecognizedClient if name == "x-amz-security-token" else missing
        if name != "x-amz-security-token":
            yield Mutation(f"no {name}", with_header(BASE, name, None), missing)
        if name not in ("x-amz-date", "x-amz-security-token"):
            twice = BASE.but(headers=(*BASE.headers, (name, "7")))
            yield Mutation(f"two {name}", twice, InvalidSignature)
        values = spoiled(header(BASE, name))
        for value in values if len(values) < 80 else values[::3]:
            error: type[ApiError] = InvalidSignature
            if name == "x-amz-security-token":
                error = UnrecognizedClient
            elif name == "x-amz-date" and not is_date(value):
                error = IncompleteSignature
            yield Mutation(f"{name}: {value}", with_header(BASE, name, value), error)
    for name in ("x-amz-anything", "X-Amzn-SageMaker-Session-Id2", "X-Amz-Content-Sha256"):
        more = BASE.but(headers=(*BASE.headers, (name, EMPTY)))
        yield Mutation(f"unsigned {name}", more, InvalidSignature)


def mutations_of_the_authorization():
    signature = member(BASE, "Signature")
    for at, digit in enumerate(signature):
        for other in "0123456789abcdef".replace(digit, "")[:3]:
            changed = authorization(BASE, Signature=signature[:at] + other + signature[at + 1 :])
            yield Mutation("signature", changed, InvalidSignature)
    for wrong in ("", signature[1:], signature + "0", signature.upper(), "g" * 64, "0" * 63 + "é"):
        yield Mutation("signature", authorization(BASE, Signature=wrong), IncompleteSignature)
    credential = member(BASE, "Credential")
    for wrong in spoiled(credential):
        changed = authorization(BASE, Credential=wrong)
        yield Mutation(f"Credential={wrong}", changed, of_scope(wrong, credential))
    names = member(BASE, "SignedHeaders").split(";")
    for name in names:
        fewer = ";".join(other for other in names if other != name)
        yield Mutation(
            f"{name} unsigned", authorization(BASE, SignedHeaders=fewer), InvalidSignature
        )
        more = ";".join(sorted([*names, f"{name}x"]))
        yield Mutation(f"{name}x", authorization(BASE, SignedHeaders=more), InvalidSignature)
    for wrong in (
        "", ";", ";".join(reversed(names)), ";".join([*names, names[-1]]), ";".join(names) + ";",
        ";".join(names).upper(), " ".join(names), "host; x-amz-date",
    ):  # fmt: skip
        yield Mutation("list", authorization(BASE, SignedHeaders=wrong), IncompleteSignature)
    text = header(BASE, "authorization")
    for wrong in (
        "", "AWS4-HMAC-SHA256", "Basic dTpw", text.replace("SHA256", "SHA1"), text + ", X=1",
        text.replace("Credential=", ""), text.partition(", Signature")[0], text + "," + text,
        text.replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), text.lower(), text + ",",
        "Bearer " + "t" * 20,
    ):  # fmt: skip
        changed = with_header(BASE, "authorization", wrong)
        yield Mutation("authorization", changed, IncompleteSignature)
    twice = BASE.but(headers=(*BASE.headers, ("authorization", text)))
    yield Mutation("two authorizations", twice, IncompleteSignature)
    both = PRESIGNED.but(headers=(*PRESIGNED.headers, ("authorization", text)))
    yield Mutation("query and header", both, IncompleteSignature)
    for name in ("x-amz-date", "x-amz-security-token"):
        twice = BASE.but(headers=(*BASE.headers, (name, header(BASE, name))))
        yield Mutation(f"two {name}", twice, IncompleteSignature)
    for both in (
        "X-Amz-Signature=" + signature,
        "X-Amz-Algorithm=AWS4-HMAC-SHA256",
        PRESIGNED.query,
    ):
        changed = BASE.but(query=f"{BASE.query}&{both}")
        yield Mutation("header and query", changed, IncompleteSignature)


def mutations_of_presigned_urls():
    for method in ("POST", "get"):
        yield Mutation("method", PRESIGNED.but(method=method), InvalidSignature)
    for path in spoiled(PRESIGNED.path):
        yield Mutation("path", PRESIGNED.but(path=path), InvalidSignature)
    for host in spoiled("gw.example"):
        yield Mutation("host", with_header(PRESIGNED, "host", host), InvalidSignature)
    unsigned = PRESIGNED.but(headers=(*PRESIGNED.headers, ("x-amzn-sagemaker-a", "b")))
    yield Mutation("header", unsigned, InvalidSignature)
    pairs = [pair.split("=", 1) for pair in PRESIGNED.query.split("&")]
    for at, (name, value) in enumerate(pairs):
        missing = IncompleteSignature if name.startswith("X-Amz-") else InvalidSignature
        if name == "X-Amz-Security-Token":
            missing = UnrecognizedClient
        query = "&".join("=".join(pair) for pair in pairs if pair[0] != name)
        yield Mutation(f"no {name}", PRESIGNED.but(query=query), missing)
        twice = f"{PRESIGNED.query}&{name}={value}"
        error = IncompleteSignature if name.startswith("X-Amz-") else InvalidSignature
        yield Mutation(f"two {name}", PRESIGNED.but(query=twice), error)
        for wrong in spoiled(unquote(value)):
            changed = [*pairs[:at], [name, quote(wrong, safe="")], *pairs[at + 1 :]]
            query = "&".join("=".join(pair) for pair in changed)
            error = of_parameter(name, unquote(value), wrong)
            yield Mutation(f"{name}={wrong}", PRESIGNED.but(query=query), error)
    for expires in ("0", "301", "86400", "-1", "1.5", "", "٣", " 5", "9" * 5000):
        query = PRESIGNED.query.replace("X-Amz-Expires=300", f"X-Amz-Expires={quote(expires)}")
        changed = PRESIGNED.but(query=query)
        yield Mutation(f"expires {expires[:9]}", changed, IncompleteSignature)


def of_parameter(name: str, old: str, wrong: str) -> type[ApiError]:
    match name:
        case "X-Amz-Algorithm":
            return IncompleteSignature
        case "X-Amz-Credential":
            return of_scope(wrong, old)
        case "X-Amz-Date":
            return InvalidSignature if is_date(wrong) else IncompleteSignature
        case "X-Amz-Expires":
            good = wrong.isdecimal() and 1 <= int(wrong) <= 300
            return InvalidSignature if good else IncompleteSignature
        case "X-Amz-SignedHeaders":
            legal = wrong and all(c in "hostZ7" for c in wrong) and "Z" not in wrong
            return InvalidSignature if legal else IncompleteSignature
        case "X-Amz-Signature":
            digits = len(wrong) == 64 and set(wrong) <= set("0123456789abcdef")
            return InvalidSignature if digits else IncompleteSignature
        case "X-Amz-Security-Token":
            return UnrecognizedClient
        case _:
            return InvalidSignature


MUTATIONS = {
    "head": list(mutations_of_the_head()),
    "headers": list(mutations_of_headers()),
    "authorization": list(mutations_of_the_authorization()),
    "presigned": list(mutations_of_presigned_urls()),
}


def test_there_are_a_thousand():
    check(BASE)
    check(PRESIGNED)
    assert sum(map(len, MUTATIONS.values())) >= 1000


@pytest.mark.clause("2.4-1", "2.4-2", "2.4-3", "2.4-4", "2.4-6", "3-5")
@pytest.mark.parametrize("group", MUTATIONS)
def test_mutations_are_refused(group):
    never_said = [
        KEY.secret_access_key,
        TEMPORARY.secret_access_key,
        TEMPORARY.session_token,
        member(BASE, "Signature"),
    ]
    now = float(check(PRESIGNED if group == "presigned" else BASE).timestamp)
    wrong = []
    for mutation in MUTATIONS[group]:
        try:
            check(mutation.request, mutation.payload_hash, now)
        except ApiError as error:
            body = error.body().decode()
            if type(error) is not mutation.error or any(text in body for text in never_said):
                wrong.append((mutation.what, error, mutation.error))
        else:
            wrong.append((mutation.what, "accepted"))
    assert wrong == []


# --- Errors, one by one --------------------------------------------------------------------------


@pytest.mark.clause("2.4-6", "4-1")
def test_names_and_statuses():
    assert {
        (error.name, error.status)
        for error in (
            MissingAuthenticationToken, UnrecognizedClient, InvalidSignature, IncompleteSignature,
        )
    } == {
        ("MissingAuthenticationTokenException", 403),
        ("UnrecognizedClientException", 403),
        ("InvalidSignatureException", 403),
        ("IncompleteSignatureException", 400),
    }  # fmt: skip


@pytest.mark.clause("2.4-6")
def test_nothing_said():
    with pytest.raises(MissingAuthenticationToken):
        read_claim(SignableRequest("GET", "/", "a=b&X-Amz-Date=1", (("host", "h"),)))


@pytest.mark.clause("2.4-3")
@pytest.mark.parametrize("token", ["anything", ""])
def test_a_token_with_a_permanent_key(token):
    odd = replace(KEY, session_token=token)
    request = signed_by_botocore(credentials=odd)
    if not token:  # botocore would leave it out
        request = signed_by_botocore(headers=[("X-Amz-Security-Token", "")])
    with pytest.raises(UnrecognizedClient, match="security token included in the request"):
        check(request)


@pytest.mark.clause("2.4-3")
def test_a_temporary_key_without_its_token():
    with pytest.raises(UnrecognizedClient):
        check(signed_by_botocore(credentials=replace(TEMPORARY, session_token=None)))


@pytest.mark.clause("2.4-3")
def test_another_key():
    request = signed_by_botocore()
    claim = read_claim(request)
    with pytest.raises(UnrecognizedClient):
        verify(
            request, claim, replace(KEY, access_key_id="AKIDOTHER"),
            payload_hash=EMPTY, region=REGION, now=claim.timestamp,
        )  # fmt: skip


@pytest.mark.clause("2.4-3")
@pytest.mark.parametrize(
    ("service", "region", "reason"),
    [("s3", REGION, "service 'sagemaker'"), ("sagemaker", "us-east-1", "region 'eu-west-1'")],
)
def test_another_scope(service, region, reason):
    request = AWSRequest("POST", "https://gw.example/endpoints/echo/invocations")
    SigV4Auth(boto(KEY), service, region).add_auth(request)
    with pytest.raises(InvalidSignature, match=reason):
        check(on_the_wire(request))


@pytest.mark.clause("2.4-3")
def test_a_date_header_does_not_do():
    request = signed_by_botocore(headers=[("Date", "Fri, 20 Nov 2026 20:00:00 GMT")])
    assert "x-amz-date" not in member(request, "SignedHeaders").split(";")
    with pytest.raises(IncompleteSignature, match="x-amz-date header is missing"):
        check(request)


@pytest.mark.clause("2.4-5")
@pytest.mark.parametrize(
    ("off", "reason"),
    [
        (-300.001, "not yet current"), (-300, None), (0, None), (300, None),
        (300.001, "Signature expired"), (86_400, "Signature expired"),
    ],
)  # fmt: skip
def test_clocks_apart(off, reason):
    request = signed_by_botocore()
    now = read_claim(request).timestamp + off
    if reason is None:
        check(request, now=now)
    else:
        with pytest.raises(InvalidSignature, match=reason):
            check(request, now=now)


@pytest.mark.clause("2.4-5", "3-5")
@pytest.mark.parametrize(
    ("expires", "off", "reason"),
    [
        (300, 300, None), (300, 300.001, "more than 300 seconds behind"), (7, 7, None),
        (7, 7.5, "more than 7 seconds behind"), (7, -300, None), (7, -301, "not yet current"),
    ],
)  # fmt: skip
def test_presigned_urls_end(expires, off, reason):
    request = presigned_by_botocore("https://gw.example/p", expires=expires)
    now = read_claim(request).timestamp + off
    if reason is None:
        check(request, now=now)
    else:
        with pytest.raises(InvalidSignature, match=reason):
            check(request, now=now)


@pytest.mark.clause("3-5")
def test_a_hoisted_and_a_sent_token_are_two():
    headers = (*PRESIGNED.headers, ("x-amz-security-token", "tok/en+=="))
    with pytest.raises(IncompleteSignature, match="more than one security token"):
        check(PRESIGNED.but(headers=headers))


PATH = "/endpoints/echo/invocations-bidirectional-stream"
DATE = "20261120T203000Z"
AT = 1_795_206_600  # the same


def signed_by_hand(
    *canonical_headers: str, day: str = "20261120", more: str = ""
) -> SignableRequest:
    """What no client would send with a signature that is right all the same."""
    names = ";".join(line.rpartition(":")[0] for line in canonical_headers)
    lines = ["POST", PATH, "", *canonical_headers, "", names, EMPTY]
    digest = sha256("\n".join(lines).encode()).hexdigest()
    scope = f"{day}/{REGION}/sagemaker/aws4_request"
    # botocore derives the key from its own notion of the day.
    context = AWSRequest("POST", "https://gw/")
    context.context["timestamp"] = day
    signer = SigV4Auth(boto(KEY), "sagemaker", REGION)
    signature = signer.signature(f"AWS4-HMAC-SHA256\n{DATE}\n{scope}\n{digest}", context)
    authorized = (
        f"AWS4-HMAC-SHA256 Credential={KEY.access_key_id}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}{more}"
    )
    return SignableRequest(
        "POST", PATH, "", (("host", "gw"), ("x-amz-date", DATE), ("authorization", authorized))
    )


@pytest.mark.clause("2.4-3")
def test_authority_signed_and_no_host():
    """As AWS's SDK for JavaScript signs on HTTP/2, and what it is behind a proxy."""
    request = signed_by_hand(":authority:gw", f"x-amz-date:{DATE}")
    check(request)
    check(request.but(headers=((":authority", "gw"), *request.headers[1:])))
    with pytest.raises(InvalidSignature):
        check(request.but(headers=((":authority", "gw2"), *request.headers)))


@pytest.mark.clause("2.4-3")
@pytest.mark.parametrize(
    ("request_", "error", "reason"),
    [
        (
            signed_by_hand(f"x-amz-date:{DATE}"),
            InvalidSignature,
            "the Host header must be signed",
        ),
        (signed_by_hand("host:gw"), InvalidSignature, "'x-amz-date' must be signed"),
        (
            signed_by_hand("host:gw", f"x-amz-date:{DATE}", "x-not-there:"),
            InvalidSignature,
            "the request lacks the signed header 'x-not-there'",
        ),
        (
            signed_by_hand("host:gw", f"x-amz-date:{DATE}", day="20261119"),
            InvalidSignature,
            "scoped to the day",
        ),
        (
            signed_by_hand(f"x-amz-date:{DATE}", "host:gw"),
            IncompleteSignature,
            "SignedHeaders must be a list of names in lower case, sorted",
        ),
        (
            signed_by_hand("host:gw", f"x-amz-date:{DATE}", more=", SignedHeaders=host"),
            IncompleteSignature,
            "each of them once",
        ),
    ],
)
def test_signed_and_still_refused(request_, error, reason):
    with pytest.raises(error, match=reason):
        check(request_)


#: Headers of which some must be signed, and one of HTTP/2's.
LISTED = st.sampled_from(
    ["host", ":authority", "x-amz-date", "X-Amz-Target", "x-amzn-sagemaker-session-id", "a", "b"]
)


@pytest.mark.clause("2.4-3")
@given(st.lists(LISTED), st.sets(LISTED.map(str.lower), min_size=1))
@example(["host", "x-amz-date", "a"], {"host", "x-amz-date"})
@example(["host", "x-amz-date", "X-Amz-Target"], {"host", "x-amz-date"})
@example(["host", "x-amz-date"], {"host", "x-amz-date", "a"})
@example(["host", "x-amz-date"], {":authority", "x-amz-date"})
@example(["host", "x-amz-date", "x-amz-date"], {"host", "x-amz-date"})
@example(["x-amz-date"], {"x-amz-date"})
def test_what_has_to_be_signed_is_and_nothing_that_is_not_there(names, signed):
    request = SignableRequest("POST", "/", "", tuple((name, "") for name in names))
    scope = Scope(DATE[:8], REGION)
    claim = Claim(KEY.access_key_id, scope, tuple(sorted(signed)), "", AT, None, None)
    there = {name.lower() for name in names}
    host = bool(signed & {"host", ":authority"})
    twins = {"host", ":authority"} if there & {"host", ":authority"} else set()
    needed = {name for name in there if name.startswith("x-amz")}
    if host and needed <= signed <= there | twins:
        check_claim(request, claim, KEY, region=REGION, now=AT)
        return
    with pytest.raises(InvalidSignature, match="signed"):
        check_claim(request, claim, KEY, region=REGION, now=AT)


def test_nothing_secret_is_shown():
    shown = repr(read_claim(BASE)) + repr(read_claim(PRESIGNED))
    assert TEMPORARY.session_token not in shown
    assert member(BASE, "Signature") not in shown


JUNK = st.text(
    st.characters(max_codepoint=0x2FF) | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF)
)


@pytest.mark.clause("2.4-6")
@given(JUNK, JUNK, JUNK, JUNK, JUNK)
def test_junk_is_an_error_of_the_api(method, path, query, value, credential):
    """Whatever a head holds, undecodable bytes as surrogates."""
    quoted = quote(f"/{credential}", safe="", errors="surrogateescape")
    forms = [
        BASE.but(method=method, path=path, query=query),
        with_header(BASE, "x-amzn-sagemaker-custom-attributes", value),
        with_header(BASE, "x-amz-security-token", value),
        with_header(BASE, "x-amz-date", value),
        with_header(BASE, "authorization", value),
        authorization(BASE, Credential=credential, SignedHeaders=value),
        BASE.but(headers=(*BASE.headers, (f"x-amz-{value}", value))),
        PRESIGNED.but(query=f"{PRESIGNED.query}&X-Amz-{query}={value}"),
        PRESIGNED.but(query=PRESIGNED.query.replace(REGION, quoted)),
    ]
    for request in forms:
        with contextlib.suppress(ApiError):
            check(request, now=read_claim(BASE).timestamp)


@pytest.mark.clause("2.4-6")
@pytest.mark.parametrize(("count", "refused"), [(127, False), (128, True)])
def test_a_query_of_many_parameters(count, refused):
    request = signed_by_botocore(url=f"https://gw/p?a{'&' * count}")
    if refused:
        with pytest.raises(IncompleteSignature, match="at most 128 parameters"):
            check(request)
    else:
        check(request)


@pytest.mark.clause("2.4-1", "2.4-6")
def test_a_stated_hash_that_is_no_text_is_an_error_of_the_api():
    """Whatever bytes a head holds: this one is asked for before there is a body."""
    stated = signed_by_botocore(headers=[("X-Amz-Content-SHA256", EMPTY)])
    with pytest.raises(InvalidSignature):
        check(stated, payload_hash="\udcff")
