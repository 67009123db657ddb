"""Settings of the model ``chat``: environment variables, the only way to configure an image."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from partway.container.settings import Settings

#: Most upstreams; each of them may take a connection's time before the next is tried.
MAX_UPSTREAMS: Final = 16


def _split(value: object) -> object:
    """Split a variable's text at its commas."""
    if not isinstance(value, str):
        return value
    return tuple(url.strip().rstrip("/") for url in value.split(",") if url.strip())


def _check_urls(urls: tuple[str, ...]) -> tuple[str, ...]:
    if not 1 <= len(urls) <= MAX_UPSTREAMS:
        raise ValueError(
            f"{len(urls)} URLs were given; it must have 1 to {MAX_UPSTREAMS}, such as "
            "http://localhost:8000/v1"
        )
    for url in urls:
        if not _is_base_url(url):
            # A user in a URL may have a password.
            raise ValueError(
                f"{url.rpartition('@')[2][:80]!r} was given; it must be the base URL of an OpenAI "
                "API, without a user, such as http://localhost:8000/v1"
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


def _check_key(key: SecretStr) -> SecretStr:
    text = key.get_secret_value()
    if text and not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError(
            "this has other characters than visible ASCII; it must be a token, without a line end"
        )
    return key


def _parse_object(value: object) -> object:
    """Parse a variable's text as JSON; a value that is no object is left to be refused."""
    if isinstance(value, str):
        with suppress(ValueError):
            return json.loads(value)
    return value


Urls = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_check_urls)]
JsonObject = Annotated[Mapping[str, Any], BeforeValidator(_parse_object)]


class ChatSettings(Settings, prefix="PARTWAY_CHAT_"):
    """The settings.

    Attributes:
        upstreams: base URLs such as ``http://localhost:8000/v1``, the first one preferred. The
            variable has commas between several.
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

    upstreams: Urls = Field(
        validation_alias="upstream",
        description="the base URL of an OpenAI API, such as http://localhost:8000/v1, or several "
        "with commas between",
    )
    model: str = ""
    system: str = ""
    options: JsonObject = Field({}, description='a JSON object, such as {"temperature": 0.2}')
    api_key: Annotated[SecretStr, AfterValidator(_check_key)] = SecretStr("")
    timeout: float = Field(
        50.0, gt=0, le=3600, description="a number of seconds above 0 and at most 3600"
    )
    max_turns: int = Field(256, ge=1, le=99_999)
