"""The runtime API's manifest."""

from __future__ import annotations

import re
from typing import Final

from partway.gateway.apis.manifest import Manifest

MANIFEST: Final = Manifest(
    "runtime",
    "partway.gateway.apis.runtime.api",
    paths=(re.compile("(?:/.*)?/endpoints/[^/]+/invocations(?:-response-stream)?"),),
    relays=True,
)
