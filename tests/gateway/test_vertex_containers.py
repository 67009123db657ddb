"""A container that is written for Vertex AI, run by ``partway serve``, asked by both ways."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from botocore.exceptions import ClientError

from tests.conftest import ROOT
from tests.gateway.apis.aws_client import aws
from tests.gateway.apis.control.deployments import Script
from tests.processes import ready_url

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

CONTAINER = ROOT / "tests" / "gateway" / "vertex_container.py"

FILE = """
data_dir = "{folder}/data"
[api]
local_roots = ["{folder}"]
environment = ["WELL"]
[instance]
stop_timeout = 5
health_ping_interval = 0.05
[images]
"multiplies:1" = ["{python}", "{container}"]
[endpoints.theirs]
command = ["{python}", "{container}"]
platform = "vertex"
health_route = "/health"
predict_route = "/predict"
model_data = "{folder}/model"
environment = {{ WELL = "{folder}/well", AIP_MACHINE_TYPE = "n1-standard-4" }}
"""


class Gateway:
    """``partway serve`` before such a container.

    Attributes:
        url: where it listens.
        folder: the model's, the data's, and the file by which the container is well.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "model").mkdir()
        (folder / "model" / "model.json").write_text('{"factor": 3}')
        self.well = folder / "well"
        self.well.touch()
        names = {"folder": folder, "container": CONTAINER, "python": sys.executable}
        (folder / "partway.toml").write_text(FILE.format(**names))
        command = (sys.executable, "-m", "partway", "serve", "--port", "0", "--config")
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(folder / "partway.toml")],
                stdout=subprocess.PIPE,
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("PARTWAY_")},
            )
        self.url = ready_url(self.process, PATIENCE)
        self.port = int(self.url.rpartition(":")[2])

    async def predict(self, endpoint: str = "theirs") -> tuple[int, object]:
        """Status and JSON of what it is asked in TF Serving's words."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                f"{self.url}/v1/models/{endpoint}:predict", data=b'{"instances": [1, 2.5]}'
            ) as answer,
        ):
            return answer.status, await answer.json()

    async def becomes(self, status: int) -> None:
        """Wait until it answers with a status."""
        async with asyncio.timeout(PATIENCE):
            while (await self.predict())[0] != status:  # noqa: ASYNC110 (another process tells nobody)
                await asyncio.sleep(0.02)

    def log(self) -> str:
        return (self.folder / "log").read_text("utf-8")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("vertex"))
    yield gateway
    gateway.close()


async def test_it_is_asked_as_either_platform_asks(gateway: Gateway) -> None:
    assert await gateway.predict() == (200, {"predictions": [3, 7.5]})
    answer = await asyncio.to_thread(
        aws("sagemaker-runtime", gateway.port).invoke_endpoint,
        EndpointName="theirs",
        Body=b'{"instances": [4]}',
    )
    assert json.load(answer["Body"]) == {"predictions": [12]}


async def test_while_it_says_that_it_is_not_well_it_is_asked_for_nothing(gateway: Gateway) -> None:
    """And it goes on: when it is well again it takes requests, the same process as before."""
    before = gateway.log().count("instance starting")
    gateway.well.unlink()
    await gateway.becomes(503)
    assert "/health was answered with status 503" in gateway.log()
    gateway.well.touch()
    await gateway.becomes(200)
    assert gateway.log().count("instance starting") == before


def test_one_of_the_api_says_so_in_its_environment(gateway: Gateway) -> None:
    script = Script(gateway.port)
    environment = {
        "AIP_PREDICT_ROUTE": "/v2/predict",
        "AIP_HEALTH_ROUTE": "/v2/health",
        "WELL": str(gateway.well),
    }
    data = f"file://{gateway.folder}/model"
    script.model("theirs", "multiplies:1", ModelDataUrl=data, Environment=environment)
    script.create("of-api", "theirs")
    script.in_service("of-api")
    runtime = aws("sagemaker-runtime", gateway.port)
    answer = runtime.invoke_endpoint(EndpointName="of-api", Body=b'{"instances": [4]}')
    assert json.load(answer["Body"]) == {"predictions": [12]}
    environment["AIP_PREDICT_ROUTE"] = "predict"
    script.model("wrong", "multiplies:1", ModelDataUrl=data, Environment=environment)
    with pytest.raises(ClientError, match="AIP_PREDICT_ROUTE in the Environment must be a path"):
        script.create("wrong", "wrong")
