"""Signatures and tokens on the wire: who may open a stream, and whose events reach a container."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
import time
import zlib
from pathlib import Path
from urllib.parse import urlencode

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from partway.gateway.fleet.stream_policy import StreamPolicy
from tests.frame_factory import CLOSE, TEXT, close, frame
from tests.wire.event_dialect import EVENT_CLIENTS
from tests.wire.event_messages import END, part_event
from tests.wire.event_signing import KEY_ID, SECRET, EventSigning
from tests.wire.http2_peers import RawHttp2Client
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import RAW, STREAM_PATH, eventually, upgrade_request
from tests.wire.test_tls import connect_http2

TOKEN = "a-bearer-token-of-a-browser"
SESSION_TOKEN = "FwoGZXIvYXdzEXAMPLETOKEN=="

PRINCIPALS = f"""
[[principals]]
name = "chat"
resources = ["arn:aws:sagemaker:us-east-1:000000000000:endpoint/model"]
tokens = ["{TOKEN}"]
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
[[principals.keys]]
access_key_id = "ASIATEMPORARY"
secret_access_key = "another-secret"
session_token = "{SESSION_TOKEN}"
[[principals.keys]]
access_key_id = "ASIAEXPIRED"
secret_access_key = "a-secret-of-yesterday"
session_token = "{SESSION_TOKEN}"
expires = 2020-01-01T00:00:00Z

