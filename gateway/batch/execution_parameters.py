"""Execution parameters: the job's settings, else the container's, else the defaults."""

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

#: The path where a container publishes its execution parameters.
EXECUTION_PARAMETERS: Final = "/execution-parameters"

#: The spelling of the API, and of containers.
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
    """The settings for requests to a container.

    Attributes:
        strategy: how many records a request has.
        concurrent: the number of requests that an instance has at a time.
        payload_mb: the limit of a body in megabytes of 2^20 bytes; 0 for no limit.
    """

    strategy: BatchStrategy
    concurrent: int
    payload_mb: int

    @property
    def unlimited(self) -> bool:
        """Whether bodies have no limit, and are therefore sent in chunks."""
        return self.payload_mb == 0

    @property
    def most_bytes(self) -> int:
        """The size limit of a body of whole records, in bytes."""
        return UNLIMITED_RECORD_BYTES if self.unlimited else self.payload_mb * MIB


def settled(options: TransformOptions, said: bytes = b"") -> RequestPlan:
    """Return the settings for requests to a container.

    Args:
        options: the job's options, which take precedence.
        said: the body of the container's 200 to ``GET /execution-parameters``; empty without
            one. A body that is not a JSON object is ignored, since a server may answer any path
            with a page.

    Raises:
        OptionsError: the container gives an invalid value for which the job has no own value.
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
        # The job sets no number: concurrent bodies have at most MAX_PAYLOAD_MB together.
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
    """Return a value of the container; None if the container gives none.

    Raises:
        OptionsError: the value is invalid.
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
            f"the container's {EXECUTION_PARAMETERS} says {shown}; it must be {error}, or the "
            f"job must set {member} itself",
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
