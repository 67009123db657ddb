"""The public Python client.

::

    async with connect("http://127.0.0.1:8090", "echo") as stream:
        await stream.send_text("Hello ", partial=True)
        await stream.send_text("world")
        await stream.end_input()
        async for part in stream:
            print(part.payload, part.data_type, part.completion)

:meth:`ClientStream.messages` and :meth:`ClientStream.ask` give whole messages. Code without asyncio
uses ``partway.connect_sync``.

Every exception has an attribute ``reconnect``, which says whether opening the stream again makes
sense; ``partway.reconnecting`` does so. Only the caller knows which messages to send again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from partway.gateway.client.errors import (
    BadMessage,
    ConnectionLost,
    GatewayUnreachable,
    ModelStreamFailed,
    PartwayError,
    PlatformStreamFailed,
    StreamEnded,
    StreamRefused,
)
from partway.gateway.client.http2 import open_http2
from partway.gateway.client.request import credentials_from_environment, request_for
from partway.gateway.client.stream import ClientStream
from partway.gateway.client.websocket import open_websocket
from partway.gateway.limits import CONTAINER_HANDSHAKE_TIMEOUT
from partway.protocol.parts import CompletionState, DataType, PayloadPart
from partway.protocol.signatures.verification import Credentials

__all__ = [
    "BadMessage",
    "ClientStream",
    "CompletionState",
    "ConnectionLost",
    "Credentials",
    "DataType",
    "GatewayUnreachable",
    "ModelStreamFailed",
    "PartwayError",
    "PayloadPart",
    "PlatformStreamFailed",
    "StreamEnded",
    "StreamRefused",
    "connect",
    "credentials_from_environment",
]

_TRANSPORTS = {"websocket": open_websocket, "http2": open_http2}


@asynccontextmanager
async def connect(
    url: str,
    endpoint: str,
    *,
    transport: Literal["websocket", "http2"] = "websocket",
    path: str | None = None,
    query: str | None = None,
    variant: str | None = None,
    container: str | None = None,
    credentials: Credentials | None = None,
    region: str = "us-east-1",
    token: str | None = None,
    ca: str | Path | None = None,
    connect_timeout: float = 10.0,
    open_timeout: float = CONTAINER_HANDSHAKE_TIMEOUT + 10.0,
) -> AsyncIterator[ClientStream]:
    """Open a stream; leaving the block closes it, and drops everything that has not come yet.

    An exception or a cancellation in the block cancels its stream. A block that reaches its end
    leaves the stream in good order. The gateway's log shows the difference.

    Args:
        url: the gateway's URL, ``http://HOST:PORT`` or ``https://HOST:PORT``.
        endpoint: the name of the model's endpoint.
        transport: ``websocket``, or ``http2`` for the event streams of AWS's SDKs; each stream has
            a connection of its own.
        path: the model's path in place of the default one, without a leading slash.
        query: ``key=value`` pairs for the model, percent-encoded.
        variant: the production variant to use.
        container: the host name of the container to use, if each instance has several.
        credentials: key to sign the request with, and over HTTP/2 each event; None to sign nothing.
        region: the gateway's region, which signatures name.
        token: a bearer token in place of a signature, for WebSockets.
        ca: PEM file of the roots to trust; those of OpenSSL, or of ``SSL_CERT_FILE``, by default.
        connect_timeout: seconds to reach the gateway, TLS included.
        open_timeout: seconds for the model to answer; the gateway gives it 60.

    Raises:
        GatewayUnreachable: no gateway answers at ``url``.
        StreamRefused: the gateway, or through it the container, refused the stream.
        ValueError: an argument cannot be used: a malformed URL, a ``ca`` without certificates, a
            token for HTTP/2.
    """
    if transport not in _TRANSPORTS:
        raise ValueError(
            f"transport: {transport!r} was given; it must be one of {', '.join(_TRANSPORTS)}"
        )
    if token is not None and transport != "websocket":
        raise ValueError(
            "token: a token was given for an event stream; it must be signed with credentials, "
            "since a token opens only a WebSocket"
        )
    request = request_for(
        url,
        endpoint,
        {"path": path, "query": query, "variant": variant, "container": container},
        ca=ca,
        credentials=credentials,
        region=region,
        token=token,
    )
    wire = await _TRANSPORTS[transport](
        request, connect_timeout=connect_timeout, open_timeout=open_timeout
    )
    stream = ClientStream(wire)
    wire.start(stream)
    try:
        yield stream
    except BaseException:
        await stream.close(cancel=True)
        raise
    else:
        await stream.close()