[[principals]]
name = "elsewhere"
resources = ["arn:aws:sagemaker:*:*:endpoint/other"]
[[principals.keys]]
access_key_id = "AKIAELSEWHERE"
secret_access_key = "a-secret-for-elsewhere"
"""


@pytest.fixture
def principals(tmp_path: Path) -> Path:
    path = tmp_path / "principals.toml"
    path.write_text(PRINCIPALS)
    path.chmod(0o600)
    return path


@pytest.fixture
async def gateway(gateway_for, principals):
    return await gateway_for(auth="sigv4", principals=principals)


async def refusal(gateway, headers) -> tuple[int, str]:
    """Status and error of a request over HTTP/2."""
    async with await RawHttp2Client.connect(gateway.port) as client:
        client.start_reading()
        status, head = await client.request(headers).head()
        return status, head.get("x-amzn-errortype", "")


async def signed_stream(gateway, kind, **signing):
    """A signed stream: its client, its signatures, and its container."""
    signing = EventSigning(**signing)
    client = await EVENT_CLIENTS[kind](gateway.port, sign=signing.request)
    gateway.clients.append(client)
    return client, signing, await gateway.container.stream()


# --- Event streams -------------------------------------------------------------------------------


@pytest.mark.clause("2.1-1", "2.1-2", "2.3-1", "2.3-2", "2.4-1", "2.4-3", "2.4-4", "2.5-4")
@pytest.mark.parametrize("kind", EVENT_CLIENTS)
@pytest.mark.parametrize("style", ["python", "js", "rust"])
@pytest.mark.parametrize(
    "key",
    [
        {},
        {"key_id": "ASIATEMPORARY", "secret": "another-secret", "token": SESSION_TOKEN},
    ],
    ids=["permanent", "temporary"],
)
async def test_a_signed_conversation(gateway, kind, style, key):
    client, signing, model = await signed_stream(gateway, kind, style=style, **key)
    client.send(
        part_event(b"Gr", "UTF8", "PARTIAL", signed_by=signing.event),
        part_event(b"", "UTF8", "COMPLETE", signed_by=signing.event),
    )
    assert [seen.payload for seen in await model.frames(2)] == [b"Gr", b""]
    model.send(frame(TEXT, b"back"))
    assert (await client.event()).payload == b"back"
    client.send(signing.end())
    client.end_input()
    assert (await model.frame()).opcode == CLOSE
    model.send(close(1000))
    assert await client.event() is END
    assert gateway.causes() == {"completed": 1}


@pytest.mark.clause("2.3-2")
async def test_the_signed_end_is_an_end_by_itself(gateway):
    """Python says it before END_STREAM, which may be long in coming."""
    client, signing, model = await signed_stream(gateway, "http2")
    client.send(signing.end())
    assert (await model.frame()).opcode == CLOSE
    model.send(close(1000))
    assert await client.event() is END
    assert await client.ended() == ("END_STREAM", "RST_STREAM(NO_ERROR)")


@pytest.mark.clause("2.3-2", "1.5-10")
@pytest.mark.parametrize("kind", EVENT_CLIENTS)
@pytest.mark.parametrize("parts", [0, 1])
async def test_an_input_that_is_cut_between_two_events_is_a_cut(gateway, kind, parts):
    """Its last chunk, or END_STREAM, is as clean as that of a whole one."""
    client, signing, model = await signed_stream(gateway, kind)
    for _ in range(parts):
        client.send(part_event(b"pay 100", "UTF8", signed_by=signing.event))
        assert (await model.frame()).payload == b"pay 100"
    client.end_input()
    ending = await model.frame()
    assert (ending.opcode, ending.payload[:2]) == (CLOSE, (1008).to_bytes(2, "big"))
    error = await client.event()
    assert error.json["ErrorCode"] == "InvalidSignature"
    assert "may have been cut off" in error.json["Message"]
    assert gateway.causes() == {"client_fault": 1}


@pytest.mark.clause("2.3-2")
@pytest.mark.parametrize(
    ("signed_end", "tls", "cut"),
    [("auto", False, True), ("auto", True, False), ("required", True, True),
     ("optional", False, False)],
)  # fmt: skip
async def test_version_0_4_of_the_python_sdk_says_no_end(
    gateway_for, principals, signed_end, tls, cut
):
    """It speaks HTTP/2 with TLS alone, where nobody can cut a stream."""
    gateway = await gateway_for(
        StreamPolicy(signed_end=signed_end), auth="sigv4", principals=principals, tls=tls
    )
    client = await (connect_http2(gateway, ["h2"]) if tls else in_clear(gateway))
    signing = EventSigning()
    stream = client.request(signing.request(bidirectional_request()))
    model = await gateway.container.stream()
    stream.send(part_event(b"on", signed_by=signing.event))
    assert (await model.frame()).payload == b"on"
    stream.end()
    assert (await model.frame()).payload[:2] == (1008 if cut else 1000).to_bytes(2, "big")
    model.send(close(1000))
    await eventually(lambda: gateway.causes() == {"client_fault" if cut else "completed": 1})


async def in_clear(gateway) -> RawHttp2Client:
    client = await RawHttp2Client.connect(gateway.port)
    client.start_reading()
    gateway.clients.append(client)
    return client


@pytest.mark.clause("2.4-5", "3-5")
@pytest.mark.parametrize("how", ["signed", "presigned", "token"])
async def test_a_stream_of_a_key_that_is_taken_away_ends(gateway_for, principals, monkeypatch, how):
    monkeypatch.setattr("partway.gateway.streams.registry.STANDING_CHECK_INTERVAL", 0.05)
    ahead = [0]
    gateway = await gateway_for(
        auth="sigv4", principals=principals, wall_clock=lambda: time.time() + ahead[0]
    )
    if how == "signed":
        client, signing, model = await signed_stream(gateway, "http2")
        client.send(part_event(b"on", "UTF8", signed_by=signing.event))
        assert (await model.frame()).payload == b"on"
    elif how == "presigned":
        model = await opened(gateway, botocore_signed(SigV4QueryAuth, expires=300))
    else:
        query = f"{STREAM_PATH}?access_token={TOKEN}"
        model = await opened(gateway, upgrade_request(query, RAW))
    assert gateway.causes() == {}
    principals.write_text(PRINCIPALS.replace(SECRET, "another").replace(TOKEN, "another-token-16"))
    ahead[0] = 2  # the file is looked at once a second
    assert (await model.until_close())[-1].payload[:2] == (1008).to_bytes(2, "big")
    await eventually(lambda: gateway.causes() == {"client_fault": 1})


def flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def resealed(message: bytes) -> bytes:
    """The same message with its checksums right again, as a forger would make them."""
    prelude = message[:8]
    body = prelude + struct.pack("!I", zlib.crc32(prelude)) + message[12:-4]
    return body + struct.pack("!I", zlib.crc32(body))


@pytest.mark.clause("1.5-10", "2.4-1", "2.4-4")
@pytest.mark.parametrize("kind", EVENT_CLIENTS)
@pytest.mark.parametrize(
    ("forge", "code"),
    [
        (lambda events: [resealed(flip(events[0], -5))], "InvalidSignature"),
        (lambda events: [flip(events[0], -5)], "InputStreamError"),
        (lambda events: [events[1], events[0]], "InvalidSignature"),
        (lambda events: [events[1]], "InvalidSignature"),
        (lambda _: [part_event(b"bare", "UTF8")], "InvalidSignature"),
    ],
    ids=["changed", "broken", "swapped", "dropped", "bare"],
)
async def test_nothing_after_a_bad_event_reaches_the_container(gateway, kind, forge, code):
    client, signing, model = await signed_stream(gateway, kind)
    first, *events = (
        part_event(word, "UTF8", signed_by=signing.event) for word in (b"good", b"two", b"three")
    )
    client.send(first, *forge(events), *events)
    seen = [await model.frame(), await model.frame()]
    assert [(one.opcode, one.payload[:2]) for one in seen] == [
        (TEXT, b"go"),
        (CLOSE, (1008).to_bytes(2, "big")),
    ]
    error = await client.event()
    assert error.headers[":exception-type"] == "ModelStreamError"
    assert error.json["ErrorCode"] == code
    assert gateway.causes() == {"client_fault": 1}


@pytest.mark.clause("2.4-4", "2.4-5")
async def test_a_thousand_forged_events(gateway_for, principals):
    """Any one bit of any one event, its checksums made right: none gets past."""
    gateway = await gateway_for(auth="sigv4", principals=principals)
    dice = random.Random(1)
    async with await RawHttp2Client.connect(gateway.port) as connection:
        connection.start_reading()
        for _ in range(100):  # the other nine hundred are the chain's own tests'
            signing = EventSigning()
            stream = connection.request(signing.request(bidirectional_request()))
            await stream.head()
            model = await gateway.container.stream()
            event = part_event(b"payload", "UTF8", "PARTIAL", signed_by=signing.event)
            at = dice.randrange(12, len(event) - 4)
            stream.send(resealed(flip(event, at)), part_event(b"next", signed_by=signing.event))
            assert (await model.frame()).opcode == CLOSE
            error = await stream.event()
            assert error.json["ErrorCode"] in ("InvalidSignature", "InputStreamError")
            await stream.ended()
    assert gateway.causes() == {"client_fault": 100}


@pytest.mark.clause("2.4-6", "4-1")
@pytest.mark.parametrize(
    ("signing", "answer"),
    [
        ({"secret": "wrong"}, (403, "InvalidSignatureException")),
        ({"key_id": "AKIANOBODY"}, (403, "UnrecognizedClientException")),
        ({"region": "eu-west-1"}, (403, "InvalidSignatureException")),
        ({"service": "s3"}, (403, "InvalidSignatureException")),
        ({"token": SESSION_TOKEN}, (403, "UnrecognizedClientException")),
        (
            {"key_id": "ASIATEMPORARY", "secret": "another-secret"},
            (403, "UnrecognizedClientException"),
        ),
        (
            {"key_id": "ASIAEXPIRED", "secret": "a-secret-of-yesterday", "token": SESSION_TOKEN},
            (403, "ExpiredTokenException"),
        ),
        (
            {"key_id": "AKIAELSEWHERE", "secret": "a-secret-for-elsewhere"},
            (403, "AccessDeniedException"),
        ),
        ({"clock": lambda: 1_500_000_000_000}, (403, "InvalidSignatureException")),
    ],
)
async def test_who_is_refused(gateway, signing, answer):
    request = EventSigning(**signing).request(bidirectional_request())
    assert await refusal(gateway, request) == answer
    assert gateway.container.connections == []


def forged_invocation(length, *headers):
    """The head of an invocation whose key is known, and whose signature is not its owner's."""
    request = AWSRequest("POST", f"http://{AUTHORITY}/endpoints/model/invocations", dict(headers))
    SigV4Auth(Credentials(KEY_ID, "not the secret"), "sagemaker", "us-east-1").add_auth(request)
    signed = [f"{name}: {value}" for name, value in request.headers.items()]
    lines = ["POST /endpoints/model/invocations HTTP/1.1", f"Host: {AUTHORITY}", *signed]
    return "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode()


