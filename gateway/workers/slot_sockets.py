"""The listening sockets of slots, which the supervisor keeps: no process's end closes them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import msgspec

from partway.gateway.kept_state import KeptEntry, KeptState
from partway.gateway.network.listening import close_all, listening_sockets, sockets_of_slots
from partway.gateway.settings.settings import Settings
from partway.gateway.workers.worker_ports import PortSockets, address_of

_PREFIX = "sockets/"


class _Record(msgspec.Struct, frozen=True):
    """The record of a slot's sockets.

    Attributes:
        addresses: the host, port and TLS port that the settings ask for.
        plain: how many of the descriptors are sockets of the port; the others are of the TLS port.
    """

    addresses: tuple[str, int, int | None]
    plain: int


@dataclass(slots=True)
class SlotSockets:
    """The sockets of one slot.

    Attributes:
        names: of the kept entries that have them.
    """

    kept: KeptState
    ports: PortSockets
    names: list[str] = field(default_factory=list)

    def close(self) -> None:
        """Close the sockets everywhere: the system gives them no connection any more."""
        self.close_here()
        for each in self.names:
            self.kept.forget(each)
        self.names.clear()

    def close_here(self) -> None:
        """Close the sockets of this process alone."""
        close_all([*self.ports.plain, *self.ports.tls])


async def sockets_for(settings: Settings, kept: KeptState, slots: int) -> list[SlotSockets]:
    """Return the sockets of an earlier gateway process, or listen; fitted to so many slots.

    If there are fewer slots than before, some have the sockets of several. So no socket is closed
    that may have connections in its queue.

    Raises:
        OSError: an address cannot be listened on; the error's ``filename`` is host and port.
    """
    addresses = (settings.host, settings.port, settings.tls_port)
    found = _taken(kept, addresses)
    if not found:
        return await _opened(settings, kept, addresses, slots)
    for number, each in enumerate(found[slots:]):
        into = found[number % slots]
        into.ports = PortSockets(
            [*into.ports.plain, *each.ports.plain], [*into.ports.tls, *each.ports.tls]
        )
        into.names += each.names
    del found[slots:]
    with ExitStack() as opened:
        for each in found:
            opened.callback(each.close_here)
        for number in range(len(found), slots):
            further = await _further(found[0], kept, addresses, number + 1)
            opened.callback(further.close_here)
            found.append(further)
        opened.pop_all()
    return found


def _taken(kept: KeptState, addresses: tuple[str, int, int | None]) -> list[SlotSockets]:
    found = []
    entries: Mapping[str, KeptEntry] = kept.take(_PREFIX)
    for name, entry in sorted(entries.items()):
        record = msgspec.msgpack.decode(entry.record, type=_Record)
        sockets = [socket.socket(fileno=each) for each in entry.descriptors]
        ports = PortSockets(sockets[: record.plain], sockets[record.plain :])
        slot = SlotSockets(kept, ports, [name])
        if record.addresses == addresses:
            found.append(slot)
        else:
            slot.close()
    return found


async def _opened(
    settings: Settings, kept: KeptState, addresses: tuple[str, int, int | None], number: int
) -> list[SlotSockets]:
    with ExitStack() as opened:
        with _named(settings.host, settings.port):
            plain = await sockets_of_slots(settings.host, settings.port, number)
        for each in plain:
            opened.callback(close_all, each)
        tls: list[list[socket.socket]] = [[] for _ in plain]
        if settings.tls_port is not None:
            with _named(settings.host, settings.tls_port):
                tls = await sockets_of_slots(settings.host, settings.tls_port, number)
        opened.pop_all()
    pairs = zip(plain, tls, strict=True)
    return [_kept(kept, addresses, at, PortSockets(*each)) for at, each in enumerate(pairs, 1)]


async def _further(
    first: SlotSockets, kept: KeptState, addresses: tuple[str, int, int | None], number: int
) -> SlotSockets:
    """Listen for one more slot, at the ports of the others.

    Raises:
        OSError: as :func:`sockets_for`.
    """
    host, port, tls_port = addresses
    with ExitStack() as opened:
        with _named(host, port):
            plain = await listening_sockets(host, address_of(first.ports.plain)[1], shared=True)
        opened.callback(close_all, plain)
        tls: list[socket.socket] = []
        if tls_port is not None:
            with _named(host, tls_port):
                tls = await listening_sockets(host, address_of(first.ports.tls)[1], shared=True)
        opened.pop_all()
    return _kept(kept, addresses, number, PortSockets(plain, tls))


def _kept(
    kept: KeptState, addresses: tuple[str, int, int | None], number: int, ports: PortSockets
) -> SlotSockets:
    name = f"{_PREFIX}{number:03}"
    record = msgspec.msgpack.encode(_Record(addresses, len(ports.plain)))
    kept.keep(name, record, [each.fileno() for each in (*ports.plain, *ports.tls)])
    return SlotSockets(kept, ports, [name])


@contextmanager
def _named(host: str, port: int) -> Iterator[None]:
    """Name the address of the settings in errors; the port may be 0 there."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
