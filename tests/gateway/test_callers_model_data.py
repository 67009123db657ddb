"""Whose leave it takes to read model data, by ``partway serve --auth sigv4`` and boto3.

The gateway's own credentials read every bucket of the server of objects.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.conftest import ROOT
from tests.gateway.apis.aws_client import ARN, aws
from tests.gateway.apis.control.deployments import Script, variant
from tests.gateway.fleet.model_archives import MODEL, packed
from tests.gateway.object_server import ObjectServer, serving_objects
from tests.processes import ready_url

#: Nothing here takes this long, in seconds, on a busy machine.
PATIENCE = 60

CONTAINER = ROOT / "tests" / "gateway" / "faulty_container.py"
WEIGHTS = ROOT / "tests" / "gateway" / "weights_container.py"

FILE = """
data_dir = "{folder}/data"
auth = "sigv4"
principals = "{folder}/principals.toml"
[api]
local_roots = ["{folder}/roots"]
[instance]
stop_timeout = 1
[images]
"good:1" = ["{python}", "-S", "{container}", "{folder}"]
"weights:1" = ["{python}", "-S", "{weights}"]
"""

USER = "arn:aws:sts::000000000000:federated-user/"


def principal(name: str, *objects: str, actions: str = "sagemaker:*") -> str:
    """A principal with a key of its name, that may read these objects, or folders below a root."""
    objects = tuple(
        f"arn:partway:files:::{each}" if each.startswith("/") else f"arn:aws:s3:::{each}"
        for each in objects
    )
    resources = [f"{ARN}*", *objects]
    return f"""
