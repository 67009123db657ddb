"""The limits of the operator, named, with units and precedents."""

from __future__ import annotations

from typing import Final

#: Refusals of objects that are written at a time.
REFUSALS_AT_ONCE: Final = 4

#: Seconds until a write that failed is tried again.
RETRY_INTERVAL: Final = 5.0

#: Faults of one object that its status names.
SAID_CAUSES: Final = 8

#: Seconds that the operator has to end, beside the requests that are under way.
STOP_TIMEOUT: Final = 5.0
