"""partway operator: its pages, its definitions, what it refuses, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from urllib.request import urlopen

import pytest
from aiohttp import web

from partway.gateway.cli.main import main
from partway.gateway.operator.cluster_check import NEEDED
from partway.gateway.operator.custom_resource_definitions import definitions
from tests.gateway.cluster.fake_api_server import failure
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_cluster import (
    DEPLOYMENTS,
    ENDPOINTS,
    MODELS,
    REPORTS,
    a_model,
    started_cluster,
)


@pytest.fixture(autouse=True)
def no_pod(monkeypatch):
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def cluster(anyio_backend, no_leaks):
    async with started_cluster() as cluster:
        yield cluster


def test_the_definitions(capsys):
    assert main(["operator", "--print-crds"]) == 0
    assert json.loads(capsys.readouterr().out) == definitions()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "no API server is known"),
        (("--server", "a"), "server: 'a' was given; it must be a URL"),
        (("--server", "http://a", "--domain", "A b"), "--domain: 'A b' was given; it must be"),
        (
            ("--server", "http://a", "--model-data-root", "models/chat"),
            "--model-data-root: 'models/chat' was given; it must be s3://BUCKET",
        ),
        (("--server", "http://a", "--port", "65536"), "--port: 65536 was given; it must be"),
        (("--server", "http://a", "--gateways", "a/b/c"), "--gateways: 'a/b/c' was given; it must"),
    ],
)
def test_what_could_not_work(capsys, flags, words):
    assert main(["operator", *flags]) == 2
    assert words in capsys.readouterr().err


async def ran(*flags: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "partway", "operator", *flags]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await soon(process.communicate())
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()


def reviewing(cluster, *refused: tuple[str, str]) -> None:
    """Answer reviews of access: all is allowed but these verbs of resources."""

    def answer(asked):
        if not asked.path.endswith("selfsubjectaccessreviews"):
            return None
        attributes = asked.body["spec"]["resourceAttributes"]
        is_refused = (attributes["verb"], attributes["resource"]) in refused
        return web.json_response({"status": {"allowed": not is_refused}}, status=201)

    cluster.fault = answer


async def test_a_cluster_that_has_all(cluster):
    cluster.all(*MODELS)
    cluster.all(*ENDPOINTS)
    cluster.all(*REPORTS)
    reviewing(cluster)
    status, output, errors = await ran("--check", "--server", cluster.url)
    assert (status, errors) == (0, "")
    assert output == f"{cluster.url}: the namespace default can be kept\n"
    assert len(cluster.writes()) == sum(map(len, NEEDED.values()))


async def test_a_cluster_that_lacks_something(cluster):
    cluster.all(*MODELS)
    reviewing(cluster, ("update", "deployments"), ("watch", "pods"))
    status, _, errors = await ran("--check", "--server", cluster.url, "--namespace", "models")
    assert status == 1
    kinds, reports, update, watch = (line.partition(": ")[2] for line in errors.splitlines())
    assert kinds == (
        "the cluster has no endpoints.aiplatform.gdc.goog; apply the output of partway operator "
        "--print-crds"
    )
    assert "unreachablepods.partway.dev" in reports
    assert update == (
        "the operator may not update deployments.apps in the namespace models; add the verb to "
        "its role"
    )
    assert watch.startswith("the operator may not watch pods in the namespace models;")


async def test_the_namespace_of_the_gateways(cluster):
    for kind in (MODELS, ENDPOINTS, REPORTS):
        cluster.all(*kind)
    reviewing(cluster)
    asked = []
    for gateways in ("models/gateways", "edge/gateways"):
        flags = ("--check", "--server", cluster.url, "--namespace", "models")
        assert (await ran(*flags, "--gateways", gateways))[0] == 0
        reviews = [each.body["spec"]["resourceAttributes"] for each in cluster.asked if each.body]
        asked.append([each for each in reviews if each["namespace"] != "models"])
        cluster.asked.clear()
    slices = {"namespace": "edge", "group": "discovery.k8s.io", "resource": "endpointslices"}
    assert asked == [[], [{**slices, "verb": "list"}, {**slices, "verb": "watch"}]]


async def test_a_cluster_that_refuses(cluster):
    cluster.fault = lambda asked: failure(401, "Unauthorized", "who are you?")
    status, _, errors = await ran("--check", "--server", cluster.url)
    assert (status, errors.count("\n")) == (1, 1)
    assert "the API server answered 401: who are you?" in errors


async def test_it_keeps_a_namespace_until_sigterm(cluster):
    cluster.add(a_model())
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "partway", "operator", "--server", cluster.url, "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    url = (await soon(process.stdout.readline())).decode().split()[-1]
    await eventually(lambda: cluster.find(*DEPLOYMENTS, "one"))
    assert await asyncio.to_thread(page, f"{url}/healthz") == "ok\n"
    metrics = await asyncio.to_thread(page, f"{url}/metrics")
    assert "partway_operator_leads 1.0" in metrics
    assert "partway_operator_silent_gateways 0.0" in metrics
    assert "process_cpu_seconds_total" in metrics
    process.send_signal(signal.SIGTERM)
    await soon(process.communicate())
    assert process.returncode == 0
    lease = cluster.find("coordination.k8s.io/v1", "leases", "partway-operator")
    assert lease["spec"]["holderIdentity"] == ""


def page(url: str) -> str:
    with urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


async def test_a_port_that_is_taken(cluster):
    port = cluster.url.rpartition(":")[2]
    status, _, errors = await ran("--server", cluster.url, "--port", port)
    assert status == 1
    assert f"--host, --port: 127.0.0.1:{port}: " in errors.splitlines()[-1]


async def test_a_fault_ends_it(cluster):
    """A lease without a version, for one, is not what any API server has."""
    cluster.fault = lambda asked: web.json_response({}) if "leases" in asked.path else None
    status, _, errors = await ran("--server", cluster.url, "--port", "0")
    assert status == 1
    assert "the operator has failed" in errors
