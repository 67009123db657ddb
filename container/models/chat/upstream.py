"""Requests to servers that speak OpenAI's API, the first one that takes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, Final, Protocol

import aiohttp

from partway.container.errors import ModelError, TooSlow
from partway.container.models.chat.event_lines import EventLines, EventTooLong
from partway.container.models.chat.json_objects import object_of
from partway.container.models.chat.settings import ChatSettings
from partway.container.models.openai_events import DONE, JSON
from partway.log_lines import LogLine
from partway.protocol.limits import KIB
from partway.protocol.openai.errors import error_body

log = logging.getLogger("partway.container.chat")

#: Seconds for a connection to an upstream.
_CONNECT: Final = 5.0
#: Seconds for which an idle connection is kept: uvicorn, which vLLM uses, closes it after 5.
_KEEP: Final = 4.0
#: Bytes of an upstream's refusal that are passed on.
_REFUSAL_BYTES: Final = 64 * KIB
#: Statuses after which another upstream may take the request.
_TRY_ANOTHER: Final = frozenset({429, 500, 502, 503, 504})
#: A 404's event: most servers have no path at their root.
_LACKS: Final = "an upstream lacks the path or the model; does its URL end in /v1?"


class UpstreamRefused(ModelError):
    """An answer with another status than 2xx.

    Attributes:
        body: the upstream's, or an error in OpenAI's form if that is too long or broke off.
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


