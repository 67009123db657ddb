"""Opening a stream at the upstream: one connection, dialled and upgraded."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Iterable, Sequence
from typing import Final

from partway.container.bridge.settings import ServerUrl
from partway.container.limits import UPSTREAM_CONNECT_TIMEOUT, UPSTREAM_HANDSHAKE_TIMEOUT
from partway.protocol.connections.upgrading import Upgraded, Upgrading, upgrade
from partway.protocol.limits import LINGER_TIMEOUT
from partway.protocol.websocket.handshake import (
    ClientHandshake,
    HandshakeBroken,
    HandshakeRefused,
)

#: Errors of a process, or a machine, without a free file descriptor.
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})
_REFUSED: Final = "the upstream refused the stream"


class UpstreamFailed(Exception):
    """The upstream granted no stream.

    Attributes:
        status: the HTTP status for the client.
        reason: for the client, who does not learn where the upstream is.
        detail: for the log; empty if the reason says it all.
        body: what the upstream says itself; None if it says nothing.
    """

    def __init__(
        self, status: int, reason: str, detail: str = "", body: bytes | None = None
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.body = body


class UpstreamDialler:
    """Opens streams at upstreams.

    Args:
        connect_timeout: seconds for a connection, TLS included.
        handshake_timeout: seconds for the answer to the upgrade.
    """

    def __init__(
        self,
        *,
        connect_timeout: float = UPSTREAM_CONNECT_TIMEOUT,
        handshake_timeout: float = UPSTREAM_HANDSHAKE_TIMEOUT,
    ) -> None:
        self._connect_timeout = connect_timeout
        self._handshake_timeout = handshake_timeout
        self._tls: ssl.SSLContext | None = None

    async def open(
        self,
        url: ServerUrl,
        query: str,
        headers: Iterable[tuple[str, str]],
        subprotocols: Sequence[str],
    ) -> Upgraded:
        """Connect to the upstream, and upgrade the connection to a WebSocket.

        Args:
            query: the client's, which follows the URL's own.
            headers: further headers of the upgrade.
            subprotocols: those that the client offers.

        Raises:
            UpstreamFailed: there is no connection, or no 101.
        """
        handshake = ClientHandshake(url.authority, url.target(query), headers, subprotocols)
        transport, upgrading = await self._connect(url)
        try:
            return await upgrade(transport, upgrading, handshake, self._handshake_timeout)
        except HandshakeRefused as refusal:
            raise _refused(refusal) from None
        except TimeoutError:
            seconds = self._handshake_timeout
            raise UpstreamFailed(
                504, f"the upstream did not answer the upgrade within {seconds:g} s"
            ) from None
        except (HandshakeBroken, OSError) as error:
            raise UpstreamFailed(
                502, "the upstream gave no valid answer to the upgrade", str(error)
            ) from None

    async def _connect(self, url: ServerUrl) -> tuple[asyncio.Transport, Upgrading]:
        cannot = "the upstream cannot be reached"
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                if url.is_secure:
                    return await loop.create_connection(
                        Upgrading,
                        url.host,
                        url.port,
                        ssl=self._context(),
                        server_hostname=url.host,
                        # For a peer that does not close TLS; asyncio would wait 30 s for it.
                        ssl_shutdown_timeout=LINGER_TIMEOUT,
                    )
                return await loop.create_connection(Upgrading, url.host, url.port)
        except TimeoutError:
            late = f"no connection within {self._connect_timeout:g} s"
            raise UpstreamFailed(504, cannot, late) from None
        except OSError as error:
            if error.errno in _NO_DESCRIPTOR:
                raise UpstreamFailed(503, "the bridge has no file descriptor left") from None
            raise UpstreamFailed(502, cannot, why(error)) from None

    def _context(self) -> ssl.SSLContext:
        """Return the client's side of TLS; the roots are the system's, or ``SSL_CERT_FILE``'s."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def why(error: OSError) -> str:
    """Return a system error's message.

    Not its ``strerror``: asyncio's says "Connect call failed", whatever the reason.
    """
    is_known = error.errno and error.errno > 0 and not isinstance(error, ssl.SSLError)
    return os.strerror(error.errno or 0) if is_known else str(error)


def _refused(refusal: HandshakeRefused) -> UpstreamFailed:
    """Make the failure for a refusal: its own status and body, if it is an error (clause 4-6)."""
    answered = f"the upstream answered the upgrade with status {refusal.status}"
    if 400 <= refusal.status <= 599:
        # A coding was not asked for, and could hide a credential.
        is_plain = refusal.headers.get("content-encoding", "identity").lower() == "identity"
        body = refusal.body if is_plain else None
        return UpstreamFailed(refusal.status, _REFUSED, answered, body)
    # A redirect is not followed, and a page that a GET gets is not shown.
    return UpstreamFailed(502, f"{answered}; it must be 101")
