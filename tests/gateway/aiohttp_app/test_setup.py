"""partway.aiohttp.setup: a gateway's place and life in an application."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from aiohttp import web

import partway.aiohttp
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import DataDirectory
from partway.protocol.websocket.close_codes import GATEWAY_FAILED
from tests.frame_factory import CLOSE, TEXT, frame
from tests.gateway.aiohttp_app.served import PREFIX, serve, settings_of
from tests.wire.event_dialect import Http1EventClient
from tests.wire.event_messages import EventMessage
from tests.wire.peers import RAW, STREAM_PATH, eventually, soon

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

STREAM = f"{PREFIX}{STREAM_PATH}"


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


def settings() -> partway.aiohttp.ApplicationSettings:
    return partway.aiohttp.load_settings(apis=["none"])


# --- Its place -----------------------------------------------------------------------------------


async def test_the_applications_own_routes_are_beside_the_gateways(application_for):
    async def hello(request):
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/", hello)
    app.router.add_get(f"{PREFIX}-of-mine", hello)
    served = await application_for(app)
    for path in ("/", f"{PREFIX}-of-mine"):
        assert (await served.wire.request(get(path))).body == b"hello"
    assert (await served.wire.request(get(f"{PREFIX}/healthz"))).body == b"ok\n"
    assert (await served.wire.request(get("/healthz"))).status == 404


async def test_a_gateway_may_have_all_paths_that_are_left(application_for):
    async def hello(request):
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/mine", hello)
    served = await application_for(app, prefix="")
    assert (await served.wire.request(get("/mine"))).body == b"hello"
    assert (await served.wire.request(get("/healthz"))).body == b"ok\n"


@pytest.mark.parametrize("prefix", [PREFIX, ""])
async def test_the_application_may_be_part_of_others(application_for, prefix):
    app, middle, outer = web.Application(), web.Application(), web.Application()
    served = await application_for(app, prefix=prefix, mounts=[(middle, "/b"), (outer, "/a")])
    answer = await served.wire.request(get(f"/a/b{prefix}/healthz"))
    assert answer.body == b"ok\n"
    client, model = await served.wire.open(RAW, f"/a/b{prefix}{STREAM_PATH}")
    client.send_frame(TEXT, b"hi")
    assert (await model.frame()).payload == b"hi"


async def test_an_application_has_one_gateway_at_most():
    app = web.Application()
    partway.aiohttp.setup(app, settings())
    with pytest.raises(partway.aiohttp.AlreadySetUp, match="must have one at most"):
        partway.aiohttp.setup(app, settings(), "/others")


async def test_a_started_application_takes_none():
    app = web.Application()
    app.freeze()
    with pytest.raises(
        partway.aiohttp.ApplicationFrozen, match="setup\\(\\) must be called before that"
    ):
        partway.aiohttp.setup(app, settings())


async def test_an_application_that_is_part_of_another_takes_none():
    app = web.Application()
    web.Application().add_subapp("/a", app)
    with pytest.raises(partway.aiohttp.ApplicationFrozen, match="added to another application"):
        partway.aiohttp.setup(app, settings())


async def test_settings_must_be_those_of_an_application():
    with pytest.raises(TypeError, match=r"settings: Settings was given; it must be the result"):
        partway.aiohttp.setup(web.Application(), Settings())
    with pytest.raises(TypeError, match="app: Settings was given; it must be an Application"):
        partway.aiohttp.setup(Settings(), settings())


# --- Its life ------------------------------------------------------------------------------------


async def test_a_shutdown_ends_open_streams_before_the_server_closes(application_for):
    order = []

    async def note(app):
        order.append("cleanup")

    app = web.Application()
    app.on_cleanup.append(note)
    served = await application_for(app)
    client, _ = await served.wire.open(RAW, STREAM)
    events = await Http1EventClient.open(served.port, STREAM)
    served.wire.clients.append(events)
    await served.wire.container.stream()
    stopping = asyncio.create_task(served.stop())
    last = await client.frame()
    assert (last.opcode, last.payload[:2]) == (CLOSE, GATEWAY_FAILED.to_bytes(2))
    exception = await events.event()
    assert isinstance(exception, EventMessage)
    assert "draining" in json.dumps(exception.json)
    assert await events.ended() == ("LAST_CHUNK", "EOF")
    assert order == []
    client.send_close(GATEWAY_FAILED)
    await client.eof()
    events.end_input()
    await soon(stopping, "the end of the application")
    assert order == ["cleanup"]


async def test_a_stream_may_end_by_itself_in_the_grace(application_for):
    served = await application_for(shutdown_grace=30.0)
    client, model = await served.wire.open(RAW, STREAM)
    stopping = asyncio.create_task(served.stop())
    await eventually(lambda: served.gateway.streams.draining)
    client.send_frame(TEXT, b"late")
    assert (await model.frame()).payload == b"late"
    model.send(frame(TEXT, b"answer"), frame(CLOSE, (1000).to_bytes(2)))
    assert (await client.frame()).payload == b"answer"
    client.send_close(1000)
    await soon(stopping, "the end of the application")


async def test_an_application_that_does_not_start_leaves_nothing_of_its_gateway(
    container, tmp_path
):
    async def fail(app):
        raise RuntimeError("no database")

    app = web.Application()
    app.on_startup.append(fail)  # behind all contexts
    of_gateway = settings_of(container.port, {}, data_dir=tmp_path / "data")
    with pytest.raises(RuntimeError, match="no database"):
        await serve(app, of_gateway, container, tmp_path)
    DataDirectory.opened(tmp_path / "data").close()  # nobody else has it


async def test_a_start_that_fails_at_the_admin_socket_leaves_no_container(tmp_path):
    data = tmp_path / "data"
    DataDirectory.opened(data).close()
    (data / "admin.sock").mkdir()
    of_gateway = partway.aiohttp.load_settings(
        apis=["none"], data_dir=data, endpoints=["model=sleep 600"]
    )
    app = web.Application()
    partway.aiohttp.setup(app, of_gateway)
    runner = web.AppRunner(app)
    with pytest.raises(partway.aiohttp.DataDirectoryError, match="admin socket cannot be created"):
        await runner.setup()
    await runner.cleanup()
    DataDirectory.opened(data).close()  # no task of the gateway is left either


async def test_a_data_directory_of_another_gateway_is_refused(container, tmp_path):
    with DataDirectory.opened(tmp_path / "data"):
        app = web.Application()
        of_gateway = settings_of(container.port, {}, data_dir=tmp_path / "data")
        with pytest.raises(partway.aiohttp.DataDirectoryError, match=r"data_dir: .* uses"):
            await serve(app, of_gateway, container, tmp_path)


async def test_commands_ask_the_gateway_by_its_data_directory(application_for, tmp_path):
    await application_for(data_dir=tmp_path / "data")
    reader, writer = await asyncio.open_unix_connection(tmp_path / "data" / "admin.sock")
    writer.write(b"GET /endpoints HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert b'"model"' in await soon(reader.read(), "the endpoints")
    writer.close()


async def test_the_log_is_the_applications(application_for):
    before = logging.getLogger().handlers[:], logging.getLogger("partway").level
    await application_for()
    assert (logging.getLogger().handlers[:], logging.getLogger("partway").level) == before
