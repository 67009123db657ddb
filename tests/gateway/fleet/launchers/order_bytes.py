"""An order as bytes, for a launcher whose instances run elsewhere."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec

from partway.gateway.fleet.endpoint import (
    Attached,
    Containers,
    Image,
    InstanceTimes,
    OneContainer,
    Program,
    Variant,
)
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.platform_interface import VertexContainer
from partway.gateway.network.dialling import Address
from partway.gateway.storage.places.pinned_path import PinnedPath
from partway.gateway.tls.trust import Trust

_KINDS: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(Order, Variant, InstanceTimes, VertexContainer, PinnedPath, Trust, Address),
        *(Attached, Containers, Image, OneContainer, Program),
    )
}


def encoded(order: Order) -> bytes:
    """Return an order as bytes; anything in it that is no value is refused."""
    return msgspec.msgpack.encode(_plain(order))


def decoded(data: bytes) -> Order:
    found = _made(msgspec.msgpack.decode(data))
    assert isinstance(found, Order)
    return found


def _plain(value: object) -> object:
    if type(value).__name__ in _KINDS:
        members = {
            each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value)
        }
        return {"": type(value).__name__, **members}
    if isinstance(value, Path):
        return {"": "Path", "path": str(value)}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    assert value is None or isinstance(value, str | int | float), f"{value!r} is no value"
    return value


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_made(each) for each in value)
    if not isinstance(value, dict):
        return value
    members = {name: _made(each) for name, each in value.items()}
    kind = members.pop("")
    return Path(members["path"]) if kind == "Path" else _KINDS[kind](**members)
