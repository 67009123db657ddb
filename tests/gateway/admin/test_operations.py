"""partway.gateway.admin.operations: what a user's commands ask over the socket."""

from __future__ import annotations

import asyncio
import os

import aiohttp
import pytest

from partway.gateway.admin import admin_socket
from partway.gateway.admin import operations as admin
from partway.gateway.admin.operations import AdminOperations
from partway.gateway.fleet.output.log_files import PrintedFiles
from partway.gateway.fleet.status import EndpointState
from partway.gateway.fleet.status_json import from_json
from partway.gateway.limits import LOG_FOLLOW_INTERVAL
from partway.gateway.storage.store.store import StoreError
from partway.protocol.errors import ServiceUnavailable
from partway.protocol.limits import STALL_TIMEOUT
from tests.gateway.admin.admin_client import ID, Asked, asked
from tests.gateway.fleet.statuses import a_variant, an_endpoint, an_instance
from tests.gateway.fleet.waiting import eventually, soon

__all__ = ["asked"]

pytestmark = pytest.mark.usefixtures("no_leaks")


# --- Endpoints -----------------------------------------------------------------------------------


async def test_how_the_fleet_is(asked):
    asked.fleet.endpoints = (an_endpoint("echo"), an_endpoint("voice"))
    async with asked.session.get("/endpoints") as answer:
        assert answer.content_type == "application/json"
        assert from_json(await answer.read()) == asked.fleet.endpoints
    asked.fleet.endpoints = ()
    assert await asked.ask("GET", "/endpoints") == (200, '{"endpoints": []}')


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/endpoints"), ("GET", "/"), ("GET", "/endpoints/echo"),
     ("PUT", "/endpoints/echo/logs"), ("GET", "/endpoints/echo/restart"), ("GET", "/endpoints/")],
)  # fmt: skip
async def test_what_nobody_answers(asked, method, path):
    status, said = await asked.refused(method, path)
    assert status == 404
    assert said.startswith(f"{method} {path} was requested; it must be GET /endpoints, POST")


@pytest.mark.parametrize(("method", "what"), [("POST", "restart"), ("GET", "logs")])
async def test_an_endpoint_that_is_not_there(asked, method, what):
    path = f"/endpoints/eco/{what}"
    assert await asked.refused(method, path) == (400, "there is no endpoint 'eco'; there is echo")
    asked.fleet.endpoints = ()
    assert await asked.refused(method, path) == (400, "there is no endpoint 'eco'; there are none")
    asked.fleet.endpoints = tuple(an_endpoint(f"e{number}") for number in range(25))
    status, said = await asked.refused(method, path)
    assert said == (
        f"there is no endpoint 'eco'; there are {', '.join(f'e{n}' for n in range(20))} and 5 more"
    )
    status, said = await asked.refused(method, f"/endpoints/%1b[2J/{what}")
    assert (status, said[:22]) == (400, "an endpoint's name mus")
    assert asked.fleet.restarted == []


# --- Restarts ------------------------------------------------------------------------------------


async def test_a_restart_is_over_when_the_fleet_says_so(asked):
    asked.fleet.may_restart.clear()
    restart = asyncio.create_task(asked.ask("POST", "/endpoints/echo/restart"))
    await asked.ask("GET", "/endpoints")
    await eventually(lambda: asked.fleet.restarted)
    assert not restart.done()
    asked.fleet.may_restart.set()
    assert await restart == (204, "")
    assert await asked.ask("POST", "/endpoints/echo/restart") == (204, "")
    assert asked.fleet.restarted == ["echo", "echo"]


async def test_who_asks_for_a_restart_under_way_waits_for_that_one(asked):
    asked.fleet.may_restart.clear()
    async with asyncio.TaskGroup() as callers:
        both = [callers.create_task(asked.ask("POST", "/endpoints/echo/restart")) for _ in range(2)]
        await eventually(lambda: asked.socket._http.open_connections == 2)
        await asked.ask("GET", "/endpoints")
        asked.fleet.may_restart.set()
    assert [each.result() for each in both] == [(204, "")] * 2
    assert asked.fleet.restarted == ["echo"]


