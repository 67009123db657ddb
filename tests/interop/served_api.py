"""A gateway for clients of AWS's APIs, and programs of theirs that find it by their environment."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.aws_sdk import KEY, REGION, ROOT

#: Who may do everything that these checks do.
PRINCIPALS = f"""
[[principals]]
name = "interop"
actions = ["sagemaker:*", "logs:*", "s3:*"]
[[principals.keys]]
access_key_id = "{KEY.access_key_id}"
secret_access_key = "{KEY.secret_access_key}"
"""

HOST = "127.0.0.1"

#: Where the pages say that the gateway is.
SHOWN = "http://127.0.0.1:8090"

#: Seconds for a program: clients of AWS's sleep for up to 30 between two looks at an endpoint.
PATIENCE = 240.0


class Ended(NamedTuple):
    status: int
    output: str
    errors: str


def interpreter(variable: str, needs: str, target: str) -> str:
    """The interpreter that a variable names.

    Args:
        variable: the environment's.
        needs: what it must have installed.
        target: of make, which the variable is given to.
    """
    found = os.environ.get(variable)
    if not found:
        pytest.fail(
            f"{variable} names no interpreter; it must name one that has {needs}, as in "
            f"make {target} {variable}=/tmp/clients/bin/python",
            pytrace=False,
        )
    return str(Path(found).absolute())


def surroundings(directory: Path, url: str, python: str) -> dict[str, str]:
    """Variables of a client's process: who signs, where the gateway is, an empty home.

    An instance's metadata, AWS's own hosts and whatever this machine's user has set must not be
    asked: what finds its way past the gateway fails, and the check with it.
    """
    return {
        "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
        "HOME": str(directory),
        "AWS_ACCESS_KEY_ID": KEY.access_key_id,
        "AWS_SECRET_ACCESS_KEY": KEY.secret_access_key,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_PAGER": "",
        "AWS_ENDPOINT_URL_SAGEMAKER": url,
        "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": url,
        "AWS_ENDPOINT_URL_CLOUDWATCH_LOGS": url,
    }


def blocks(page: str, kind: str) -> list[str]:
    """The blocks of code of a kind in a page of the docs."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def free_port() -> int:
    with socket.create_server((HOST, 0)) as free:
        port: int = free.getsockname()[1]
    return port


@asynccontextmanager
async def running(python: str, program: Path, port: int, *words: str) -> AsyncIterator[None]:
    """Run a program until it is left; it is entered once the port takes connections."""
    process = await asyncio.create_subprocess_exec(python, str(program), *words)
    try:
        async with asyncio.timeout(60):
            while not await listens(port):
                assert process.returncode is None, f"{program.name} has ended"
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def listens(port: int) -> bool:
    """Whether something listens on a port; after a short wait if not."""
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except ConnectionError:
        await asyncio.sleep(0.1)
        return False
    writer.close()
    return True


async def ended(*words: str, environment: Mapping[str, str], directory: Path) -> Ended:
    """Run a program until it ends, in a folder; one that does not end in time is killed."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=directory,
        env=dict(environment),
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Ended(process.returncode, output.decode(), errors.decode())
