"""OpenAI's path, for containers that serve it (clauses 1.7-1 to 1.7-5)."""

from __future__ import annotations

import json
import re
import time
from typing import Any, Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.openai_requests import (
    ABSENT,
    ANSWER_TIMEOUT,
    CHAT,
    UNKNOWN_PATH,
    Operation,
    ask_chat,
    choice_of,
    error_message,
    events_of,
    head_of,
    json_object,
    media_type,
    need_chat,
    question,
    served,
    serves_chat,
)
from partway.gateway.workbench.conformance.raw_connection import HttpAnswer, request_head
from partway.gateway.workbench.conformance.raw_stream import Peer, upgrade
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried

checks: Final = Checks()

#: Paths that Partway reaches and AWS does not (clause 1.7-5).
_BESIDE_CHAT: Final = (
    Operation("GET", "/v1/models"),
    Operation("POST", "/v1/completions"),
    Operation("POST", "/v1/embeddings"),
    Operation("POST", "/v1/responses"),
    Operation("POST", "/v1/audio/speech"),
    Operation("POST", "/v1/audio/transcriptions"),
)
_REALTIME: Final = "/v1/realtime"
_LEAVE_TIMEOUT = 0.3

_CHUNK: Final = "chat.completion.chunk"
_DONE: Final = b"[DONE]"
#: Members that OpenAI's clients send, and one that none of them sends.
_MEMBERS: Final[dict[str, object]] = {
    "store": True,
    "metadata": {"purpose": "conformance"},
    "partway_unknown": 1,
}
#: Requests that no container can serve, and what they are.
_INVALID: Final = (
    (b'{"model": "", "max_tokens": 8}', "a chat completion request without messages"),
    (b"this is not JSON", "a chat completion request that is not JSON"),
)
_REFUSALS: Final = {
    401: "require no key: the platform has authenticated the client already, and sends none",
    403: "require no key: the platform has authenticated the client already, and sends none",
}

#: Tokens of an answer whose beginning comes before its end.
_LONG_TOKENS = 32
#: Answers that may come in one read. A machine that is busy may be late to read the first event.
_TRIES = 3
#: Answers that are cut.
_CUT = 8
#: Bytes of an answer that are read before it is cut.
_MAX_BEGINNING = 64 << 10
_OK: Final = re.compile(rb"HTTP/1\.[01] 200\b")


# --- One answer -----------------------------------------------------------------------------------


@checks.add(
    "openai.chat",
    "1.7-1",
    title="the container answers a chat completion request with an empty model",
    remedy="answer POST /v1/chat/completions with 200 and a chat.completion in JSON; take an empty "
    "model as the one that you serve",
    requires=("startup.ready",),
    limit=ANSWER_TIMEOUT + 15,
)
async def chat(trial: Trial) -> None:
    answer = await ask_chat(trial, question())
    _check_200(answer, "a chat completion request with an empty model", "application/json")
    completion = json_object(answer.body, "the body of a chat completion")
    if completion.get("object") != "chat.completion":
        raise Broken(f"the answer's object is {completion.get('object')!r}, not 'chat.completion'")
    choice = choice_of(completion)
    reason = choice.get("finish_reason")
    if not isinstance(reason, str):
        raise Broken(
            f"the answer's choices[0].finish_reason is {reason!r}; it must be a string, such as "
            "'stop'"
        )
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    # A model that thinks first may have said nothing before max_tokens.
    is_cut_thought = isinstance(message, dict) and reason == "length"
    if not isinstance(content, str) and not is_cut_thought:
        raise Broken("the answer has no choices[0].message.content; it must be the model's text")


def _check_200(answer: HttpAnswer, what: str, wanted: str) -> None:
    if answer.status != 200:
        raise Broken(
            f"the container answered {what} with {answer}, not with 200",
            _REFUSALS.get(answer.status),
        )
    found = media_type(answer)
    if found != wanted:
        raise Broken(
            f"the answer to {what} has Content-Type {found or 'none'}, not {wanted}",
            f"send Content-Type: {wanted}; OpenAI's clients read an answer by it",
        )


# --- An answer in events --------------------------------------------------------------------------


