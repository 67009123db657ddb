"""Requests of OpenAI's clients to the container, and their answers (clauses 1.7-1 to 1.7-5)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.raw_connection import HttpAnswer
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Untried
from partway.protocol.http.content_types import media_type_of

#: Seconds for an answer: the platform's patience with a request (clause 1.1-2).
ANSWER_TIMEOUT: Final = 60.0
#: Seconds for the refusal of an empty request, which asks no model.
_REFUSAL_TIMEOUT = 5.0

#: A few tokens, so that a large model on a small machine answers soon.
_QUESTION: Final[Mapping[str, object]] = {
    "model": "",
    "messages": [{"role": "user", "content": "Say hello."}],
    "max_tokens": 8,
}
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json"}

#: Statuses of a path, or of a method, that a server does not have.
ABSENT: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)


class Operation(NamedTuple):
    """A method and a path of OpenAI's API."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


CHAT: Final = Operation("POST", "/v1/chat/completions")
#: A path below ``/v1`` that no container has.
UNKNOWN_PATH: Final = "/v1/partway-knows-no-such-path"


# --- Questions ------------------------------------------------------------------------------------


def question(**members: object) -> bytes:
    """Write a chat completion request with an empty model, and further members."""
    return json.dumps({**_QUESTION, **members}).encode()


async def ask_chat(trial: Trial, body: bytes) -> HttpAnswer:
    """Send a chat completion request.

    Raises:
        Broken: no answer came.
        Untried: the container does not serve chat completions.
    """
    await need_chat(trial)
    return await trial.request(*CHAT, _HEADERS, body, ANSWER_TIMEOUT)


def head_of(body: bytes) -> dict[str, str]:
    """The headers of a chat completion request, for a connection that is kept in hand."""
    return {"Host": "container", **_HEADERS, "Content-Length": str(len(body))}


# --- The paths that a container serves ------------------------------------------------------------


async def need_chat(trial: Trial) -> None:
    """Make sure that the container serves chat completions.

    Raises:
        Untried: the container does not.
    """
    if not await serves_chat(trial):
        raise Untried(f"{CHAT} is not served")


async def serves_chat(trial: Trial) -> bool:
    """Whether the container serves chat completions; it is asked once in a run."""
    subject = trial.subject
    if subject.serves_chat is None:
        unknown = await _said(trial, Operation(CHAT.method, UNKNOWN_PATH))
        said = await _said(trial, CHAT)
        # A server that wants a key may refuse all paths alike.
        subject.serves_chat = said.status == HTTPStatus.UNAUTHORIZED or _is_served(said, unknown)
    return subject.serves_chat


async def served(trial: Trial, operations: Iterable[Operation]) -> list[Operation]:
    """Choose the operations that the container serves, by its answers to empty requests."""
    unknown: dict[str, _Said] = {}
    found = []
    for each in operations:
        if each.method not in unknown:
            unknown[each.method] = await _said(trial, Operation(each.method, UNKNOWN_PATH))
        if _is_served(await _said(trial, each), unknown[each.method]):
            found.append(each)
    return found


class _Said(NamedTuple):
    """An answer; without a status if none came."""

    status: int | None = None
    body: bytes = b""


async def _said(trial: Trial, operation: Operation) -> _Said:
    body = b"{}" if operation.method == "POST" else b""
    try:
        answer = await trial.request(*operation, _HEADERS, body, _REFUSAL_TIMEOUT)
    except Broken:
        return _Said()
    # Many servers repeat the path in their refusals.
    return _Said(answer.status, answer.body.replace(operation.path.encode(), b""))


def _is_served(said: _Said, unknown: _Said) -> bool:
    """Whether an answer shows a path that is served, beside the answer of an unknown path.

    Some servers answer every path alike.
    """
    return said.status not in ABSENT and said != unknown


# --- Answers --------------------------------------------------------------------------------------


def json_object(data: bytes, what: str) -> dict[str, Any]:
    """Read a JSON object; ``what`` names it.

    Raises:
        Broken: the bytes are not a JSON object.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Broken(f"{what} is {shown(data, 64)}; it must be a JSON object")
    return found


def media_type(answer: HttpAnswer) -> str:
    return media_type_of(answer.headers.get("content-type", ""))


def events_of(body: bytes) -> list[bytes]:
    """Return the data of each complete server-sent event; comments and other fields are skipped.

    https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    events: list[bytes] = []
    data: list[bytes] = []
    for line in re.split(rb"\r\n|\n|\r", body):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            events.append(b"\n".join(data))
            data = []
    return events


def choice_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first choice of a completion or a chunk; an empty object if it has none."""
    choices = found.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def error_message(answer: HttpAnswer) -> str | None:
    """Return the message of an error in OpenAI's form; None for another body."""
    try:
        error = json_object(answer.body, "the body").get("error")
    except Broken:
        return None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) and message else None
