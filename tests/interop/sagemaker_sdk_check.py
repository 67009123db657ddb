"""The SageMaker Python SDK, versions 2 and 3, against ``partway serve`` and nothing else.

Run by ``make interop-sagemaker SAGEMAKER_PYTHON=… SAGEMAKER_CORE_PYTHON=…``. The programs are those
of docs/how-to/sagemaker-sdk.md, as they are printed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from tests.gateway.object_server import serving_objects
from tests.interop.aws_sdk import ServedGateway
from tests.interop.served_api import PRINCIPALS, SHOWN, blocks, ended, interpreter, surroundings

#: The program of all pairs.
FORMATS = Path(__file__).with_name("sagemaker_formats.py")

PAGE = "how-to/sagemaker-sdk.md"

#: The first one looks each 30 seconds, and importing it takes a busy machine half a minute.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture
async def gateway(anyio_backend: str, tmp_path: Path) -> AsyncIterator[ServedGateway]:
    """A gateway that has no endpoint, and asks for signatures."""
    async with ServedGateway.start(tmp_path, "", PRINCIPALS) as gateway:
        yield gateway


async def test_version_2(gateway: ServedGateway, tmp_path: Path) -> None:
    python = interpreter("SAGEMAKER_PYTHON", "sagemaker 2", "interop-sagemaker")
    program, _, _ = blocks(PAGE, "python")
    assert program.count(SHOWN) == 1
    variables = surroundings(tmp_path, "http://127.0.0.1:9", python)
    program = program.replace(SHOWN, gateway.http)
    told = await ended(python, "-c", program, environment=variables, directory=tmp_path)
    assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    lines = [line for line in told.output.splitlines() if "inputs" in line]
    assert [line.lstrip("-!") for line in lines] == [
        "{'inputs': [1, 2]}",
        """b'{"inputs": "part by part"}'""",
    ]
    assert made_and_deleted(gateway, "by-sdk")


async def test_answers_that_come_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = interpreter("SAGEMAKER_PYTHON", "sagemaker 2", "interop-sagemaker")
    _, program, _ = blocks(PAGE, "python")
    async with (
        serving_objects(monkeypatch) as s3,
        ServedGateway.start(tmp_path, "", PRINCIPALS) as gateway,
    ):
        s3.buckets["later"] = {}
        s3.key_id = ""  # the gateway's keys are not the SDK's
        variables = surroundings(tmp_path, "http://127.0.0.1:9", python) | {
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{s3.port}"
        }
        program = program.replace(SHOWN, gateway.http)
        told = await ended(python, "-c", program, environment=variables, directory=tmp_path)
        assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
        assert "{'inputs': [3, 4]}\nTrue" in told.output
        assert s3.buckets["later"]["questions/first.json"] == b'{"inputs": [3, 4]}'
        assert made_and_deleted(gateway, "later")


async def test_version_3(gateway: ServedGateway, tmp_path: Path) -> None:
    python = interpreter("SAGEMAKER_CORE_PYTHON", "sagemaker-core 2", "interop-sagemaker")
    _, _, program = blocks(PAGE, "python")
    variables = surroundings(tmp_path, gateway.http, python)
    told = await ended(python, "-c", program, environment=variables, directory=tmp_path)
    assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    assert """b'{"inputs": [1, 2]}'""" in told.output
    assert made_and_deleted(gateway, "by-core")


async def test_the_resources_of_version_2(gateway: ServedGateway, tmp_path: Path) -> None:
    python = interpreter("SAGEMAKER_PYTHON", "sagemaker 2", "interop-sagemaker")
    program = "from sagemaker_core.resources import Endpoint; print(list(Endpoint.get_all()))"
    variables = surroundings(tmp_path, gateway.http, python)
    told = await ended(python, "-c", program, environment=variables, directory=tmp_path)
    assert (told.status, told.output.splitlines()[-1]) == (0, "[]"), told.output + told.errors


async def test_each_serializer_and_deserializer_of_version_2(tmp_path: Path) -> None:
    """Records of two rows, of which the first is 36.5 from centroid 5."""
    python = interpreter("SAGEMAKER_PYTHON", "sagemaker 2", "interop-sagemaker")
    centroids = np.full((6, 4), 1e3)
    centroids[5] = [38.0, 16.0, 14.0, 23.0]
    centroids[2] = [-92.25, 100.25, 15.25, 9.25]
    (tmp_path / "model").mkdir()
    np.save(tmp_path / "model" / "centroids.npy", centroids)
    config = """
[endpoints.clusters]
image = "kmeans"
model_data = "model"
"""
    async with ServedGateway.start(tmp_path, config, PRINCIPALS) as gateway:
        variables = surroundings(tmp_path, gateway.http, python)
        told = await ended(
            python, str(FORMATS), "clusters", environment=variables, directory=tmp_path
        )
        assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    lines = [json.loads(line) for line in told.output.splitlines() if line.startswith("{")]
    assert len({(each["sent"], each["read"]) for each in lines}) == 7 * 6
    assert [each for each in lines if each["found"] != [[5, 36.5], [2, 90.25]]] == []


def made_and_deleted(gateway: ServedGateway, endpoint: str) -> bool:
    """Whether a gateway has run an endpoint, and was told to delete all three of its resources."""
    log = gateway.log.read_text("utf-8")
    deletes = [line for line in log.splitlines() if "action=sagemaker:Delete" in line]
    assert all("outcome=done" in line for line in deletes), log
    assert len(deletes) == 3, log
    return f"instance in service endpoint={endpoint}" in log
