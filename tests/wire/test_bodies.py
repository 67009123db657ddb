"""Bodies in and responses in pieces, by operations that tests add to a gateway, over both HTTPs."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from hashlib import sha256

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from partway.gateway.access.authentication import Access
from partway.gateway.http.error_dialects import ErrorResponse
from partway.gateway.http.request_payloads import GatheredPayload, StreamedPayload
from partway.protocol.errors import ClientLeft, InternalServerError, ServiceUnavailable
from partway.protocol.limits import KIB, MIB, WRITE_HIGH_WATER
from tests.wire.event_signing import KEY_ID, SECRET
from tests.wire.http2_peers import WINDOW, RawHttp2Client
from tests.wire.http2_streams import bidirectional_request
from tests.wire.peers import MAX_SOCKET_READ, eventually, soon
from tests.wire.plain_requests import FORMS, LIMIT, OPEN_TO_ALL, VERSIONS, Bench, Gate, WithLength

TOO_LARGE = "RequestEntityTooLargeException"
LARGE = 16 * MIB

#: What is held of a request that nobody reads: HTTP/2's window, here and on the way; of HTTP/1.1
#: HTTP1_HELD_BYTES, and the read that went over it.
HELD = 512 * KIB + MAX_SOCKET_READ


@pytest.fixture(params=FORMS.values(), ids=FORMS)
def form(request):
    return request.param


@pytest.fixture(params=VERSIONS.values(), ids=VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def started(gateway_for):
    """Starts a gateway with operations that nobody has to sign for."""

    async def start(client=None, options=None, **bench):
        bench = Bench(**OPEN_TO_ALL, **bench)
        gateway = await gateway_for(routes=bench.routes)
        return bench, gateway, client and await client.connect(gateway, **(options or {}))

    return start


def error_of(head):
    status, headers = head
    return status, headers.get("x-amzn-errortype")


async def broken(client):
    """Read the rest of a response; whether it did not come to its end."""
    try:
        while await client.data() is not None:
            pass
    except EOFError:
        return True
    return False


# --- Sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/gather", "/stream"])
@pytest.mark.parametrize("size", [0, 1, LIMIT - 1, LIMIT])
async def test_a_body_comes_back(started, form, path, size):
    bench, _, client = await started(form)
    body = os.urandom(size)
    client.ask(path, body)
    assert await client.answer() == (200, body)
    assert bench.ended == [None]


async def test_a_body_over_the_limit_is_refused(started, form):
    """The operation hears of nothing, and the next request of the connection is answered."""
    bench, gateway, client = await started(form)
    client.ask("/gather", bytes(LIMIT + 1))
    assert error_of(await client.head()) == (413, TOO_LARGE)
    assert bench.exchanges == []
    again = await form.connect(gateway)
    again.ask("/gather", b"x")
    assert await again.answer() == (200, b"x")


async def test_a_stated_length_over_the_limit_is_refused_before_it_comes(started, form):
    bench, _, client = await started(form, pause=60.0)
    client.ask("/stream", b"x" * (LIMIT + 1))
    if form in (FORMS["length"], FORMS["http2-length"]):
        assert error_of(await client.head()) == (413, TOO_LARGE)
    else:
        assert await broken_after_head(client)
    assert [type.__name__ for type in bench.ended] == ["RequestTooLarge"]


async def broken_after_head(client):
    """Whether a response is broken off behind its head, or refused where it had none yet."""
    status, _ = await client.head()
    return status == 413 or await broken(client)


async def test_a_body_larger_than_every_window_and_buffer(started, form):
    _, _, client = await started(form, limit=LARGE, within=60.0)
    body = os.urandom(LARGE)
    client.ask("/gather", body)
    assert await client.answer() == (200, body)


# --- Back-pressure -------------------------------------------------------------------------------


async def test_a_slow_operation_holds_its_client_back(started, version):
    """What is read of its body is bounded, and nothing is lost."""
    gate = Gate()

    async def slowly(exchange):
        chunks = exchange.chunks(LARGE)
        size = len(await anext(chunks))
        await gate.wait()
        size += sum([len(chunk) async for chunk in chunks])
        exchange.respond(200, b"%d" % size)

    bench, _, client = await started(version, limit=LARGE, payload=StreamedPayload(LARGE))
    bench.run = slowly
    client.ask("/run", bytes(LARGE))
    await soon(gate.reached.wait())
    (exchange,) = bench.exchanges
    if client.http2:
        await client.wire.settled()
        assert 0 < LARGE - client.stream.unsent <= HELD
    else:
        await eventually(lambda: not exchange._connection.transport.is_reading())
        assert exchange._request.received <= HELD
    gate.opened.set()
    assert await client.answer() == (200, b"%d" % LARGE)


async def test_a_slow_client_holds_its_operation_back(started, version):
    """What is written and not taken is bounded, and nothing is lost."""
    piece = os.urandom(64 * KIB)
    written = []

    async def run(exchange):
        await exchange.begin(200)
        for _ in range(LARGE // len(piece)):
            written.append(piece)
            await exchange.write(piece)
        await exchange.end()

    # A client of HTTP/2 reads, and gives no credit until its test has read.
    bench, _, client = await started(version, {"receive_buffer": 16 * KIB})
    bench.run = run
    client.ask("/run")
    await soon(client.head())
    (exchange,) = bench.exchanges
    if client.http2:
        await eventually(lambda: exchange._stream.buffered_bytes > WRITE_HIGH_WATER)
        held = WINDOW + WRITE_HIGH_WATER + len(piece)
    else:
        await eventually(lambda: exchange._connection.writing_paused)
        held = LARGE - len(piece)  # the kernel's buffers, a few MiB, besides the transport's
    assert sum(map(len, written)) <= held
    whole = bytearray()
    while (data := await client.data()) is not None:
        whole += data
    assert bytes(whole) == piece * (LARGE // len(piece))
    assert bench.ended == [None]


async def test_one_stalled_stream_holds_no_other_back(started):
    """Twenty on one HTTP/2 connection; nobody reads the body of the first."""
    gate = Gate()

    async def run(exchange):
        await gate.wait()
        exchange.respond(200, b"%d" % len(await exchange.body(LARGE)))

    bench, _, client = await started(FORMS["http2"], limit=LARGE, payload=StreamedPayload(LARGE))
    bench.run = run
    client.ask("/run", bytes(LARGE))
    stalled = client.stream
    await soon(gate.reached.wait())
    bodies = [os.urandom(100 * KIB) for _ in range(19)]
    streams = []
    for body in bodies:
        client.ask("/stream", body)
        streams.append(client.stream)
    for stream, body in zip(streams, bodies, strict=True):
        assert (await stream.head())[0] == 200
        assert await stream.body() == body
    assert LARGE - stalled.unsent <= HELD
    gate.opened.set()
    assert (await stalled.head())[0] == 200
    assert await stalled.body() == b"%d" % LARGE


# --- Ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/stream", "/run"])
async def test_a_client_that_leaves_in_the_middle_of_its_body(started, form, path):
    """It ends what waits for it by a name."""
    bench, _, client = await started(form, payload=StreamedPayload(LIMIT))

    async def gather(exchange):
        await exchange.body(LIMIT)

    bench.run = gather
    client.begin(path, b"begin", 100)
    await eventually(lambda: bool(bench.exchanges))
    client.leave()
    await eventually(lambda: bench.ended == [ClientLeft])


async def test_a_client_that_leaves_before_its_operation_has_heard_of_it(started, form, caplog):
    bench, _, client = await started(form)
    with caplog.at_level(logging.INFO, "partway.gateway"):
        client.begin("/gather", b"", 100, EXPECT)
        await client.continued()
        client.go_on(b"begin")
        client.leave()
        await eventually(lambda: "client left request_id=" in caplog.text)
    assert bench.exchanges == []


async def test_a_client_that_leaves_while_it_is_written_to(started, version):
    async def run(exchange):
        await exchange.begin(200)
        while True:
            await exchange.write(bytes(64 * KIB))

    bench, _, client = await started(version)
    bench.run = run
    client.ask("/run")
    await client.head()
    client.leave()
    await eventually(lambda: bench.ended == [ClientLeft])


@pytest.mark.parametrize("begun", [False, True])
async def test_an_operation_that_waits_for_something_else_is_cancelled(started, version, begun):
    gate = Gate()

    async def run(exchange):
        assert await exchange.body(LIMIT) == b"body"
        if begun:
            await exchange.begin(200)
            await exchange.write(b"first")
        await gate.wait()

    bench, _, client = await started(version, payload=GatheredPayload(LIMIT))
    bench.run = run
    client.ask("/run", b"body")
    await soon(gate.reached.wait())
    client.leave()
    await eventually(lambda: bench.ended == [asyncio.CancelledError])


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ServiceUnavailable("full"), (503, "ServiceUnavailableError")),
        (ZeroDivisionError(), (500, "InternalServerError")),
    ],
)
async def test_an_operation_that_fails_before_the_head(started, version, error, answer):
    async def run(exchange):
        await exchange.body(LIMIT)
        raise error

    bench, _, client = await started(version, payload=StreamedPayload(LIMIT))
    bench.run = run
    client.ask("/run", b"body")
    assert error_of(await client.head()) == answer


@pytest.mark.parametrize("error", [ServiceUnavailable("full"), ZeroDivisionError(), None])
async def test_a_response_that_does_not_end_is_broken_off(started, version, error):
    """By an error, or by an operation that returns and has forgotten it."""

    async def run(exchange):
        await exchange.begin(200)
        await exchange.write(b"first")
        if error is not None:
            raise error

    bench, _, client = await started(version)
    bench.run = run
    client.ask("/run")
    assert (await client.head())[0] == 200
    assert await broken(client)
    if client.http2:
        assert client.stream.ends == ["RST_STREAM(INTERNAL_ERROR)"]
    else:
        assert client.wire.ends[0] != "LAST_CHUNK"


async def test_http_1_0_has_no_chunks_and_is_broken_off_by_a_reset(started):
    async def run(exchange):
        await exchange.begin(200)
        await exchange.write(b"first")
        raise ZeroDivisionError

    bench, _, client = await started(WithLength)
    bench.run = run
    client.wire.send(b"GET /run HTTP/1.0\r\n\r\n")
    head = await client.wire.read_head()
    assert b"chunked" not in head
    with pytest.raises(ConnectionResetError):
        await soon(client.wire.reader.read())


async def test_http_1_0_ends_a_response_with_its_connection(started):
    _, _, client = await started(WithLength)
    client.wire.send(b"POST /stream HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello")
    assert b"chunked" not in await client.wire.read_head()
    assert await client.wire.eof() == b"hello"


async def test_the_last_piece_leaves_with_the_end(started, version):
    async def run(exchange):
        await exchange.begin(200)
        await exchange.write(b"first")
        await exchange.end(b"last", b"in its place")

    bench, _, client = await started(version)
    bench.run = run
    client.ask("/run")
    assert await client.answer() == (200, b"firstlast")
    assert bench.ended == [None]


# --- One after the other -------------------------------------------------------------------------


async def test_two_requests_pipelined(started):
    _, _, client = await started(WithLength)
    client.ask("/gather", b"one")
    client.ask("/stream", b"two")
    first = await client.wire.response()
    assert (first.status, first.body) == (200, b"one")
    assert await client.answer() == (200, b"two")


async def test_a_connection_goes_on_after_a_response_in_pieces(started):
    _, _, client = await started(FORMS["chunked"])
    for body in (b"one", b"two"):
        client.ask("/stream", body)
        assert await client.answer() == (200, body)
        client.answered()


# --- Responses without a body --------------------------------------------------------------------


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("POST", 204), ("POST", 304)])
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_responses_without_a_body(started, version, method, status, in_pieces):
    async def run(exchange):
        if in_pieces:
            await exchange.begin(status)
            await exchange.write(b"dropped")
            await exchange.end()
        else:
            exchange.respond(status, b"dropped")

    bench, _, client = await started(version)
    bench.run = run
    client.ask("/run", method=method)
    found, headers = await client.head()
    assert found == status
    assert "transfer-encoding" not in headers
    assert not (status == 204 and "content-length" in headers)
    if client.http2:
        assert await client.stream.body() == b""
    else:
        client.wire.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await client.wire.response()).body == b"ok\n"  # it stands where a body would
    assert bench.ended == [None]


# --- Expect --------------------------------------------------------------------------------------

EXPECT = (("expect", "100-continue"),)


async def test_a_body_is_asked_for_when_it_is_wanted(started, version):
    gate = Gate()

    async def run(exchange):
        await gate.wait()
        exchange.respond(200, await exchange.body(LIMIT))

    bench, _, client = await started(version)
    bench.run = run
    client.begin("/run", b"", 4, EXPECT)
    await soon(gate.reached.wait())
    if client.http2:
        await client.wire.settled()
        assert client.stream.heads == []
    gate.opened.set()
    await client.continued()
    client.go_on(b"body", last=True)
    assert await client.answer() == (200, b"body")


async def test_a_body_is_not_asked_for_when_it_is_not_wanted(started):
    """Its length alone says that it is too large; and an operation without a body wants none."""
    bench, gateway, _ = await started()

    async def run(exchange):
        exchange.respond(200, b"done")

    bench.run = run
    for path, size, status in (("/gather", LIMIT + 1, 413), ("/run", 1, 200)):
        client = await WithLength.connect(gateway)
        client.begin(path, b"", size, EXPECT)
        assert (await client.head())[0] == status  # nothing stood before it
        http2 = await FORMS["http2"].connect(gateway)
        http2.begin(path, b"", size, [*EXPECT, ("content-length", str(size))])
        assert (await http2.head())[0] == status
        assert len(http2.stream.heads) == 1


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_what_comes_behind_a_body_that_was_not_asked_for_is_no_body(started, in_pieces):
    """Its client may go on to its next request, which would be read as that body."""
    bench, gateway, _ = await started()

    async def run(exchange):
        if in_pieces:
            await exchange.begin(200)
            await exchange.end(b"done")
        else:
            exchange.respond(200, b"done")

    bench.run = run
    inner = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    wire = await gateway.connect()
    wire.send(
        b"POST /run HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
        b"Content-Length: %d\r\n\r\n" % len(inner)
    )
    assert b"\r\nConnection: close\r\n" in await wire.read_head()
    wire.send(b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" + inner)
    wire.end()
    rest = await wire.eof()
    assert b"done" in rest
    assert b"HTTP/1.1" not in rest


# --- Time ----------------------------------------------------------------------------------------


async def test_a_body_that_does_not_come_in_time(started, form):
    bench, _, client = await started(form, within=0.05)
    client.begin("/gather", b"begin", 100)
    assert error_of(await client.head()) == (408, "RequestTimeoutException")
    assert bench.exchanges == []


async def test_a_chunk_that_does_not_come_in_time(started, version):
    bench, _, client = await started(version, pause=0.05)
    client.begin("/stream", b"begin", 100)
    assert (await client.head())[0] == 200
    assert await client.data() == b"begin"
    assert await broken(client)
    assert [type.__name__ for type in bench.ended] == ["RequestTimeout"]


# --- What is not HTTP ----------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True], ids=["at once", "while it is waited for"])
async def test_a_body_that_is_not_chunks(started, later):
    bench, _, client = await started(FORMS["chunked"], payload=StreamedPayload(LIMIT))

    async def run(exchange):
        exchange.respond(200, await exchange.body(LIMIT))

    bench.run = run
    client.begin("/run", b"begin", 100)
    if later:
        await eventually(lambda: bool(bench.exchanges))
    client.wire.send(b"no size\r\n")
    response = await client.wire.response()
    assert response.status == 400
    if later:  # else one read may bring head and fault, and all of it is one malformed request
        assert response.json["ErrorCode"] == "MalformedBody"
    assert response.headers["connection"] == "close"
    assert await client.wire.eof() == b""


# --- Who asks ------------------------------------------------------------------------------------

PRINCIPALS = f"""
[[principals]]
name = "chat"
actions = ["sagemaker:Gather", "sagemaker:Stream"]
tokens = ["0123456789abcdef"]
[[principals.keys]]
access_key_id = "{KEY_ID}"
secret_access_key = "{SECRET}"
"""


@pytest.fixture
async def asking(gateway_for, tmp_path):
    """A gateway that asks, and its bench."""
    path = tmp_path / "principals.toml"
    path.write_text(PRINCIPALS)
    path.chmod(0o600)
    bench = Bench(access=Access.SIGNED_OR_BEARER)
    return bench, await gateway_for(auth="sigv4", principals=path, routes=bench.routes)


def signature(path, body, **more):
    """A signed POST's further headers, as botocore makes them."""
    request = AWSRequest("POST", f"http://gateway.example{path}", data=body, headers=more)
    SigV4Auth(Credentials(KEY_ID, SECRET), "sagemaker", "us-east-1").add_auth(request)
    return [(name.lower(), value) for name, value in request.headers.items()]


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize("path", ["/gather", "/stream"])
async def test_a_signed_body_is_verified_before_its_operation_hears_of_it(asking, form, path):
    bench, gateway = asking
    client = await form.connect(gateway)
    client.ask(path, b"signed", signature(path, b"signed"))
    assert await client.answer() == (200, b"signed")
    assert [identity.principal for identity in bench.identities] == ["chat"]
    other = await form.connect(gateway)
    other.ask(path, b"forged", signature(path, b"signed"))
    assert error_of(await other.head()) == (403, "InvalidSignatureException")
    assert len(bench.exchanges) == 1


