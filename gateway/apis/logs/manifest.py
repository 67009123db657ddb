"""The manifest of CloudWatch Logs."""

from __future__ import annotations

from typing import Final

from partway.gateway.apis.manifest import Manifest

MANIFEST: Final = Manifest("logs", "partway.gateway.apis.logs.api", targets=("Logs_20140328.",))
