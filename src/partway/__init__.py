"""Partway: the open gateway for bidirectional model streams.

For clients::

    from partway import connect

For authors of models::

    from partway import Model, Stream

Each name is imported when it is first asked for. A client does not load the runtime of containers,
and a model does not load the client. Names that are not listed here may change with any version.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from partway.container import (
        Batcher,
        Busy,
        Model,
        ModelError,
        Opening,
        Outgoing,
        Processes,
        Reply,
        Request,
        Stream,
        StreamClosed,
        Threads,
        TooSlow,
        WorkerDied,
        Workers,
        request_route,
        route,
    )
    from partway.container.tabular import Columns, TabularModel
    from partway.gateway.client import (
        BadMessage,
        ClientStream,
        ConnectionLost,
        Credentials,
        GatewayUnreachable,
        ModelStreamFailed,
        PartwayError,
        PlatformStreamFailed,
        StreamEnded,
        StreamRefused,
        connect,
        credentials_from_environment,
    )
    from partway.gateway.client.backoff import reconnecting
    from partway.gateway.client.sync import SyncStream, connect_sync
    from partway.protocol.formats import Batch, SparseRows, Tabular
    from partway.protocol.parts import CompletionState, DataType, PayloadPart

__version__ = "0.1.0"

__all__ = [
    "BadMessage", "Batch", "Batcher", "Busy", "ClientStream", "Columns", "CompletionState",
    "ConnectionLost", "Credentials", "DataType", "GatewayUnreachable", "Model", "ModelError",
    "ModelStreamFailed", "Opening", "Outgoing", "PartwayError", "PayloadPart",
    "PlatformStreamFailed", "Processes", "Reply", "Request", "SparseRows", "Stream",
    "StreamClosed", "StreamEnded", "StreamRefused", "SyncStream", "Tabular", "TabularModel",
    "Threads", "TooSlow", "WorkerDied", "Workers", "__version__", "connect", "connect_sync",
    "credentials_from_environment", "reconnecting", "request_route", "route",
]  # fmt: skip

#: The modules of the names; all others are the container's.
_HOMES: Final = {
    "partway.container.tabular": {"Columns", "TabularModel"},
    "partway.protocol.formats": {"Batch", "SparseRows", "Tabular"},
    "partway.protocol.parts": {"CompletionState", "DataType", "PayloadPart"},
    "partway.gateway.client": {
        "BadMessage", "ClientStream", "ConnectionLost", "Credentials", "GatewayUnreachable",
        "ModelStreamFailed", "PartwayError", "PlatformStreamFailed", "StreamEnded", "StreamRefused",
        "connect", "credentials_from_environment",
    },
    "partway.gateway.client.backoff": {"reconnecting"},
    "partway.gateway.client.sync": {"SyncStream", "connect_sync"},
}  # fmt: skip


def __getattr__(name: str) -> object:
    """Return a name of ``__all__``, from the module that has it (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = next((home for home, names in _HOMES.items() if name in names), "partway.container")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the package's names, whether loaded yet or not."""
    return sorted({*globals(), *__all__})