@checks.add(
    "openai.stream",
    "1.7-2",
    title="the container answers with chunks in server-sent events if stream is true",
    remedy="with stream: true send text/event-stream, each event a chat.completion.chunk in JSON "
    "with choices[0].delta",
    requires=("openai.chat",),
    limit=ANSWER_TIMEOUT + 15,
)
async def stream(trial: Trial) -> None:
    answer, chunks, _ = await _streamed(trial)
    for chunk in chunks:
        if chunk.get("object") != _CHUNK:
            event = shown(json.dumps(chunk).encode(), 96)
            raise Broken(f"an event is {event}; its object must be {_CHUNK!r}")
    if not any(isinstance(choice_of(chunk).get("delta"), dict) for chunk in chunks):
        raise Broken(
            f"none of the {len(chunks)} events has choices[0].delta; the body is "
            f"{shown(answer.body, 64)}"
        )


async def _streamed(
    trial: Trial, **members: object
) -> tuple[HttpAnswer, list[dict[str, Any]], bool]:
    """Ask for an answer in events; return it, its chunks, and whether ``[DONE]`` is the last event.

    Raises:
        Broken: the answer is not a 200 with events in JSON.
        Untried: the container does not serve chat completions.
    """
    answer = await ask_chat(trial, question(stream=True, **members))
    _check_200(answer, "a chat completion request with stream: true", "text/event-stream")
    events = events_of(answer.body)
    is_done = events[-1:] == [_DONE]
    if is_done:
        events.pop()
    return answer, [json_object(each, "an event's data") for each in events], is_done


@checks.add(
    "openai.end",
    "1.7-2",
    severity=Severity.SHOULD,
    title="a streamed answer ends with a finish_reason and [DONE]",
    remedy="send a last chunk with finish_reason, and then the event data: [DONE]; without them a "
    "whole answer looks like a cut one",
    requires=("openai.stream",),
    limit=ANSWER_TIMEOUT + 15,
)
async def end(trial: Trial) -> None:
    answer, chunks, is_done = await _streamed(trial)
    if not any(isinstance(choice_of(each).get("finish_reason"), str) for each in chunks):
        raise Broken(f"none of the {len(chunks)} chunks has choices[0].finish_reason")
    if not is_done:
        raise Broken(f"the last event is not [DONE]: the body ends with {shown(answer.body[-32:])}")


@checks.add(
    "openai.unbuffered",
    "1.7-2",
    severity=Severity.SHOULD,
    title="the first event of a streamed answer comes before the last",
    remedy="send each event as soon as the model has produced it: with Transfer-Encoding: chunked, "
    "and without Content-Length",
    requires=("openai.stream",),
    limit=_TRIES * ANSWER_TIMEOUT + 15,
)
async def unbuffered(trial: Trial) -> None:
    for _ in range(_TRIES):
        answer, _, _ = await _streamed(trial, max_tokens=_LONG_TOKENS)
        length = answer.headers.get("content-length")
        if length is not None:
            raise Broken(
                f"the streamed answer has Content-Length: {length}, so it was finished before it "
                "began"
            )
        if _begins_before_its_end(answer):
            return
    raise Broken(f"in each of {_TRIES} streamed answers the first event came with the last")


def _begins_before_its_end(answer: HttpAnswer) -> bool:
    """Whether an earlier read than the last one completed the first event."""
    if not answer.chunks:
        return False
    last = answer.chunks[-1][0]
    return bool(events_of(b"".join(piece for read, piece in answer.chunks if read < last)))


@checks.add(
    "openai.usage",
    "1.7-2",
    severity=Severity.NOTE,
    title="a streamed answer counts tokens if stream_options.include_usage is true",
    remedy="send a chunk with usage before [DONE]: some clients count tokens, and costs, by it",
    requires=("openai.stream",),
    limit=ANSWER_TIMEOUT + 15,
)
async def usage(trial: Trial) -> None:
    _, chunks, _ = await _streamed(trial, stream_options={"include_usage": True})
    if not any(isinstance(chunk.get("usage"), dict) for chunk in chunks):
        raise Broken(f"none of the {len(chunks)} chunks has usage")


# --- Other requests -------------------------------------------------------------------------------


@checks.add(
    "openai.members",
    "1.7-3",
    severity=Severity.SHOULD,
    title="the container ignores members that it does not know, or refuses them by name",
    remedy="ignore members of a request that have no meaning to you, or name them in the error's "
    "message: clients add members of their own",
    requires=("openai.chat",),
    limit=ANSWER_TIMEOUT + 15,
)
async def members(trial: Trial) -> None:
    answer = await ask_chat(trial, question(**_MEMBERS))
    if answer.status == 200:
        return
    names = ", ".join(_MEMBERS)
    message = error_message(answer)
    is_refusal = 400 <= answer.status < 500 and message is not None
    if not is_refusal or not any(name in str(message) for name in _MEMBERS):
        raise Broken(
            f"the container answered a chat completion request with the members {names} with "
            f"{answer}; it must answer with 200, or name the member that it refuses"
        )


