"""boto3 and the AWS CLI, against ``partway serve`` and nothing else.

Run by ``make interop-boto3 CLIENTS_PYTHON=…``. The programs are the examples of the docs, as they
are printed; what they make is looked at from outside.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.aws_sdk import KEY, ROOT, ServedGateway
from tests.interop.served_api import (
    PRINCIPALS,
    SHOWN,
    blocks,
    ended,
    interpreter,
    surroundings,
)

EXAMPLE = ROOT / "docs" / "examples" / "boto3_lifecycle.py"

#: The CLI's waiters look each 30 seconds, and importing botocore takes a busy machine a while.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: it is the other processes that matter."""
    return "asyncio"


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter that has the clients."""
    return interpreter("CLIENTS_PYTHON", "boto3 and awscli", "interop-boto3")


@pytest.fixture(params=["any keys", "signed", "signed, by TLS"])
def proof(request: pytest.FixtureRequest) -> str:
    """How clients prove who they are."""
    return str(request.param)


@pytest.fixture
async def gateway(anyio_backend: str, proof: str, tmp_path: Path) -> AsyncIterator[ServedGateway]:
    principals = None if proof == "any keys" else PRINCIPALS
    (tmp_path / "answers").mkdir()
    config = f'[api]\nlocal_results = ["{tmp_path}/answers"]\n'
    async with ServedGateway.start(tmp_path, config, principals) as gateway:
        yield gateway


@pytest.fixture
def environment(gateway: ServedGateway, proof: str, tmp_path: Path, python: str) -> dict[str, str]:
    """Variables of a client's process."""
    if proof == "signed, by TLS":
        trust = {"AWS_CA_BUNDLE": str(gateway.ca)}
        return surroundings(tmp_path, by_name(gateway), python) | trust
    return surroundings(tmp_path, gateway.http, python)


class Cli(NamedTuple):
    """A version of the CLI.

    Attributes:
        folder: where its command is.
        reads_variables: whether it finds the gateway by the environment.
    """

    folder: str
    reads_variables: bool


def second_cli() -> Cli | None:
    """Version 2 of the CLI, which PyPI does not have; None where there is none."""
    for folder in os.get_exec_path():
        command = shutil.which("aws", path=folder)
        if command is None:
            continue
        said = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
        if found := re.match(r"aws-cli/2\.(\d+)\.", said.stdout):
            return Cli(folder, int(found[1]) >= 13)
    return None


@pytest.fixture(scope="module", params=[1, 2])
def cli(request: pytest.FixtureRequest, python: str) -> Cli:
    if request.param == 1:
        return Cli(str(Path(python).parent), reads_variables=True)
    found = second_cli()
    if found is None:
        pytest.skip("there is no aws of version 2: apt-get install awscli")
    return found


@pytest.fixture
def shell(environment: dict[str, str], cli: Cli) -> dict[str, str]:
    """Variables of a shell in which ``aws`` is that version."""
    return environment | {"PATH": f"{cli.folder}:{environment['PATH']}"}


@pytest.fixture
def prelude(gateway: ServedGateway, cli: Cli) -> str:
    """What the page has a shell do first for a version that does not read the environment."""
    _, older, *_ = blocks("how-to/aws-cli.md", "sh")
    assert older.count(SHOWN) == 1
    return "" if cli.reads_variables else older.replace(SHOWN, gateway.http)


def by_name(gateway: ServedGateway) -> str:
    return re.sub(r"//[\d.]+:", "//localhost:", gateway.https)


async def test_an_endpoints_life(
    gateway: ServedGateway,
    environment: dict[str, str],
    tmp_path: Path,
    python: str,
) -> None:
    url = environment["AWS_ENDPOINT_URL_SAGEMAKER"]
    words = [python, str(EXAMPLE), url, str(tmp_path / "answers")]
    told = await ended(*words, environment=environment, directory=tmp_path)
    assert told.status == 0, told.output + told.errors + gateway.log.read_text("utf-8")
    shown = re.sub(r"none of \d+ requests", "none of # requests", told.output)
    assert shown.splitlines() == [
        "created: InService, 1 in service",
        "invoked: b'hello' by AllTraffic",
        "streamed: b'hello, a part at a time'",
        "answered later: b'hello, later'",
        "updated: InService, 1 in service",
        "scaled: InService, 3 in service",
        "scaled: InService, 1 in service",
        "updated and scaled under load: none of # requests failed",
        "deleted: 0 endpoints are left",
    ]
    log = gateway.log.read_text("utf-8")
    assert "level=ERROR" not in log
    assert len(re.findall(r"instance in service endpoint=lifecycle", log)) == 4


# Each life takes two looks of the waiters', 30 seconds apart.
@pytest.mark.parametrize(
    ("proof", "cli"), [("any keys", 1), ("signed", 1), ("signed", 2)], indirect=True
)
async def test_the_clis_page(
    shell: dict[str, str], prelude: str, gateway: ServedGateway, tmp_path: Path
) -> None:
    where, _, life, profile = blocks("how-to/aws-cli.md", "sh")
    assert where.count(SHOWN) == 3
    variables = {name: value for name, value in shell.items() if "ENDPOINT" not in name}
    script = f"set -e\n{where.replace(SHOWN, gateway.http)}\n{prelude}{life}"
    told = await ended("sh", "-c", script, environment=variables, directory=tmp_path)
    assert told.status == 0, told.output + told.errors
    answers = [line for line in told.output.splitlines() if line[:1] not in "{}[] "]
    assert answers == ["InService", "hello", "chat"]
    assert len(re.findall(r'"AllTraffic/chat-AllTraffic-\w+"', told.output)) == 2, told.output
    assert "listening on " in told.output

    (ini,) = blocks("how-to/aws-cli.md", "ini")
    (tmp_path / ".aws").mkdir()
    for shown, here in (
        (SHOWN, gateway.http),
        ("id = any", f"id = {KEY.access_key_id}"),
        ("access_key = any", f"access_key = {KEY.secret_access_key}"),
    ):
        assert shown in ini
        ini = ini.replace(shown, here)
    (tmp_path / ".aws" / "config").write_text(ini, "utf-8")
    told = await ended("sh", "-c", prelude + profile, environment=variables, directory=tmp_path)
    assert (told.status, told.output.split()) == (0, ["{", '"Endpoints":', "[]", "}"]), told


@pytest.mark.parametrize("proof", ["any keys"], indirect=True)
async def test_a_request_without_a_signature(
    shell: dict[str, str], prelude: str, tmp_path: Path
) -> None:
    command = f"{prelude}aws sagemaker list-models --no-sign-request --output text"
    told = await ended("sh", "-c", command, environment=shell, directory=tmp_path)
    assert told == (0, "", "")


@pytest.mark.parametrize("proof", ["any keys"], indirect=True)
@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("sagemaker list-domains", "UnknownOperationException"),
        ("sagemaker describe-endpoint --endpoint-name none", "ValidationException"),
        ("sagemaker delete-model --model-name none", "ValidationException"),
        (
            "sagemaker create-endpoint --endpoint-name a --endpoint-config-name none",
            "ValidationException",
        ),
        (
            "sagemaker-runtime invoke-endpoint --endpoint-name none --body fileb:///dev/null out",
            "ValidationError",
        ),
    ],
)
async def test_what_the_cli_says_of_a_refusal(
    shell: dict[str, str], prelude: str, tmp_path: Path, command: str, error: str
) -> None:
    told = await ended("sh", "-c", f"{prelude}aws {command}", environment=shell, directory=tmp_path)
    assert told.status != 0
    assert f"An error occurred ({error}) when calling the " in told.errors