def presigned(path, expires=300, **headers):
    """The target and the signed headers of a presigned POST, whose hash is in the headers."""
    request = AWSRequest("POST", f"http://gateway.example{path}", headers=headers)
    SigV4QueryAuth(Credentials(KEY_ID, SECRET), "sagemaker", "us-east-1", expires).add_auth(request)
    _, _, target = request.url.partition("http://gateway.example")
    return target, [(name.lower(), value) for name, value in request.headers.items()]


@pytest.mark.clause("2.4-1", "2.4-3")
@pytest.mark.parametrize("path", ["/gather", "/stream"])
async def test_a_presigned_post_is_good_for_the_body_that_it_was_signed_for(asking, form, path):
    bench, gateway = asking
    hashed = sha256(b"signed").hexdigest()
    target, headers = presigned(path, **{"x-amz-content-sha256": hashed})
    client = await form.connect(gateway)
    client.ask(target, b"signed", headers)
    assert await client.answer() == (200, b"signed")
    other = await form.connect(gateway)
    other.ask(target, b"forged", headers)
    assert error_of(await other.head()) == (403, "InvalidSignatureException")
    assert len(bench.exchanges) == 1


@pytest.mark.clause("2.4-1")
@pytest.mark.parametrize("body", [b"", b"any"])
async def test_a_presigned_post_whose_body_is_not_signed_is_good_for_none(asking, version, body):
    """Or whoever has the URL could say what is created with it."""
    bench, gateway = asking
    client = await version.connect(gateway)
    target, headers = presigned("/gather", **{"x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    client.ask(target, body, headers)
    assert error_of(await client.head()) == (403, "InvalidSignatureException")
    assert bench.exchanges == []


@pytest.mark.clause("2.4-1")
async def test_a_presigned_post_without_a_hash_is_good_for_the_empty_body(asking, version):
    bench, gateway = asking
    target, headers = presigned("/gather")
    for body, status in ((b"", 200), (b"any", 403)):
        client = await version.connect(gateway)
        client.ask(target, body, headers)
        assert (await client.answer())[0] == status
    assert len(bench.exchanges) == 1


@pytest.mark.clause("3-5")
async def test_a_presigned_post_is_good_for_five_minutes_at_most(asking, version):
    bench, gateway = asking
    client = await version.connect(gateway)
    target, headers = presigned("/gather", expires=3600)
    client.ask(target, b"", headers)
    assert error_of(await client.head()) == (400, "IncompleteSignatureException")
    assert bench.exchanges == []


@pytest.mark.clause("2.4-6")
async def test_what_a_principal_may_not_do_is_refused_in_aws_words(asking, version):
    _, gateway = asking
    client = await version.connect(gateway)
    client.ask("/run", b"", signature("/run", b""))
    status, body = await client.answer()
    assert status == 403
    assert json.loads(body)["Message"] == (
        "User: arn:aws:sts::000000000000:federated-user/chat is not authorized to perform: "
        "sagemaker:run on resource: * because no identity-based policy allows the sagemaker:run "
        "action"
    )


@pytest.mark.clause("2.4-1")
async def test_who_signs_again_on_a_connection_is_answered_as_before(asking):
    """What was found out with the first request stands for the others, and refuses none of them."""
    bench, gateway = asking
    client = await WithLength.connect(gateway)
    for body, signed, status in (
        (b"first", b"first", 200),
        (b"second one", b"second one", 200),
        (b"forged", b"signed", 403),
        (b"third", b"third", 200),
        (bytes(LIMIT + 1), bytes(LIMIT + 1), 413),
    ):
        client.ask("/gather", body, signature("/gather", signed))
        found, answered = await client.answer()
        assert found == status
        assert found != 200 or answered == body
        client.answered()
    assert len(bench.exchanges) == 3


@pytest.mark.clause("2.4-1")
async def test_a_hash_in_the_header_is_that_of_the_body(asking, version):
    bench, gateway = asking
    client = await version.connect(gateway)
    stated = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    client.ask("/gather", b"body", signature("/gather", b"", **{"x-amz-content-sha256": stated}))
    assert error_of(await client.head()) == (403, "InvalidSignatureException")
    assert bench.exchanges == []


async def test_a_body_with_a_token_streams(asking, version):
    """Its operation hears of it before it is whole."""
    _, gateway = asking
    client = await version.connect(gateway)
    client.begin("/stream", b"", 9, [("authorization", "Bearer 0123456789abcdef")])
    client.go_on(b"first")
    assert (await client.head())[0] == 200
    assert await client.data() == b"first"
    client.go_on(b"last", last=True)
    assert await client.data() == b"last"
    assert not await broken(client)


async def test_who_is_not_known_is_not_asked_for_a_body(asking):
    """Nothing is gathered for a key that nobody has."""
    bench, gateway = asking
    headers = [
        (name, value.replace(KEY_ID, "AKIANOBODY")) for name, value in signature("/gather", b"x")
    ]
    async with await RawHttp2Client.connect(gateway.port) as client:
        stream = client.request(bidirectional_request([*headers, *EXPECT], "/gather"))
        assert error_of(await stream.head()) == (403, "UnrecognizedClientException")
        assert len(stream.heads) == 1
    assert bench.exchanges == []


# --- Errors in another dialect -------------------------------------------------------------------


async def test_a_routes_errors_are_in_its_dialect(gateway_for, version):
    def plain(error):
        return ErrorResponse(error.status + 1, {"x-error": error.name}, b"no")

    bench = Bench(**OPEN_TO_ALL, errors=plain)
    gateway = await gateway_for(routes=bench.routes)

    async def run(exchange):
        raise InternalServerError

    bench.run = run
    for path, status, name in (
        ("/run", 501, "InternalServerError"),
        ("/gather", 414, TOO_LARGE),
    ):
        client = await version.connect(gateway)
        client.ask(path, bytes(LIMIT + 1))
        found, headers = await client.head()
        assert (found, headers["x-error"]) == (status, name)
        assert "x-amzn-errortype" not in headers
        assert re.fullmatch(r"[0-9a-f-]{36}", headers["x-amzn-requestid"])
    nowhere = await version.connect(gateway)
    nowhere.ask("/nowhere")
    assert error_of(await nowhere.head()) == (404, "UnknownOperationException")
