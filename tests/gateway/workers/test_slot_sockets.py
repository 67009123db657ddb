"""partway.gateway.workers.slot_sockets: sockets that go from one gateway process to the next."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from partway.gateway.settings.settings import Settings
from partway.gateway.workers import slot_sockets
from partway.gateway.workers.slot_sockets import SlotSockets, sockets_for
from partway.gateway.workers.worker_ports import address_of
from tests.gateway.kept_in_memory import KeptInMemory

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "SO_REUSEPORT") or not hasattr(os, "pidfd_open"), reason="needs Linux"
)

SETTINGS = Settings(port=0, tls_port=0)


@pytest.fixture
async def kept(anyio_backend):
    kept = KeptInMemory()
    yield kept
    kept.close()


def ports(slots: list[SlotSockets]) -> set[int]:
    return {address_of([each])[1] for slot in slots for each in slot.ports.plain}


def end(slots: list[SlotSockets]) -> None:
    """End the process: the kept duplicates stay."""
    for slot in slots:
        slot.close_here()


@pytest.mark.parametrize("number", [2, 1, 3])
async def test_the_next_process_listens_on_the_same(kept, number):
    """Also with another number of slots: no socket is closed that may have connections."""
    first = await sockets_for(SETTINGS, kept, 2)
    (port,) = ports(first)
    tls = address_of(first[0].ports.tls)[1]
    end(first)
    with socket.create_connection(("127.0.0.1", port)) as client:  # nobody accepts now
        kept = kept.next_process()
        then = await sockets_for(SETTINGS, kept, number)
        assert len(then) == number
        assert ports(then) == {port}
        assert address_of(then[0].ports.tls)[1] == tls
        accepted = []
        for each in (one for slot in then for one in slot.ports.plain):
            try:
                accepted.append(each.accept()[0])
            except BlockingIOError:
                continue
        (connection,) = accepted
        connection.sendall(b"x")
        assert client.recv(1) == b"x"
        connection.close()
    assert len(kept.names) == max(2, number)
    for each in then:
        each.close()
    assert kept.names == set()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_an_error_of_a_further_slot_names_the_settings_address(kept, monkeypatch):
    async def taken(*_: object, **__: object) -> None:
        raise OSError(errno.EADDRINUSE, "in use")

    end(await sockets_for(SETTINGS, kept, 1))
    kept = kept.next_process()
    monkeypatch.setattr(slot_sockets, "listening_sockets", taken)
    with pytest.raises(OSError, match="in use") as caught:
        await sockets_for(SETTINGS, kept, 2)
    assert caught.value.filename == "127.0.0.1:0"


async def test_another_address_is_listened_on_anew(kept):
    end(await sockets_for(SETTINGS, kept, 2))
    kept = kept.next_process()
    then = await sockets_for(Settings(host="127.0.0.2", port=0), kept, 2)
    assert address_of(then[0].ports.plain)[0] == "127.0.0.2"
    assert then[0].ports.tls == []
    for each in then:
        each.close()
    assert kept.names == set()
