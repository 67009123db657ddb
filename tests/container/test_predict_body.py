"""Requests for predictions: read once by the runtime, and said so to who sends them."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from partway.container.errors import BodyError
from partway.container.model import Reply, Request
from partway.container.predict_body import PredictBody
from partway.protocol import json_text, prediction
from partway.protocol.unread_bodies import instances_found, unread_lines
from tests.container.wire import ScriptedModel, raw_client, serving

pytestmark = pytest.mark.usefixtures("no_leaks")

UNREAD = unread_lines(columns=False)


async def pieces(*each: bytes) -> Any:
    for piece in each:
        yield piece


def post(body: bytes, lines: str = "", version: str = "1.1") -> bytes:
    head = f"POST /invocations HTTP/{version}\r\nHost: c\r\n{lines}Content-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


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


async def test_a_model_has_the_instances_and_who_asked_hears_how_many_there_were() -> None:
    asked = Asked()
    body = b'{"instances": [[1, 2], [3.5]], "parameters": {}}'
    ((status, headers, said),) = await answers(asked.model, post(body))
    assert (status, json.loads(said)) == (200, {"predictions": [3, 3.5]})
    assert asked.heard == [[[1, 2], [3.5]]]
    assert instances_found(headers) == 2


async def test_a_model_that_reads_its_bodies_itself_says_nothing_of_them() -> None:
    async def read(request: Request) -> bytes:
        return await request.read()

    ((_, headers, said),) = await answers(
        ScriptedModel(on_invoke=read), post(b'{"instances": [1]}')
    )
    assert said == b'{"instances": [1]}'
    assert instances_found(headers) is None
    assert "Connection" not in headers


async def test_the_same_instances_are_there_each_time() -> None:
    body = PredictBody()
    assert await body.instances(pieces(b'{"instances": ', b'[["AA", {"b64": "AP8"}]]}')) == [
        ["AA", {"b64": "AP8="}]
    ]
    assert await body.instances(pieces()) is await body.instances(pieces())
    assert body.text == b'{"instances": [["AA", {"b64": "AP8="}]]}'


@pytest.mark.clause("1.1-9")
@pytest.mark.parametrize("reads", ["instances", "read", "nothing"])
async def test_an_unread_body_is_read_before_a_model_hears_of_it(reads: str) -> None:
    heard: list[Any] = []

    async def answer(request: Request) -> bytes:
        if reads == "instances":
            heard.append(await request.instances())
        elif reads == "read":
            heard.append((await request.read(), request.length))
        return b"{}"

    good = b'\xef\xbb\xbf{"instances": [{"b64": "AP8"}]}'
    bad = b'{"instances": [NaN]}'
    asked = [post(bad, UNREAD), post(good, UNREAD), post(b'{"inputs": [1]}', UNREAD)]
    refused, taken, without = await answers(ScriptedModel(on_invoke=answer), *asked)
    text = b'{"instances": [{"b64": "AP8="}]}'
    assert heard == {
        "instances": [[{"b64": "AP8="}]],
        "read": [(text, len(text))],
        "nothing": [],
    }[reads]  # fmt: skip
    assert (taken[0], instances_found(taken[1])) == (200, 1)
    for (status, headers, said), body in ((refused, bad), (without, b'{"inputs": [1]}')):
        assert (status, instances_found(headers)) == (400, 0)
        with pytest.raises(prediction.PredictionFault) as fault:
            prediction.read_request(body)
        assert said.decode() == f"{fault.value}\n"


@pytest.mark.clause("1.1-9")
async def test_columns_are_read_where_that_is_asked_for() -> None:
    asked = Asked()
    lines = unread_lines(columns=True)
    both = b'{"instances": [[1]], "inputs": [[1]]}'
    bad, good = await answers(asked.model, post(both, lines), post(b'{"inputs": [[1]]}', lines))
    assert (bad[0], bad[2][:36]) == (400, b"instances and inputs are both there;")
    assert (good[0], instances_found(good[1]), asked.heard) == (200, 1, [[[1]]])


async def test_a_request_that_is_none_is_refused_as_any_body() -> None:
    asked = Asked()
    ((status, headers, said),) = await answers(asked.model, post(b'{"instances": []}'))
    assert (status, said[:30]) == (400, b"instances: an empty array was ")
    assert instances_found(headers) is None
    assert asked.heard == []


async def test_over_http_1_0_nothing_is_said_to_the_other_end() -> None:
    asked = Asked()
    ((status, headers, _),) = await answers(asked.model, post(b'{"instances": [[1]]}', "", "1.0"))
    assert status == 200
    assert "X-Partway-Instances" not in headers


async def test_a_connection_that_ends_says_so_beside_it() -> None:
    asked = Asked()
    lines = "Connection: close\r\n"
    ((_, headers, _),) = await answers(asked.model, post(b'{"instances": [[1]]}', lines))
    assert headers["Connection"] == "X-Partway-Instances, close"
    assert instances_found(headers) == 1


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
