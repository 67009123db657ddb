"""The place of a gateway among the paths of an application."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from aiohttp import web

from partway.gateway.plain_text import cut
from partway.protocol.errors import NotFound

#: Segments of characters that are never percent-encoded (RFC 3986 §2.3), and that no client removes
#: from a path (§5.2.4).
_PREFIX: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+)*")

#: Characters of a prefix that an error shows.
_SHOWN: Final = 100

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PrefixError(ValueError):
    """The prefix is no place for a gateway; the message says what was given."""


class MountedTarget(NamedTuple):
    """The target of a request, still percent-encoded.

    Attributes:
        path: behind the prefix.
        signed_path: the whole path, which the client has sent and signs.
        query: without the question mark.
    """

    path: str
    signed_path: str
    query: str


class Mount:
    """All paths of an application that begin with one prefix.

    Args:
        app: the application, which has answered no request yet.
        prefix: such as ``/models``; empty for all paths that the application has no route for.

    Raises:
        PrefixError: the prefix is not of this form.
    """

    def __init__(self, app: web.Application, prefix: str, handler: Handler) -> None:
        if not _PREFIX.fullmatch(prefix):
            raise PrefixError(
                f"prefix: {cut(repr(prefix), _SHOWN)} was given; it must be segments such as "
                "'/models', or '' for all paths. A segment begins with a slash and has only "
                "letters, digits, '-', '.', '_' and '~'"
            )
        #: The application's own place is part of its path, once it is a sub-application.
        self._root = app.router.add_resource(prefix)
        below = app.router.add_resource(f"{prefix}/{{path:(?s:.*)}}")
        for resource in (self._root, below):
            resource.add_route("*", handler, expect_handler=_expect_later)

    def target_of(self, request: web.Request) -> MountedTarget:
        """Split the target of a request.

        Raises:
            NotFound: the path begins with the prefix in another spelling, which fits no signature
                and no route of the gateway.
        """
        signed_path, _, query = _origin_form(request.raw_path).partition("?")
        prefix = self._root.canonical.removesuffix("/")
        path = signed_path.removeprefix(prefix)
        if not signed_path.startswith(prefix) or path[:1] not in ("", "/"):
            raise NotFound(f"the path must begin with {prefix}, in these characters")
        return MountedTarget(path or "/", signed_path, query)


def _origin_form(target: str) -> str:
    """Cut a target down to its path: a proxy's client sends a whole URL (RFC 9112 §3.2.2)."""
    if target.startswith("/"):
        return target
    rest = re.sub(r"\A[^/?#]*//[^/?#]*", "", target)
    return rest if rest.startswith("/") else f"/{rest}"


async def _expect_later(request: web.Request) -> None:
    """Send no 100 Continue yet: the reader of the body sends it (RFC 9110 §10.1.1)."""
