"""An HTTP client for webhooks, with persistent connections.

The module is separate so that only a gateway with a webhook imports aiohttp.
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from partway.gateway.apis.asynchronous.limits import NOTICE_TIMEOUT
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit


class WebhookClient:
    """Posts to webhooks, until :meth:`aclose`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._client: aiohttp.ClientSession | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> str:
        """Post a body without following redirects; return the error, or an empty text."""
        if self._client is None:
            self._client = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None), cookie_jar=aiohttp.DummyCookieJar()
            )
        try:
            async with (
                time_limit(self._clock, NOTICE_TIMEOUT),
                self._client.post(
                    url, data=body, headers=headers, allow_redirects=False
                ) as response,
            ):
                is_taken = 200 <= response.status < 300
                return "" if is_taken else f"the webhook answered {response.status}"
        except TimeoutError:
            return f"the webhook did not answer within {NOTICE_TIMEOUT:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return f"{type(error).__name__}: {error}"

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
