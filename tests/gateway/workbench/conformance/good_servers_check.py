"""Containers in Go and Java pass every *must*. Run by ``make good-servers``; needs Go and a JDK."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from partway.gateway.workbench.conformance.verdict import Severity, Verdict
from tests.gateway.workbench.conformance.mutants.trying import failed, tried

GOOD = Path(__file__).with_name("good")

#: Where Debian's packages put what is imported.
GO_PATH = Path("/usr/share/gocode")
JARS = Path("/usr/share/java")

#: What the libraries do by themselves, and is no *must*: both answer a reason that is no UTF-8 by
#: 1002.
KNOWN = {"gorilla": {"violations.close_reason"}, "tomcat": {"violations.close_reason"}}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the containers have their own."""
    return "asyncio"


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, (
        f"this check needs {name}: apt-get install golang-go golang-github-gorilla-websocket-dev "
        "default-jdk-headless libtomcat10-java"
    )
    return found


def built_with_go(where: Path) -> tuple[str, ...]:
    environment = {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(GO_PATH),
        "GOCACHE": str(where / "cache"),
    }
    made = where / "on_gorilla"
    source = GOOD / "on_gorilla" / "main.go"
    command = [program("go"), "build", "-o", str(made), str(source)]
    subprocess.run(command, env=environment, check=True, timeout=120)
    return (str(made),)


def built_with_java(where: Path) -> tuple[str, ...]:
    # Each jar is there twice: by its name, and by its name with a version.
    jars = ":".join(str(jar) for jar in sorted(JARS.glob("tomcat10-*[a-z].jar")))
    source = GOOD / "on_tomcat" / "OnTomcat.java"
    command = [program("javac"), "-cp", jars, "-d", str(where), str(source)]
    subprocess.run(command, check=True, timeout=120)
    return program("java"), "-cp", f"{jars}:{where}", "OnTomcat"


BUILDS = {"gorilla": built_with_go, "tomcat": built_with_java}


@pytest.fixture(scope="module", params=BUILDS)
def container(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, tuple[str, ...]]:
    """The library's name, and the command that starts the container."""
    name: str = request.param
    return name, BUILDS[name](tmp_path_factory.mktemp(name))


async def test_every_must_is_kept(container: tuple[str, tuple[str, ...]]) -> None:
    name, command = container
    report = await tried(command)
    found = failed(report)
    assert set(found) == KNOWN[name], found
    assert not report.count(Verdict.BLOCKED, Severity.MUST)
    assert report.conformant


async def test_it_ends_while_a_stream_is_open(container: tuple[str, tuple[str, ...]]) -> None:
    _, command = container
    report = await tried(command, fast=False, only=["shutdown.streams"])
    assert failed(report) == {}
    assert report.results[-1].verdict is Verdict.PASS
