"""Headers of InvokeEndpoint and related operations (section 5).

Each must match the pattern of AWS's service model before a container sees it; empty counts as
absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from multidict import istr

from partway.gateway.containers.container_requests import CONTENT_TYPE, CUSTOM_ATTRIBUTES
from partway.gateway.fleet.routing.session_affinity import NO_SESSION, StickySession
from partway.gateway.streams.invocation_target import TARGET_CONTAINER, TARGET_VARIANT
from partway.protocol.errors import InputValidationError
from partway.protocol.http.content_codings import CONTENT_ENCODING
from partway.protocol.limits import is_name

#: Looked up for each request: lookup of an istr takes a quarter of a text's time.
TARGET_MODEL: Final = istr("X-Amzn-SageMaker-Target-Model")
INFERENCE_ID: Final = istr("X-Amzn-SageMaker-Inference-Id")
EXPLANATIONS: Final = istr("X-Amzn-SageMaker-Enable-Explanations")
INFERENCE_COMPONENT: Final = istr("X-Amzn-SageMaker-Inference-Component")
SESSION: Final = istr("X-Amzn-SageMaker-Session-Id")
PREFIX_AWARE: Final = istr("X-Amzn-SageMaker-Prefix-Aware-Id")
NEW_SESSION: Final = istr("X-Amzn-SageMaker-New-Session-Id")
CLOSED_SESSION: Final = istr("X-Amzn-SageMaker-Closed-Session-Id")

#: Headers of InvokeEndpointAsync alone.
INPUT_LOCATION: Final = istr("X-Amzn-SageMaker-InputLocation")
OUTPUT_EXTENSION: Final = istr("X-Amzn-SageMaker-S3OutputPathExtension")
FILENAME: Final = istr("X-Amzn-SageMaker-Filename")
TTL: Final = istr("X-Amzn-SageMaker-RequestTTLSeconds")
INVOCATION_TIMEOUT: Final = istr("X-Amzn-SageMaker-InvocationTimeoutSeconds")

#: Accept and Content-Type for an answer that does not come as this response.
ACCEPT: Final = istr("X-Amzn-SageMaker-Accept")
PAYLOAD_TYPE: Final = istr("X-Amzn-SageMaker-Content-Type")

#: The coding of a response stream's chunks. The response's own ``Content-Encoding`` belongs to the
#: events around them. AWS has no such header.
PAYLOAD_CODING: Final = istr("X-Amzn-SageMaker-Content-Encoding")

#: Stands for a session's id, to begin a session.
BEGIN_SESSION: Final = "NEW_SESSION"

#: In each answer: the variant that gave it.
INVOKED_VARIANT: Final = "x-Amzn-Invoked-Production-Variant"

#: In each answer, since the container chooses its media type: a browser must not make a page of
#: this origin from it, nor guess another type.
NO_PAGE: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox",
}

_LONG, _SHORT = 1024, 64
_SESSION_ID = r"[a-zA-Z0-9](?:-*[a-zA-Z0-9])*"
_MAX_SESSION: Final = 256
_ASCII: Final = re.compile(r"[\t -~]*")
_PRINTED: Final = re.compile(r"[!-~][ -~]*")
_ID: Final = re.compile(_SESSION_ID)
_BEGUN: Final = re.compile(
    rf"(?P<id>{_SESSION_ID});\s?Expires=(?P<until>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ)", re.ASCII
)


class _Rule(NamedTuple):
    """The rule for a header's value: AWS's name of the member, the rule in words, and a test."""

    member: str
    must_be: str
    holds: Callable[[str], object]


def _text(member: str, most: int, pattern: re.Pattern[str], what: str) -> _Rule:
    return _Rule(
        member,
        f"up to {most} characters, {what}",
        lambda value: len(value) <= most and pattern.fullmatch(value),
    )


def _name(member: str) -> _Rule:
    return _Rule(
        member, "up to 63 letters, digits and hyphens, a letter or digit at each end", is_name
    )


_PRINTED_WORDS: Final = "of visible ASCII and spaces, no space in front"
_ASCII_WORDS: Final = "of visible ASCII, spaces and tabs"

#: Headers of InvokeEndpoint, in the order in which a container gets them.
INVOKE_HEADERS: Final[Mapping[str, _Rule]] = {
    CONTENT_TYPE: _text("ContentType", _LONG, _ASCII, _ASCII_WORDS),
    CONTENT_ENCODING: _text("Content-Encoding", _LONG, _ASCII, _ASCII_WORDS),
    istr("Accept"): _text("Accept", _LONG, _ASCII, _ASCII_WORDS),
    CUSTOM_ATTRIBUTES: _text("CustomAttributes", _LONG, _ASCII, _ASCII_WORDS),
    TARGET_MODEL: _text("TargetModel", _LONG, _PRINTED, _PRINTED_WORDS),
    TARGET_VARIANT: _name("TargetVariant"),
    TARGET_CONTAINER: _name("TargetContainerHostname"),
    INFERENCE_ID: _text("InferenceId", _SHORT, _PRINTED, _PRINTED_WORDS),
    EXPLANATIONS: _text("EnableExplanations", _SHORT, _ASCII, _ASCII_WORDS),
    INFERENCE_COMPONENT: _name("InferenceComponentName"),
    SESSION: _text(
        "SessionId", _MAX_SESSION, _ID, "letters, digits and hyphens, or NEW_SESSION"
    )._replace(holds=lambda value: value == BEGIN_SESSION or is_session(value)),
    PREFIX_AWARE: _text("PrefixAwareId", _SHORT, _PRINTED, _PRINTED_WORDS),
}


#: Headers of the Open Inference Protocol, for a container that speaks it itself.
OPEN_INFERENCE_HEADERS: Final[Mapping[str, _Rule]] = {
    name: _text(name, _LONG, _ASCII, _ASCII_WORDS)
    for name in (
        *(CONTENT_TYPE, "Accept", CONTENT_ENCODING, "Accept-Encoding"),
        "Inference-Header-Content-Length",
    )
}


def _whole(member: str, least: int, most: int) -> _Rule:
    return _Rule(
        member,
        f"a whole number from {least} to {most}",
        lambda value: re.fullmatch("[0-9]{1,6}", value) and least <= int(value) <= most,
    )


#: Headers of InvokeEndpointAsync.
ASYNC_HEADERS: Final[Mapping[str, _Rule]] = {
    PAYLOAD_TYPE: INVOKE_HEADERS[CONTENT_TYPE],
    CONTENT_ENCODING: INVOKE_HEADERS[CONTENT_ENCODING],
    ACCEPT: INVOKE_HEADERS["Accept"],
    CUSTOM_ATTRIBUTES: INVOKE_HEADERS[CUSTOM_ATTRIBUTES],
    INFERENCE_ID: INVOKE_HEADERS[INFERENCE_ID],
    INPUT_LOCATION: _text(
        "InputLocation", _LONG, re.compile(r"[!-~](?:[ -~]*[!-~])?"), "of visible ASCII"
    ),
    OUTPUT_EXTENSION: _text(
        "S3OutputPathExtension",
        512,
        re.compile(r"(?!s3:|https:)[a-zA-Z0-9!_.*'()/-]+"),
        "letters, digits and !_.*'()/-",
    ),
    FILENAME: _text(
        "Filename",
        32,
        re.compile(r"(?!.*\..*\.)[a-zA-Z0-9][a-zA-Z0-9_.-]*"),
        "letters, digits, hyphens, underscores and one full stop at most",
    ),
    TTL: _whole("RequestTTLSeconds", 60, 21_600),
    INVOCATION_TIMEOUT: _whole("InvocationTimeoutSeconds", 1, 3600),
}


def passed_on(
    headers: Mapping[str, str], rules: Mapping[str, _Rule] = INVOKE_HEADERS
) -> dict[str, str]:
    """Return the headers that a container gets, by the names it knows.

    ``headers`` must be case-insensitive.

    Raises:
        InputValidationError: a value violates its pattern; the message says which.
    """
    found = {}
    for name, rule in rules.items():
        value = headers.get(name)
        if not value:
            continue
        if not rule.holds(value):
            raise InputValidationError(
                f"{rule.member} (header {name}) must be {rule.must_be}", "InvalidHeader"
            )
        found[name] = value
    return found


def is_session(text: str) -> bool:
    return len(text) <= _MAX_SESSION and _ID.fullmatch(text) is not None


def session_in(headers: dict[str, str]) -> StickySession:
    """Return the session that a request names, and name it to the container by its own id.

    Args:
        headers: those for the container.
    """
    text = headers.get(SESSION, BEGIN_SESSION)
    if text == BEGIN_SESSION:
        return NO_SESSION
    session = StickySession.of_client(text)
    headers[SESSION] = session.id
    return session


def begun_session(value: str, mark: str) -> str | None:
    """Return a container's answer to NEW_SESSION for its client, with the mark of the instance.

    It is None if the answer is not ``ID; Expires=TIME``, or has no room for the mark.
    """
    match = _BEGUN.fullmatch(value)
    if match is None:
        return None
    try:
        datetime.strptime(match["until"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:  # the 31st of February
        return None
    begun = StickySession(match["id"], mark).for_client + value[match.end("id") :]
    return begun if len(begun) <= _MAX_SESSION else None


def closed_session(value: str, session: StickySession, mark: str) -> str | None:
    """Return the id of a session that a container has closed, for its client; None if it is no id.

    Args:
        session: the session of the request.
        mark: the mark of the container's instance.
    """
    closed = session if session.id == value else StickySession(value, mark)
    return closed.for_client if is_session(closed.for_client) else None