@pytest.mark.clause("2.4-1")
async def test_a_forged_signature_of_a_stated_hash_is_refused_before_the_body(gateway):
    client = await gateway.connect()
    client.send(forged_invocation(1000, ("x-amz-content-sha256", "0" * 64)))
    answer = await client.response()
    assert (answer.status, b"The request signature we" in answer.body) == (403, True)


@pytest.mark.clause("2.4-1")
async def test_bodies_of_forged_requests_have_one_budget(gateway_for, principals):
    gateway = await gateway_for(
        auth="sigv4", principals=principals, max_invocation_body=1000, max_gathered_bytes=2000
    )
    clients = [await gateway.connect() for _ in range(2)]
    answers = [asyncio.create_task(each.response()) for each in clients]
    for client in clients:
        client.send(forged_invocation(900) + bytes(600))
    done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    (refused,) = done  # the other one waits for the rest of its body
    assert refused.result().status == 503
    assert b"half of max_gathered_bytes" in refused.result().body
    (other,) = set(answers) - done
    clients[answers.index(other)].send(bytes(300))
    assert (await other).status == 403
    client = await gateway.connect()
    client.send(forged_invocation(900) + bytes(900))  # the other's are given back
    assert (await client.response()).status == 403


@pytest.mark.clause("2.4-6")
async def test_a_request_that_says_nothing_or_nothing_readable(gateway):
    plain = bidirectional_request()
    assert await refusal(gateway, plain) == (403, "MissingAuthenticationTokenException")
    garbled = [*plain, ("authorization", "AWS4-HMAC-SHA256 Credential=x")]
    assert await refusal(gateway, garbled) == (400, "IncompleteSignatureException")


