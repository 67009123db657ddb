"""The model's side: a runtime that an author builds on, and the models that ship with it.

The container meets the gateway on the wire only (section 1 of ``docs/reference/contract.md``).
"""

from __future__ import annotations

from partway.container.batching import Batcher
from partway.container.errors import Busy, ModelError, TooSlow, WorkerDied
from partway.container.model import Model, Opening, Reply, Request, request_route, route
from partway.container.stream import Outgoing, Stream, StreamClosed
from partway.container.workers import Processes, Threads, Workers
from partway.protocol.parts import CompletionState, DataType, PayloadPart

__all__ = [
    "Batcher",
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
    "request_route",
    "route",
]
