"""partway.gateway.admin.admin_socket: who may ask, how many, and where it is."""

from __future__ import annotations

import asyncio
import os
import stat
import struct
from types import SimpleNamespace

import pytest

from partway.gateway.admin import admin_socket
from partway.gateway.admin.admin_socket import AdminSocket
from partway.protocol.errors import AccessDenied
from tests.gateway.admin.admin_client import Asked, asked
from tests.gateway.fleet.waiting import eventually

__all__ = ["asked"]

pytestmark = pytest.mark.usefixtures("no_leaks")


async def test_the_socket_is_its_users_alone(asked):
    assert stat.S_IMODE(asked.path.stat().st_mode) == 0o600
    await asked.socket.aclose()
    assert not asked.path.exists()


@pytest.mark.parametrize(("user", "admitted"), [("own", True), (0, True), ("another", False)])
def test_who_has_connected(user, admitted):
    number = {"own": os.geteuid(), "another": os.geteuid() + 12345}.get(user, user)
    peer = SimpleNamespace(getsockopt=lambda *_: struct.pack("3i", 1, number, 1))
    if admitted:
        admin_socket._check_user(peer)
    else:
        with pytest.raises(AccessDenied, match="only the gateway's own user may use"):
            admin_socket._check_user(peer)


async def test_somebody_else_is_answered_nothing_but_that(asked, monkeypatch):
    def refuse(connection):
        raise AccessDenied("not you")

    monkeypatch.setattr(admin_socket, "_check_user", refuse)
    assert await asked.refused("GET", "/endpoints") == (403, "not you")
    assert await asked.refused("POST", "/endpoints/echo/restart") == (403, "not you")
    assert asked.fleet.restarted == []


async def test_more_connections_than_there_may_be(asked, monkeypatch):
    monkeypatch.setattr(admin_socket, "MAX_ADMIN_CONNECTIONS", 2)
    idle = [await asyncio.open_unix_connection(asked.path) for _ in range(2)]
    await eventually(lambda: asked.socket._http.open_connections == 2)
    status, said = await asked.refused("GET", "/endpoints")
    assert status == 503
    assert said.endswith("admin socket are open already; try again when one has ended")
    for _, writer in idle:
        writer.close()
        await writer.wait_closed()
    await eventually(lambda: not asked.socket._http.open_connections)
    assert (await asked.ask("GET", "/endpoints"))[0] == 200


async def test_a_request_that_is_too_large(asked):
    async with asked.session.get("/endpoints", headers={"X": "x" * 10_000}) as answer:
        assert answer.status == 431


async def test_in_the_place_of_one_that_was_killed(tmp_path):
    killed = Asked(tmp_path)
    await killed.socket.start()
    killed.socket._listening.close()
    async with Asked(tmp_path).running() as asked:
        assert (await asked.ask("GET", "/endpoints"))[0] == 200
    await killed.socket.aclose()


async def test_a_folder_whose_path_is_too_long_for_a_socket(tmp_path):
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    async with Asked(folder).running() as asked:
        assert asked.path.is_socket()
        assert (await asked.ask("GET", "/endpoints"))[0] == 200


async def test_where_no_socket_can_be(tmp_path):
    asked = Asked(tmp_path)
    socket = AdminSocket(tmp_path / "nowhere" / "s", lambda: asked.operations, asked.clock)
    with pytest.raises(FileNotFoundError):
        await socket.start()
    await socket.aclose()
