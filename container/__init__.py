"""The model's side: a runtime that an author builds on, and the models that ship with it.

It meets the gateway on the wire only (section 1 of ``docs/reference/contract.md``).
"""

from __future__ import annotations

from container.errors import Busy, ModelError, TooSlow, WorkerDied
from container.model import Model, Opening, Reply, Request, route
from container.stream import Outgoing, Stream, StreamClosed
from container.workers import Processes, Threads, Workers
from protocol.parts import CompletionState, DataType, PayloadPart

__all__ = [
    "Busy",
    "CompletionState",
    "DataType",
    "Model",
    "ModelError",
    "Opening",
    "Outgoing",
    "PayloadPart",
    "Processes",
    "Reply",
    "Request",
    "Stream",
    "StreamClosed",
    "Threads",
    "TooSlow",
    "WorkerDied",
    "Workers",
    "route",
]
