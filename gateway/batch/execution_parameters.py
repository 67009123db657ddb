"""How a container is asked: what the job says, else what the container says, else the default."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from partway.gateway.batch.limits import (
    CONCURRENT,
    MAX_CONCURRENT,
    MAX_PAYLOAD_MB,
    PAYLOAD_MB,
    UNLIMITED_RECORD_BYTES,
)
from partway.gateway.batch.options import OptionsError, TransformOptions
from partway.gateway.plain_text import cut, safe
from partway.protocol.limits import MIB
from partway.protocol.records import BatchStrategy

#: Where a container says how it wants to be asked.
EXECUTION_PARAMETERS: Final = "/execution-parameters"

#: As the API writes it, and as containers do.
_STRATEGIES: Final[dict[str, BatchStrategy]] = {
    "MULTI_RECORD": "MultiRecord",
    "SINGLE_RECORD": "SingleRecord",
    "MultiRecord": "MultiRecord",
    "SingleRecord": "SingleRecord",
}


#: Characters of a value that an error repeats.
_SHOWN: Final = 100

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """How a container is asked.

    Attributes:
        strategy: how many records a request has.
        concurrent: how many requests an instance has at a time.
        payload_mb: megabytes of a body, 2^20 bytes each; 0 for no limit.
    """

    strategy: BatchStrategy
    concurrent: int
    payload_mb: int

    @property
    def unlimited(self) -> bool:
        """Whether bodies have no limit, and so go in chunks."""
        return self.payload_mb == 0

    @property
    def most_bytes(self) -> int:
        """Bytes of a body whose records are cut."""
        return UNLIMITED_RECORD_BYTES if self.unlimited else self.payload_mb * MIB


def settled(options: TransformOptions, said: bytes = b"") -> RequestPlan:
    """How a container is asked.

    Args:
        options: what the job says, which goes first.
        said: the body of the container's 200 to ``GET /execution-parameters``; empty if it has
            none. What is no JSON object is passed over: a server may answer any path with a page.

    Raises:
        OptionsError: the container says what cannot be, and the job nothing in its place.
    """
    container = _object(said)
    strategy = options.batch_strategy or _read(container, "BatchStrategy", _strategy)
    concurrent = options.max_concurrent or _read(
        container, "MaxConcurrentTransforms", _whole(0, MAX_CONCURRENT)
    )
    payload_mb = options.max_payload_mb
    if payload_mb is None:
        payload_mb = _read(container, "MaxPayloadInMB", _whole(0, MAX_PAYLOAD_MB))
    if payload_mb is None:
        payload_mb = PAYLOAD_MB
    if not options.max_concurrent:
        # The job has not said how many: no more than their bodies allow.
        concurrent = min(concurrent or CONCURRENT, MAX_PAYLOAD_MB // (payload_mb or 1))
    elif options.max_payload_mb is None and payload_mb:
        payload_mb = min(payload_mb, MAX_PAYLOAD_MB // options.max_concurrent)
    return RequestPlan(strategy or "MultiRecord", concurrent or CONCURRENT, payload_mb)


def _object(said: bytes) -> dict[str, object]:
    try:
        found = json.loads(said) if said else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read(container: dict[str, object], member: str, read: Callable[[object], _T]) -> _T | None:
    """What a container says; None if nothing.

    Raises:
        OptionsError: it cannot be.
    """
    value = container.get(member)
    if value is None:
        return None
    try:
        return read(value)
    except ValueError as error:
        shown = cut(safe(repr(value)), _SHOWN)
        raise OptionsError(
            member,
            f"the container's {EXECUTION_PARAMETERS} says {shown}; it must be {error}, or the job "
            "say it in its place",
        ) from None


def _strategy(value: object) -> BatchStrategy:
    found = _STRATEGIES.get(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("MULTI_RECORD or SINGLE_RECORD")
    return found


def _whole(least: int, most: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return read
