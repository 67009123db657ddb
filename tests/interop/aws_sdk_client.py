"""The real AWS SDK for Python, told what to do line by line. Run by the SDK's own interpreter.

How it is told is :mod:`tests.interop.told`'s matter::

    {"id": 1, "do": "open", "stream": "s", "endpoint_uri": "https://localhost:1", ...}
    {"id": 1, "result": null}
    {"id": 2, "do": "receive", "stream": "s"}
    {"id": 2, "error": {"kind": "ModelStreamError", "message": "...", "error_code": "1011", ...}}

Imports nothing else of this project: the SDK needs a newer Python than that does, and lives apart.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import importlib.metadata
import platform
from typing import Any

from aws_sdk_sagemaker_runtime_http2 import client as sdk_client
from aws_sdk_sagemaker_runtime_http2 import config as sdk_config
from aws_sdk_sagemaker_runtime_http2.models import (
    InvokeEndpointWithBidirectionalStreamInput,
    RequestPayloadPart,
    RequestStreamEventPayloadPart,
)
from smithy_aws_core.identity import AWSCredentialsIdentity
from smithy_core.aio.interfaces.identity import IdentityResolver
from smithy_http.aio.crt import AWSCRTHTTPClient
from told import follow

VERSION = importlib.metadata.version("aws-sdk-sagemaker-runtime-http2")

# It is part of the user agent, and so of recorded conversations.
platform.release = lambda: "0"

#: Members of the SDK's exceptions that a test may want to see.
MEMBERS = (
    "message", "error_code", "original_status_code", "original_message", "log_stream_arn", "fault",
)  # fmt: skip


# --- What differs between versions ---------------------------------------------------------------


class Credentials(IdentityResolver):
    """One key, whatever else the machine has."""

    def __init__(self, access_key_id: str, secret_access_key: str, token: str | None) -> None:
        self.identity = AWSCredentialsIdentity(
            access_key_id=access_key_id, secret_access_key=secret_access_key, session_token=token
        )

    async def get_identity(self, **_: Any) -> AWSCredentialsIdentity:
        return self.identity


async def make_client(uri: str, region: str, key: tuple[str, str, str | None]) -> Any:
    """A client: 0.12 resolves its configuration, and has to be given CRT; 0.4 has it built in."""
    members = {
        "endpoint_uri": uri,
        "region": region,
        "aws_credentials_identity_resolver": Credentials(*key),
    }
    if hasattr(sdk_client, "AsyncSageMakerRuntimeHTTP2Client"):
        config = await sdk_config.AsyncSageMakerRuntimeHTTP2Config.resolve(
            transport=AWSCRTHTTPClient(), **members
        )
        return sdk_client.AsyncSageMakerRuntimeHTTP2Client(config)
    return sdk_client.SageMakerRuntimeHTTP2Client(sdk_config.Config(**members))


async def close_client(client: Any) -> None:
    """Close a client's connections: 0.12 is asked to, 0.4 does when nothing refers to them."""
    if hasattr(client, "close"):
        await client.close()
    del client
    gc.collect()


# --- Commands ------------------------------------------------------------------------------------


class Driver:
    """Clients and streams by the names that commands give them."""

    def __init__(self) -> None:
        self.clients: dict[str, Any] = {}
        self.streams: dict[str, Any] = {}

    async def version(self) -> str:
        return VERSION

    async def client(
        self, client: str, endpoint_uri: str, region: str, key: list[str | None]
    ) -> None:
        self.clients[client] = await make_client(endpoint_uri, region, tuple(key))

    async def open(self, client: str, stream: str, **members: str) -> None:
        """Begin a stream; the response's head is awaited by ``head``."""
        asked = InvokeEndpointWithBidirectionalStreamInput(**members)
        operation = self.clients[client].invoke_endpoint_with_bidirectional_stream
        self.streams[stream] = await operation(asked)

    async def head(self, stream: str) -> dict[str, Any]:
        """Await the response's head."""
        output, _ = await self.streams[stream].await_output()
        return {"variant": output.invoked_production_variant}

    async def send(self, stream: str, payload: str, **members: str) -> None:
        """Send one part; ``payload`` is base64."""
        part = RequestPayloadPart(bytes_=base64.b64decode(payload), **members)
        await self.streams[stream].input_stream.send(RequestStreamEventPayloadPart(value=part))

    async def receive(self, stream: str) -> list[str | None] | None:
        """The next part, or None at the end of the response."""
        event = await self.streams[stream].output_stream.receive()
        if event is None:
            return None
        part = event.value
        return [
            base64.b64encode(part.bytes_ or b"").decode(),
            part.data_type,
            part.completion_state,
            part.p,
        ]

    async def end_input(self, stream: str) -> None:
        await self.streams[stream].input_stream.close()

    async def close_output(self, stream: str) -> None:
        """Read no more."""
        await self.streams[stream].output_stream.close()

    async def close(self, stream: str) -> None:
        """Both ways, as ``async with`` does."""
        await self.streams.pop(stream).close()

    async def forget(self, stream: str) -> None:
        """Let go of a stream without closing it."""
        del self.streams[stream]
        gc.collect()

    async def close_client(self, client: str) -> None:
        await close_client(self.clients.pop(client))


if __name__ == "__main__":
    asyncio.run(follow(Driver(), MEMBERS))
