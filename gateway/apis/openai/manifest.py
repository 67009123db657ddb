"""The manifest of OpenAI's API."""

from __future__ import annotations

import re
from typing import Final

from partway.gateway.apis.manifest import Manifest

MANIFEST: Final = Manifest(
    "openai",
    "partway.gateway.apis.openai.api",
    paths=(re.compile(r"(?:/.*)?/openai/v1(?:/.*)?"),),
    relays=True,
)
