"""partway.gateway.network.listening: one port for several sockets, and for no other gateway."""

from __future__ import annotations

import errno

import pytest

from partway.gateway.network.listening import close_all, listening_sockets, sockets_of_slots


async def test_slots_share_a_free_port(anyio_backend):
    slots = await sockets_of_slots("127.0.0.1", 0, 3)
    try:
        addresses = {each.getsockname() for slot in slots for each in slot}
        assert len(addresses) == 1
        assert len(slots) == 3
    finally:
        for each in slots:
            close_all(each)


@pytest.mark.parametrize("shared", [False, True])
async def test_another_gateways_port_is_taken(anyio_backend, shared):
    others = await listening_sockets("127.0.0.1", 0, shared=shared)
    try:
        with pytest.raises(OSError) as refused:
            await sockets_of_slots("127.0.0.1", others[0].getsockname()[1], 2)
        assert refused.value.errno == errno.EADDRINUSE
    finally:
        close_all(others)
