"""The Helm chart, rendered by Helm and validated offline. Run by ``make manifests``.

Kubernetes' own objects are validated against two of its versions. Those of Gateway API, KEDA and
the Prometheus Operator are validated against the schemas of ``@kubernetes-models`` on npm: its
types refuse an unknown member, and its validators a value of another form.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from partway.gateway.apis.grpc.manifest import MANIFEST as GRPC
from partway.gateway.apis.kubernetes.custom_object import (
    DEPLOYED_MODEL,
    ENDPOINT,
    KINDS,
    CustomObject,
)
from partway.gateway.apis.openai.manifest import MANIFEST as OPENAI
from partway.gateway.apis.openapi.descriptions import DESCRIPTIONS, STATUS
from partway.gateway.discovery.limits import MAX_ENDPOINT_OBJECTS
from partway.gateway.operator import custom_resource_definitions, model_deployments, pod_options
from tests.conftest import ROOT
from tests.gateway.tls.peers import write_pair
from tests.interop.helm import CHART, helmed, template
from tests.interop.js_sdk import installed
from tests.interop.served_api import interpreter

FOLDER = ROOT / "docs" / "examples" / "kubernetes"
SOURCES = Path(__file__).with_name("manifests")

#: The two latest versions of Kubernetes that kubernetes-validate has.
VERSIONS = ("1.36", "1.37")

OPEN = {"insecure": True}
CLOSED = {"principalsSecret": "principals", "tlsSecret": "certificate"}
PEERS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
FURTHER = {
    "networkPolicies": {
        **dict.fromkeys(
            ("gatewaysFrom", "operatorFrom", "modelsFrom", "modelsTo", "modelsDns"), PEERS
        ),
        "modelsNotTo": ["10.0.0.1/32", "fd00:10::1/128"],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
}
ROUTES = {"httpRoute": True, "tlsRoute": True, "hostnames": ["streams.example"]}

#: Values that between them render every line of the chart.
CASES: dict[str, dict[str, Any]] = {
    "as little as may be": {"gateway": OPEN},
    "without an operator": {
        "gateway": OPEN,
        "operator": {"enabled": False},
        "podDisruptionBudgets": False,
        "networkPolicies": {"enabled": False},
    },
    "behind a load balancer": {
        "gateway": {
            **CLOSED,
            "service": {
                "type": "LoadBalancer",
                "annotations": {"example.com/internal": "true"},
            },
        },
    },
    "with a proxy made for it, scaled by KEDA": {
        **FURTHER,
        "gateway": CLOSED,
        "autoscaling": {"keda": True},
        "gatewayApi": {**ROUTES, "className": "envoy", "certificateSecret": "certificate"},
    },
    "behind a proxy that is there, scaled by Kubernetes": {
        **FURTHER,
        "image": {
            "repository": "registry.example/partway-gateway",
            "tag": "1",
            "pullPolicy": "Always",
        },
        "imagePullSecrets": [{"name": "registry"}],
        "streamLifetime": 600,
        "objectLimit": MAX_ENDPOINT_OBJECTS,
        "gateway": {
            **CLOSED,
            "workers": "auto",
            "settings": 'log_level = "debug"\n\n[stream]\nping_interval = 30\n',
            "env": [{"name": "PARTWAY_REGION", "value": "eu-west-1"}],
            "annotations": {"example.com/team": "speech"},
            "safeToEvict": True,
            "nodeSelector": {"pool": "gateways"},
            "tolerations": [{"key": "gateways", "operator": "Exists"}],
            "priorityClassName": "streams",
            "service": {"httpAppProtocol": "kubernetes.io/ws"},
        },
        "operator": {
            "args": ["--log-level", "debug"],
            "nodeSelector": {"pool": "system"},
            "tolerations": [{"key": "system", "operator": "Exists"}],
            "priorityClassName": "system",
        },
        "autoscaling": {"horizontalPodAutoscaler": True},
        "gatewayApi": {
            **ROUTES,
            "timeouts": False,
            "parentRefs": [{"name": "public", "namespace": "proxies"}],
        },
    },
}

Manifest = dict[str, Any]

CHART_IN_PAGES = "docs/examples/kubernetes/partway"

#: Words of an upgrade that a rendering has no use for.
UPGRADING = {
    "--install",
    "--reset-then-reuse-values",
    "--create-namespace",
    "--namespace",
    "models",
}


def commands() -> Iterator[tuple[str, str]]:
    """Each call of Helm that changes an installation, on any page."""
    shell = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for block in shell.findall(page.read_text("utf-8")):
            for line in block.replace("\\\n", "").splitlines():
                if line.startswith("helm upgrade"):
                    yield page.stem, line


@cache
def rendered(case: str) -> tuple[Manifest, ...]:
    done = template(values=CASES[case])
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def the(case: str, kind: str, name: str) -> Manifest:
    found = [
        each for each in rendered(case) if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    assert len(found) == 1, f"{len(found)} objects are a {kind} {name}"
    return found[0]


def is_custom(manifest: Manifest) -> bool:
    group = manifest["apiVersion"].rpartition("/")[0]
    return "." in group and (group.startswith("gateway.") or not group.endswith(".k8s.io"))


# --- Forms ---------------------------------------------------------------------------------------


def test_helm_has_no_complaint():
    done = helmed("lint", "--strict", str(CHART), values=CASES["as little as may be"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


def faults(manifests: list[Manifest], version: str) -> list[str]:
    """The faults that a version of Kubernetes would find, an unknown member among them."""
    python = interpreter("MANIFESTS_PYTHON", "kubernetes-validate", "manifests")
    done = subprocess.run(
        [python, str(SOURCES / "validate.py"), version],
        input=json.dumps(manifests).encode(),
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("case", "version"), list(product(CASES, VERSIONS)))
def test_each_object_is_one_of_kubernetes(case, version):
    ours = [each for each in rendered(case) if not is_custom(each)]
    assert len(ours) >= 7
    assert faults(ours, version) == []


def test_an_object_with_a_fault_is_seen():
    broken = json.loads(json.dumps(the("as little as may be", "Deployment", "partway-gateway")))
    broken["spec"]["template"]["spec"]["gracePeriod"] = 1
    (fault,) = faults([broken], VERSIONS[0])
    assert "gracePeriod" in fault


def checked_by_types(manifests: list[Manifest]) -> str:
    """What TypeScript and the validators say of custom objects; empty for no fault."""
    where = installed(SOURCES)
    lines = list[str]()
    for number, each in enumerate(manifests):
        group, _, version = each["apiVersion"].partition("/")
        package = {"gateway.networking.k8s.io": "gateway-api", "keda.sh": "keda"}.get(
            group, "prometheus-operator"
        )
        kind = each["kind"]
        module = f"@kubernetes-models/{package}/{group}/{version}/{kind}"
        lines += [
            f'import {{ {kind} as Kind{number}, type I{kind} as Form{number} }} from "{module}";',
            f"const object{number}: Form{number} = {json.dumps(each)};",
            f"new Kind{number}(object{number}).validate();",
        ]
    program = where / "manifests.ts"
    program.write_text("\n".join(lines), "utf-8")
    node = shutil.which("node")
    assert node, "this check needs node 20 or newer: apt-get install nodejs npm"
    flags = ["--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]
    said = ""
    for command in (
        [node, "node_modules/typescript/bin/tsc", *flags, program.name],
        [node, "manifests.js"],
    ):
        done = subprocess.run(command, cwd=where, capture_output=True, check=False, timeout=120)
        if done.returncode:
            said += (done.stdout + done.stderr).decode()
    return said


def test_each_object_of_others_has_their_form():
    page = (ROOT / "docs" / "how-to" / "autoscale-on-kubernetes.md").read_text("utf-8")
    (scaled,) = re.findall(r"^```yaml\n(apiVersion: .*?)^```$", page, re.MULTILINE | re.DOTALL)
    custom = [each for case in CASES for each in rendered(case) if is_custom(each)]
    custom.append(yaml.safe_load(scaled))
    kinds = {each["kind"] for each in custom}
    assert kinds == {"Gateway", "HTTPRoute", "TLSRoute", "ScaledObject", "ServiceMonitor"}
    assert checked_by_types(custom) == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"backendReqest": "0s"}, '"backendReqest"\' does not exist'),
        ({"request": "never"}, "timeouts/request must match pattern"),
    ],
)
def test_such_an_object_with_a_fault_is_seen(change, says):
    route = json.loads(
        json.dumps(the("with a proxy made for it, scaled by KEDA", "HTTPRoute", "partway"))
    )
    route["spec"]["rules"][0]["timeouts"] |= change
    assert says in checked_by_types([route])


def test_the_sample_is_an_object_of_ours():
    """``kubectl apply`` of the page: the two kinds that the operator looks after."""
    manifests = list(yaml.safe_load_all((FOLDER / "echo.yaml").read_text("utf-8")))
    assert [each["kind"] for each in manifests] == ["DeployedModel", "Endpoint"]
    known = {kind.kind: kind for kind in KINDS}
    for each in manifests:
        assert each["apiVersion"] == known[each["kind"]].api_version


@pytest.mark.parametrize("version", VERSIONS)
def test_the_job_of_a_transform_is_of_kubernetes(version):
    job = yaml.safe_load((FOLDER / "transform-job.yaml").read_text("utf-8"))
    assert job["kind"] == "Job"
    assert faults([job], version) == []


#: A text for each annotation of a DeployedModel that has an effect on its manifests.
ANNOTATIONS = {
    "replicas": "2",
    "requests": "cpu=4,memory=16Gi",
    "limits": "memory=16Gi,nvidia.com/gpu=1",
    "node-selector": "pool=models,zone=a",
    "tolerations": "nvidia.com/gpu:NoSchedule,pool=models:NoExecute",
    "model-volume": "models/chat/3",
    "service-account": "models",
    "startup-seconds": "900",
    "termination-seconds": "600",
    "drain-seconds": "1800",
}


def a_model(annotations: dict[str, str], **more: str) -> CustomObject:
    """The page's DeployedModel, with annotations and further members of its model."""
    sample, _ = yaml.safe_load_all((FOLDER / "echo.yaml").read_text("utf-8"))
    spec = {**sample["spec"], "modelSpec": {**sample["spec"]["modelSpec"], **more}}
    given = {f"partway.dev/{name}": text for name, text in annotations.items()}
    return CustomObject(
        *(DEPLOYED_MODEL, "models", "echo", "uid", 1, 1, "2026-01-01T00:00:00Z"),
        spec=spec,
        annotations=given,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_operator_makes_is_of_kubernetes(version):
    assert set(ANNOTATIONS) == set(pod_options.ANNOTATIONS)
    pods = model_deployments.ModelDataAccess(
        "registry.example/partway-gateway:1", "s3-access", pull_secrets=("registry",)
    )
    made = [
        each
        for model in (
            a_model({}),
            a_model(ANNOTATIONS),
            a_model({}, artifactLocation="s3://models/chat"),
        )
        for each in model_deployments.manifests(model, pods, model_deployments.Abilities())
    ]
    assert len(made) == 9
    assert faults(made, version) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_definitions_are_of_kubernetes(version):
    definitions = custom_resource_definitions.definitions()["items"]
    assert len(definitions) == 3
    assert faults(definitions, version) == []


# --- Values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "gateway.principalsSecret is empty"),
        ({"gateway": {"insecur": True}}, "additional properties 'insecur' not allowed"),
        ({"gateway": OPEN, "streamLifetime": 0}, "minimum"),
        (
            {"gateway": OPEN, "autoscaling": {"keda": True, "horizontalPodAutoscaler": True}},
            "are both set",
        ),
        ({"gateway": CLOSED, "gatewayApi": {"httpRoute": True}}, "a route needs a Gateway"),
        (
            {
                "gateway": {"principalsSecret": "principals"},
                "gatewayApi": {"tlsRoute": True, "className": "envoy"},
            },
            "set gateway.tlsSecret",
        ),
        (
            {"gateway": CLOSED, "gatewayApi": {"httpRoute": True, "className": "envoy"}},
            "gatewayApi.certificateSecret is empty",
        ),
        (
            {
                "gateway": {**CLOSED, "service": {"type": "NodePort"}},
                "gatewayApi": {"httpRoute": True, "parentRefs": [{"name": "public"}]},
            },
            "set gateway.service.type=ClusterIP",
        ),
        ({"gateway": {**OPEN, "service": {"type": "LoadBalancer"}}}, "type=LoadBalancer would let"),
        ({"gateway": {**OPEN, "service": {"type": "NodePort"}}}, "type=NodePort would let"),
        ({"gateway": OPEN, "gatewayApi": {"httpRoute": True}}, "gatewayApi.httpRoute would let"),
        (
            {"gateway": {**OPEN, "tlsSecret": "certificate"}, "gatewayApi": {"tlsRoute": True}},
            "gatewayApi.tlsRoute would let",
        ),
        ({"gateway": OPEN, "networkPolicies": {"modelsNotTo": ["10.0.0.1"]}}, "pattern"),
    ],
)
def test_values_that_cannot_work_are_refused(values, says):
    done = template(values=values)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize(("page", "command"), list(commands()))