@pytest.mark.clause("2.1-3", "2.1-4", "2.4-2")
@pytest.mark.parametrize(
    "path",
    [
        "/endpoints/model/invocations-bidirectional-stream?",
        "/base/endpoints/model/invocations-bidirectional-stream",
        "/endpoints/mode%6C/invocations-bidirectional-stream",
    ],
    ids=["bare ?", "base path", "percent-encoded"],
)
async def test_paths_are_signed_as_they_were_sent(gateway, path):
    signing = EventSigning()
    headers = bidirectional_request(
        [
            ("x-amzn-sagemaker-target-variant", ""),
            ("x-amzn-sagemaker-model-invocation-path", "a/b"),
        ],
        path=path,
    )
    async with await RawHttp2Client.connect(gateway.port) as client:
        client.start_reading()
        status, _ = await client.request(signing.request(headers)).head()
        assert status == 200
        assert (await gateway.container.stream()).target == "/a/b"


@pytest.mark.clause("2.4-3")
@pytest.mark.parametrize(
    "name", ["x-amz-content-sha256", "x-amzn-sagemaker-model-invocation-path", "x-amz-date"]
)
async def test_what_is_not_signed_is_refused(gateway, name):
    headers = bidirectional_request([("x-amzn-sagemaker-model-invocation-path", "a/b")])
    request = EventSigning().request(headers, unsigned=[name])
    assert (await refusal(gateway, request))[0] == 403


