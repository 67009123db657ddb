"""A bridge's requests, its health, and its life from the upstream's start to its own end."""

from __future__ import annotations

import asyncio
import html
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from partway.container.bridge.dialling import UpstreamDialler
from partway.container.bridge.server import BridgeServer
from partway.container.bridge.settings import BridgeSettings, bridge_settings
from partway.container.errors import CannotServe
from partway.container.shutdown import ShutdownTimes
from tests.container.bridge.bridging import bridging, given
from tests.container.wire import IN_TURN, PATIENCE, QUICK, STREAM
from tests.frame_factory import KEY, TEXT, frame
from tests.wire.peers import (
    RawClient,
    RawContainer,
    eventually,
    header,
    soon,
    switching,
    upgrade_request,
)

pytestmark = pytest.mark.usefixtures("no_leaks")


# --- What the upstream is asked ------------------------------------------------------------------


QUERY = "model=a+b&tag=1&tag=2&empty=&q=%2B%20%23&u=a:/?@b"


@pytest.mark.clause("1.6-1")
@pytest.mark.parametrize(
    ("asked", "target"),
    [
        (STREAM, "/v1/realtime"),
        (f"{STREAM}?{QUERY}", f"/v1/realtime?{QUERY}"),
        ("/v1/realtime?x=1", "/v1/realtime?x=1"),
        ("/v1/listen?language=en", "/listen?key=1&language=en"),
        ("/v1/speak", "/v1/speak"),
    ],
)  # fmt: skip
async def test_path_and_query(asked: str, target: str) -> None:
    routes = ["v1/listen=ws://127.0.0.1:{port}/listen?key=1", "/v1/speak"]
    async with bridging(routes=routes) as bridge:
        _, model = await bridge.open(asked)
        assert model.request.startswith(b"GET %s HTTP/1.1\r\n" % target.encode())
        assert model.header("Host") == f"127.0.0.1:{bridge.upstream.port}"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (b"a=1#b=2", "'#' at place 3"),
        (b'a="1"', "'\"' at place 2"),
        (b"a=<1>", "'<' at place 2"),
        (b"a=1|2", "'|' at place 3"),
        (b"a=%2", "'%' at place 2"),
        (b"a=\\", "'\\\\' at place 2"),
    ],
)
async def test_a_query_that_a_server_might_read_otherwise_is_refused(
    query: bytes, found: str
) -> None:
    async with bridging() as bridge:
        request = upgrade_request(f"{STREAM}?QUERY").replace(b"QUERY", query)
        refused = await bridge.request(request)
        assert (refused.status, found in refused.body.decode()) == (400, True), refused
        for raw in (b"a=1 b=2", b"a=1\x01", b"a=\xc3\xa9", b"a=1\tb"):
            assert (await bridge.request(request.replace(query, raw))).status == 400
        _, model = await bridge.open(f"{STREAM}?first=1")
        assert model.request.startswith(b"GET /v1/realtime?first=1 HTTP/1.1\r\n")


async def test_a_path_that_leads_nowhere() -> None:
    async with bridging(routes=["v1/listen"]) as bridge:
        refused = await bridge.request(upgrade_request("/v1/lissen"))
        known = b"/invocations-bidirectional-stream, /v1/listen, /v1/realtime"
        assert refused.status == 404
        assert refused.body == b"this path takes no streams: it must be one of %s\n" % known
        for request in (
            b"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\n{}",
            b"GET /v1/models HTTP/1.1\r\nHost: c\r\n\r\n",
        ):
            assert (await bridge.request(request)).status == 404
        refused = await bridge.request(b"GET /v1/listen HTTP/1.1\r\nHost: c\r\n\r\n")
        assert refused.status == 426
        refused = await bridge.request(upgrade_request(headers=["Origin: http://evil.example"]))
        assert refused.status == 403


@pytest.mark.clause("1.6-1")
async def test_the_platform_s_headers_pass_and_no_others() -> None:
    async with bridging(authorization="Bearer s3cret") as bridge:
        _, model = await bridge.open(
            headers=[
                "X-Amzn-SageMaker-Request-Id: r-1",
                "x-amzn-sagemaker-session-id: s-1",
                "X-Amzn-Trace-Id: Root=1-2",
                "Authorization: Bearer of-a-client",
                "Cookie: a=b",
                "Sec-WebSocket-Extensions: permessage-deflate",
            ]
        )
        assert model.header("X-Amzn-SageMaker-Request-Id") == "r-1"
        assert model.header("X-Amzn-SageMaker-Session-Id") == "s-1"
        assert model.header("X-Amzn-Trace-Id") == "Root=1-2"
        assert model.request.lower().count(b"\r\nauthorization:") == 1
        assert model.header("Authorization") == "Bearer s3cret"
        for absent in ("Cookie", "Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"):
            assert model.header(absent) is None


