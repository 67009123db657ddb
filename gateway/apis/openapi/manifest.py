"""The manifest of the OpenAPI description."""

from __future__ import annotations

import re
from typing import Final

from partway.gateway.apis.manifest import Manifest

MANIFEST: Final = Manifest(
    "openapi",
    "partway.gateway.apis.openapi.api",
    paths=(re.compile(r"/openapi\.json"), re.compile("/docs/?")),
)