def test_each_command_of_a_page_sets_what_the_chart_has(page, command, tmp_path):
    """An upgrade keeps the values of the installation, which has authentication here."""
    settings = tmp_path / "settings.toml"
    settings.write_text("max_streams = 20000", "utf-8")
    words = [word for word in shlex.split(command) if word not in UPGRADING]
    assert words[:4] == ["helm", "upgrade", "partway", CHART_IN_PAGES]
    rest = words[4:]
    rest = [word.replace("=settings.toml", f"={settings}") for word in rest]
    if not any("gateway.insecure" in word or "gateway.principalsSecret" in word for word in rest):
        rest += ["--set", "gateway.principalsSecret=principals"]
    done = template(*rest)
    assert done.returncode == 0, done.stderr
    assert list(yaml.safe_load_all(done.stdout))


# --- What the objects mean to each other ---------------------------------------------------------


def pod_of(case: str, name: str) -> Manifest:
    template: Manifest = the(case, "Deployment", name)["spec"]["template"]
    return template


@pytest.mark.parametrize("case", CASES)
def test_selectors_find_pods_and_ports(case):
    pod = pod_of(case, "partway-gateway")
    labels = pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    names = {port["name"] for port in container["ports"]}
    for service in ("partway-gateway", "partway-gateways"):
        spec = the(case, "Service", service)["spec"]
        assert spec["selector"].items() <= labels.items()
        assert {port["targetPort"] for port in spec["ports"]} <= names
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}


