"""As much of a client of Kubernetes' API as a kubelet takes. It is none of Partway's own code."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import aiohttp

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

#: Seconds for an answer, and for a watch, after which the collection is listed again.
ANSWER = 5.0
WATCH = 20

#: Bytes of an event, of which each is a line.
LINE = 1 << 20


class ApiError(Exception):
    """The server refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


#: The server is out of reach, or does not answer.
AWAY = (aiohttp.ClientError, TimeoutError, ConnectionError)


class Api:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    @asynccontextmanager
    async def at(cls, server: str, token: str, ca: Path) -> AsyncIterator[Self]:
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca))
        async with aiohttp.ClientSession(
            server,
            connector=connector,
            headers={"Authorization": f"Bearer {token}"},
            timeout=aiohttp.ClientTimeout(total=ANSWER),
            read_bufsize=LINE,
        ) as session:
            yield cls(session)

    async def ask(
        self, method: str, path: str, body: Object | None = None, kind: str = "application/json"
    ) -> Object:
        """The answer.

        Raises:
            ApiError: The server refused.
            OSError, TimeoutError, aiohttp.ClientError: There was no answer (``AWAY``).
        """
        data = None if body is None else json.dumps(body)
        async with self._session.request(
            method, path, data=data, headers={"Content-Type": kind}
        ) as response:
            answer: Object = await response.json()
            if response.status >= 300:
                raise ApiError(response.status, answer.get("message", ""))
            return answer

    async def watch(self, path: str, version: str, **parameters: str) -> AsyncIterator[Object]:
        """Events after a version of the collection, for a while.

        Raises:
            ApiError: The version is too old (410), or another refusal.
        """
        parameters |= {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(WATCH)}
        async with self._session.get(
            path, params=parameters, timeout=aiohttp.ClientTimeout(total=WATCH + ANSWER)
        ) as response:
            if response.status >= 300:
                raise ApiError(response.status, await response.text())
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(event["object"]["code"], event["object"].get("message", ""))
                yield event
