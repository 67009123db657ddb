"""A bounded request to a gateway's ``/readyz``, which accepts only a gateway's answers."""

from __future__ import annotations

import io
import socket
import time
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, urlsplit

from partway.gateway.cli.admin_client import GatewayNotAsked

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: Most bytes of an answer, interim ones included; a gateway's has some 300, and proxies add
#: headers.
_MAX_ANSWER: Final = 64 * 1024

#: Bytes of an answer's body that are read; a gateway's has six.
_MAX_BODY: Final = 64

#: Answers of a gateway that starts or drains, or of a proxy whose gateway is not there yet.
_MAY_CHANGE: Final = frozenset(
    {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)

#: The answers of a gateway: their statuses, bodies and meanings.
_ANSWERS: Final[dict[tuple[int, bytes], str]] = {
    (HTTPStatus.OK, b"ready\n"): "",
    (HTTPStatus.SERVICE_UNAVAILABLE, b"starting\n"): "endpoints are starting",
    (HTTPStatus.SERVICE_UNAVAILABLE, b"draining\n"): "the gateway is stopping",
}


class NotReady(Exception):
    """The gateway or the endpoint is not ready yet; the message says why."""


class ReadinessUrl:
    """The ``/readyz`` of a gateway.

    Args:
        scheme: ``http`` or ``https``.
        authority: host and port, as a URL has them.
        path: percent-encoded.
    """

    def __init__(self, scheme: str, authority: str, path: str) -> None:
        self._scheme = scheme
        self._authority = authority
        self._path = path

    @classmethod
    def of_gateway(cls, url: str) -> Self:
        """Make the ``/readyz`` of the gateway at a URL, which may have a path.

        Raises:
            ValueError: the URL is no gateway's. The message has no user name and no password.
        """
        must = "it must be http://HOST:PORT or https://HOST:PORT"
        if "@" in url:  # not repeated, because terminals are read, and logged
            raise ValueError(f"a URL with a user name or a password was given; {must}")
        try:
            parts = urlsplit(url)
            is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # no port, or no address
            is_url = False
        if not is_url or parts.query or parts.fragment or " " in url or not url.isprintable():
            raise ValueError(f"{url!r} was given; {must}")
        path = quote(parts.path.rstrip("/"), safe="/%:!$&'()*+,;=~")
        return cls(parts.scheme, parts.netloc, f"{path}/readyz")

    def __str__(self) -> str:
        return f"{self._scheme}://{self._authority}{self._path}"

    def ask(self, until: float) -> None:
        """Return if the gateway is ready. No redirect is followed.

        Args:
            until: the monotonic time at which every wait ends.

        Raises:
            NotReady: the gateway may still come, or become ready.
            GatewayNotAsked: this is no gateway.
        """
        try:
            status, body = self._answer(until)
        except TimeoutError:
            raise NotReady(f"{self} does not answer") from None
        except (OSError, UnicodeError) as error:  # UnicodeError: no such host name
            raise NotReady(f"{self}: {getattr(error, 'strerror', None) or error}") from None
        except (HTTPException, ValueError):  # ValueError: a chunk of a negative length
            raise self._no_gateway("did not answer in HTTP") from None
        why = _ANSWERS.get((status, body))
        if why is None and status not in _MAY_CHANGE:
            words = " with a body that no gateway sends" if status == HTTPStatus.OK else ""
            raise self._no_gateway(f"answered {status}{words}")
        if why != "":
            raise NotReady(f"{self} answered {status}" + (f": {why}" if why else ""))

    def _no_gateway(self, answered: str) -> GatewayNotAsked:
        return GatewayNotAsked(f"{self} {answered}: is this a gateway?")

    def _answer(self, until: float) -> tuple[int, bytes]:
        """Read the status and the first bytes of the body.

        Raises:
            HTTPException: the answer is not HTTP.
            OSError: there is no connection, or no answer in time.
        """
        kind = HTTPSConnection if self._scheme == "https" else HTTPConnection
        connection = kind(self._authority, timeout=_left(until))
        try:
            connection.request("GET", self._path, headers={"Connection": "close"})
            with HTTPResponse(connection.sock, method="GET") as answer:
                answer.fp.close()
                answer.fp = io.BufferedReader(_Received(connection.sock, until))
                answer.begin()
                return answer.status, answer.read(_MAX_BODY)
        finally:
            connection.close()


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


class _Received(io.RawIOBase):
    """The bytes that a socket receives until a time, and no more than an answer may have.

    A socket's own timeout is for one read. A server that drips its answer would outlast it.
    """

    def __init__(self, connected: socket.socket, until: float) -> None:
        super().__init__()
        self._socket = connected
        self._until = until
        self._may_come = _MAX_ANSWER

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._socket.settimeout(_left(self._until))
        received = self._socket.recv_into(buffer)
        self._may_come -= received
        if self._may_come < 0:
            raise HTTPException(f"more than {_MAX_ANSWER} bytes")
        return received
