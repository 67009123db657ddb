"""The upstream's health, asked by HTTP."""

from __future__ import annotations

import http.client

from partway.container.bridge.dialling import why
from partway.container.bridge.settings import HealthCheck
from partway.container.errors import ModelError
from partway.container.limits import UPSTREAM_HEALTH_STEP


def is_healthy(check: HealthCheck) -> bool:
    """Ask the upstream; for a thread, since it blocks.

    Raises:
        ModelError: the upstream is not healthy; the reason says what it answered.
    """
    url = check.url
    kind = http.client.HTTPSConnection if url.is_secure else http.client.HTTPConnection
    connection = kind(url.host, url.port, timeout=UPSTREAM_HEALTH_STEP)
    try:
        connection.request("GET", url.target(), headers={"Connection": "close"})
        status = connection.getresponse().status
    except OSError as error:  # a TimeoutError is one
        raise ModelError(f"the upstream does not answer at {url}: {why(error)}") from None
    except http.client.HTTPException as error:
        name = type(error).__name__
        raise ModelError(f"the upstream's answer at {url} is not HTTP/1.1: {name}") from None
    finally:
        connection.close()
    if status < 200 or status >= (300 if check.by_success else 500):
        wanted = "2xx" if check.by_success else "below 500"
        raise ModelError(f"the upstream answers {status} at {url}; it must be {wanted}")
    return True
