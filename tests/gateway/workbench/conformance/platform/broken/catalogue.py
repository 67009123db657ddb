"""All broken platforms: each module lists its own when it is imported."""

from __future__ import annotations

from tests.gateway.workbench.conformance.platform.broken import (
    control,
    ends,
    frames,
    replies,
    upgrades,
)
from tests.gateway.workbench.conformance.platform.broken.registry import BROKEN

__all__ = ["BROKEN", "control", "ends", "frames", "replies", "upgrades"]
