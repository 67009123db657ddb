"""grpcio, its health checks and Triton's client, unmodified, against ``partway serve``.

Run by ``make interop-grpc GRPC_PYTHON=…``. Two programs are the page's own, as they are printed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.interop.aws_sdk import ROOT, ServedGateway
from tests.interop.google_check import TOKEN, gateway, host_of
from tests.interop.served_api import SHOWN, blocks, ended, interpreter

__all__ = ["gateway"]

pytestmark = pytest.mark.timeout(300)

PAGE = "reference/grpc.md"
CLIENT = ROOT / "tests" / "interop" / "grpc_client.py"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has the clients."""
    return interpreter("GRPC_PYTHON", "grpcio, its health checks and tritonclient", "interop-grpc")


async def test_the_pages_programs(anyio_backend: str, python: str, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    np.save(model / "centroids.npy", np.array([[0.0, 0.0], [10.0, 10.0]]))
    words = ["partway-container", "serve", "--model", "kmeans", "--model-dir", str(model)]
    config = f"[endpoints.kmeans]\ncommand = {words}\n"
    config += '[endpoints.kmeans.prediction]\ntensors = "named"\n'
    async with ServedGateway.start(tmp_path, config, None) as gateway:
        outputs = []
        for program in blocks(PAGE, "python"):
            shown = SHOWN.removeprefix("http://")
            assert shown in program
            program = program.replace(shown, gateway.http.removeprefix("http://"))
            told = await ended(python, "-c", program, environment={}, directory=tmp_path)
            assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
            outputs += told.output.splitlines()
        assert outputs == ["True True", "[0 1] [1.41421356 1.41421356]", "True"]


async def test_calls_good_and_bad(gateway: ServedGateway, python: str, tmp_path: Path) -> None:
    told = await ended(
        *(python, str(CLIENT), host_of(gateway), str(gateway.ca), TOKEN),
        environment={},
        directory=tmp_path,
    )
    assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    contents, *lines = told.output.replace("\n\n", "\n").splitlines()
    assert contents == "classifier 7 fp64_contents: 3"
    unknown = "Endpoint unknown of account 000000000000 not found."
    assert lines == [
        str(sum(n % 50 + 1 for n in range(400))),
        f"NOT_FOUND {unknown}",
        "UNAUTHENTICATED Missing Authentication Token",
        "RESOURCE_EXHAUSTED the request's body is over 1572869 bytes; it must have at most that",
        "UNIMPLEMENTED no operation answers inference.GRPCInferenceService/ModelConfig",
        "UNIMPLEMENTED no operation answers grpc.health.v1.Health/Watch",
        "NOT_FOUND service",
        "True",
        "[3.0, 7.0]",
    ]