async def test_a_restart_goes_on_without_its_caller(asked):
    asked.fleet.may_restart.clear()
    caller = asyncio.create_task(asked.ask("POST", "/endpoints/echo/restart"))
    await eventually(lambda: asked.fleet.restarted)
    caller.cancel()
    await asyncio.wait((caller,))
    second = asyncio.create_task(asked.ask("POST", "/endpoints/echo/restart"))
    await asked.ask("GET", "/endpoints")
    asked.fleet.may_restart.set()
    assert await second == (204, "")
    assert asked.fleet.restarted == ["echo"]


async def test_a_restart_that_fails(asked, caplog):
    asked.fleet.restart_fails = ServiceUnavailable("no instance came into service: exit status 1")
    assert await asked.refused("POST", "/endpoints/echo/restart") == (
        503,
        "no instance came into service: exit status 1",
    )
    assert "restart failed endpoint=echo" in caplog.text
    asked.fleet.restart_fails = ZeroDivisionError("secret")
    assert await asked.refused("POST", "/endpoints/echo/restart") == (
        500,
        "an internal error; the gateway's log describes it",
    )
    assert "admin socket: an internal error" in caplog.text


async def test_a_restart_does_not_hold_up_the_end(asked):
    asked.fleet.may_restart.clear()
    restart = asyncio.create_task(asked.refused("POST", "/endpoints/echo/restart"))
    await eventually(lambda: asked.fleet.restarted)
    await asked.socket.aclose()
    assert await restart == (503, "the gateway is stopping")


# --- Logs ----------------------------------------------------------------------------------------


async def test_the_last_lines_of_a_log(asked):
    asked.written(b"one\ntwo\nthree\n")
    async with asked.session.get("/endpoints/echo/logs") as answer:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert await answer.read() == b"one\ntwo\nthree\n"
    assert await asked.ask("GET", "/endpoints/echo/logs?lines=1") == (200, "three\n")
    path = f"/endpoints/echo/logs?lines=2&instance={ID}"
    assert await asked.ask("GET", path) == (200, "two\nthree\n")


async def test_what_is_asked_wrongly_of_a_log(asked):
    status, said = await asked.refused("GET", "/endpoints/echo/logs?lines=-1")
    assert (status, said[:43]) == (400, "lines: '-1' was given; it must be a whole n")


async def test_a_log_that_is_followed_ends_with_the_gateway(asked):
    asked.written(b"one\n")
    async with asked.session.get("/endpoints/echo/logs?follow=1") as answer:
        assert await answer.content.readline() == b"one\n"
        asked.written(b"two\n")
        two = asyncio.create_task(answer.content.readline())

        def come() -> bool:
            asked.clock.advance(LOG_FOLLOW_INTERVAL)
            return two.done()

        await eventually(come)
        assert two.result() == b"two\n"
        asked.written(b"last, not ended")
        closing = asyncio.create_task(asked.socket.aclose())
        assert await answer.read() == b"last, not ended\n"
        await closing


async def test_who_leaves_frees_a_place(asked, monkeypatch):
    monkeypatch.setattr(admin, "MAX_LOG_READERS", 1)
    asked.written(b"one\n")
    for _ in range(3):
        async with asked.session.get("/endpoints/echo/logs?follow=1") as answer:
            assert await answer.content.readline() == b"one\n"
            status, said = await asked.refused("GET", "/endpoints/echo/logs")
            assert (status, said) == (503, "1 logs are being read; try again when one has ended")
            assert (await asked.ask("GET", "/endpoints"))[0] == 200
            answer.close()
        await eventually(lambda: not asked.operations._readers)


async def test_who_takes_nothing_holds_up_nobody_and_is_let_go(asked):
    assert asked.socket._http.taken_within == STALL_TIMEOUT
    asked.socket._http.taken_within = 0.5
    asked.written((b"x" * 99 + b"\n") * 100_000)
    async with asked.session.get("/endpoints/echo/logs?follow=1&lines=100000") as answer:
        await answer.content.readline()
        assert (await asked.ask("GET", "/endpoints"))[0] == 200
        assert await asked.ask("GET", "/endpoints/echo/logs?lines=1") == (200, "x" * 99 + "\n")
        assert asked.operations._readers == 1
        await eventually(lambda: not asked.operations._readers)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_who_takes_nothing_does_not_hold_up_the_end(asked, monkeypatch):
    monkeypatch.setattr(admin_socket, "ADMIN_CLOSE_TIMEOUT", 0.05)
    asked.written((b"x" * 99 + b"\n") * 100_000)
    async with asked.session.get("/endpoints/echo/logs?follow=1&lines=100000") as answer:
        await answer.content.readline()
        await soon(asked.socket.aclose())
        await eventually(lambda: not asked.operations._readers)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