async def test_who_may_not_ask_does_not_learn_what_there_is(gateway):
    """The signature is looked at before the endpoint is."""
    headers = bidirectional_request(path="/endpoints/none/invocations-bidirectional-stream")
    assert (await refusal(gateway, headers))[1] == "MissingAuthenticationTokenException"
    signed = EventSigning().request(headers)
    assert (await refusal(gateway, signed))[1] == "AccessDeniedException"


@pytest.mark.clause("2.4-5")
async def test_the_clock_is_the_gateways(gateway_for, principals):
    then = 1_600_000_000.0
    gateway = await gateway_for(auth="sigv4", principals=principals, wall_clock=lambda: then)
    signing = {"clock": lambda: int(then * 1000)}
    client, signing, model = await signed_stream(gateway, "http2", **signing)
    client.send(part_event(b"then", signed_by=signing.event))
    assert (await model.frame()).payload == b"then"
    late = part_event(
        b"late", signed_by=lambda part: signing.event(part, int(then * 1000) + 301_000)
    )
    client.send(late)
    assert (await client.event()).json["ErrorCode"] == "InvalidSignature"


async def test_a_new_key_counts_without_a_restart(gateway_for, principals):
    now = [1_600_000_000.0]
    gateway = await gateway_for(auth="sigv4", principals=principals, wall_clock=lambda: now[0])
    new = EventSigning("a-new-secret", "AKIANEW", clock=lambda: int(now[0] * 1000))
    request = new.request(bidirectional_request())
    assert (await refusal(gateway, request))[1] == "UnrecognizedClientException"
    with principals.open("a") as file:
        file.write('[[principals.keys]]\naccess_key_id = "AKIANEW"\n')
        file.write('secret_access_key = "a-new-secret"\n')
    now[0] += 2
    request = new.request(bidirectional_request())
    assert (await refusal(gateway, request))[1] == "AccessDeniedException", "known, for elsewhere"


# --- WebSockets ----------------------------------------------------------------------------------

AUTHORITY = "gateway.example"


def botocore_signed(how, path=STREAM_PATH, secret=SECRET, **arguments):
    """The upgrade's query and headers as botocore signs them."""
    request = AWSRequest("GET", f"http://{AUTHORITY}{path}")
    how(Credentials(KEY_ID, secret), "sagemaker", "us-east-1", **arguments).add_auth(request)
    prepared = request.prepare()
    target = prepared.url.removeprefix(f"http://{AUTHORITY}")
    lines = [f"{name}: {value}" for name, value in prepared.headers.items()]
    return upgrade_request(target, RAW, lines, Host=AUTHORITY)


async def opened(gateway, request):
    """An upgrade that is granted: one frame goes through."""
    client = await gateway.connect()
    await client.upgrade(request)
    model = await gateway.container.stream()
    client.send_frame(TEXT, b"unsigned")
    assert (await model.frame()).payload == b"unsigned"
    return model


@pytest.mark.clause("3-5")
@pytest.mark.parametrize(
    "request_bytes",
    [
        lambda: botocore_signed(SigV4Auth),
        lambda: botocore_signed(SigV4QueryAuth, expires=300),
        lambda: botocore_signed(SigV4QueryAuth, f"{STREAM_PATH}?path=a/b&variant=", expires=300),
        lambda: upgrade_request(STREAM_PATH, RAW, [f"Authorization: Bearer {TOKEN}"]),
        lambda: upgrade_request(f"{STREAM_PATH}?access_token={TOKEN}", RAW),
    ],
    ids=["header", "presigned", "presigned with a path", "bearer", "token in the query"],
)
async def test_a_websocket_says_who_it_is(gateway, request_bytes):
    model = await opened(gateway, request_bytes())
    assert b"token" not in model.request.lower()
    assert b"amz-signature" not in model.request.lower()


