"""What of a request reaches the container: path, query, the request id, and nothing else (1.6)."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.wire.peers import RAW, STREAM_PATH, upgrade_request

DEFAULT = "/invocations-bidirectional-stream"
PATH = "X-Amzn-SageMaker-Model-Invocation-Path"
QUERY = "X-Amzn-SageMaker-Model-Query-String"
VARIANT = "X-Amzn-SageMaker-Target-Variant"
CONTAINER = "X-Amzn-SageMaker-Target-Container-Hostname"

#: The longest of each that is taken.
LONGEST_PATH = "/".join(["a" * 49, "b" * 50])
LONGEST_QUERY = "k=" + "v" * 2046

TARGETS = {
    "neither": ([], DEFAULT),
    "path": ([f"{PATH}: v1/realtime"], "/v1/realtime"),
    "query": ([f"{QUERY}: model=nova&x=1"], f"{DEFAULT}?model=nova&x=1"),
    "both": ([f"{PATH}: v1/listen", f"{QUERY}: language=en-GB"], "/v1/listen?language=en-GB"),
    "empty values are absent": ([f"{PATH}: ", f"{QUERY}:", f"{VARIANT}:"], DEFAULT),
    "one dot among others": ([f"{PATH}: a.b/..c/...d"], "/a.b/..c/...d"),
    "dots, but no dot segment": ([f"{PATH}: .../v1._-"], "/.../v1._-"),
    "percent-encoding stays": (
        [f"{QUERY}: q=%2e%2E%2f%00&r=%C3%BC"],
        f"{DEFAULT}?q=%2e%2E%2f%00&r=%C3%BC",
    ),
    "a variant is not for the container": ([f"{VARIANT}: AllTraffic"], DEFAULT),
    "names are case-insensitive": ([f"{PATH.lower()}: a", f"{QUERY.upper()}: b=c"], "/a?b=c"),
    "longest": (
        [f"{PATH}: {LONGEST_PATH}", f"{QUERY}: {LONGEST_QUERY}"],
        f"/{LONGEST_PATH}?{LONGEST_QUERY}",
    ),
}

#: All that a client might add, in the hope that it gets through.
CLIENT_HEADERS = [
    "Authorization: AWS4-HMAC-SHA256 Credential=AKID/x",
    "Cookie: session=1",
    "Accept-Language: de",
    "User-Agent: somebody",
    "X-Amz-Security-Token: secret",
    "X-Amz-Date: 20260101T000000Z",
    "X-Amzn-SageMaker-Request-Id: forged",
    "X-Amzn-SageMaker-Custom-Attributes: c",
    "X-Amzn-SageMaker-Session-Id: NEW_SESSION",
    "X-Forwarded-For: 10.0.0.1",
    "X-Real-IP: 10.0.0.1",
    "Forwarded: for=10.0.0.1",
    "Via: 1.1 proxy",
    "Keep-Alive: timeout=5",
    "Sec-WebSocket-Extensions: permessage-deflate",
    "X-Custom: yes",
]


@pytest.mark.clause("1.6-1")
@pytest.mark.parametrize(("headers", "target"), TARGETS.values(), ids=TARGETS)
async def test_path_and_query_of_the_headers_make_the_target(gateway_for, headers, target):
    gateway = await gateway_for()
    _, model = await gateway.open(RAW, headers=headers)
    assert model.request.split(b"\r\n")[0] == f"GET {target} HTTP/1.1".encode()


@pytest.mark.clause("1.6-1")
async def test_the_request_byte_for_byte(gateway_for):
    """Nothing of the client's headers, whatever they are, and the gateway's own request id."""
    gateway = await gateway_for()
    client, model = await gateway.open(RAW, headers=CLIENT_HEADERS)
    request_id = re.search(rb"(?im)^x-amzn-requestid: ([0-9a-f-]{36})\r$", client.head)[1]
    key = model.header("Sec-WebSocket-Key")
    assert re.fullmatch(r"[A-Za-z0-9+/]{21}[AQgw]==", key)
    assert model.request == (
        b"GET /invocations-bidirectional-stream HTTP/1.1\r\n"
        b"Host: 127.0.0.1:%d\r\n"
        b"Upgrade: websocket\r\n"
        b"Connection: Upgrade\r\n"
        b"Sec-WebSocket-Key: %s\r\n"
        b"Sec-WebSocket-Version: 13\r\n"
        b"X-Amzn-SageMaker-Request-Id: %s\r\n"
        b"\r\n"
    ) % (gateway.container.port, key.encode(), request_id)


@pytest.mark.clause("1.6-1")
async def test_each_stream_has_its_own_key_and_request_id(gateway_for):
    gateway = await gateway_for()
    requests = [(await gateway.open(RAW))[1] for _ in range(5)]
    for name in ("Sec-WebSocket-Key", "X-Amzn-SageMaker-Request-Id"):
        assert len({model.header(name) for model in requests}) == 5


# --- From the URL (clause 3-3) -------------------------------------------------------------------


@pytest.mark.clause("3-3", "1.6-1")
@pytest.mark.parametrize(
    ("url_query", "headers", "target"),
    [
        ("path=v1/realtime", [], "/v1/realtime"),
        ("path=v1%2Frealtime", [], "/v1/realtime"),
        (f"query={quote('a=1&b=%20')}", [], f"{DEFAULT}?a=1&b=%20"),
        (f"path=p&query={quote('a=1')}&variant=AllTraffic", [], "/p?a=1"),
        ("path=&query=&variant=", [], DEFAULT),
        ("", [], DEFAULT),
        ("path=of-the-url", [f"{PATH}: of-the-header"], "/of-the-header"),
        (f"query={quote('u=1')}", [f"{QUERY}: h=1"], f"{DEFAULT}?h=1"),
        ("access_token=secret&X-Amz-Signature=abc", [], DEFAULT),
    ],
)
async def test_parameters_of_the_url_stand_for_headers(gateway_for, url_query, headers, target):
    gateway = await gateway_for()
    _, model = await gateway.open(RAW, f"{STREAM_PATH}?{url_query}", headers)
    assert model.target == target
    assert b"secret" not in model.request


# --- What is refused (clause 4-7) ----------------------------------------------------------------

BAD_PATHS = [
    "/absolute",
    "//evil.example/",
    "..",
    "../admin",
    "a/../b",
    "a/..",
    "./a",
    "a/.",
    "a//b",
    "a/",
    "/",
    "http://evil.example/",
    "evil.example:80/",
    "@evil.example",
    "a%2fb",
    "%2e%2e/a",
    "..%2f",
    "a?b=c",
    "a#b",
    "a;b",
    "a\\..\\b",
    "a b",
    "a\tb",
    "ü",
    LONGEST_PATH + "c",
]

BAD_QUERIES = [
    "a",
    "a=",
    "=b",
    "&",
    "a=b&",
    "&a=b",
    "a=b&&c=d",
    "a=b=c",
    "a=b c",
    "a=b+c",
    "a=b#c",
    "a=%",
    "a=%2",
    "a=%zz",
    "_a=b",
    "-a=b",
    "a.b=c",
    "a=b/c",
    "a=ü",
    "?a=b",
    LONGEST_QUERY + "v",
]

BAD_VARIANTS = ["-a", "a-", "a_b", "a b", "a" * 64, "ü", "a/b", "."]


async def refuses(gateway_for, header, parameter, value, code):
    """A value is refused in the header and in the URL, before the container hears of it."""
    gateway = await gateway_for()
    for request in (
        upgrade_request(headers=[f"{header}: {value}"]),
        upgrade_request(f"{STREAM_PATH}?{parameter}={quote(value, safe='')}"),
    ):
        response = await gateway.request(request)
        assert response.status == 400
        assert response.headers["x-amzn-errortype"] == "InputValidationError"
        assert response.json["ErrorCode"] == code
    assert gateway.container.connections == []


@pytest.mark.clause("4-7", "4-2")
@pytest.mark.parametrize("value", BAD_PATHS, ids=ascii)
async def test_paths_that_are_refused(gateway_for, value):
    await refuses(gateway_for, PATH, "path", value, "InvalidModelInvocationPath")


@pytest.mark.clause("4-7")
@pytest.mark.parametrize("value", BAD_QUERIES, ids=ascii)
async def test_queries_that_are_refused(gateway_for, value):
    await refuses(gateway_for, QUERY, "query", value, "InvalidModelQueryString")


@pytest.mark.clause("4-7")
@pytest.mark.parametrize("value", BAD_VARIANTS, ids=ascii)
async def test_variants_that_are_refused(gateway_for, value):
    await refuses(gateway_for, VARIANT, "variant", value, "InvalidTargetVariant")


@pytest.mark.clause("4-7")
@pytest.mark.parametrize("value", BAD_VARIANTS[:3], ids=ascii)
async def test_containers_that_are_refused(gateway_for, value):
    await refuses(*(gateway_for, CONTAINER, "container", value, "InvalidTargetContainerHostname"))


@pytest.mark.parametrize("by", ["header", "query"])
async def test_a_container_where_there_is_nothing_to_choose(gateway_for, by):
    gateway = await gateway_for()
    request = (
        upgrade_request(headers=[f"{CONTAINER}: blue"])
        if by == "header"
        else upgrade_request(f"{STREAM_PATH}?container=blue")
    )
    response = await gateway.request(request)
    assert response.status == 400
    assert response.json["ErrorCode"] == "ContainerNotFound"
    assert gateway.container.connections == []


async def test_a_variant_that_the_endpoint_does_not_have(gateway_for):
    gateway = await gateway_for()
    response = await gateway.request(upgrade_request(headers=[f"{VARIANT}: blue"]))
    assert response.status == 400
    assert response.json["ErrorCode"] == "VariantNotFound"
    assert gateway.container.connections == []


INJECTIONS = [
    "a\r\nX-Evil: 1",
    "a\nX-Evil: 1",
    "a\rX-Evil: 1",
    "a\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
    "a\x00b",
    "a HTTP/1.1\r\nX-Evil: 1",
    "a\x0b",
    "a\x85b",
    "a\n",
    "a=b\n",
]


@pytest.mark.clause("4-7")
@pytest.mark.parametrize("value", INJECTIONS, ids=ascii)
@pytest.mark.parametrize("parameter", ["path", "query", "variant"])
async def test_headers_cannot_be_injected_through_the_url(gateway_for, parameter, value):
    gateway = await gateway_for()
    encoded = quote(value, safe="", encoding="latin-1")
    response = await gateway.request(upgrade_request(f"{STREAM_PATH}?{parameter}={encoded}"))
    assert response.status == 400
    assert "X-Evil" not in response.headers
    assert gateway.container.connections == []


@pytest.mark.clause("4-7", "1.6-1")
@pytest.mark.parametrize("break_", ["\r\n", "\n"], ids=["CR LF", "LF"])
async def test_a_header_that_a_line_break_smuggles_in_stays_outside(gateway_for, break_):
    """It is one more header of the client's, or a bad request; the container never sees it."""
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(upgrade_request(headers=[f"{PATH}: a{break_}X-Evil: 1"]))
    head = await client.read_head()
    if head.startswith(b"HTTP/1.1 101 "):
        model = await gateway.container.stream()
        assert model.target == "/a"
        assert b"evil" not in model.request.lower()
    else:
        assert re.match(rb"HTTP/1\.[01] 400 ", head)
        assert gateway.container.connections == []
