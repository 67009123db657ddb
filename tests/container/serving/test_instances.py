"""Requests for predictions, whose instances the runtime reads once."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from partway.container.errors import BodyError
from partway.container.model import Reply, Request
from partway.container.serving.body import PredictBody
from partway.protocol.json import strict as json_text
from tests.container.wire import ScriptedModel, raw_client, serving

pytestmark = pytest.mark.usefixtures("no_leaks")


async def pieces(*each: bytes) -> Any:
    for piece in each:
        yield piece


def post(body: bytes) -> bytes:
    head = f"POST /invocations HTTP/1.1\r\nHost: c\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Asked:
    """A model that adds up its instances, unless it is told to do otherwise; what it has heard."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.model = ScriptedModel(on_invoke=self.answer)

    async def answer(self, request: Request) -> Reply:
        self.heard.append(await request.instances())
        return Reply(json.dumps({"predictions": [sum(each) for each in self.heard[-1]]}))


async def answers(model: ScriptedModel, *requests: bytes) -> list[tuple[int, Any, bytes]]:
    """Status, headers and body of what is answered to requests on one connection."""
    found = []
    async with serving(model) as (_, port), raw_client(port) as client:
        for request in requests:
            client.send(request)
            status, *lines = (await client.head()).decode().strip().split("\r\n")
            headers = CIMultiDict(line.split(": ", 1) for line in lines)
            body = await client.reader.readexactly(int(headers["Content-Length"]))
            found.append((int(status.split()[1]), headers, body))
    return found


async def test_a_model_has_the_instances() -> None:
    asked = Asked()
    body = b'{"instances": [[1, 2], [3.5]], "parameters": {}}'
    ((status, _, said),) = await answers(asked.model, post(body))
    assert (status, json.loads(said)) == (200, {"predictions": [3, 3.5]})
    assert asked.heard == [[[1, 2], [3.5]]]


async def test_the_same_instances_are_there_each_time() -> None:
    body = PredictBody()
    assert await body.instances(pieces(b'{"instances": ', b'[["AA", {"b64": "AP8"}]]}')) == [
        ["AA", {"b64": "AP8="}]
    ]
    assert await body.instances(pieces()) is await body.instances(pieces())


async def test_a_request_that_is_none_is_refused_as_any_body() -> None:
    asked = Asked()
    ((status, _, said),) = await answers(asked.model, post(b'{"instances": []}'))
    assert (status, said[:30]) == (400, b"instances: an empty array was ")
    assert asked.heard == []


@pytest.mark.parametrize(
    ("body", "is_here"),
    [
        (b'{"instances": [[%b1]]}' % (b"1, " * 100_000), True),
        (b'{"instances": [%b"text"]}' % (b"1, " * 100_000), False),
        (b'{"instances": [%b1]}' % (b"[], " * 20_000), False),
    ],
    ids=["numbers", "text", "arrays"],
)
async def test_what_takes_long_is_read_on_a_thread(
    body: bytes, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = []
    read = json_text.orjson.loads

    def noting(text: bytes) -> Any:
        readers.append(threading.get_ident())
        return read(text)

    monkeypatch.setattr(json_text.orjson, "loads", noting)
    assert await PredictBody().instances(pieces(body))
    assert (readers == [threading.get_ident()]) == is_here


async def test_a_request_that_an_author_makes_has_instances_too() -> None:
    def request(body: bytes) -> Request:
        return Request(CIMultiDictProxy(CIMultiDict()), "application/json", None, pieces(body))

    assert await request(b'{"instances": [1]}').instances() == [1]
    with pytest.raises(BodyError, match="the body is not JSON"):
        await request(b"{").instances()