@pytest.mark.clause("3-5")
@pytest.mark.parametrize(
    ("request_bytes", "error"),
    [
        (lambda: upgrade_request(STREAM_PATH, RAW), "MissingAuthenticationTokenException"),
        (lambda: botocore_signed(SigV4Auth, secret="wrong"), "InvalidSignatureException"),
        (
            lambda: botocore_signed(SigV4QueryAuth, expires=300, secret="wrong"),
            "InvalidSignatureException",
        ),
        (lambda: botocore_signed(SigV4QueryAuth, expires=301), "IncompleteSignatureException"),
        (
            lambda: botocore_signed(SigV4QueryAuth, expires=300).replace(
                b"X-Amz-Expires=300", b"X-Amz-Expires=299"
            ),
            "InvalidSignatureException",
        ),
        (
            lambda: upgrade_request(f"{STREAM_PATH}?{urlencode({'access_token': 'x' * 20})}", RAW),
            "UnrecognizedClientException",
        ),
    ],
    ids=["nothing", "secret", "presigned secret", "too long", "changed", "token"],
)
async def test_a_websocket_is_refused(gateway, request_bytes, error):
    response = await gateway.request(request_bytes())
    assert response.headers["x-amzn-errortype"] == error
    assert gateway.container.connections == []


async def test_a_token_does_not_stand_for_signed_events(gateway):
    headers = [*bidirectional_request(), ("authorization", f"Bearer {TOKEN}")]
    assert (await refusal(gateway, headers))[0] == 400


@pytest.mark.clause("3-3", "3-5")
@pytest.mark.parametrize("name", ["query", "path", "variant", "%71uery"])
async def test_a_parameter_that_is_read_is_there_once(gateway, name):
    """Whoever swaps two of one name changes no signature (SigV4 signs them sorted)."""
    plain = name.replace("%71", "q")
    signed = botocore_signed(SigV4Auth, f"{STREAM_PATH}?{plain}=a&{plain}=b")
    as_signed, as_swapped = f"{plain}=a&{plain}=b".encode(), f"{name}=b&{plain}=a".encode()
    assert as_signed in signed
    for request in (signed, signed.replace(as_signed, as_swapped)):
        response = await gateway.request(request)
        assert (response.status, response.json["ErrorCode"]) == (400, "RepeatedParameter")
    assert gateway.container.connections == []


@pytest.mark.clause("3-5")
async def test_a_presigned_url_that_says_once_opens_one_stream(gateway):
    request = botocore_signed(SigV4QueryAuth, f"{STREAM_PATH}?once=8d7f&path=a", expires=300)
    model = await opened(gateway, request)
    assert model.target == "/a"
    response = await gateway.request(request)
    assert response.headers["x-amzn-errortype"] == "InvalidSignatureException"
    stripped = request.replace(b"once=8d7f&", b"")
    assert (await gateway.request(stripped)).status == 403


# --- Secrets -------------------------------------------------------------------------------------


async def test_no_secret_is_logged(gateway, caplog):
    caplog.set_level(logging.DEBUG)
    client, signing, model = await signed_stream(
        gateway, "http2", key_id="ASIATEMPORARY", secret="another-secret", token=SESSION_TOKEN
    )
    seed = signing.prior
    client.send(part_event(b"the-payload", signed_by=signing.event))
    await model.frame()
    client.send(part_event(b"forged", signed_by=lambda part: flip(signing.event(part), 40)))
    await client.event()
    await opened(gateway, upgrade_request(f"{STREAM_PATH}?access_token={TOKEN}", RAW))
    await opened(gateway, botocore_signed(SigV4QueryAuth, expires=300))
    await refusal(gateway, EventSigning("wrong").request(bidirectional_request()))
    for secret in (TOKEN, SESSION_TOKEN, "another-secret", SECRET, seed, signing.prior,
                   "the-payload", "X-Amz-Signature", "Signature="):  # fmt: skip
        assert secret not in caplog.text, secret


async def test_status_pages_ask_nobody(gateway):
    for path in ("/healthz", "/readyz", "/metrics"):
        request = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        assert (await gateway.request(request)).status == 200
