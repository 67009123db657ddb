"""GatewayPages: reads the open streams of gateways from their pages of metrics."""

from __future__ import annotations

import os

import aiohttp

from partway import __version__
from partway.gateway.cluster.endpoint_slices import ServiceInstance
from partway.gateway.operator.limits import MAX_PAGE, STREAMS_TIMEOUT
from partway.gateway.operator.open_streams import GatewayStreams, UnreadablePage, open_streams
from partway.gateway.plain_text import cut, safe
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import time_limit

_SHOWN = 200


class GatewaySilent(Exception):
    """A gateway does not tell its streams; the message says why."""


class GatewayRefuses(GatewaySilent):
    """No process listens on a gateway's port."""


class GatewayPages:
    """Asks gateways for ``/metrics``. Made in a running loop; closed by :meth:`aclose`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(),  # none of its own
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # an answer that is compressed all the same is refused
            headers={"Accept-Encoding": "identity", "User-Agent": f"partway/{__version__}"},
        )

    async def aclose(self) -> None:
        await self._session.close()

    async def read(self, gateway: ServiceInstance) -> GatewayStreams:
        """Return a gateway's streams.

        Raises:
            GatewaySilent: it does not answer in time, or with another page.
        """
        host = f"[{gateway.host}]" if ":" in gateway.host else gateway.host
        url = f"http://{host}:{gateway.port}/metrics"
        try:
            async with time_limit(self._clock, STREAMS_TIMEOUT):
                return open_streams(await self._page(url))
        except TimeoutError:
            raise GatewaySilent(
                f"{url}: there was no answer within {STREAMS_TIMEOUT:g} s"
            ) from None
        except aiohttp.ClientConnectorError as error:
            refuses = isinstance(error.os_error, ConnectionRefusedError)
            kind = GatewayRefuses if refuses else GatewaySilent
            raise kind(f"{url}: {_reason(error.os_error)}") from error
        except (aiohttp.ClientError, OSError, UnreadablePage) as error:
            why = cut(safe(str(error)), _SHOWN) or type(error).__name__
            raise GatewaySilent(f"{url}: {why}") from error

    async def _page(self, url: str) -> bytes:
        async with self._session.get(url, allow_redirects=False) as answer:
            if answer.status != 200:
                raise UnreadablePage(f"the status is {answer.status}; it must be 200")
            page = bytearray()
            while data := await answer.content.readany():
                page += data
                if len(page) > MAX_PAGE:
                    raise UnreadablePage(f"the page has more than {MAX_PAGE} bytes")
            return bytes(page)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else cut(safe(str(error)), _SHOWN)
