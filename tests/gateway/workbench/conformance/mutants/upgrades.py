"""Mutants that get the upgrade wrong (clauses 1.1-4 and 1.6; RFC 6455 §4.2)."""

from __future__ import annotations

from tests.gateway.workbench.conformance.mutants.base import STREAM_PATHS, Container, Request
from tests.gateway.workbench.conformance.mutants.base_stream import Stream
from tests.gateway.workbench.conformance.mutants.http import KNOWN_HEADERS
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("upgrade.granted")
class NoDefaultPath(Container):
    """Knows no stream on the default path."""

    def admits(self, request: Request) -> int:
        return 404 if request.path == STREAM_PATHS[0] else super().admits(request)


@mutant("upgrade.granted")
class WrongAcceptKey(Container):
    """Answers with the accept key of another key."""

    def accept_key(self, key: str) -> str:
        return super().accept_key(key[::-1])


@mutant("upgrade.granted")
class UnaskedExtension(Container):
    """Agrees on permessage-deflate, which nobody has offered."""

    def negotiated(self, request: Request) -> list[str]:
        return ["Sec-WebSocket-Extensions: permessage-deflate"]


@mutant("upgrade.granted")
class UnaskedSubprotocol(Container):
    """Agrees on a subprotocol that nobody has offered."""

    def negotiated(self, request: Request) -> list[str]:
        return ["Sec-WebSocket-Protocol: chat"]


@mutant("upgrade.granted")
class WantsSubprotocol(Container):
    """Refuses a stream without a subprotocol."""

    def admits(self, request: Request) -> int:
        return 0 if "sec-websocket-protocol" in request.headers else 400


@mutant("upgrade.granted")
class WantsOrigin(Container):
    """Refuses a stream without Origin."""

    def admits(self, request: Request) -> int:
        return super().admits(request) if "origin" in request.headers else 403


@mutant("upgrade.refused")
class RefusesTooLate(Container):
    """Accepts a stream on an unknown path, and closes it then."""

    def admits(self, request: Request) -> int:
        return super().admits(request._replace(path=STREAM_PATHS[0]))

    async def converse(self, stream: Stream, request: Request) -> None:
        if request.path not in STREAM_PATHS:
            await stream.send_close(1008, "no such path")
        await super().converse(stream, request)


@mutant("upgrade.query")
class RefusesQuery(Container):
    """Takes the query for a part of the path."""

    def admits(self, request: Request) -> int:
        return 404 if request.query else super().admits(request)


@mutant("upgrade.headers")
class RefusesStreamHeaders(Container):
    """Refuses a stream with a header that it does not know."""

    def admits(self, request: Request) -> int:
        return 400 if set(request.headers) - KNOWN_HEADERS else super().admits(request)


@mutant("upgrade.version")
class AnyVersion(Container):
    """Takes every version of WebSocket for 13."""

    def admits(self, request: Request) -> int:
        request.headers["sec-websocket-version"] = "13"
        return super().admits(request)
