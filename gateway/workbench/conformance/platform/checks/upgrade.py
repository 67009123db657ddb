"""The request for a stream (clauses 1.1-2, 1.1-4, 1.2-6, 1.6-1, 4-6)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
from typing import Final

from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.container import (
    Answer,
    UpgradeHead,
    granted,
    refusing,
)
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.verdict import Broken, Severity

checks: Final = PlatformChecks("upgrade")

DEFAULT_TARGET: Final = "/invocations-bidirectional-stream"

#: All headers that a request may have (clause 1.6-1); a User-Agent does no harm.
_KNOWN: Final = frozenset(
    {
        *("host", "upgrade", "connection", "user-agent", "x-amzn-sagemaker-request-id"),
        *("sec-websocket-key", "sec-websocket-version"),
        *("sec-websocket-extensions", "sec-websocket-protocol"),  # checked by themselves
    }
)
_REQUEST_ID: Final = "x-amzn-sagemaker-request-id"

#: Seconds to wait for bytes that should not come.
_QUIET: Final = 0.25

#: Seconds that a busy machine may add to a limit.
_SLACK: Final = 1.0


async def _head(trial: PlatformTrial, title: str = "a stream") -> UpgradeHead:
    async with trial.stream(title) as (_, seen):
        return seen.head


@checks.add(
    "asked",
    "1.1-4",
    title="the platform asks for a WebSocket as RFC 6455 §4.1 requires",
    remedy="send GET, HTTP/1.1, Upgrade: websocket, Connection: Upgrade, Sec-WebSocket-Version: 13",
    requires=(),
)
async def asked(trial: PlatformTrial) -> None:
    head = await _head(trial)
    method, version = head.line.partition(" ")[0], head.line.rpartition(" ")[2]
    if method != "GET" or version != "HTTP/1.1":
        raise Broken(f"the request line is {head.line!r}, not GET … HTTP/1.1")
    if head.one("upgrade").lower() != "websocket":
        raise Broken(f"Upgrade is {head.all('upgrade')}, not websocket")
    tokens = [token.strip().lower() for token in head.one("connection").split(",")]
    if "upgrade" not in tokens:
        raise Broken(f"Connection is {head.all('connection')}, and does not name Upgrade")
    if head.all("sec-websocket-version") != ["13"]:
        raise Broken(f"Sec-WebSocket-Version is {head.all('sec-websocket-version')}, not 13")


@checks.add(
    "host",
    "1.1-4",
    title="the request has exactly one Host header",
    remedy="send one Host header (RFC 9112 §3.2)",
)
async def host(trial: PlatformTrial) -> None:
    hosts = (await _head(trial)).all("host")
    if len(hosts) != 1 or not hosts[0]:
        raise Broken(f"Host is {hosts}; it must be one header with a value")


@checks.add(
    "key",
    "1.1-4",
    title="the key has 16 bytes, and each stream has another key",
    remedy="make Sec-WebSocket-Key of 16 random bytes, each time (RFC 6455 §4.1)",
)
async def key(trial: PlatformTrial) -> None:
    keys = []
    for _ in range(2):
        values = (await _head(trial)).all("sec-websocket-key")
        try:
            decoded = [base64.b64decode(value, validate=True) for value in values]
        except (binascii.Error, ValueError):
            decoded = []
        if len(decoded) != 1 or len(decoded[0]) != 16:
            raise Broken(f"Sec-WebSocket-Key is {values}, not 16 bytes in base64")
        keys += decoded
    if keys[0] == keys[1]:
        raise Broken(f"two streams have the key {keys[0].hex(' ')}")


@checks.add(
    "extensions",
    "1.2-6",
    title="the platform offers no extension",
    remedy="leave Sec-WebSocket-Extensions out: a compressed payload is not the part's bytes",
)
async def extensions(trial: PlatformTrial) -> None:
    offered = (await _head(trial)).all("sec-websocket-extensions")
    if offered:
        raise Broken(f"Sec-WebSocket-Extensions offers {offered}")


@checks.add(
    "subprotocol",
    "1.6-1",
    title="the platform offers no subprotocol",
    remedy="leave Sec-WebSocket-Protocol out: the client's subprotocol does not concern the "
    "container",
)
async def subprotocol(trial: PlatformTrial) -> None:
    offered = (await _head(trial)).all("sec-websocket-protocol")
    if offered:
        raise Broken(f"Sec-WebSocket-Protocol offers {offered}")


@checks.add(
    "path",
    "1.1-4",
    "1.6-1",
    title="the platform asks for a stream on the documented path",
    remedy=f"ask for {DEFAULT_TARGET}, with nothing after it",
)
async def path(trial: PlatformTrial) -> None:
    target = (await _head(trial)).target
    if target != DEFAULT_TARGET:
        raise Broken(f"the platform asked for {target!r}, not for {DEFAULT_TARGET!r}")


@checks.add(
    "given_path",
    "1.6-1",
    title="a client's path replaces the documented path",
    remedy="replace the documented path with / and the model invocation path",
)
async def given_path(trial: PlatformTrial) -> None:
    async with trial.stream("with a path", path="v1/audio-2/listen.x_y") as (_, seen):
        target = seen.head.target
    if target != "/v1/audio-2/listen.x_y":
        raise Broken(f"the platform asked for {target!r}, not for '/v1/audio-2/listen.x_y'")


@checks.add(
    "query",
    "1.6-1",
    title="the platform passes a client's query on unchanged",
    remedy="append ? and the model query string to the path, and change nothing in the query",
)
async def query(trial: PlatformTrial) -> None:
    sent = "model=nova-2&b=%2Fx%20y&a=1&b=%e2%82%AC~"
    async with trial.stream("with a query", query=sent) as (_, seen):
        found = seen.head.target.partition("?")[2]
    if found != sent:
        raise Broken(f"the query is {found!r}, not {sent!r}")


@checks.add(
    "request_id",
    "1.6-1",
    title="the container gets the client's request id, and each stream has another",
    remedy="send one X-Amzn-SageMaker-Request-Id, with the id that the client gets",
)
async def request_id(trial: PlatformTrial) -> None:
    found = []
    for _ in range(2):
        async with trial.stream("a request id") as (client, seen):
            ids = seen.head.all(_REQUEST_ID)
            if len(ids) != 1 or not ids[0]:
                raise Broken(f"X-Amzn-SageMaker-Request-Id is {ids}")
            if ids[0] != client.request_id:
                raise Broken(
                    f"the container got the request id {ids[0]!r}, and the client "
                    f"{client.request_id!r}"
                )
            found += ids
    if found[0] == found[1]:
        raise Broken(f"two streams have the request id {found[0]!r}")


@checks.add(
    "headers",
    "1.6-1",
    severity=Severity.SHOULD,
    title="the container gets no other header of the client",
    remedy="send only the upgrade's own headers and the request id",
)
async def headers(trial: PlatformTrial) -> None:
    names = {name for name, _ in (await _head(trial)).fields}
    if names - _KNOWN:
        others = ", ".join(sorted(names - _KNOWN))
        raise Broken(f"the upgrade request had other headers too: {others}")


@checks.add(
    "waits",
    "1.1-4",
    title="before the 101 the platform sends no frame, and grants the client no stream",
    remedy="wait for the container's 101 before you send a frame or grant the client's stream "
    "(RFC 6455 §4.1)",
)
async def waits(trial: PlatformTrial) -> None:
    trial.container.answer = lambda _: None
    async with asyncio.TaskGroup() as group:
        client_side = group.create_task(_opened(trial))
        seen = await trial.container.stream(trial.patience)
        trial.exchanges.append(seen.exchange)
        try:
            await seen.until(lambda: bool(seen.frames) or client_side.done(), _QUIET, "")
        except Broken:
            early = False  # nothing came, which is right
        else:
            early = True
        seen.send_raw(granted(seen.head), "HTTP/1.1 101")
        await client_side
    if early or client_side.result() < _QUIET / 2:
        raise Broken("the platform went on before the container had answered the upgrade")


async def _opened(trial: PlatformTrial) -> float:
    """Open a stream and leave it; return the seconds that opening took."""
    began = time.monotonic()
    async with trial.platform.connect():
        return time.monotonic() - began


async def _refusal(trial: PlatformTrial, answer: Answer, status: int, what: str) -> None:
    trial.container.answer = answer
    refusal = await trial.refused()
    if (refusal.status, refusal.error, refusal.original_status) != (424, "ModelError", status):
        raise Broken(
            f"{what}: the client gets {refusal.error} {refusal.status} with OriginalStatusCode "
            f"{refusal.original_status}, not ModelError 424 with {status}"
        )
    # A success has a page and is no refusal, so that a platform may keep its content to itself.
    told = ("not here", "") if 200 <= status < 300 else ("not here",)
    if status and refusal.original_message not in told:
        raise Broken(f"{what}: OriginalMessage is {refusal.original_message!r}, not 'not here'")


@checks.add(
    "refused",
    "4-6",
    title="a container's refusal reaches the client with its status and body",
    remedy="answer 424 ModelError with OriginalStatusCode and OriginalMessage; follow no redirect",
)
async def refused(trial: PlatformTrial) -> None:
    for status in ("403 Forbidden", "302 Found", "503 Service Unavailable", "200 OK"):
        answer = refusing(status, b"not here")
        await _refusal(trial, answer, int(status[:3]), f"after {status}")


@checks.add(
    "wrong_101",
    "1.2-6",
    "4-6",
    title="the platform refuses a stream whose 101 breaks RFC 6455",
    remedy="check Sec-WebSocket-Accept, and refuse an extension or subprotocol that was not "
    "offered",
    requires=("upgrade.refused",),
)
async def wrong_101(trial: PlatformTrial) -> None:
    for name, value in (
        ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ("Sec-WebSocket-Extensions", "permessage-deflate"),
        ("Sec-WebSocket-Protocol", "chat"),
        ("Upgrade", "h2c"),
    ):

        def answer(head: UpgradeHead, name: str = name, value: str = value) -> bytes:
            return granted(head, {name: value})

        await _refusal(trial, answer, 0, f"after a 101 with {name}: {value}")


@checks.add(
    "accept_timeout",
    "1.1-2",
    "4-6",
    title="the platform gives up a container that accepts no connection within 250 ms",
    remedy="give a connection 250 ms to be accepted, then answer 424 with OriginalStatusCode 0",
    requires=("upgrade.refused",),
)
async def accept_timeout(trial: PlatformTrial) -> None:
    limit = trial.platform.times.connect_timeout
    address = trial.container.address
    await trial.container.accept_no_more()
    _, waiting = await asyncio.open_connection(address.host, address.port)  # takes the one place
    try:
        began = time.monotonic()
        refusal = await trial.refused(trial.platform.hurried)
        took = time.monotonic() - began
    finally:
        trial.container.accept_again()
        waiting.close()
    if refusal.original_status != 0 or refusal.status != 424:
        raise Broken(f"the client gets {refusal}, not 424 with OriginalStatusCode 0")
    if not limit * 0.9 <= took <= limit + _SLACK:
        raise Broken(
            f"the platform gave the container up after {took:.2f} s, not after {limit:g} s"
        )