@pytest.mark.parametrize("case", CASES)
def test_a_pod_lives_longer_than_its_streams(case):
    """SIGTERM comes late, streams end by themselves, and the rest has its times."""
    from partway.gateway.settings.settings import Settings

    spec = pod_of(case, "partway-gateway")["spec"]
    (container,) = spec["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    lifetime = CASES[case].get("streamLifetime", 1800)
    assert int(variables["PARTWAY_LIFETIME"]) == lifetime
    assert int(variables["PARTWAY_SHUTDOWN_GRACE"]) >= lifetime
    settings = Settings()
    *_, before = container["lifecycle"]["preStop"]["exec"]["command"]
    longest = int(before) + lifetime + settings.shutdown_spread + settings.shutdown_hard
    assert longest + 5 <= spec["terminationGracePeriodSeconds"] <= longest + 60


@pytest.mark.parametrize("case", CASES)
def test_a_gateway_accepts_its_settings(case, tmp_path):
    """``partway serve --check`` with the container's own words, variables and files."""
    (tmp_path / "partway.toml").write_text(
        the(case, "ConfigMap", "partway-gateway")["data"]["partway.toml"], "utf-8"
    )
    (tmp_path / "principals.toml").write_text(
        '[[principals]]\nname = "p"\ntokens = ["a-token-of-sixteen-characters-or-more"]\n', "utf-8"
    )
    (tmp_path / "principals.toml").chmod(0o600)
    pair = write_pair(tmp_path, "the gateway")
    pair.certificate.rename(tmp_path / "tls.crt")
    pair.key.rename(tmp_path / "tls.key")
    (container,) = pod_of(case, "partway-gateway")["spec"]["containers"]

    def here(text: str) -> str:
        return re.sub(r"^/etc/partway[a-z-]*/", f"{tmp_path}/", text)

    done = subprocess.run(
        [sys.executable, "-m", "partway", *map(here, container["args"]), "--check"],
        env={
            "PATH": os.environ["PATH"],
            "PARTWAY_HOST": "0.0.0.0",
            "XDG_DATA_HOME": str(tmp_path),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": "6443",
            **{each["name"]: here(each["value"]) for each in container["env"]},
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", CASES)
def test_autoscalers_of_nodes_move_gateways_only_if_told(case):
    may = CASES[case]["gateway"].get("safeToEvict", False)
    annotations = pod_of(case, "partway-gateway")["metadata"]["annotations"]
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == str(may).lower()
    assert ("karpenter.sh/do-not-disrupt" in annotations) != may


def test_streams_have_no_limit_on_their_routes():
    route = the("with a proxy made for it, scaled by KEDA", "HTTPRoute", "partway")
    for rule in route["spec"]["rules"]:
        assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}


def test_clients_of_http_2_get_a_port_that_says_so():
    case = "with a proxy made for it, scaled by KEDA"
    ports = {
        port["port"]: port for port in the(case, "Service", "partway-gateway")["spec"]["ports"]
    }
    first, second = the(case, "HTTPRoute", "partway")["spec"]["rules"]
    assert ports[first["backendRefs"][0]["port"]]["appProtocol"] == "kubernetes.io/h2c"
    assert "appProtocol" not in ports[second["backendRefs"][0]["port"]]


def published(rule: Manifest) -> set[str]:
    """The paths of a rule, of those that are published with all below them."""
    paths = [match["path"] for match in rule["matches"]]
    assert {path["type"] for path in paths} == {"PathPrefix"}
    return {path["value"] for path in paths}


def test_a_route_publishes_the_paths_of_clients_and_no_others():
    route = the("with a proxy made for it, scaled by KEDA", "HTTPRoute", "partway")
    first, second = route["spec"]["rules"]
    assert published(first) == {f"/{each}" for each in GRPC.grpc_services} | {"/endpoints"}
    (stream,) = (match for match in first["matches"] if "headers" in match)
    assert stream["path"]["value"] == "/endpoints"
    assert stream["headers"] == [
        {"name": "content-type", "value": "application/vnd.amazon.eventstream"}
    ]
    paths = tuple(f"{each}/" for each in published(second))
    for each in DESCRIPTIONS:
        is_of_clients = each.tag != STATUS and each.path != "/"
        assert f"{each.path}/".startswith(paths) == is_of_clients, each.path
    assert all(path.fullmatch("/openai/v1/models") for path in OPENAI.paths)
    assert "/openai/" in paths


def test_a_public_service_has_tls_alone():
    spec = the("behind a load balancer", "Service", "partway-gateway")["spec"]
    assert spec["type"] == "LoadBalancer"
    assert [port["port"] for port in spec["ports"]] == [8443]


def test_a_namespace_may_have_as_many_objects_as_a_gateway_follows():
    case = "behind a proxy that is there, scaled by Kubernetes"
    quota = the(case, "ResourceQuota", "partway-objects")
    most = str(MAX_ENDPOINT_OBJECTS)
    assert most in (CHART / "values.yaml").read_text("utf-8")
    assert quota["spec"]["hard"] == {
        f"count/{kind.plural}.{kind.group}": most for kind in (DEPLOYED_MODEL, ENDPOINT)
    }
    names = {each["metadata"]["name"] for each in rendered("as little as may be")}
    assert quota["metadata"]["name"] not in names


def test_an_autoscaler_alone_says_how_many():
    for case in CASES:
        spec = the(case, "Deployment", "partway-gateway")["spec"]
        assert ("replicas" in spec) == ("autoscaling" not in CASES[case])