class UpstreamAnswer(AsyncIterator[bytes]):
    """The body of an answer as it comes. Its owner must call :meth:`aclose`.

    Args:
        timeout: seconds of silence that the response allows, for the error's text.
    """

    def __init__(self, response: aiohttp.ClientResponse, timeout: float) -> None:
        self._response = response
        self._timeout = timeout
        self.status = response.status
        self.content_type = response.headers.get("Content-Type", JSON)

    async def __anext__(self) -> bytes:
        """Return the next bytes.

        Raises:
            TooSlow: the upstream is silent for too long.
            ModelError: the answer breaks off.
        """
        try:
            received = await self._response.content.readany()
        except TimeoutError:
            raise TooSlow(f"the upstream was silent for {self._timeout:g} s") from None
        except aiohttp.ClientError as error:
            log.warning(LogLine("an upstream's answer broke off", reason=str(error)))
            reason = "the upstream's answer broke off: the connection ended before its end"
            raise ModelError(reason, status=502) from error
        if not received:
            raise StopAsyncIteration
        return received

    async def aclose(self) -> None:
        """End the connection unless the answer is complete: the upstream's work is cancelled."""
        self._response.close()


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

    async def ask(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> UpstreamAnswer:
        """Send a request to the first upstream that takes it.

        Another upstream is tried if one cannot be connected to, or answers that it cannot serve
        now. A request that may have been delivered goes nowhere else.

        Args:
            method: HTTP's.
            path: below ``/v1/``, with its query.
            body: of the request; empty for none.
            content_type: of the body.

        Raises:
            UpstreamRefused: the answer's status is not 2xx; redirects are not followed.
            ModelError: no upstream can be reached, or one ended without an answer.
            TooSlow: the upstream did not begin its answer in time.
        """
        # A coded answer may be a thousand times as large as its bytes.
        headers = {"Accept-Encoding": "identity"}
        if body:
            headers["Content-Type"] = content_type
        if key := self._settings.api_key.get_secret_value():
            headers["Authorization"] = f"Bearer {key}"
        asked = path.partition("?")[0]  # queries are never logged
        failure: ModelError | None = None
        for base in self._settings.upstreams:
            url = f"{base}/{path}"
            try:
                async with asyncio.timeout(_CONNECT + self._settings.timeout):
                    response = await self._opened().request(
                        method, url, data=body or None, headers=headers, allow_redirects=False
                    )
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                log.warning(
                    LogLine("an upstream cannot be reached", upstream=base, reason=str(error))
                )
                # Clients must not learn where it is.
                failure = failure or ModelError("no upstream can be reached", status=502)
                continue
            except TimeoutError:
                seconds = self._settings.timeout
                raise TooSlow(f"the upstream did not answer within {seconds:g} s") from None
            except aiohttp.ClientError as error:
                log.warning(LogLine("an upstream gave no answer", upstream=base, reason=str(error)))
                raise ModelError("the upstream gave no valid answer", status=502) from error
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                response.close()
                log.warning(LogLine("an upstream's answer is compressed", upstream=base))
                raise ModelError("the upstream's answer must not be compressed", status=502)
            if 200 <= response.status < 300:
                return UpstreamAnswer(response, self._settings.timeout)
            refused = await _refusal(response)
            event = _LACKS if response.status == 404 else "an upstream refused"
            log.warning(LogLine(event, upstream=base, path=asked, status=response.status))
            if response.status not in _TRY_ANOTHER:
                raise refused
            failure = refused if not isinstance(failure, UpstreamRefused) else failure
        assert failure is not None, "there is one upstream at least"
        raise failure

    async def events(self, body: bytes, path: str = "chat/completions") -> AsyncGenerator[bytes]:
        """Yield the data of a completion's events, unchanged, up to ``[DONE]``.

        The settings' ``timeout`` limits the time without an event. Comments and blank lines, which
        keep a connection open, do not prolong it.

        Args:
            body: of the request.
            path: below ``/v1/``.

        Raises:
            TooSlow: no event comes for too long.
            ModelError: the answer breaks off, or has too many bytes without an event; and as
                :meth:`ask`.
        """
        answer = await self.ask("POST", path, body)
        lines = EventLines()
        try:
            while found := await self._next_events(answer, lines):
                for data in found:
                    if data == DONE:
                        return
                    yield data
        except EventTooLong as error:
            raise ModelError(f"the upstream's answer is not valid: {error}", status=502) from error
        finally:
            await answer.aclose()
        raise ModelError(f"the upstream's answer broke off: it ended without {DONE.decode()}")

    async def _next_events(self, answer: UpstreamAnswer, lines: EventLines) -> list[bytes]:
        """Return the data of the next events; none where the answer has ended."""
        try:
            async with asyncio.timeout(self._settings.timeout):
                async for received in answer:
                    if found := list(lines.add(received)):
                        return found
        except TimeoutError:
            seconds = self._settings.timeout
            raise TooSlow(f"the upstream sent no event for {seconds:g} s") from None
        return []

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._loop = asyncio.get_running_loop()
            times = aiohttp.ClientTimeout(
                total=None,
                connect=_CONNECT,
                sock_connect=_CONNECT,
                sock_read=self._settings.timeout,
            )
            # The gateway limits the streams.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP)
            self._session = aiohttp.ClientSession(
                timeout=times,
                connector=connector,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),  # or cookies go to other clients' requests
            )
        return self._session


class AsksUpstreams(Protocol):
    """A model before upstreams, as its sessions see it."""

    settings: ChatSettings
    upstreams: Upstreams


async def _refusal(response: aiohttp.ClientResponse) -> UpstreamRefused:
    """Read a refusal's body; one that is too long, late or cut keeps its message at most."""
    body, is_whole = b"", False
    try:
        while len(body) <= _REFUSAL_BYTES:
            more = await response.content.readany()
            if not more:
                is_whole = True
                break
            body += more
    except (TimeoutError, aiohttp.ClientError):
        pass  # its status says enough
    finally:
        response.close()
    content_type = response.headers.get("Content-Type", "text/plain; charset=utf-8")
    if not is_whole:
        body, content_type = error_body(_message(body), response.status), JSON
    names = ("Retry-After", "retry-after-ms")
    headers = {name: response.headers[name] for name in names if name in response.headers}
    return UpstreamRefused(response.status, body, content_type, headers)


def _message(body: bytes) -> str:
    """Return the message of an error in OpenAI's form, or the beginning of another body."""
    error: Any = (object_of(body) or {}).get("error")
    message = error.get("message") if isinstance(error, dict) else None
    text = message if isinstance(message, str) else body[:800].decode("utf-8", "replace")
    return " ".join(text.split())[:200]
