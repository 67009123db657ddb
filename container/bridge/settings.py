"""Settings of a bridge: where its streams go, and how it knows that the upstream is healthy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from partway.container.model import StreamRoute
from partway.protocol.limits import INVOCATION_PATH

#: The ports of WebSocket's and HTTP's schemes (RFC 6455 §3, RFC 9110 §4.2).
WEBSOCKET: Final = {"ws": 80, "wss": 443}
HTTP: Final = {"http": 80, "https": 443}

#: Asked for the upstream's health, unless a URL is given. vLLM has this path.
_HEALTH_PATH: Final = "/health"
#: Visible ASCII, without what RFC 3986 excludes, a user's ``@`` and a fragment's ``#``.
_TARGET: Final = re.compile(r'[^\x00-\x20\x7f-\U0010ffff"<>@#\\]+')
#: Most characters of a wrong text that a message shows.
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The address of a server, and a target there.

    Attributes:
        path: with its first slash, percent-encoded.
        query: without the question mark; empty for none.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str

    @classmethod
    def parse(cls, text: str, source: str, ports: Mapping[str, int]) -> Self:
        """Parse a URL.

        Args:
            source: the flag or variable that gave it, for the error.
            ports: the allowed schemes, and the default port of each.

        Raises:
            ValueError: the text is no such URL.
        """
        with suppress(KeyError, ValueError):  # another scheme, no port, no valid name
            parts = urlsplit(text)
            default = ports[parts.scheme]
            port = default if parts.port is None else parts.port
            host = parts.hostname or ""
            host.encode("idna")  # as the resolver does; a UnicodeError is a ValueError
            if host and port and _TARGET.fullmatch(text):
                return cls(parts.scheme, host, port, parts.path or "/", parts.query)
        shown = text.partition("?")[0].rpartition("@")[2][:_SHOWN]  # without secrets
        schemes = " or ".join(f"{scheme}://" for scheme in ports)
        raise ValueError(
            f"{source} names {shown!r}; it must be a URL of visible ASCII that begins with "
            f"{schemes}, without a user or a fragment"
        )

    @property
    def is_secure(self) -> bool:
        return self.scheme in ("wss", "https")

    @property
    def authority(self) -> str:
        """Host and port for the ``Host`` header; a default port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (WEBSOCKET | HTTP)[self.scheme] else f"{host}:{self.port}"

    def target(self, query: str = "") -> str:
        """Return path and query; the URL's own query comes before ``query``."""
        both = "&".join(each for each in (self.query, query) if each)
        return f"{self.path}?{both}" if both else self.path

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"  # the query may have a secret


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A request that tells whether the upstream is healthy.

    Attributes:
        url: asked by GET.
        by_success: whether only a 2xx is healthy. If not, any status below 500 is: the upstream
            answers, and need not know the path.
    """

    url: ServerUrl
    by_success: bool


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """The settings of one bridge.

    Attributes:
        paths: the upstream's URL for each path that takes streams; paths have no first slash.
        authorization: the header's value for each upgrade at the upstream; empty for none.
        program: the words of the command that starts the upstream; empty if others start it.
    """

    paths: Mapping[str, ServerUrl]
    health: HealthCheck
    authorization: str = field(default="", repr=False)
    program: Sequence[str] = ()

    @property
    def upstream(self) -> ServerUrl:
        """The upstream of the streams at the default path (clause 1.1-4)."""
        return self.paths[StreamRoute().path]


@dataclass(frozen=True, slots=True)
class Given:
    """The text of a setting, and the flag or variable that it comes from."""

    text: str
    source: str


def bridge_settings(
    upstream: Given,
    routes: Iterable[Given] = (),
    health: Given | None = None,
    authorization: Given | None = None,
    program: Sequence[str] | Given = (),
) -> BridgeSettings:
    """Make the settings of texts.

    Args:
        upstream: a URL. It takes the streams at the default path, and at its own path.
        routes: further paths, ``PATH=URL``; ``PATH`` alone is the same path at the upstream.
        health: a URL; None for the upstream's host.
        authorization: a header's value.
        program: words, or a text that is split as a shell does.

    Raises:
        ValueError: a text is not what it must be; the message names its source.
    """
    url = ServerUrl.parse(upstream.text, upstream.source, WEBSOCKET)
    paths = {StreamRoute().path: url}
    for route in routes:
        path, to = _route(route, url)
        if path in paths:
            raise ValueError(f"{route.source} names the path {path} twice; each must have one URL")
        paths[path] = to
    if own := url.path.removeprefix("/"):
        paths.setdefault(own, url)
    return BridgeSettings(
        paths,
        _health(health, url),
        _header_value(authorization),
        _words(program) if isinstance(program, Given) else program,
    )


def _route(route: Given, upstream: ServerUrl) -> tuple[str, ServerUrl]:
    path, equals, text = route.text.partition("=")
    path = path.removeprefix("/")
    if not INVOCATION_PATH.fullmatch(path):
        raise ValueError(
            f"{route.source} names the path {path[:_SHOWN]!r}; it must be PATH or PATH=URL, such "
            "as v1/listen, of letters, digits, and - . _ between slashes"
        )
    if equals:
        return path, ServerUrl.parse(text, route.source, WEBSOCKET)
    return path, ServerUrl(upstream.scheme, upstream.host, upstream.port, f"/{path}", "")


def _health(given: Given | None, upstream: ServerUrl) -> HealthCheck:
    if given is not None:
        return HealthCheck(ServerUrl.parse(given.text, given.source, HTTP), by_success=True)
    scheme = "https" if upstream.is_secure else "http"
    url = ServerUrl(scheme, upstream.host, upstream.port, _HEALTH_PATH, "")
    return HealthCheck(url, by_success=False)


def _header_value(given: Given | None) -> str:
    if given is None:
        return ""
    text = given.text.strip(" ")
    if not (text.isascii() and text.isprintable()):
        raise ValueError(
            f"{given.source} has other characters than visible ASCII; it must be the value of a "
            "header, such as Bearer and a token, without a line end"
        )
    return text


def _words(given: Given) -> list[str]:
    try:
        words = shlex.split(given.text)
    except ValueError as error:
        raise ValueError(
            f"{given.source} is no command: {error}; it must be words as a shell takes them"
        ) from None
    return words
