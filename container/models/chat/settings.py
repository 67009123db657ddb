"""Settings of the model ``chat``: environment variables, the only way to configure an image."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Final, Self
from urllib.parse import urlsplit

#: Most upstreams; each of them may take a connection's time before the next is tried.
MAX_UPSTREAMS: Final = 16


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The settings; the environment variable of each is ``PARTWAY_CHAT_`` and its name in capitals.

    Attributes:
        upstreams: base URLs such as ``http://localhost:8000/v1``, the first one preferred. The
            variable is ``PARTWAY_CHAT_UPSTREAM``, with commas between several.
        model: the model's name for the upstream, if a request names none.
        system: the system prompt of conversations in plain text; empty for none.
        options: further members of requests for conversations in plain text, such as
            ``{"temperature": 0.2}``. The variable has a JSON object.
        api_key: sent to the upstream as a bearer token; empty for none.
        timeout: seconds of silence allowed to an upstream, before its first byte and between two.
            In an answer that ``chat`` reads event by event, also the seconds without an event.
            The runtime itself waits 60 s for the beginning of an answer to a request.
        max_turns: remembered turns of a conversation; older ones are dropped.
    """

    upstreams: tuple[str, ...] = ()
    model: str = ""
    system: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    api_key: str = field(default="", repr=False)
    timeout: float = 50.0
    max_turns: int = 256

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings; a variable that is empty counts as unset.

        Raises:
            ValueError: there is no upstream, or a variable has another form; the message names it.
        """
        found = {
            each.name: value
            for each in fields(cls)
            if (value := environment.get(variable_of(each.name), ""))
        }
        return cls(
            upstreams=_urls(found.get("upstreams", "")),
            model=found.get("model", ""),
            system=found.get("system", ""),
            options=_object(found.get("options", "{}")),
            api_key=_key(found.get("api_key", "")),
            timeout=_seconds(found.get("timeout", "50")),
            max_turns=_turns(found.get("max_turns", "256")),
        )


def variable_of(name: str) -> str:
    return f"PARTWAY_CHAT_{name.upper().removesuffix('S') if name == 'upstreams' else name.upper()}"


#: The variable of each setting.
VARIABLES: Final = frozenset(variable_of(each.name) for each in fields(ChatSettings))


def _urls(text: str) -> tuple[str, ...]:
    urls = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    if not 1 <= len(urls) <= MAX_UPSTREAMS:
        raise ValueError(
            f"{variable_of('upstreams')} has {len(urls)} URLs; it must have 1 to {MAX_UPSTREAMS}, "
            "such as http://localhost:8000/v1"
        )
    for url in urls:
        if not _is_base_url(url):
            raise ValueError(
                f"{variable_of('upstreams')} names {_without_user(url)[:80]!r}; it must name the "
                "base URL of an OpenAI API, without a user, such as http://localhost:8000/v1"
            )
    return urls


def _is_base_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bad port or address
        return False
    is_bare = not (parts.query or parts.fragment or "@" in url)
    return has_place and is_bare and parts.scheme in ("http", "https")


def _without_user(url: str) -> str:
    """Return a URL for a message; its user may have a password."""
    return url.rpartition("@")[2]


def _key(text: str) -> str:
    if text and not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError(
            f"{variable_of('api_key')} has other characters than visible ASCII; it must be a "
            "token, without a line end"
        )
    return text


def _object(text: str) -> Mapping[str, object]:
    with suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict):
            return value
    raise ValueError(
        f"{variable_of('options')} is {text[:40]!r}; it must be a JSON object, such as "
        '{"temperature": 0.2}'
    )


def _seconds(text: str) -> float:
    with suppress(ValueError):
        value = float(text)
        if math.isfinite(value) and 0 < value <= 3600:
            return value
    raise ValueError(
        f"{variable_of('timeout')} is {text[:40]!r}; it must be a number of seconds over 0 and at "
        "most 3600"
    )


def _turns(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) >= 1:
        return int(text)
    raise ValueError(
        f"{variable_of('max_turns')} is {text[:40]!r}; it must be a whole number from 1 to 99999"
    )
