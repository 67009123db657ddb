"""ApiConnection: how requests reach a cluster's API server, and why one fails.

This module imports aiohttp, so only users of a cluster import it. Clients of the whole Kubernetes
API weigh far more than the few calls that are made here.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import aiohttp
from aiohttp.connector import AddrInfoType

from partway import __version__
from partway.gateway.cluster.answers import AnswerTooLarge, ClusterAway, ClusterObject
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.limits import MAX_ANSWER, MAX_SHOWN, PROBE_INTERVAL, PROBES
from partway.gateway.cluster.token_file import TokenFile
from partway.gateway.network.dialling import NO_DESCRIPTOR, client_tls
from partway.gateway.plain_text import cut, safe
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

_UNAUTHORIZED: Final = 401


class ApiConnection:
    """Sends requests to an API server, with its token and its roots. Made in a running loop.

    A request is sent, and its answer read, within :meth:`understood` and :meth:`limited`.
    """

    def __init__(self, settings: ClusterSettings, clock: Clock) -> None:
        self._server = settings.server
        self._ca_file = settings.ca_file
        self._clock = clock
        self._token = TokenFile(settings.token_file, clock)
        self._tls: ssl.SSLContext | None = None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_probed_socket),
            timeout=aiohttp.ClientTimeout(),  # none of its own
            cookie_jar=aiohttp.DummyCookieJar(),
            # A compressed answer could be far larger than its bytes, so it is refused.
            auto_decompress=False,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": f"partway/{__version__}",
            },
        )

    async def aclose(self) -> None:
        await self._session.close()

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: ClusterObject | None = None,
        kind: str = "",
    ) -> aiohttp.ClientResponse:
        """Send a request; once more if its token is refused, and its file has another one."""
        data = None if body is None else json.dumps(body).encode()

        async def send(token: str) -> aiohttp.ClientResponse:
            return await self._session.request(
                method,
                self._server + path,
                params=query,
                data=data,
                headers=_headers(token, kind if body is not None else ""),
                allow_redirects=False,
                ssl=self._context(),
            )

        token = self._token.read()
        answer = await send(token)
        if answer.status == _UNAUTHORIZED and self._token.has_changed(token):
            answer.close()
            answer = await send(self._token.read())
        if coding := answer.headers.get("Content-Encoding"):
            answer.close()
            raise aiohttp.ClientPayloadError(f"its answer is compressed ({coding}), unasked")
        return answer

    @asynccontextmanager
    async def limited(self, asked: str, seconds: float) -> AsyncIterator[None]:
        """Limit the time of a block; ``asked`` names its request in the :class:`ClusterAway`."""
        try:
            async with time_limit(self._clock, seconds):
                yield
        except TimeoutError:
            raise ClusterAway(
                f"{asked}: the API server at {self._server} has not answered within {seconds:g} s"
            ) from None

    @contextmanager
    def understood(self, asked: str) -> Iterator[None]:
        """Make a :class:`ClusterAway` of a failed connection, and of an answer of another form."""
        try:
            yield
        except (aiohttp.ClientError, OSError) as error:
            self._tls = None  # the roots may have been renewed
            raise ClusterAway(f"{asked}: {self._why(error)}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # JSON of another form
            raise ClusterAway(
                f"{asked}: the server at {self._server} is no Kubernetes API, or its "
                f"answer is invalid: {cut(safe(repr(error)), MAX_SHOWN)}"
            ) from error

    def _why(self, error: aiohttp.ClientError | OSError) -> str:
        where = f"the API server at {self._server}"
        number = error.errno if isinstance(error, OSError) else None
        if number in NO_DESCRIPTOR:
            return (
                f"this process has no file descriptor left to connect to {where} "
                f"({os.strerror(number)}); raise its limit: ulimit -n"
            )
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return (
                f"the certificate of {where} is not accepted: "
                f"{cut(safe(str(error.certificate_error)), MAX_SHOWN)}; name its roots: ca_file in "
                "[cluster], or --ca-file"
            )
        why = os.strerror(number) if number else cut(safe(str(error)), MAX_SHOWN)
        return f"{where} does not answer: {why or type(error).__name__}"

    def _context(self) -> ssl.SSLContext | bool:
        if not self._server.startswith("https:"):
            return True
        if self._tls is None:
            try:
                self._tls = client_tls("http/1.1", self._ca_file)
            except OSError as error:
                why = error.strerror if not isinstance(error, ssl.SSLError) else "no PEM is in it"
                raise ClusterAway(
                    f"{self._ca_file}: the file of roots cannot be used: {why}"
                ) from None
        return self._tls


async def body_of(asked: str, answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    while data := await answer.content.readany():
        body += data
        if len(body) > MAX_ANSWER:
            answer.close()
            raise AnswerTooLarge(
                f"{asked}: the answer has more than {MAX_ANSWER} bytes, which is the limit"
            )
    return bytes(body)


def _probed_socket(info: AddrInfoType) -> socket.socket:
    """Make a socket whose peer is asked for a sign of life, as a watch may be silent for long."""
    family, kind, protocol, *_ = info
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_INTERVAL)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_INTERVAL)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        silence = PROBE_INTERVAL * (PROBES + 1) * 1000
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence)
    return made


def _headers(token: str, kind: str) -> dict[str, str]:
    given = {"Authorization": token and f"Bearer {token}", "Content-Type": kind}
    return {name: value for name, value in given.items() if value}
