"""Streams whose URL has the container's path: ``/endpoints/NAME/stream/PATH?QUERY``."""

from __future__ import annotations

import logging

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.frame_factory import TEXT, close, frame
from tests.wire.event_signing import KEY_ID, SECRET
from tests.wire.peers import ENDPOINT, RAW, upgrade_request
from tests.wire.test_authentication import TOKEN, principals

__all__ = ["principals"]

pytestmark = pytest.mark.clause("3-6")

BELOW = f"/endpoints/{ENDPOINT}/stream"
PATH = f"{BELOW}/v1/listen"


@pytest.mark.parametrize(
    ("target", "at_the_container"),
    [
        (PATH, "/v1/listen"),
        (
            f"{PATH}?keyterm=b+c&keyterm=a%20d&empty=&bare",
            "/v1/listen?keyterm=b+c&keyterm=a%20d&empty=&bare",
        ),
        (f"{PATH}?access_token=x&a=1&X-Amz-Date=2", "/v1/listen?a=1"),
        (f"{BELOW}/stream/endpoints/other/stream/a", "/stream/endpoints/other/stream/a"),
        (f"/base/path{BELOW}/a:b;c=d", "/a:b;c=d"),
        (
            f"{BELOW}/endpoints/other/invocations-bidirectional-stream",
            "/endpoints/other/invocations-bidirectional-stream",
        ),
        (f"{BELOW}/caf%C3%a9/...?q=%ff%2F..%2f", "/caf%C3%a9/...?q=%ff%2F..%2f"),
    ],
)
async def test_the_container_gets_path_and_query_as_they_are(
    gateway_for, container, target, at_the_container
):
    gateway = await gateway_for()
    client, model = await gateway.open(None, target)
    assert model.target == at_the_container
    client.send_frame(TEXT, b"ab", fin=False)
    client.send_frame(0, b"cd")
    assert [(seen.fin, seen.payload) for seen in await model.frames(2)] == [
        (False, b"ab"),
        (True, b"cd"),
    ]
    model.send(frame(TEXT, b"back"), close(1000))
    assert (await client.frame()).payload == b"back"
    assert (await client.frame()).close_code == 1000


#: Some servers decode the overlong forms of UTF-8 (RFC 3629 §3): %c0%ae is a dot, %c0%af a slash.
AMBIGUOUS = (
    *("/", "/a//b", "/a%zz", "/a/../b", "/a/./b", "/a/..;x/b"),
    *("/a/%2e%2e/b", "/a/.%2e/b", "/a/%2E./b", "/a/..%3bx/b", "/a%2fb", "/a%5cb", "/a%252fb"),
    *("/a/%c0%ae%c0%ae/b", "/a/.%C0%AE/b", "/a/%e0%80%ae%e0%80%ae/b", "/a/%f0%80%80%ae./b"),
    *("/..%c0%af..%c0%afb", "/a%c1%9cb", "/a%c0%80", "/a/%ff", "/a/%ed%a0%80", "/a/%c3"),
)


@pytest.mark.parametrize("rest", ["", *AMBIGUOUS])
async def test_a_path_that_a_server_might_read_otherwise_is_refused(gateway_for, container, rest):
    gateway = await gateway_for()
    response = await gateway.request(upgrade_request(f"{BELOW}{rest}", RAW))
    assert response.status == (404 if not rest else 400)
    if rest:
        assert response.json["ErrorCode"] == "InvalidPath"


@pytest.mark.clause("2.1-4")
async def test_the_first_endpoint_of_a_path_is_the_one(gateway_for, container):
    gateway = await gateway_for()
    for target in (
        f"/endpoints/other{BELOW}/p",
        f"/endpoints/other/x{BELOW}/p",
        f"/endpoints/other/x/endpoints/{ENDPOINT}/invocations-bidirectional-stream",
    ):
        assert (await gateway.request(upgrade_request(target, RAW))).status == 404


