"""The chart's limits for reports of unreachable pods. Run by ``make manifests``.

No Kubernetes runs here: another implementation of CEL evaluates the policy's expressions.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.operator.a_cluster import a_report
from tests.interop.helm import CHART, helmed, template
from tests.interop.manifests_check import VERSIONS, faults
from tests.interop.served_api import interpreter

SOURCES = Path(__file__).with_name("manifests")
POLICIES = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
TEMPLATE = "templates/report-limits.yaml"
GATEWAYS = "system:serviceaccount:models:partway-gateway"
POD_NAME = "authentication.kubernetes.io/pod-name"


def rendered(*words: str, **operator: Any) -> list[dict[str, Any]]:
    values = {"gateway": {"insecure": True}, "operator": operator}
    done = template("--show-only", TEMPLATE, *words, values=values)
    if "could not find template" in done.stderr:
        return []
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@cache
def policy() -> dict[str, Any]:
    quota, found, binding = rendered("--api-versions", POLICIES)
    assert quota["kind"] == "ResourceQuota"
    assert binding["spec"]["policyName"] == found["metadata"]["name"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_each_object_is_one_of_kubernetes(version):
    assert faults(rendered("--api-versions", POLICIES), version) == []


def refusals(*requests: dict[str, Any]) -> list[list[str]]:
    python = interpreter("MANIFESTS_PYTHON", "cel-python", "manifests")
    done = subprocess.run(
        [python, str(SOURCES / "admit.py")],
        input=json.dumps({"policy": policy(), "requests": requests}),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout)
    return found


def request(
    operation: str, report: dict[str, Any], *, by: str = GATEWAYS, pod: str = "g"
) -> dict[str, Any]:
    user = {"username": by, **({"extra": {POD_NAME: [pod]}} if pod else {})}
    return {
        "request": {"operation": operation, "userInfo": user},
        "object": None if operation == "DELETE" else report,
        "oldObject": None if operation == "CREATE" else report,
    }


OPERATIONS = ("CREATE", "UPDATE", "DELETE")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_gateway_speaks_for_itself_alone(operation):
    own, anothers = a_report("a", "g"), a_report("a", "h")
    misnamed = {**own, "metadata": {"name": "a.h"}}
    asked = (
        request(operation, own),
        request(operation, anothers),
        request(operation, misnamed),
        request(operation, own, pod=""),
    )
    admitted, *refused = refusals(*asked)
    assert admitted == []
    assert all(each for each in refused)
    assert "bound to their own pods" in refused[-1][0]


@pytest.mark.parametrize("by", ["system:serviceaccount:shop:web", "an-administrator"])
def test_others_report_only_as_their_own_pod_and_may_remove_reports(by):
    """A further account with a right on reports needs a pod of a gateway's name to be one."""
    report = a_report("a", "g")
    for operation in ("CREATE", "UPDATE"):
        asked = (request(operation, report, by=by, pod=pod) for pod in ("", "web", "g"))
        assert [bool(each) for each in refusals(*asked)] == [True, True, False]
    assert refusals(request("DELETE", report, by=by, pod="")) == [[]]


KUBERNETES = (
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
    "system:kube-controller-manager",
)


def kept(report: dict[str, Any]) -> dict[str, Any]:
    """A report that a removal waits for."""
    return {**report, "metadata": {**report["metadata"], "finalizers": ["foregroundDeletion"]}}


@pytest.mark.parametrize("by", ["system:serviceaccount:models:partway-operator", *KUBERNETES])
def test_reports_are_removed_by_the_operator_and_kubernetes(by):
    assert refusals(request("DELETE", a_report("a", "g"), by=by, pod="")) == [[]]


@pytest.mark.parametrize("by", KUBERNETES)
def test_kubernetes_ends_a_removal_in_the_foreground(by):
    assert refusals(request("UPDATE", kept(a_report("a", "g")), by=by, pod="")) == [[]]


def test_a_report_that_could_not_be_removed_is_refused():
    found = refusals(*(request(each, kept(a_report("a", "g"))) for each in OPERATIONS))
    assert [bool(each) for each in found] == [True, True, False]


def test_an_older_cluster_has_the_quota_alone():
    assert [each["kind"] for each in rendered()] == ["ResourceQuota"]
    words = ("install", "partway", str(CHART), "--dry-run=client")
    done = helmed(*words, values={"gateway": {"insecure": True}})
    assert "has no ValidatingAdmissionPolicy" in done.stdout, done.stderr
    assert rendered("--api-versions", POLICIES, reportLimits=False) == []
