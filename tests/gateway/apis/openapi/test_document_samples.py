"""Each request and response of Google's page on the format of requests, as it is printed there.

What leaves something out by ``...`` is refused as it is, and read once that is gone.
"""

from __future__ import annotations

import base64
import json
import re

import pytest

from partway.gateway.fleet.prediction import PredictionPolicy
from tests.gateway.apis.prediction.predicting import OF_ENDPOINT, answer, asking
from tests.gateway.conftest import container, gateway_for

__all__ = ["asking", "container", "gateway_for"]

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

MODEL = "/v1/model:predict"

IMAGES = """\
[
        [
          [138, 30, 66],
          [130, 20, 56],
          ...
        ],
        [
          [126, 38, 61],
          [122, 24, 57],
          ...
        ],
        ...
      ]"""

REQUESTS = {
    "values and a key": """{"instances": [
  {"values": [1, 2, 3, 4], "key": 1},
  {"values": [5, 6, 7, 8], "key": 2}
]}""",
    "plain text": '{"instances": ["the quick brown fox", "the lazy dog"]}',
    "words": """{
  "instances": [
    ["the","quick","brown"],
    ["the","lazy","dog"],
    ...
  ]
}""",
    "floats": '{"instances": [0.0, 1.1, 2.2]}',
    "vectors": """{
  "instances": [
    [0, 1, 2],
    [3, 4, 5],
    ...
  ]
}""",
    "tensors": """{
  "instances": [
    [
      [0, 1, 2],
      [3, 4, 5]
    ],
    ...
  ]
}""",
    "an image": f'{{\n  "instances": [\n    {IMAGES},\n    ...\n  ]\n}}',
    "serialized examples": '{"instances": [{"b64": "X5ad6u"}, {"b64": "IA9j4nx"}]}',
    "JPEGs": '{"instances": [{"b64": "ASa8asdf"}, {"b64": "JLK7ljk3"}]}',
    "a tag and a JPEG": """{
  "instances": [
    {
      "tag": "beach",
      "image": {"b64": "ASa8asdf"}
    },
    {
      "tag": "car",
      "image": {"b64": "JLK7ljk3"}
    }
  ]
}""",
    "a tag and an image": f'{{"instances": [{{"tag": "car", "image": {IMAGES}}},\n    ...\n  ]\n}}',
}

#: Of what is printed, what is at fault besides; and the same without the fault.
FAULTS = {
    "rows of CSV": (
        '{"instances": ["1.0,true,\\\\"x\\\\"", "-2.0,false,\\\\"y\\\\""]}',
        '{"instances": ["1.0,true,\\"x\\"", "-2.0,false,\\"y\\""]}',
    ),
    "wrapped for PyTorch": (
        '{\n  "instances": [\n    { "data": , 1 },\n    { "data": , 2 }\n  ]\n}',
        '{\n  "instances": [\n    { "data": 1 },\n    { "data": 2 }\n  ]\n}',
    ),
    "one key of Python's": (
        "{\"instances\": [{'image_bytes': {'b64': \"AA==\"}}]}",
        '{"instances": [{"image_bytes": {"b64": "AA=="}}]}',
    ),
    "the scheme": (
        '{\n  "instances": [\n    <value>|<simple/nested list>|<object>,\n    ...\n  ]\n}',
        '{\n  "instances": [\n    7\n  ]\n}',
    ),
}

PREDICTIONS = {
    "whole numbers": "[5, 4, 3]",
    "two tensors": """[
    {
      "label": "beach",
      "scores": [0.1, 0.9]
    },
    {
      "label": "car",
      "scores": [0.75, 0.25]
    }
  ]""",
}


def without_elisions(text):
    return re.sub(r",\s*\.\.\.", "", text)


def padded(value):
    """The same with its base64 as a container gets it."""
    if isinstance(value, dict) and value.keys() == {"b64"}:
        text = value["b64"]
        return {"b64": base64.b64encode(base64.b64decode(text + "=" * (-len(text) % 4))).decode()}
    if isinstance(value, dict):
        return {name: padded(each) for name, each in value.items()}
    return [padded(each) for each in value] if isinstance(value, list) else value


async def test_each_request(asking):
    client = await asking()
    for name, printed in REQUESTS.items():
        text = without_elisions(printed)
        members = json.loads(text)
        count = len(members["instances"])
        client.told.says = answer(json.dumps({"predictions": [0] * count}).encode())
        for path in (MODEL, f"{OF_ENDPOINT}:predict"):
            status, said = await client.json(path, text.encode())
            assert (status, said["predictions"]) == (200, [0] * count), name
            assert json.loads(client.told.bodies[-1]) == padded(members), name
        if text != printed:
            status, said = await client.json(MODEL, printed.encode())
            assert (status, said["error"][:20]) == (400, "the body is not JSON"), name


async def test_what_is_no_json_is_refused_with_its_place(asking):
    client = await asking()
    for name, (printed, mended) in FAULTS.items():
        status, said = await client.json(MODEL, printed.encode())
        assert status == 400, name
        assert re.fullmatch(r"the body is not JSON: .+ at character \d+", said["error"]), name
        count = len(json.loads(mended)["instances"])
        client.told.says = answer(json.dumps({"predictions": [0] * count}).encode())
        assert (await client.json(MODEL, mended.encode()))[0] == 200, name


async def test_pytorch_gets_what_its_sample_means(asking):
    client = await asking(policy=PredictionPolicy(wrap="data"))
    client.told.says = answer(b'{"predictions": [1, 2]}')
    assert (await client.json(MODEL, b'{"instances": ["a", {"data": "b"}]}'))[0] == 200
    assert json.loads(client.told.bodies[0]) == {"instances": [{"data": "a"}, {"data": "b"}]}


async def test_each_response(asking):
    """``deployedModelId`` is described as a string, and printed as a number: it is a string."""
    client = await asking()
    for name, predictions in PREDICTIONS.items():
        count = len(json.loads(predictions))
        client.told.says = answer(b'{"predictions": %b}' % predictions.encode())
        body = json.dumps({"instances": [1] * count}).encode()
        status, _, said = await client.ask(MODEL, body)
        whole = f'{{"predictions": {predictions}, "deployedModelId": "AllTraffic"}}'
        assert (status, said.decode()) == (200, whole), name


async def test_the_error(asking):
    client = await asking()
    for says, status in ((b"500 Internal Server Error", 502), (b"400 Bad Request", 400)):
        client.told.says = answer(b'{"error": "Divide by zero"}', status=says)
        assert await client.json(MODEL) == (status, {"error": "Divide by zero"})
        found, said = await client.json(f"{OF_ENDPOINT}:predict")
        assert (found, said["error"]["message"]) == (status, "Divide by zero")
