"""Requests to servers that speak OpenAI's API, the first one that takes them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import aiohttp

from partway.container.errors import ModelError, TooSlow
from partway.container.models.chat.event_lines import EventLines, EventTooLong
from partway.container.models.chat.settings import ChatSettings
from partway.log_lines import LogLine
from partway.protocol.limits import KIB

log = logging.getLogger("partway.container.chat")

#: The data of the last event.
DONE: Final = b"[DONE]"

#: Seconds for a connection to an upstream.
_CONNECT: Final = 5.0
#: Bytes of an upstream's refusal that are read.
_REFUSAL_BYTES: Final = 16 * KIB
#: Statuses after which another upstream may take the request.
_ELSEWHERE: Final = frozenset({429, 500, 502, 503, 504})


class UpstreamRefused(ModelError):
    """An upstream's refusal, with its own status and body.

    Attributes:
        body: the upstream's, up to 16 KiB.
        content_type: of the body.
        headers: when to try again.
    """

    def __init__(
        self, status: int, body: bytes, content_type: str, headers: Mapping[str, str]
    ) -> None:
        reason = f"the upstream answered {status}: {_message(body)}"
        super().__init__(reason, status=status if 400 <= status <= 599 else 502)
        self.body = body
        self.content_type = content_type
        self.headers = headers


class Upstreams:
    """The servers of one model.

    Args:
        settings: the model's.
    """

    def __init__(self, settings: ChatSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def close(self) -> None:
        """Close all connections; called on another thread than the loop's, which still runs."""
        if self._session is not None and self._loop is not None:
            closing = asyncio.run_coroutine_threadsafe(self._session.close(), self._loop)
            closing.result(1.0)

    @asynccontextmanager
    async def answered(
        self, method: str, path: str, body: bytes = b"", content_type: str = "application/json"
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request to the first upstream that takes it; the block has the answer.

        Leaving the block early ends the connection, and so cancels the upstream's work. Another
        upstream is tried if one cannot be reached or answers that it cannot serve now.

        Args:
            method: HTTP's.
            path: below ``/v1/``, with its query.
            body: of the request; empty for none.
            content_type: of the body.

        Raises:
            UpstreamRefused: the last upstream answered with 400 or above.
            ModelError: no upstream can be reached.
            TooSlow: the upstream did not begin its answer in time.
        """
        headers = {"Content-Type": content_type} if body else {}
        if self._settings.api_key:
            headers["Authorization"] = f"Bearer {self._settings.api_key}"
        failure: ModelError = ModelError("there is no upstream")
        for base in self._settings.upstreams:
            try:
                response = await self._opened().request(
                    method, f"{base}/{path}", data=body or None, headers=headers
                )
            except TimeoutError:
                seconds = self._settings.timeout
                raise TooSlow(f"the upstream did not answer within {seconds:g} s") from None
            except aiohttp.ClientConnectionError as error:
                failure = ModelError(f"no upstream can be reached: {error}", status=502)
                log.warning(
                    LogLine("an upstream cannot be reached", upstream=base, reason=str(error))
                )
                continue
            try:
                if response.status >= HTTPStatus.BAD_REQUEST:
                    failure = await _refusal(response)
                    log.warning(
                        LogLine("an upstream refused", upstream=base, status=response.status)
                    )
                    if response.status in _ELSEWHERE:
                        continue
                    raise failure
                yield response
                return
            finally:
                response.close()
        raise failure

    async def events(self, body: bytes) -> AsyncGenerator[bytes]:
        """Yield the data of a chat completion's events, unchanged, up to ``[DONE]``.

        Raises:
            ModelError: the answer breaks off, is silent for too long, or has no events; and as
                :meth:`answered`.
        """
        async with self.answered("POST", "chat/completions", body) as response:
            lines = EventLines()
            try:
                async for received in response.content.iter_any():
                    for data in lines.add(received):
                        if data == DONE:
                            return
                        yield data
            except TimeoutError:
                seconds = self._settings.timeout
                raise TooSlow(f"the upstream was silent for {seconds:g} s") from None
            except (aiohttp.ClientError, EventTooLong) as error:
                raise ModelError(f"the upstream's answer broke off: {error}") from error
            raise ModelError(f"the upstream's answer broke off: it ended without {DONE.decode()}")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._loop = asyncio.get_running_loop()
            times = aiohttp.ClientTimeout(
                total=None, connect=None, sock_connect=_CONNECT, sock_read=self._settings.timeout
            )
            connector = aiohttp.TCPConnector(limit=0)  # the gateway limits the streams
            self._session = aiohttp.ClientSession(timeout=times, connector=connector)
        return self._session


async def _refusal(response: aiohttp.ClientResponse) -> UpstreamRefused:
    body = await response.content.read(_REFUSAL_BYTES)
    names = ("Retry-After", "retry-after-ms")
    headers = {name: response.headers[name] for name in names if name in response.headers}
    content_type = response.headers.get("Content-Type", "text/plain; charset=utf-8")
    return UpstreamRefused(response.status, body, content_type, headers)


def _message(body: bytes) -> str:
    """Return the message of an error in OpenAI's form, or the beginning of another body."""
    try:
        found: Any = json.loads(body)
    except ValueError:
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    text = message if isinstance(message, str) else body.decode("utf-8", "replace")
    return " ".join(text.split())[:200]
