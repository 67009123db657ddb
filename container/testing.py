"""Serving a model in a test, with a client for it.

::

    async with serving(Chat()) as served, served.stream() as client:
        await client.send("hello")
        assert await client.recv() == "You said: hello"
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import websockets.asyncio.client

from partway.container.model import DEFAULT_PATH, Model
from partway.container.server import MODEL_DIR, ModelServer
from partway.protocol.limits import MAX_PART_BYTES

#: A query's parameters; a name may come more than once.
Query = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer from ``/invocations``.

    Attributes:
        content_type: the body's type, unchanged.
    """

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Served:
    """A loaded model on a port of this machine.

    Attributes:
        url: ``http://HOST:PORT``.
    """

    url: str

    def stream(
        self, path: str = DEFAULT_PATH, query: Query = ()
    ) -> websockets.asyncio.client.connect:
        """Open a stream: ``async with served.stream() as client``.

        The client is one of ``websockets``: ``send()`` takes a message, or an iterable of its
        fragments; ``recv()`` returns a message, ``recv_streaming()`` its fragments.

        Args:
            path: the path of the stream, without its first slash.
            query: the query's parameters.
        """
        where = f"{self.url.replace('http', 'ws', 1)}/{path}"
        return websockets.asyncio.client.connect(
            f"{where}?{urlencode(query)}" if query else where,
            compression=None,  # as on the platform: parts are not compressed (clause 1.2-6)
            proxy=None,
            max_size=(None, MAX_PART_BYTES),  # of a message, and of each frame (clause 1.3-3)
        )

    async def invoke(
        self,
        body: bytes | str = b"",
        content_type: str = "application/octet-stream",
        **headers: str,
    ) -> Answered:
        """Send one request to ``/invocations``, and read the whole answer.

        Args:
            body: the request's body; text is sent as UTF-8.
            content_type: the body's media type.
            headers: further headers; ``_`` in a name stands for ``-``.
        """
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{self.url}/invocations",
                data=body.encode() if isinstance(body, str) else body,
                headers={**sent, "Content-Type": content_type},
            ) as response,
        ):
            content = await response.read()
            return Answered(response.status, response.headers.get("Content-Type", ""), content)


@asynccontextmanager
async def serving(model: Model, model_dir: Path = MODEL_DIR) -> AsyncIterator[Served]:
    """Load and serve a model in this process; at the end of the block all connections are aborted.

    Args:
        model: the model; it must not be served elsewhere.
        model_dir: the folder that the model loads from.

    Raises:
        LoadFailed: the model could not be loaded; ``__cause__`` says why.
        SettingsRefused: a setting of the model is wrong.
    """
    server = ModelServer(model, model_dir=model_dir)
    try:
        port = await server.start()
        await server.load()
        yield Served(f"http://127.0.0.1:{port}")
    finally:
        await server.aclose()
