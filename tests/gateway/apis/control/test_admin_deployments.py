"""partway.gateway.apis.control.admin_deployments: deployments, asked over the admin socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.limits import MAX_CONTROL_BODY
from partway.gateway.apis.control.operator_models import OperatorCommand
from tests.gateway.admin.test_operations import Asked
from tests.gateway.apis.control.fake_deployments import said
from tests.gateway.fleet.waiting import eventually

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.fixture
async def asked(tmp_path: Path, no_leaks: None) -> AsyncIterator[Asked]:
    async with Asked(tmp_path).running() as asked:
        yield asked


async def put(asked: Asked, data: object) -> tuple[int, object]:
    async with asked.session.put("/deployments/chat", json=data) as answer:
        return answer.status, await answer.json()


async def test_a_deployment(asked):
    wanted = {"container": {"Image": "echo"}, "variant": {"InitialInstanceCount": 2}}
    made = {
        "ModelName": "chat-v1",
        "EndpointConfigName": "chat-v1",
        "Operation": "CreateEndpoint",
        "Gone": [],
    }
    assert await put(asked, wanted) == (200, made)
    command = {"command": ["python", "serve.py"], "folder": "/home/me"}
    assert await put(asked, {"container": {}, **command}) == (200, made)
    (_, image), (name, of_command) = asked.deployments.asked
    assert (image.container, image.variant, image.command) == (*wanted.values(), None)
    assert name == "chat"
    assert of_command.command == OperatorCommand(("python", "serve.py"), Path("/home/me"))


async def test_what_there_is_and_what_goes(asked):
    assert await asked.ask("GET", "/deployments/chat") == (200, '{"endpoint": null}')
    asked.deployments.described.append(said("Creating"))
    asked.deployments.described.popleft()
    status, text = await asked.ask("GET", "/deployments/chat")
    assert (status, '"EndpointStatus": "Creating"' in text) == (200, True)
    status, text = await asked.ask("DELETE", "/deployments/chat")
    assert (status, "endpoint-config/chat-v1" in text) == (200, True)
    assert asked.deployments.deleted == ["chat"]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ([], "the request's body must be a JSON object"),
        ({"container": [], "command": ["a"]}, "container must be an object."),
        ({"variant": 1, "container": {"Image": "a"}}, "variant must be an object."),
        ({"container": {}}, "Either Image or command must be given, and not both."),
        ({"container": {"Image": "a"}, "command": ["a"], "folder": "/"}, "Either Image or "),
        ({"command": "a b", "folder": "/"}, "command must be an array of strings"),
        ({"command": ["a", 1], "folder": "/"}, "command must be an array of strings"),
        ({"command": [], "folder": "/"}, "command cannot be started: there is no program in it."),
        ({"command": ["a\0"], "folder": "/"}, "command cannot be started: it has a zero byte."),
        ({"command": ["a"], "folder": "here"}, "folder must be the absolute path"),
        ({"command": ["a"]}, "folder must be the absolute path"),
    ],
)
async def test_what_is_no_deployment(asked, wanted, why):
    status, refusal = await put(asked, wanted)
    assert (status, refusal["Message"][: len(why)]) == (400, why)
    assert asked.deployments.asked == []


async def test_a_refusal_names_that_are_none_and_other_methods(asked):
    asked.deployments.refusal = ValidationException("no")
    assert await asked.refused("DELETE", "/deployments/chat") == (400, "no")
    status, why = await asked.refused("GET", "/deployments/-")
    assert (status, why[:22]) == (400, "an endpoint's name mus")
    status, why = await asked.refused("POST", "/deployments/chat")
    said = "POST /deployments/chat was requested; the request must be GET, PUT or DELETE "
    assert (status, why[: len(said)]) == (404, said)


async def test_bodies_are_bounded(asked):
    async with asked.session.put("/deployments/chat", data=b" " * (MAX_CONTROL_BODY + 1)) as answer:
        assert answer.status == 413
        assert f"over {MAX_CONTROL_BODY} bytes" in await answer.text()


async def test_who_leaves_in_the_middle_of_a_body_is_no_fault(asked, caplog):
    _, writer = await asyncio.open_unix_connection(asked.path)
    writer.write(b"PUT /deployments/chat HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
    await eventually(lambda: asked.socket._http.tasks)
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: not asked.socket._http.open_connections)
    assert caplog.text == ""
