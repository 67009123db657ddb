"""A container's request, as values and as bytes."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Final

from multidict import istr

from partway.gateway.limits import CONTAINER_CONNECT_TIMEOUT
from partway.gateway.network.dialling import HTTPS_PORT, Address
from partway.protocol.errors import InputValidationError

CONTENT_TYPE: Final = istr("Content-Type")
CUSTOM_ATTRIBUTES: Final = istr("X-Amzn-SageMaker-Custom-Attributes")
#: Tells a container the request's id.
REQUEST_ID: Final = "X-Amzn-SageMaker-Request-Id"

#: A header's value: visible ASCII, spaces and tabs (RFC 9110 §5.5, without obsolete forms).
HEADER_VALUE: Final = re.compile(r"[\t -~]*")


class Destination:
    """The target of a request; requests to targets with the same key may share a connection.

    Args:
        instance: distinguishes it from earlier containers at the same address.
        connect_timeout: seconds for a connection to be accepted.

    Attributes:
        key: container, instance and tls as one text, for quick lookups.
        authority: the value of ``Host``; https's port is left out, as clients do (RFC 9110 §4.2.3).
    """

    __slots__ = ("authority", "connect_timeout", "container", "key", "tls")

    def __init__(
        self,
        container: Address,
        instance: str = "",
        connect_timeout: float = CONTAINER_CONNECT_TIMEOUT,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.container = container
        self.connect_timeout = connect_timeout
        self.tls = tls
        authority = str(container)
        # The number of a context is unique while the context is in use.
        self.key = f"{authority} {id(tls) if tls else ''} {instance}"
        self.authority = authority if tls is None else authority.removesuffix(f":{HTTPS_PORT}")


@dataclass(slots=True)
class ContainerRequest:
    """A request to a container.

    Attributes:
        target: path and query, which a client can influence only within fixed patterns.
        lines: the headers, from :func:`header_lines`; HTTP's own headers are added.
        length: the length of a body in pieces, if it is known; else the body goes in chunks.
        method: HTTP's; HEAD and CONNECT are not supported: their answers have no body.
    """

    target: str
    lines: str
    body: bytes | AsyncGenerator[bytes, None]
    length: int | None = None
    method: str = "POST"

    @property
    def chunked(self) -> bool:
        """Whether the body goes in chunks (RFC 9112 §7.1)."""
        return self.length is None and not isinstance(self.body, bytes)

    def head(self, authority: str) -> bytes:
        if self.method == "GET" and self.body == b"":
            framing = ""  # RFC 9110 §8.6: no length where no body is expected
        elif isinstance(self.body, bytes):
            framing = f"Content-Length: {len(self.body)}\r\n"
        elif self.length is None:
            framing = "Transfer-Encoding: chunked\r\n"
        else:
            framing = f"Content-Length: {self.length}\r\n"
        first = f"{self.method} {self.target} HTTP/1.1\r\nHost: {authority}\r\n"
        return f"{first}{self.lines}{framing}\r\n".encode("ascii")


def header_lines(headers: Iterable[tuple[str, str]]) -> str:
    """Write the headers of a container's request as lines, each with its end.

    Raises:
        InputValidationError: a value has characters that no header may have.
    """
    lines = []
    for name, value in headers:
        if not HEADER_VALUE.fullmatch(value):
            raise InputValidationError(
                f"the header {name} must be of visible ASCII, spaces and tabs", "InvalidHeader"
            )
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)
