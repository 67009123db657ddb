"""Triton's client and KServe's, unmodified, against ``partway serve``.

Run by ``make interop-kserve KSERVE_PYTHON=…``. Two programs are the page's own, as printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import urllib.error
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
import yaml

from tests.gateway.containers.containers import HOST, Call, ScriptedContainer
from tests.interop.aws_sdk import ROOT, ServedGateway
from tests.interop.served_api import SHOWN, Ended, blocks, ended, interpreter

pytestmark = pytest.mark.timeout(300)

PAGE = "how-to/open-inference.md"
CLIENT = ROOT / "tests" / "interop" / "open_inference_client.py"
GRPC_CLIENT = ROOT / "tests" / "interop" / "kserve_grpc_client.py"
SERVER = ROOT / "tests" / "interop" / "kserve_server.py"

#: Seconds for a process to begin: KServe's server imports half a gigabyte.
PATIENCE = 120.0


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has both clients."""
    return interpreter("KSERVE_PYTHON", "tritonclient[http] and kserve", "interop-kserve")


@pytest.fixture
def run(python: str, tmp_path: Path) -> Callable[..., Awaitable[Ended]]:
    """Runs a program on the clients."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    return lambda *words: ended(
        *(python, "-W", "ignore", *words), environment=environment, directory=tmp_path
    )


async def echo(call: Call) -> None:
    """Answer with the instances as predictions."""
    while True:
        head = await call.head()
        said = b""
        if head.startswith(b"POST "):
            instances = json.loads(await call.body(head))["instances"]
            said = json.dumps({"predictions": instances}).encode()
        call.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(said), said)


@asynccontextmanager
async def kserves_server(python: str, log: Path) -> AsyncIterator[int]:
    """KServe's server as a container; yields its port."""
    with socket.create_server((HOST, 0)) as sock:
        port = sock.getsockname()[1]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(python, str(SERVER), str(port)), stdout=output, stderr=output
        )
    try:
        await until_200(f"http://{HOST}:{port}/v2/health/ready", process)
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def until_200(url: str, process: asyncio.subprocess.Process | None = None) -> None:
    """Ask until something answers 200."""
    async with asyncio.timeout(PATIENCE):
        while process is None or process.returncode is None:
            try:
                answer = await asyncio.to_thread(urlopen, url, timeout=PATIENCE)
            except (urllib.error.URLError, ConnectionError):
                await asyncio.sleep(0.2)
                continue
            answer.close()
            return
    pytest.fail("the server has ended")


async def test_all_that_both_clients_ask(
    python: str, run: Callable[..., Awaitable[Ended]], tmp_path: Path
) -> None:
    async with (
        ScriptedContainer(echo) as container,
        kserves_server(python, tmp_path / "kserve.log") as port,
    ):
        config = f"""
[endpoints.echo]
url = "http://{HOST}:{container.port}"

[endpoints.speaking]
url = "http://{HOST}:{port}"

[endpoints.speaking.prediction]
infer_route = "/v2/models/its-own/infer"
"""
        async with ServedGateway.start(tmp_path, config, None) as gateway:
            host = gateway.http.removeprefix("http://")
            told = await run(str(CLIENT), host, "echo", "speaking", "unknown")
            calls = await run(str(GRPC_CLIENT), host, "echo", "speaking", "unknown")
    assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    unknown = "Endpoint unknown of account 000000000000 not found."
    nothing = "an empty array was given; it must be an array of one value at least"
    assert told.output.splitlines() == [
        "{'name': 'echo', 'versions': ['1'], 'platform': '', 'inputs': [], 'outputs': []}",
        "each datatype, as JSON and as binary data",
        "packed by gzip and deflate",
        f"404 {unknown}",
        "400 outputs: 'a' appears twice; each name must be unique",
        f"aio 404 {unknown}",
        "kserve v2",
        f"{unknown}, '404 Not Found'",
        "{'predictions': [[1, 2], [3, 4]]}",
        f"instances: {nothing}: {{\"instances\": […]}}, '400 Bad Request'",
        "straight its-own [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]",
    ]
    assert calls.status == 0, calls.output + calls.errors
    assert calls.output.splitlines() == [
        "True True",
        *["echo 7 [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]"] * 2,
        *["speaking 7 [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]"] * 2,
        f"NOT_FOUND {unknown}",
    ]


async def test_the_pages_programs(run: Callable[..., Awaitable[Ended]], tmp_path: Path) -> None:
    (shell, *_), programs = blocks(PAGE, "sh"), blocks(PAGE, "python")
    config = shell.partition("<<'END'\n")[2].partition("END\n")[0]
    np.save(tmp_path / "centroids.npy", np.array([[0.0, 0.0], [10.0, 10.0]]))
    for old, new in (
        ("partway-container", f"{sys.executable} -m partway.container"),
        ("--model-dir model", f"--model-dir {tmp_path}"),
    ):
        assert old in config
        config = config.replace(old, new)
    distances = "('distance_to_cluster', [1.4142135623730951, 1.4142135623730951])"
    said = [
        "True True\n[0 1] [1.41421356 1.41421356]\n",
        f"True\n[('closest_cluster', [0, 1]), {distances}]\n",
    ]
    async with ServedGateway.start(tmp_path, config, None) as gateway:
        await until_200(f"{gateway.http}/v2/models/kmeans/ready")
        for program, expected in zip(programs, said, strict=True):
            host = SHOWN.removeprefix("http://")
            assert host in program
            program = program.replace(host, gateway.http.removeprefix("http://"))
            told = await run("-c", program)
            assert (told.status, told.output) == (0, expected), told.errors


async def test_kserve_knows_each_member_of_the_example(
    run: Callable[..., Awaitable[Ended]], tmp_path: Path
) -> None:
    kinds = ("InferenceService", "InferenceServiceSpec", "PredictorSpec")
    program = tmp_path / "members.py"
    program.write_text(
        "import json, kserve\n"
        f"kinds = {kinds!r}\n"
        "maps = [getattr(kserve, f'V1beta1{kind}').attribute_map for kind in kinds]\n"
        "print(json.dumps([list(each.values()) for each in maps]))\n",
        "utf-8",
    )
    done = await run(str(program))
    assert done.status == 0, done.errors
    file = ROOT / "docs" / "examples" / "kubernetes" / "inference-service.yaml"
    service = yaml.safe_load(file.read_text("utf-8"))
    parts = (service, service["spec"], service["spec"]["predictor"])
    for part, known in zip(parts, json.loads(done.output.splitlines()[-1]), strict=True):
        assert set(part) <= set(known)
