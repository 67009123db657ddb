"""The upstream's health, asked by HTTP."""

from __future__ import annotations

import asyncio
import ssl

import h11

from partway.container.bridge.dialling import why
from partway.container.bridge.settings import HealthCheck, ServerUrl
from partway.container.errors import ModelError
from partway.container.limits import UPSTREAM_HEALTH_TIMEOUT
from partway.protocol.limits import HANDSHAKE_HEAD_BYTES, MAX_INTERIM_RESPONSES

_READ = 4096


def is_healthy(check: HealthCheck, timeout: float = UPSTREAM_HEALTH_TIMEOUT) -> bool:
    """Ask the upstream; for a thread, since it blocks.

    Args:
        timeout: seconds for the connection and the head of the answer together. The look-up of a
            host's name has the system's own limit.

    Raises:
        ModelError: the upstream is not healthy; the reason says what it answered.
    """
    url = check.url
    try:
        # A loop has one deadline for all steps; a blocking socket has one for each read.
        status = asyncio.run(_status(url, timeout))
    except TimeoutError:
        late = f"no answer within {timeout:g} s"
        raise ModelError(f"the upstream does not answer at {url}: {late}") from None
    except OSError as error:
        raise ModelError(f"the upstream does not answer at {url}: {why(error)}") from None
    except h11.RemoteProtocolError as error:
        # After the colon h11 quotes the input, which must not be logged.
        about = str(error).partition(":")[0]
        raise ModelError(f"the upstream's answer at {url} is not HTTP/1.1: {about}") from None
    if status < 200 or status >= (300 if check.by_success else 500):
        wanted = "2xx" if check.by_success else "below 500"
        raise ModelError(f"the upstream answers {status} at {url}; it must be {wanted}")
    return True


async def _status(url: ServerUrl, timeout: float) -> int:
    """Ask for a status; the body is not read."""
    async with asyncio.timeout(timeout):
        reader, writer = await asyncio.open_connection(
            url.host,
            url.port,
            ssl=ssl.create_default_context() if url.is_secure else None,
            limit=HANDSHAKE_HEAD_BYTES,
        )
        try:
            http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HANDSHAKE_HEAD_BYTES)
            headers = [("Host", url.authority), ("Connection", "close")]
            asked = http.send(h11.Request(method="GET", target=url.target(), headers=headers))
            writer.write(asked or b"")
            http.send(h11.EndOfMessage())
            return await _read_status(reader, http)
        finally:
            writer.transport.abort()


async def _read_status(reader: asyncio.StreamReader, http: h11.Connection) -> int:
    interim = 0
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(_READ)
            if not data:
                raise h11.RemoteProtocolError("the connection ended before it")
            http.receive_data(data)
        elif isinstance(event, h11.Response):
            return event.status_code
        else:
            interim += 1
            if interim > MAX_INTERIM_RESPONSES:
                raise h11.RemoteProtocolError(
                    f"more than {MAX_INTERIM_RESPONSES} interim responses came before it"
                )
