"""The manifest of asynchronous requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from partway.gateway.apis.asynchronous.limits import MOST_WAITING, SPOOL_QUOTA, WAITING_REQUESTS
from partway.gateway.apis.manifest import Manifest
from partway.gateway.configuration.expected import Size, whole


@dataclass(frozen=True)
class AsynchronousSettings:
    """The settings of asynchronous requests.

    Attributes:
        max_async_requests: the number of requests that have not ended.
        async_quota: bytes of bodies and answers on disk.
    """

    max_async_requests: Annotated[int, whole(1, MOST_WAITING, "requests")] = WAITING_REQUESTS
    async_quota: Size = SPOOL_QUOTA


MANIFEST: Final = Manifest(
    "asynchronous",
    "partway.gateway.apis.asynchronous.api",
    paths=(re.compile("(?:/.*)?/endpoints/[^/]+/async-invocations"),),
    needs=("control",),
    settings=AsynchronousSettings,
)
