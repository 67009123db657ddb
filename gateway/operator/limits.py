"""The limits of the operator, named, with units and precedents."""

from __future__ import annotations

from typing import Final

#: Refusals of objects that are written at a time.
REFUSALS_AT_ONCE: Final = 4

#: Seconds until a write that failed is tried again.
RETRY_INTERVAL: Final = 5.0

#: Gateways that must report a pod as unreachable until it is deleted.
GATEWAYS_THAT_AGREE: Final = 2

#: Pods that are deleted as unreachable within a time in seconds: this share of all, or one.
DELETION_SHARE: Final = 0.1
DELETION_WINDOW: Final = 60.0