@checks.add(
    "openai.invalid",
    "1.7-4",
    severity=Severity.SHOULD,
    title="the container refuses an invalid request with 4xx and an error in OpenAI's form",
    remedy='answer with 400 and {"error": {"message": …, "type": "invalid_request_error"}}: '
    "clients show the message, and repeat a request after 5xx",
    requires=("openai.chat",),
    limit=2 * ANSWER_TIMEOUT + 15,
)
async def invalid(trial: Trial) -> None:
    for body, what in _INVALID:
        answer = await ask_chat(trial, body)
        if not 400 <= answer.status < 500:
            raise Broken(f"the container answered {what} with {answer}, not with a status of 4xx")
        if error_message(answer) is None:
            raise Broken(
                f"the container answered {what} with {answer}; the body must be an object with "
                "error.message"
            )


@checks.add(
    "openai.after",
    "1.7-4",
    title=f"the container answers after invalid requests and {_CUT} answers that are cut",
    remedy="a client may leave at any time: end its answer, release all that it holds, and serve "
    "the others",
    requires=("openai.stream",),
    limit=2 * ANSWER_TIMEOUT + 15,
    wears=True,
)
async def after(trial: Trial) -> None:
    for body, _ in _INVALID:
        await ask_chat(trial, body)
    for number in range(_CUT):
        await _cut_one(trial, f"answer {number + 1} of {_CUT} that is cut")
    try:
        await _streamed(trial)
    except Broken as broken:
        raise Broken(
            f"after {len(_INVALID)} invalid requests and {_CUT} answers that were cut: "
            f"{broken.what}"
        ) from None


async def _cut_one(trial: Trial, title: str) -> None:
    """Ask for an answer in events, and leave with the first."""
    body = question(stream=True, max_tokens=_LONG_TOKENS)
    async with trial.link(title) as link:
        head = request_head(*CHAT, head_of(body))
        await link.send(head + body, str(CHAT), head=len(head))
        deadline = time.monotonic() + ANSWER_TIMEOUT
        read = b""
        while b"data:" not in read and len(read) < _MAX_BEGINNING:
            try:
                more = await link.read(deadline - time.monotonic())
            except TimeoutError:
                raise Broken(f"{title}: no event came within {ANSWER_TIMEOUT:g} s") from None
            if not more:
                raise Broken(f"{title}: the connection ended before the first event")
            read += more
            status, line_end, _ = read.partition(b"\r\n")
            if line_end and not _OK.match(status):
                raise Broken(f"{title}: the container answered {shown(status)}, not with 200")
        link.exchange.note("received", "the beginning of the answer", read)
        link.abort()


# --- Paths ----------------------------------------------------------------------------------------


@checks.add(
    "openai.unknown",
    "1.7-5",
    severity=Severity.SHOULD,
    title="the container answers a path below /v1 that it does not serve with 404",
    remedy="answer 404 on a path that you do not serve: clients learn from it that a feature is "
    "missing",
    requires=("openai.chat",),
)
async def unknown(trial: Trial) -> None:
    await need_chat(trial)
    answer = await trial.request("POST", UNKNOWN_PATH, {}, question())
    if answer.status not in ABSENT:
        raise Broken(f"the container answered POST {UNKNOWN_PATH} with {answer}, not with 404")


@checks.add(
    "openai.paths",
    "1.7-5",
    severity=Severity.NOTE,
    title="AWS routes each path of OpenAI's API that the container serves",
    remedy="reach these paths through Partway; on AWS serve their clients by chat/completions, "
    "/invocations or streams",
    requires=("openai.chat",),
    limit=120,
)
async def paths(trial: Trial) -> None:
    has_chat = await serves_chat(trial)
    beside = [str(each) for each in await served(trial, _BESIDE_CHAT)]
    if await _opens(trial, _REALTIME) and not await _opens(trial, UNKNOWN_PATH):
        beside.append(f"WebSocket {_REALTIME}")
    if beside:
        absent = "" if has_chat else ", which the container does not serve"
        raise Broken(f"AWS routes {CHAT} alone{absent}; only Partway routes {', '.join(beside)}")
    if not has_chat:
        raise Untried("no path of it is served")


async def _opens(trial: Trial, path: str) -> bool:
    """Whether the container grants a WebSocket on a path."""
    try:
        async with trial.link(f"an upgrade to {path}") as link:
            found = await upgrade(link, path, {})
            if not isinstance(found, Peer):
                return False
            await found.leave(_LEAVE_TIMEOUT)
            return True
    except Broken:
        return False
