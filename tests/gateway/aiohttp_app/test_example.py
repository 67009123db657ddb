"""``docs/how-to/run-inside-aiohttp.md``: its example as it stands, over TLS, to its end."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pytest
from aiohttp import web
from botocore.config import Config
from botocore.session import Session
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from partway.aiohttp import load_settings
from partway.gateway.aiohttp_app.application_settings import _OF_OTHERS
from partway.gateway.tls.local_ca import LocalCa
from partway.protocol.websocket.close_codes import GATEWAY_FAILED
from tests.conftest import ROOT

EXAMPLE = ROOT / "docs" / "examples" / "aiohttp_app.py"
PAGE = ROOT / "docs" / "how-to" / "run-inside-aiohttp.md"

ROLE = "arn:aws:iam::000000000000:role/any"  # AWS asks for one; nothing here assumes it

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

SETTINGS = f"""
data_dir = "data"
shutdown_grace = 0.0
shutdown_spread = 0.0
[images]
"echo:1" = ["{sys.executable}", "-m", "partway.container", "serve", "--host", "127.0.0.1"]
"""

ON_UVLOOP = """
import asyncio, runpy, sys, uvloop
asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@dataclass
class Example:
    """The example's process, and what its clients trust."""

    process: subprocess.Popen[str]
    url: str
    ca: Path

    def stop(self) -> str:
        """Stop it as a service manager does; returns what it has said."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=PATIENCE)
        return said

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.ca)

    def client(self, service: str):
        """boto3's client of a service."""
        return Session().create_client(
            service,
            region_name="us-east-1",
            endpoint_url=f"{self.url}/models",
            aws_access_key_id="any",
            aws_secret_access_key="any",
            verify=str(self.ca),
            config=Config(retries={"total_max_attempts": 1}),
        )

    def stream(self) -> ClientConnection:
        """A stream as the application's own page opens it."""
        return connect(
            f"{self.url.replace('http', 'ws')}/models/endpoints/echo/"
            "invocations-bidirectional-stream",
            origin=self.url,
            subprotocols=["payloadpart.v1.json"],
            ssl=self.context,
            open_timeout=PATIENCE,
        )


@pytest.fixture(params=["asyncio", "uvloop"])
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Example]:
    with running(tmp_path, *(["-c", ON_UVLOOP] if request.param == "uvloop" else [])) as example:
        yield example


@contextmanager
def running(folder: Path, *before: str) -> Iterator[Example]:
    (folder / "gateway.toml").write_text(SETTINGS)
    files = LocalCa(folder / "ca").ensure(["localhost", "127.0.0.1"], datetime.now(UTC))
    assert files.ca is not None
    tls = {"TLS_CERT": str(files.certificate), "TLS_KEY": str(files.key), "PORT": "0"}
    process = subprocess.Popen(
        [sys.executable, *before, str(EXAMPLE), str(folder / "gateway.toml")],
        env=os.environ | tls | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"Running on (https://[\d.:]+)", line):
                break
        else:
            raise AssertionError("".join(said))
        yield Example(process, found[1], files.ca)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_the_example_is_deployed_to_asked_by_a_browser_and_stopped(example: Example):
    with urlopen(f"{example.url}/", context=example.context) as answer:
        assert "A stream from a web page" in answer.read().decode()
        assert answer.headers["Server-Timing"].startswith("app;dur=")
    sagemaker = example.client("sagemaker")
    sagemaker.create_model(
        ModelName="echo",
        PrimaryContainer={"Image": "echo:1"},
        ExecutionRoleArn=ROLE,
    )
    sagemaker.create_endpoint_config(
        EndpointConfigName="echo",
        ProductionVariants=[{"VariantName": "all", "ModelName": "echo", "InitialInstanceCount": 1}],
    )
    sagemaker.create_endpoint(EndpointName="echo", EndpointConfigName="echo")
    waiting = {"Delay": 1, "MaxAttempts": PATIENCE}
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="echo", WaiterConfig=waiting)
    runtime = example.client("sagemaker-runtime")
    answer = runtime.invoke_endpoint(EndpointName="echo", Body=b"hello")
    assert answer["Body"].read() == b"hello"
    assert answer["ResponseMetadata"]["HTTPHeaders"]["server-timing"].startswith("app;dur=")
    with example.stream() as stream:
        said = base64.b64encode(b"hello").decode()
        part = {"Bytes": said, "DataType": "UTF8", "CompletionState": "COMPLETE"}
        stream.send(json.dumps({"PayloadPart": part}))
        assert json.loads(stream.recv(PATIENCE))["PayloadPart"]["Bytes"] == said
        told = example.stop()
        with pytest.raises(ConnectionClosedError) as caught:
            list(stream)
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == GATEWAY_FAILED
    assert example.process.returncode == 0, told
    assert "drained" in told
    assert "Traceback" not in told


def blocks(language: str) -> list[str]:
    """The page's blocks of a language."""
    text = PAGE.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_pages_settings_can_be_read(tmp_path: Path):
    (found,) = blocks("toml")
    (tmp_path / "gateway.toml").write_text(found)
    (endpoint,) = load_settings(tmp_path / "gateway.toml").gateway.endpoints
    assert endpoint.name == "echo"


def test_the_page_names_each_setting_that_is_refused():
    text = PAGE.read_text("utf-8").partition("These settings belong to the server.")[2]
    assert set(re.findall(r"`([a-z_]+)`", text)) == set(_OF_OTHERS)


def test_the_pages_start_is_the_documented_way(monkeypatch, tmp_path):
    (found,) = blocks("python")
    (tmp_path / "gateway.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    ran = []
    monkeypatch.setattr(web, "run_app", ran.append)
    exec(compile(found, str(PAGE), "exec"), {})
    paths = [resource.canonical for resource in ran[0].router.resources()]
    assert paths == ["/models", "/models/{path}"]
