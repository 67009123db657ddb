"""The files of docs/examples/kubernetes agree with the code.

``make manifests`` renders the chart.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from partway import __version__, connect_sync
from partway.gateway.apis.kubernetes.custom_object import ENDPOINT, UNREACHABLE_POD
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.operator.cluster_check import NEEDED
from partway.gateway.settings.settings import Settings
from tests.conftest import ROOT
from tests.processes import running

FOLDER = ROOT / "docs" / "examples" / "kubernetes"
CHART = FOLDER / "partway"


def loaded(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def test_the_chart_is_of_this_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_grace_of_a_gateway_is_made_of_its_settings():
    """The times that the chart adds to a stream's lifetime are defaults, and a rest to exit."""
    helpers = (CHART / "templates" / "_helpers.tpl").read_text("utf-8")
    added = re.search(
        r"add \.Values\.gateway\.endSeconds \.Values\.streamLifetime ([\d ]+)", helpers
    )
    assert added
    spread, hard, rest = map(int, added[1].split())
    settings = Settings()
    assert (spread, hard) == (settings.shutdown_spread, settings.shutdown_hard)
    assert rest >= 5


def test_the_lifetime_of_the_chart_is_the_default():
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert values["streamLifetime"] == StreamPolicy().lifetime


def test_the_chart_names_code_that_is_there():
    texts = [path.read_text("utf-8") for path in (CHART / "templates").iterdir()]
    named = set(re.findall(r"gateway/[a-z_/]+\.py", "\n".join(texts)))
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_images_of_examples_are_of_this_version():
    texts = [path.read_text("utf-8") for path in FOLDER.glob("*.yaml")]
    images = re.findall(r"image(?:URI)?: (partway\S*)", "\n".join(texts))
    assert images
    assert {image.partition(":")[2] for image in images} == {__version__}


# --- Rights --------------------------------------------------------------------------------------


def rights(process: str) -> dict[tuple[str, str], set[str]]:
    """The verbs of a process's role, by group and resource, as the chart writes them."""
    text = (CHART / "templates" / "accounts.yaml").read_text("utf-8")
    (role,) = (
        each
        for each in text.split("\n---\n")
        if "\nkind: Role\n" in each and f"-{process}\n" in each
    )
    return {
        (group, resource): set(rule["verbs"])
        for rule in yaml.safe_load(role[role.index("\nrules:") :])["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_operators_role_has_what_it_needs_and_no_more():
    assert rights("operator") == {what: set(verbs) for what, verbs in NEEDED.items()}


def test_the_gateways_role_has_what_it_needs_and_no_more():
    """Of each collection that a gateway follows, and of the calls that change something."""
    sources = "\n".join(
        path.read_text("utf-8") for path in (ROOT / "gateway" / "discovery").glob("*.py")
    )
    given = rights("gateway")
    words = {
        ENDPOINT.plural: "ENDPOINT.plural",
        UNREACHABLE_POD.plural: "UNREACHABLE_POD.plural",
    }
    assert all(words.get(each, f'"{each}"') in sources for _, each in given)
    assert len(re.findall(r"\bCollection\(", sources)) == len(given)
    calls = set(re.findall(r"_server\.(\w+)\(", sources)) - {"versions", "aclose"}
    changes = set().union(*given.values()) - {"list", "watch"}
    assert changes == calls - {"list", "watch"}


# --- KServe --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def predictor():
    """KServe's predictor, as its container's arguments and variables start it."""
    (service,) = loaded("inference-service.yaml")
    (container,) = service["spec"]["predictor"]["containers"]
    arguments = ["--port=0" if word == "--port=8080" else word for word in container["args"]]
    assert arguments != container["args"], "it listens where KServe expects it"
    variables = {each["name"]: each["value"] for each in container["env"]}
    environment = os.environ | variables | {"PARTWAY_HOST": "127.0.0.1"}
    with running("partway.gateway.cli.main", *arguments, environment=environment) as url:
        yield url, container


def asked(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def test_a_predictor_is_ready_where_its_probe_looks(predictor):
    url, container = predictor
    assert asked(url + container["readinessProbe"]["httpGet"]["path"])["ready"] is True


def test_a_predictor_answers_both_protocols_of_kserve(predictor):
    url, _ = predictor
    body = {"instances": [1], "predictions": [1]}  # an echo
    assert asked(f"{url}/v1/models/chat:predict", body)["predictions"] == [1]
    assert asked(f"{url}/v1/models/chat")["ready"] is True


def test_a_predictor_streams(predictor):
    url, _ = predictor
    with connect_sync(url, "chat") as stream:
        stream.send_text("hello")
        stream.end_input()
        assert [part.payload for part in stream] == [b"hello"]