@pytest.mark.parametrize(
    "text",
    ["X-Amzn-Custom: caf\xe9", "X-Amzn-Custom: \x01", "Sec-WebSocket-Protocol: v1, caf\xe9"],
)
async def test_a_header_that_cannot_pass_is_the_client_s_fault(text: str) -> None:
    async with bridging() as bridge:
        assert (await bridge.request(upgrade_request(STREAM, headers=[text]))).status == 400


@pytest.mark.clause("1.5-12")
async def test_subprotocol_and_the_promise_of_an_answer_pass_back() -> None:
    async with bridging() as bridge:
        bridge.upstream.answer = lambda request: switching(
            request, "Sec-WebSocket-Protocol: realtime", "Set-Cookie: a=b"
        )
        client, model = await bridge.open(subprotocols="v2, realtime")
        assert model.header("Sec-WebSocket-Protocol") == "v2, realtime"
        assert header(client.head, "Sec-WebSocket-Protocol") == "realtime"
        assert header(client.head, "X-Partway-Close") == "after-answer"
        assert header(client.head, "Set-Cookie") is None
        bridge.upstream.answer = lambda request: switching(request, finishes=False)
        client, _ = await bridge.open()
        assert header(client.head, "X-Partway-Close") is None


# --- What the upstream answers -------------------------------------------------------------------