@pytest.mark.parametrize(
    ("method", "path", "commands"),
    [
        ("PUT", "/deployments/echo", "partway deploy and delete"),
        ("DELETE", "/deployments/echo", "partway deploy and delete"),
        ("GET", "/store", "partway backup"),
    ],
)
async def test_commands_that_need_the_control_plane_say_so(tmp_path, method, path, commands):
    asked = Asked(tmp_path)
    asked.operations = AdminOperations(asked.fleet, None, asked.logs, None, asked.clock)
    async with asked.running():
        status, message = await asked.refused(method, path)
    assert status == 503
    assert message == (
        f"the API 'control' is switched off in this gateway, and {commands} cannot work without "
        "it; add it to the gateway's setting apis"
    )


@pytest.mark.parametrize("query", ["", "?follow=0&lines=1"])
async def test_the_logs_of_an_endpoint_that_has_failed_are_those_of_its_last_instance(asked, query):
    """As under the next gateway, which runs nothing of the endpoint."""
    PrintedFiles(asked.logs, ID, "echo").append(b"one\nthere is no model\n", 1)
    variant = a_variant(desired=1)
    asked.fleet.endpoints = (an_endpoint("echo", variant, state=EndpointState.FAILED),)
    expected = "one\nthere is no model\n" if not query else "there is no model\n"
    assert await asked.ask("GET", f"/endpoints/echo/logs{query}") == (200, expected)


async def test_logs_of_several_instances_name_them(asked):
    asked.fleet.endpoints = (
        an_endpoint("echo", a_variant(an_instance("echo-A-1"), an_instance("echo-A-2"))),
    )
    asked.written(b"one\n", "echo-A-1")
    asked.written(b"two\n", "echo-A-2")
    assert await asked.ask("GET", "/endpoints/echo/logs") == (
        200,
        "echo-A-1 | one\necho-A-2 | two\n",
    )


# --- Backups -------------------------------------------------------------------------------------


async def test_a_backup_comes_whole(asked):
    asked.backed_up = os.urandom(3 * 1024 * 1024 + 7)
    async with asked.session.get("/store") as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/vnd.sqlite3"
        assert await answer.read() == asked.backed_up
    await eventually(lambda: asked.let_go == 1)


async def test_a_backup_that_is_broken_off_does_not_pass_for_a_whole_one(asked, caplog):
    asked.backed_up, asked.breaks_at = bytes(3 * 1024 * 1024), 2 * 1024 * 1024
    async with asked.session.get("/store") as answer:
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    assert 'the backup failed reason="the disk does not answer"' in caplog.text
    asked.breaks_at = None
    await eventually(lambda: asked.let_go == 1)
    async with asked.session.get("/store") as answer:
        assert await answer.read() == asked.backed_up


async def test_who_takes_no_backup_holds_none(asked):
    asked.socket._http.taken_within = 0.5
    asked.backed_up = bytes(50 * 1024 * 1024)
    async with asked.session.get("/store") as answer:
        await answer.content.readexactly(1)
        await eventually(lambda: asked.let_go == 1)
    asked.backed_up = b"a file"
    assert await asked.ask("GET", "/store") == (200, "a file")


async def test_one_backup_at_a_time(asked):
    asked.may_back_up.clear()
    first = asyncio.create_task(asked.ask("GET", "/store"))
    await eventually(lambda: asked.operations._is_backing_up)
    status, said = await asked.refused("GET", "/store")
    assert (status, said) == (503, "a backup is being written; try again when it has ended")
    asked.may_back_up.set()
    assert await first == (200, "a file")
    assert await asked.ask("GET", "/store") == (200, "a file")


async def test_a_store_that_cannot_be_read_says_why(asked):
    asked.backed_up = StoreError("/data/store.db: the file is damaged")
    assert await asked.refused("GET", "/store") == (500, "/data/store.db: the file is damaged")
    asked.backed_up = b"a file"
    assert await asked.ask("GET", "/store") == (200, "a file")
