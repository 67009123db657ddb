"""``/ping`` and ``/invocations`` (clauses 1.1-2 and 1.1-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.checks.startup import ping
from partway.gateway.workbench.conformance.raw_connection import HttpAnswer
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried

checks: Final = Checks()

#: The platform's patience with /ping and with /invocations.
PING_TIMEOUT: Final = 2.0
_INVOCATION_TIMEOUT = 60.0
_STREAMS_AT_ONCE = 8

#: Headers that the platform, or a proxy on the way, may add. They mean nothing to a container.
UNKNOWN_HEADERS: Final = {
    "X-Amzn-SageMaker-Request-Id": "0b5dd6d0-7a2b-4c5e-9f3a-1d2c3b4a5f60",
    "X-Amzn-SageMaker-Custom-Attributes": "trace=" + "1" * 1018,  # 1,024 bytes, the largest value
    "X-Amzn-SageMaker-Not-Yet-Known": "any value; with = and ,",
    "X-Forwarded-For": "192.0.2.7",
    "Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
}


@checks.add(
    "ping.get",
    "1.1-2",
    title="the container answers GET /ping with 200",
    remedy="answer /ping for GET and for POST: the platform's documentation names both",
    requires=("startup.ready",),
)
async def ping_get(trial: Trial) -> None:
    await _is_200(trial, "GET")


@checks.add(
    "ping.post",
    "1.1-2",
    title="the container answers POST /ping with 200",
    remedy="answer /ping for POST and for GET: the platform's documentation names both",
    requires=("startup.ready",),
)
async def ping_post(trial: Trial) -> None:
    await _is_200(trial, "POST")


async def _is_200(trial: Trial, method: str) -> None:
    answer = await trial.request(method, "/ping")
    if answer.status != 200:
        raise Broken(f"the container answered {method} /ping with {answer}, not with 200")


@checks.add(
    "ping.empty",
    "1.1-2",
    severity=Severity.SHOULD,
    title="/ping's answer has an empty body",
    remedy="answer /ping with status 200 and no body",
    requires=("startup.ready",),
)
async def ping_empty(trial: Trial) -> None:
    answer = await ping(trial)
    if answer.body:
        raise Broken(f"the container answered /ping with {answer}")


@checks.add(
    "ping.quick",
    "1.1-2",
    title="the container answers /ping within two seconds",
    remedy="answer /ping from memory: check the model's health elsewhere",
    requires=("startup.ready",),
)
async def ping_quick(trial: Trial) -> None:
    answer = await ping(trial)
    if answer.after > PING_TIMEOUT:
        raise Broken(
            f"the container answered /ping after {answer.after:.1f} s; it must answer within "
            f"{PING_TIMEOUT:g} s"
        )


@checks.add(
    "ping.busy",
    "1.1-2",
    title=f"the container answers /ping within two seconds while {_STREAMS_AT_ONCE} streams ask "
    "the model",
    remedy="compute in another thread or process than the one that answers /ping; in a "
    "coroutine: await asyncio.to_thread(compute, …)",
    requires=("ping.quick", "messages.answer", "streams.many"),
)
async def ping_busy(trial: Trial) -> None:
    async with AsyncExitStack() as streams:
        peers = [
            await streams.enter_async_context(trial.stream(f"stream {number}"))
            for number in range(_STREAMS_AT_ONCE)
        ]
        for peer in peers:
            for message in trial.probe.messages:
                await peer.say(message)
        for _ in range(3):
            answer = await ping(trial)
            if answer.status != 200 or answer.after > PING_TIMEOUT:
                raise Broken(
                    f"with {_STREAMS_AT_ONCE} open streams the container answered /ping with "
                    f"{answer.status} after {answer.after:.1f} s; it must answer with 200 within "
                    f"{PING_TIMEOUT:g} s"
                )
            await asyncio.sleep(0.05)


@checks.add(
    "http.headers",
    "1.1-2",
    "1.6-1",
    title="the container ignores headers that it does not know",
    remedy="ignore headers that you do not know: the platform and its proxies add some",
    requires=("startup.ready",),
)
async def headers(trial: Trial) -> None:
    sizes = ", ".join(f"{name} ({len(value)} bytes)" for name, value in UNKNOWN_HEADERS.items())
    try:
        answer = await ping(trial, UNKNOWN_HEADERS)
    except Broken as broken:
        raise Broken(f"with these headers {broken.what}: {sizes}") from None
    if answer.status != 200:
        raise Broken(
            f"the container answered /ping with {answer} when these headers were sent, and with "
            f"200 without them: {sizes}"
        )


async def _invoke(trial: Trial, spelled: Callable[[str], str] = str) -> HttpAnswer:
    first = trial.probe.messages[0]
    body = first.encode() if isinstance(first, str) else first
    content_type = "text/plain" if isinstance(first, str) else "application/octet-stream"
    sent = {"Content-Type": content_type}
    return await trial.request("POST", "/invocations", sent, body, _INVOCATION_TIMEOUT, spelled)


@checks.add(
    "invocations.post",
    "1.1-2",
    severity=Severity.SHOULD,
    title="the container answers POST /invocations",
    remedy="answer POST /invocations, which InvokeEndpoint uses; a server that has only "
    "WebSockets may leave it out: its streams work without it",
    requires=("startup.ready",),
    limit=_INVOCATION_TIMEOUT + 5,
)
async def invocations_post(trial: Trial) -> None:
    answer = await _invoke(trial)
    # The model itself decides how it answers this body.
    if answer.status in (404, 405) or (answer.status >= 500 and answer.status != 501):
        raise Broken(f"the container answered POST /invocations with {answer}")


@checks.add(
    "invocations.names",
    "1.1-2",
    severity=Severity.SHOULD,
    title="/invocations reads header names in lower case",
    remedy="compare names of headers without regard to case (RFC 9110 §5.1): proxies write them in "
    "lower case",
    requires=("invocations.post",),
    limit=2 * _INVOCATION_TIMEOUT + 5,
)
async def invocations_names(trial: Trial) -> None:
    usual = await _invoke(trial)
    lower = await _invoke(trial, str.lower)
    # A model's answers may differ from time to time, but not whether it answers.
    if (lower.status, bool(lower.body)) != (usual.status, bool(usual.body)):
        raise Broken(
            f"the container answered POST /invocations with {lower} when all header names were in "
            f"lower case, and with {usual} otherwise"
        )


@checks.add(
    "invocations.chunked",
    "1.1-5",
    severity=Severity.NOTE,
    title="the container answers /invocations in chunks, as the model produces them",
    remedy="for response streaming send the answer with Transfer-Encoding: chunked",
    requires=("invocations.post",),
    limit=_INVOCATION_TIMEOUT + 5,
)
async def invocations_chunked(trial: Trial) -> None:
    answer = await _invoke(trial)
    if not 200 <= answer.status < 300:
        raise Untried(f"the container answered POST /invocations with {answer.status}")
    if not answer.chunked:
        raise Broken(
            "the answer is not chunked (Content-Length: "
            f"{answer.headers.get('content-length', 'none')}): a client of "
            "InvokeEndpointWithResponseStream gets it in one part"
        )