def refusing(status: str, body: str, *more: str) -> Callable[[bytes], bytes]:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more, "", body]
    return lambda _: "\r\n".join(lines).encode()


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (refusing("401 Unauthorized", "no key"), 401, b"no key"),
        (refusing("404 Not Found", "no such model"), 404, b"no such model"),
        (refusing("429 Too Many", "slow down", "Retry-After: 3"), 429, b"slow down"),
        (refusing("503 Unavailable", ""), 503, b"the upstream refused the stream\n"),
        (
            refusing("302 Found", "", "Location: /elsewhere"),
            *(502, b"the upstream answered the upgrade with status 302; it must be 101\n"),
        ),
        (
            refusing("200 OK", "a page"),
            *(502, b"the upstream answered the upgrade with status 200; it must be 101\n"),
        ),
        (lambda _: b"SSH-2.0\r\n\r\n", 502, b"the upstream gave no valid answer to the upgrade\n"),
        (
            lambda request: switching(request, accept="wrong"),
            *(502, b"the upstream gave no valid answer to the upgrade\n"),
        ),
    ],
    ids=["401", "404", "429", "503", "302", "200", "no HTTP", "wrong key"],
)
async def test_a_refused_upgrade(
    answer: Callable[[bytes], bytes],
    status: int,
    body: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with bridging() as bridge:
        bridge.upstream.answer = answer
        request = upgrade_request(STREAM, headers=["X-Amzn-SageMaker-Request-Id: r-1"])
        refused = await bridge.request(request)
        assert (refused.status, refused.body) == (status, body)
        assert "the upstream opened no stream request_id=r-1" in caplog.text
        assert f"127.0.0.1:{bridge.upstream.port}/v1/realtime status={status}" in caplog.text
        assert b"127.0.0.1" not in refused.body
        bridge.upstream.answer = switching
        await bridge.open()


SECRET = "s3cret+of/the=upstream"


@pytest.mark.parametrize(
    ("status", "passes", "spelled"),
    [
        (401, False, lambda head: head.decode()),
        (500, False, lambda head: json.dumps(dict(line.split(": ") for line in lines_of(head)))),
        (400, False, lambda head: html.escape(head.decode())),
        (
            400,
            False,
            lambda head: "x" * (2048 - len("authorization: bearer s3cret+o")) + lower(head),
        ),
        (401, True, lambda _: "no model s3cret of the Bearer"),
    ],
    ids=["raw", "JSON", "HTML", "cut", "another text"],
)
async def test_a_refusal_that_shows_the_credential_is_withheld(
    status: int,
    passes: bool,
    spelled: Callable[[bytes], str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with bridging(authorization=f"Bearer {SECRET}") as bridge:
        bridge.upstream.answer = lambda head: refusing(f"{status} No", spelled(head))(head)
        refused = await bridge.request(upgrade_request(STREAM))
        assert refused.status == status
        own = b"the upstream refused the stream\n"
        assert refused.body == (spelled(b"").encode() if passes else own)
        why = "its body is not passed on, since it shows PARTWAY_UPSTREAM_AUTHORIZATION"
        assert (why in caplog.text) is not passes
        assert "s3cret" not in caplog.text


def lines_of(head: bytes) -> list[str]:
    return head.decode().rstrip().split("\r\n")[1:]


def lower(head: bytes) -> str:
    """The line with the credential, its name and scheme in lower case."""
    (line,) = (each for each in lines_of(head) if each.startswith("Authorization: "))
    return line.replace("A", "a").replace("B", "b")


async def test_a_refusal_in_a_coding_is_withheld() -> None:
    async with bridging() as bridge:
        bridge.upstream.answer = refusing("400 No", "packed", "Content-Encoding: gzip")
        refused = await bridge.request(upgrade_request(STREAM))
        assert (refused.status, refused.body) == (400, b"the upstream refused the stream\n")


async def test_an_upstream_that_does_not_answer_the_upgrade() -> None:
    async with bridging(dialler=UpstreamDialler(handshake_timeout=0.05)) as bridge:
        bridge.upstream.answer = lambda _: None
        refused = await bridge.request(upgrade_request(STREAM))
        assert refused.status == 504
        assert refused.body == b"the upstream did not answer the upgrade within 0.05 s\n"
        left = await bridge.upstream.stream()
        assert await left.eof() == b""


async def test_a_client_that_leaves_while_the_upstream_hesitates() -> None:
    async with bridging() as bridge:
        bridge.upstream.answer = lambda _: None
        client = await bridge.connect()
        client.send(upgrade_request(STREAM))
        waiting = await bridge.upstream.stream()
        client.reset()
        assert await waiting.eof() == b""


async def test_an_upstream_that_is_gone() -> None:
    async with bridging() as bridge:
        bridge.upstream.stop()
        refused = await bridge.request(upgrade_request(STREAM))
        assert (refused.status, refused.body) == (502, b"the upstream cannot be reached\n")


# --- Health --------------------------------------------------------------------------------------

PING = b"GET /ping HTTP/1.1\r\nHost: c\r\nConnection: close\r\n\r\n"


async def asked(port: int, request: bytes = PING) -> tuple[int, str]:
    client = await RawClient.connect(port)
    client.send(request)
    try:
        answer = await client.response()
    finally:
        client.abort()
    return answer.status, answer.body.decode().rstrip()


async def answers(port: int, status: int, reason: str, request: bytes = PING) -> None:
    """Ask until this is the answer: on a busy machine the look at the upstream may be late.

    Args:
        reason: the beginning of the answer's body.
    """
    async with asyncio.timeout(PATIENCE):
        while True:
            said, body = await asked(port, request)
            if said == status and body.startswith(reason):
                return
            await asyncio.sleep(0.05)


@asynccontextmanager
async def started(
    settings: BridgeSettings, times: ShutdownTimes = QUICK
) -> AsyncIterator[tuple[BridgeServer, int]]:
    """A bridge that listens; ``load`` is the test's to call."""
    server = BridgeServer(settings, times=times)
    try:
        yield server, await server.start()
    finally:
        await server.aclose()


@pytest.mark.clause("1.1-2")
async def test_a_healthy_ping_is_a_promise_that_streams_are_taken() -> None:
    async with RawContainer(lambda _: b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n") as upstream:
        settings = bridge_settings(given(f"ws://127.0.0.1:{upstream.port}/v1/realtime"))
        async with started(settings) as (server, own):
            refusal = (503, "the upstream is not up yet")
            assert await asked(own) == await asked(own, upgrade_request(STREAM)) == refusal
            await server.load()
            assert await asked(own) == (200, "")


@pytest.mark.clause("1.1-2", "1.1-3")
async def test_it_is_ready_once_the_upstream_is_up() -> None:
    upstream = RawContainer(lambda _: b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    async with upstream:
        port = upstream.port
    url = f"ws://127.0.0.1:{port}/v1/realtime"
    async with started(bridge_settings(given(url))) as (server, own):
        loading = asyncio.create_task(server.load())
        health = f"http://127.0.0.1:{port}/health"
        silent = f"the upstream does not answer at {health}: Connection refused"
        await answers(own, 503, silent)
        assert await asked(own, upgrade_request(STREAM)) == (503, "the upstream is not up yet")
        listener = await asyncio.start_server(upstream._serve, "127.0.0.1", port)
        try:
            await soon(loading, "the upstream's answer")
            await answers(own, 200, "")
            await answers(own, 200, "", PING.replace(b"GET", b"POST"))
            assert (await asked(own, PING.replace(b"GET", b"PUT")))[0] == 405
        finally:
            listener.close()
            upstream.stop()


@pytest.mark.clause("1.1-2")
@pytest.mark.parametrize(
    ("status", "by_url", "by_default"),
    [(200, True, True), (426, False, True), (302, False, True), (503, False, False)],
)
async def test_which_answers_are_healthy(status: int, by_url: bool, by_default: bool) -> None:
    answer = f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
    async with RawContainer(lambda _: answer) as upstream:
        url = given(f"ws://127.0.0.1:{upstream.port}/v1/realtime")
        health = given(f"http://127.0.0.1:{upstream.port}/ready?deep=1", "--health")
        for settings, healthy in (
            (bridge_settings(url, health=health), by_url),
            (bridge_settings(url), by_default),
        ):
            async with started(settings) as (server, own):
                if healthy:
                    await server.load()
                refusal = f"the upstream answers {status} at http://127.0.0.1:"
                await answers(own, *((200, "") if healthy else (503, refusal)))
                assert (await upstream.stream()).target == settings.health.url.target()


# --- The end -------------------------------------------------------------------------------------


@pytest.mark.clause("1.1-1", "1.5-9")
async def test_at_the_end_both_sides_of_a_stream_are_told() -> None:
    async with bridging(times=IN_TURN) as bridge:
        client, model = await bridge.open()
        bridge.server.stop()
        for side in (client, model):
            said = await side.frame()
            assert (said.close_code, said.close_reason) == (1001, "the container is stopping")
        assert (await bridge.request(PING)).status == 503
        client.send_close(1001)
        model.end()
        assert await client.eof() == b""


# --- The program ---------------------------------------------------------------------------------

#: Listens, writes its group's number to a file, and says there how it ended.
PROGRAM = """
import http.server, os, signal, subprocess, sys, threading
port, notes = int(sys.argv[1]), sys.argv[2]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(404)
        self.end_headers()
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
def note(text):
    with open(notes, "a") as file:
        file.write(text + "\\n")
def end(*_):
    note("terminated")
    if "stubborn" not in sys.argv:
        threading.Thread(target=server.shutdown).start()
signal.signal(signal.SIGTERM, end)
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
note(f"{child.pid}")
server.serve_forever()
"""


def program_settings(tmp_path: Path, *more: str) -> tuple[BridgeSettings, Path]:
    from partway.gateway.fleet.launchers.process import free_port

    port, notes = free_port(), tmp_path / "notes"
    words = [sys.executable, "-c", PROGRAM, str(port), str(notes), *more]
    return bridge_settings(given(f"ws://127.0.0.1:{port}/x"), program=words), notes


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.clause("1.1-1")
@pytest.mark.parametrize("more", [(), ("stubborn",)], ids=["obeys", "ignores SIGTERM"])
async def test_the_program_starts_and_ends_with_the_bridge(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    settings, notes = program_settings(tmp_path, *more)
    times = ShutdownTimes(grace=0.1, spread=0.1, hard=0.1 if more else PATIENCE)
    async with started(settings, times) as (server, own):
        await soon(server.load(), "the program")
        await answers(own, 200, "")
        server.stop()
        await soon(server.stopped(), "the end")
    child, *said = notes.read_text().split()
    assert said == ["terminated"]
    await eventually(lambda: gone(int(child)))


async def test_the_bridge_ends_with_its_program(tmp_path: Path) -> None:
    settings, notes = program_settings(tmp_path)
    async with started(settings) as (server, _):
        await soon(server.load(), "the program")
        (child,) = notes.read_text().split()
        psutil.Process(int(child)).parent().kill()
        with pytest.raises(CannotServe, match=r"^the program \S*python\S* ended by SIGKILL, and"):
            await soon(server.stopped(), "the end")
    await eventually(lambda: gone(int(child)))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            [sys.executable, "-c", "exit(3)"],
            r"^the program \S+ ended with status 3, before the upstream ws://127.0.0.1:9/ was up$",
        ),
        (["/no/such/program"], "^cannot start the program /no/such/program: No such file"),
        (["/etc"], "^cannot start the program /etc: Permission denied"),
    ],
)
async def test_a_program_that_does_not_start(words: list[str], why: str) -> None:
    settings = bridge_settings(given("ws://127.0.0.1:9"), program=words)
    async with started(settings) as (server, _):
        with pytest.raises(CannotServe, match=why):
            await soon(server.load(), "the failure")


async def test_a_stop_while_the_upstream_starts() -> None:
    async with started(bridge_settings(given("ws://127.0.0.1:9/"))) as (server, own):
        loading = asyncio.create_task(server.load())
        assert (await asked(own))[0] == 503
        server.stop()
        await soon(loading, "the end of loading")
        await soon(server.stopped(), "the end")


async def test_streams_of_a_program_that_dies_get_a_close(tmp_path: Path) -> None:
    async with bridging() as bridge:
        client, model = await bridge.open()
        client.send(frame(TEXT, b"x", mask=KEY))
        await model.frame()
        bridge.upstream.stop()
        assert (await client.frame()).close_code == 1011
