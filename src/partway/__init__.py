"""Partway: the open gateway for bidirectional model streams.

For clients::

    from partway import connect

For authors of models::

    from partway import Model, Stream

Each name is imported when it is first asked for, so that a client does not load the runtime of
containers, nor a model the client. What is not listed here may change with any version.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from partway.container import (
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
        route,
    )
    from partway.gateway.client import (
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
    from partway.protocol.parts import CompletionState, DataType, PayloadPart

__version__ = "0.1.0"

__all__ = [
    "Busy",
    "ClientStream",
    "CompletionState",
    "ConnectionLost",
    "Credentials",
    "DataType",
    "GatewayUnreachable",
    "Model",
    "ModelError",
    "ModelStreamFailed",
    "Opening",
    "Outgoing",
    "PartwayError",
    "PayloadPart",
    "PlatformStreamFailed",
    "Processes",
    "Reply",
    "Request",
    "Stream",
    "StreamClosed",
    "StreamEnded",
    "StreamRefused",
    "Threads",
    "TooSlow",
    "WorkerDied",
    "Workers",
    "__version__",
    "connect",
    "credentials_from_environment",
    "route",
]

_PARTS: Final = frozenset({"CompletionState", "DataType", "PayloadPart"})
_CLIENT: Final = frozenset(
    {"ClientStream", "ConnectionLost", "Credentials", "GatewayUnreachable", "ModelStreamFailed",
     "PartwayError", "PlatformStreamFailed", "StreamEnded", "StreamRefused", "connect",
     "credentials_from_environment"}
)  # fmt: skip


def __getattr__(name: str) -> object:
    """Return a name of ``__all__``, from the module that has it (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _PARTS:
        home = "partway.protocol.parts"
    elif name in _CLIENT:
        home = "partway.gateway.client"
    else:
        home = "partway.container"
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the package's names, whether loaded yet or not."""
    return sorted({*globals(), *__all__})