[[principals]]
name = "{name}"
actions = {json.dumps([actions, "s3:GetObject", "s3:PutObject"])}
resources = {json.dumps(resources)}
[[principals.keys]]
access_key_id = "AKID{name}"
secret_access_key = "secret-of-{name}"
"""


class Gateway:
    """A gateway that is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "roots").mkdir(mode=0o700)
        names = {"folder": folder, "python": sys.executable}
        names |= {"container": CONTAINER, "weights": WEIGHTS}
        (folder / "partway.toml").write_text(FILE.format(**names))
        self.process: subprocess.Popen[bytes]
        self.port = 0

    def principals(self, *tables: str) -> None:
        """Have other principals from now on."""
        file = self.folder / "principals.new"
        file.write_text("".join(tables))
        file.chmod(0o600)
        file.replace(self.folder / "principals.toml")

    def start(self) -> None:
        command = [sys.executable, "-m", "partway", "serve", "--port", "0"]
        config = str(self.folder / "partway.toml")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--config", config],
                stdout=subprocess.PIPE,
                stderr=log,
                env={k: v for k, v in os.environ.items() if not k.startswith("PARTWAY_")},
            )
        self.port = int(ready_url(self.process, PATIENCE).rpartition(":")[2])

    def deploy(self, *options: str) -> None:
        """Have the operator deploy the endpoint ``own``."""
        command = [sys.executable, "-m", "partway", "deploy", "own", "--image", "good:1"]
        data = ["--data-dir", str(self.folder / "data")]
        subprocess.run(
            [*command, *options, *data], check=True, timeout=PATIENCE, capture_output=True
        )

    def script(self, name: str) -> Script:
        return Script(self.port, Credentials(f"AKID{name}", f"secret-of-{name}"))

    def again(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=PATIENCE)
        self.start()


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other process that matters."""
    return "asyncio"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ObjectServer]:
    async with serving_objects(monkeypatch) as server:
        server.buckets = {
            "secret": {"m.tar.gz": packed(MODEL), "p/weights": b"secret"},
            "shared": {
                "alice/m.tar.gz": packed({"weights": b"hers"}),
                "alice/p/weights": b"hers",
                "bob/m.tar.gz": packed(MODEL),
            },
        }
        yield server


@pytest.fixture
def gateway(tmp_path: Path, server: ObjectServer) -> Any:
    gateway = Gateway(tmp_path)
    gateway.principals(principal("alice", "shared/alice/*"), principal("bob", "shared/bob/*"))
    gateway.start()
    yield gateway
    gateway.process.kill()
    gateway.process.communicate()


async def on_thread(work: Callable[[], Any]) -> Any:
    """Run a script while the server of objects answers."""
    return await asyncio.to_thread(work)


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def _is_denied(call: Callable[[], object]) -> bool:
    try:
        call()
    except ClientError as error:
        return bool(error.response["Error"]["Code"] == "AccessDeniedException")
    return False


def transform(script: Script, model: str) -> None:
    """Begin a transform job of what a principal with ``shared/*`` may read and write."""
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://shared/bob/in/"}
    script.client.create_transform_job(
        TransformJobName="job",
        ModelName=model,
        TransformInput={"DataSource": {"S3DataSource": source}},
        TransformOutput={"S3OutputPath": "s3://shared/bob/out"},
        TransformResources={"InstanceType": "ml.m5.large", "InstanceCount": 1},
    )


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def failed(script: Script, name: str) -> str:
    """Wait until an endpoint has failed; returns why."""
    until(lambda: script.describe(name)["EndpointStatus"] == "Failed", f"the end of {name}")
    reason: str = script.describe(name)["FailureReason"]
    return reason


def lacks(name: str, resource: str, action: str = "s3:GetObject") -> str:
    return (
        f"User: {USER}{name} is not authorized to perform: {action} on resource: {resource} "
        f"because no identity-based policy allows the {action} action"
    )


def prefix(uri: str) -> dict[str, Any]:
    source = {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}
    return {"ModelDataSource": {"S3DataSource": source}}


async def test_a_model_of_data_that_its_maker_may_not_read(gateway, server):
    def script() -> None:
        alice = gateway.script("alice")
        for number, (data, resource) in enumerate(
            (
                ({"ModelDataUrl": "s3://secret/m.tar.gz"}, "arn:aws:s3:::secret/m.tar.gz"),
                (prefix("s3://secret/p"), "arn:aws:s3:::secret/p/*"),
                (prefix("s3://secret/p/"), "arn:aws:s3:::secret/p/*"),
                (prefix("s3://shared"), "arn:aws:s3:::shared/*"),
            )
        ):
            refused = refusal(lambda: alice.model(f"m{number}", "good:1", **data))  # noqa: B023
            assert refused == ("AccessDeniedException", lacks("alice", resource))
        alice.model("mine", "good:1", ModelDataUrl="s3://shared/alice/m.tar.gz")
        alice.create("mine", "mine")
        alice.in_service("mine")

    await on_thread(script)
    assert not [each for each in server.asked if "/secret" in each]


async def test_leave_that_is_taken_away(gateway, server):
    def script() -> None:
        alice, bob = gateway.script("alice"), gateway.script("bob")
        alice.model("mine", "good:1", ModelDataUrl="s3://shared/alice/m.tar.gz")
        alice.model("whole", "good:1", **prefix("s3://shared/alice/p/"))
        for name in ("mine", "whole"):
            alice.create(name, name)
            alice.in_service(name)
        gateway.principals(principal("bob", "shared/*"))
        until(lambda: _is_nobody(alice), "the end of alice")
        # The maker of the model is asked, even if another principal deploys it.
        words = (
            "Could not access model data at s3://shared/alice/m.tar.gz: "
            + lacks("alice", "arn:aws:s3:::shared/alice/m.tar.gz")
            + "."
        )
        expected = ("ValidationException", words)
        assert refusal(lambda: bob.create("other", "mine")) == expected
        assert refusal(lambda: bob.update("mine", "mine")) == expected
        assert refusal(lambda: transform(bob, "mine")) == expected
        # Data that is unpacked already serves those instances that are started again, and more.
        before = len(server.asked)
        bob.scale("mine", 2)
        bob.scale("whole", 2)
        assert len(server.asked) == before
        # The next gateway has nothing unpacked.
        gateway.again()
        bob = gateway.script("bob")
        assert failed(bob, "mine").endswith(words.removesuffix("."))
        assert failed(bob, "whole").endswith(lacks("alice", "arn:aws:s3:::shared/alice/p/*"))
        # With the leave it takes another reading of the settings.
        gateway.principals(principal("alice", "shared/alice/*"), principal("bob", "shared/*"))
        until(lambda: not _is_nobody(gateway.script("alice")), "alice")
        gateway.process.send_signal(signal.SIGHUP)
        for name in ("mine", "whole"):
            until(
                lambda name=name: bob.describe(name)["EndpointStatus"] == "InService",
                f"{name} in service again",
            )

    await on_thread(script)


def _is_nobody(script: Script) -> bool:
    try:
        script.names()
    except ClientError as error:
        return error.response["Error"]["Code"] == "UnrecognizedClientException"
    return False


async def test_a_model_without_a_maker(gateway):
    """One of a gateway that asked nobody, or of an older one, is read for nobody."""

    def script() -> None:
        settings = gateway.folder / "partway.toml"
        asks = settings.read_text()
        gateway.process.terminate()
        gateway.process.communicate(timeout=PATIENCE)
        nobody = asks.replace('auth = "sigv4"', "").replace(
            f'principals = "{gateway.folder}/principals.toml"', ""
        )
        settings.write_text(nobody)
        gateway.start()
        anybody = gateway.script("anybody")
        anybody.model("old", "good:1", ModelDataUrl="s3://secret/m.tar.gz")
        anybody.create("old", "old")
        anybody.in_service("old")
        settings.write_text(asks)
        gateway.again()
        alice = gateway.script("alice")
        assert "its creator, whose permissions it needs, is unknown" in failed(alice, "old")
        code, words = refusal(lambda: alice.create("other", "old"))
        assert code == "ValidationException"
        assert words.endswith("create the model anew.")

    await on_thread(script)


async def test_what_is_the_operators_is_read_unasked(gateway):
    def script() -> None:
        gateway.deploy("--model-data", "s3://secret/m.tar.gz")
        assert gateway.script("alice").describe("own")["EndpointStatus"] == "InService"

    await on_thread(script)


async def test_a_model_of_the_operators_and_who_may_not_describe_it(gateway):
    """It has secrets in its environment, which its containers answer with."""

    def script() -> None:
        gateway.deploy("--environment", "SAGEMAKER_SAYS=secret")
        model = "own-v1"
        gateway.principals(
            principal("bob", "shared/*", actions="sagemaker:Create*"),
            principal("alice"),
        )
        bob, alice = gateway.script("bob"), gateway.script("alice")
        until(lambda: _is_denied(lambda: bob.describe("own")), "the other principals")
        alice.config("hers", variant(model))
        for named in (model, "there-is-none"):
            words = lacks("bob", f"{ARN}model/{named}", "sagemaker:DescribeModel")
            denied = ("AccessDeniedException", words)
            for call in (
                lambda named=named: bob.client.describe_model(ModelName=named),
                lambda named=named: bob.config("his", variant(named)),
                lambda named=named: transform(bob, named),
            ):
                assert refusal(call) == denied
        code, words = refusal(lambda: bob.create("his", "hers"))
        assert (code, "sagemaker:DescribeModel" in words) == ("AccessDeniedException", True)

    await on_thread(script)


async def test_a_link_in_place_of_a_callers_folder(gateway):
    """A caller who may write below a root has nothing of others read, whatever runs already."""

    def script() -> None:
        roots = gateway.folder.resolve() / "roots"
        for owner in ("alice", "bob"):
            (roots / owner).mkdir(0o700)
            (roots / owner / "weights").write_text(owner)
        gateway.principals(principal("bob", f"{roots}/bob/*", actions="sagemaker:*"))
        bob = gateway.script("bob")
        until(lambda: not _is_nobody(bob), "bob")
        until(lambda: _is_nobody(gateway.script("alice")), "the end of alice")
        bob.model("his", "weights:1", ModelDataUrl=f"{roots}/bob")
        bob.create("his", "his")
        bob.in_service("his")
        (roots / "bob").rename(roots / "away")
        (roots / "bob").symlink_to(roots / "alice")
        assert answer(gateway, "his") == b"bob"
        bob.scale("his", 2)  # of the same version, so with the same folder
        assert {answer(gateway, "his") for _ in range(4)} == {b"bob"}
        bob.client.create_endpoint_config(
            EndpointConfigName="hers", ProductionVariants=[variant("his")]
        )
        code, words = refusal(lambda: bob.create("hers", "hers"))
        assert (code, f"{roots}/alice" in words) == ("ValidationException", True)

    await on_thread(script)


def answer(gateway: Gateway, endpoint: str) -> bytes:
    client = aws("sagemaker-runtime", gateway.port, Credentials("AKIDbob", "secret-of-bob"))
    body: bytes = client.invoke_endpoint(EndpointName=endpoint, Body=b"x")["Body"].read()
    return body