async def test_a_request_without_an_upgrade_is_refused(gateway_for, container):
    gateway = await gateway_for()
    head = f"GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"
    assert (await gateway.request(head.encode())).json["ErrorCode"] == "UpgradeRequired"


@pytest.mark.parametrize(
    ("offered", "granted"),
    [
        (None, None),
        (RAW, RAW),
        ("realtime", "realtime"),
        ("openai-insecure-api-key.secret", None),
        ("token, secret", "token"),
        ("bearer, payloadpart.v1.raw", "bearer"),
        ("unknown, token, secret", "token"),
    ],
)
async def test_a_token_is_never_granted_as_a_subprotocol(gateway_for, container, offered, granted):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(upgrade_request(PATH, offered))
    response = await client.response()
    assert response.status == 101
    assert response.headers.get("sec-websocket-protocol") == granted


async def test_events_are_for_the_operation_s_own_path(gateway_for, container):
    gateway = await gateway_for()
    response = await gateway.request(upgrade_request(PATH, "payloadpart.v1.json"))
    assert response.json["ErrorCode"] == "UnknownSubprotocol"


WAYS = {
    "Bearer": ([f"Authorization: Bearer {TOKEN}"], None, ""),
    "Token": ([f"Authorization: Token {TOKEN}"], None, ""),
    "Deepgram's subprotocol": ([], f"token, {TOKEN}", ""),
    "bearer subprotocol": ([], f"bearer, {TOKEN}", ""),
    "OpenAI's subprotocol": ([], f"realtime, openai-insecure-api-key.{TOKEN}", ""),
    "query": ([], None, f"?access_token={TOKEN}"),
}


@pytest.mark.clause("3-5")
@pytest.mark.parametrize("way", WAYS)
async def test_a_token_comes_in_each_way(gateway_for, container, principals, caplog, way):
    caplog.set_level(logging.DEBUG)
    headers, offered, query = WAYS[way]
    gateway = await gateway_for(auth="sigv4", principals=principals)
    client = await gateway.connect()
    client.send(upgrade_request(PATH + query, offered, headers))
    response = await client.response()
    assert response.status == 101
    model = await container.stream()
    assert TOKEN not in f"{response.headers} {model.request} {caplog.text}"


@pytest.mark.clause("3-5")
@pytest.mark.parametrize(
    ("headers", "offered", "error"),
    [
        ([], None, "MissingAuthenticationTokenException"),
        (["Authorization: Token nobody-has-this"], None, "UnrecognizedClientException"),
        ([], "token, nobody-has-this", "UnrecognizedClientException"),
        ([], "token", "MissingAuthenticationTokenException"),
        ([f"Authorization: Token {TOKEN}"], f"token, {TOKEN}", "IncompleteSignatureException"),
    ],
)
async def test_others_are_refused(gateway_for, container, principals, headers, offered, error):
    gateway = await gateway_for(auth="sigv4", principals=principals)
    response = await gateway.request(upgrade_request(PATH, offered, headers))
    assert response.headers["x-amzn-errortype"] == error


@pytest.mark.clause("3-5")
@pytest.mark.parametrize("good", [True, False])
async def test_a_presigned_url_opens_one(gateway_for, container, principals, good):
    gateway = await gateway_for(auth="sigv4", principals=principals)
    url = f"http://gateway.example{PATH}?keyterm=b"
    request = AWSRequest("GET", url, headers={"Host": "gateway.example"})
    SigV4QueryAuth(Credentials(KEY_ID, SECRET), "sagemaker", "us-east-1", expires=60).add_auth(
        request
    )
    target = request.url.removeprefix("http://gateway.example")
    if not good:
        target = target.replace("/v1/listen", "/v1/speak")
    client = await gateway.connect()
    client.send(upgrade_request(target))
    response = await client.response()
    assert response.status == (101 if good else 403)
    if good:
        assert (await container.stream()).target == "/v1/listen?keyterm=b"
