"""The chart's NetworkPolicies, read as Kubernetes defines them. Run by ``make manifests``.

No network that enforces policies is at hand. So this check asks the rules themselves for each pair
of pods, addresses and ports.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import yaml

from partway.gateway.operator.model_deployments import Abilities, ModelDataAccess, manifests
from tests.interop.helm import template
from tests.interop.manifests_check import a_model

Object = dict[str, Any]

MONITORING = {"kubernetes.io/metadata.name": "monitoring"}
BY_MONITORING = [{"namespaceSelector": {"matchLabels": MONITORING}}]
STORE = [{"podSelector": {"matchLabels": {"app": "minio"}}}]
API_SERVER, API_SERVER_6 = "10.0.0.1", "fd00:10::1"


@dataclass(frozen=True)
class Peer:
    """A pod in a namespace, or an address outside the cluster.

    Attributes:
        labels: of the pod; None for an address.
        namespace: labels of the pod's namespace; None for the release's own.
    """

    labels: Object | None = None
    namespace: Object | None = None
    address: str = "10.1.2.3"


def rendered(**policies: object) -> tuple[Object, ...]:
    values = {"gateway": {"insecure": True}, "networkPolicies": policies}
    done = template(values=values)
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.safe_load_all(done.stdout) if each)


def labels_of(objects: tuple[Object, ...], deployment: str) -> Object:
    """The labels of a Deployment's pods; the operator's are those of a model."""
    if deployment == "model":
        *_, made = manifests(a_model({}), ModelDataAccess(), Abilities())
    else:
        (made,) = (
            each
            for each in objects
            if (each["kind"], each["metadata"]["name"]) == ("Deployment", f"partway-{deployment}")
        )
    found: Object = made["spec"]["template"]["metadata"]["labels"]
    return found


def selects(selector: Object, labels: Object) -> bool:
    assert selector.keys() <= {"matchLabels"}, "all that the chart uses"
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def is_peer(rule: Object, peer: Peer) -> bool:
    if "ipBlock" in rule:
        block, address = rule["ipBlock"], ip_address(peer.address)
        return address in ip_network(block["cidr"]) and not any(
            address in ip_network(each) for each in block.get("except", ())
        )
    if peer.labels is None:
        return False
    if "namespaceSelector" in rule:
        in_namespace = peer.namespace is not None and selects(
            rule["namespaceSelector"], peer.namespace
        )
    else:
        in_namespace = peer.namespace is None
    return in_namespace and selects(rule.get("podSelector", {}), peer.labels)


def rules(objects: tuple[Object, ...], pod: Object, direction: str) -> Iterator[Object] | None:
    """The rules of a direction that hold for a pod; None for a pod that has no policy."""
    policies = [
        each["spec"]
        for each in objects
        if each["kind"] == "NetworkPolicy"
        and direction in each["spec"]["policyTypes"]
        and selects(each["spec"]["podSelector"], pod)
    ]
    if not policies:
        return None
    return (rule for each in policies for rule in each.get(direction.lower(), ()))


def admits(
    objects: tuple[Object, ...],
    pod: str,
    direction: str,
    peer: Peer,
    port: int,
    protocol: str = "TCP",
) -> bool:
    """Whether a pod's policies let a connection in, or out."""
    found = rules(objects, labels_of(objects, pod), direction)
    if found is None:
        return True
    peers = {"Ingress": "from", "Egress": "to"}[direction]
    wanted = {"protocol": protocol, "port": port}
    return any(
        ("ports" not in rule or wanted in rule["ports"])
        and (peers not in rule or any(is_peer(each, peer) for each in rule[peers]))
        for rule in found
    )


A_POD = Peer({"app": "shop"}, {"kubernetes.io/metadata.name": "shop"})
A_NEIGHBOUR = Peer({"app": "shop"})
PROMETHEUS = Peer({"app": "prometheus"}, MONITORING)


@pytest.fixture(scope="module")
def usual() -> tuple[Object, ...]:
    return rendered()


@pytest.fixture(scope="module")
def further() -> tuple[Object, ...]:
    return rendered(
        gatewaysFrom=BY_MONITORING,
        operatorFrom=BY_MONITORING,
        modelsFrom=BY_MONITORING,
        modelsTo=[*STORE, {"ipBlock": {"cidr": "169.254.170.23/32"}}],
        modelsNotTo=[f"{API_SERVER}/32", f"{API_SERVER_6}/128", "10.1.0.0/16"],
    )


def test_only_gateways_reach_models(usual):
    gateway = Peer(labels_of(usual, "gateway"))
    assert admits(usual, "model", "Ingress", gateway, 8080)
    assert not admits(usual, "model", "Ingress", gateway, 9090)
    elsewhere = Peer(labels_of(usual, "gateway"), {"kubernetes.io/metadata.name": "shop"})
    for other in (A_POD, A_NEIGHBOUR, elsewhere, Peer(labels_of(usual, "model"))):
        assert not admits(usual, "model", "Ingress", other, 8080)


def test_nobody_reaches_the_operator_but_its_node(usual):
    for other in (A_POD, A_NEIGHBOUR, PROMETHEUS, Peer(labels_of(usual, "model"))):
        assert not admits(usual, "operator", "Ingress", other, 8091)


def test_everybody_reaches_gateways_where_they_listen(usual):
    for other in (A_POD, A_NEIGHBOUR, Peer(address="203.0.113.1")):
        assert admits(usual, "gateway", "Ingress", other, 8090)
        assert not admits(usual, "gateway", "Ingress", other, 22)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "fe80::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "64:ff9b::169.254.169.254",
        "64:ff9b::168.63.129.16",
        "64:ff9b::100.100.100.200",
    ],
)
def test_models_do_not_reach_the_credentials_of_nodes(usual, address):
    for port in (80, 443, 988):
        assert not admits(usual, "model", "Egress", Peer(address=address), port)


CORE_DNS = Peer({"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"})


@pytest.mark.parametrize("protocol", ["UDP", "TCP"])
@pytest.mark.parametrize(
    "resolver", [CORE_DNS, Peer(address="169.254.20.10"), Peer(address="169.254.169.254")]
)
def test_models_ask_the_name_servers_of_the_cluster(usual, resolver, protocol):
    assert admits(usual, "model", "Egress", resolver, 53, protocol)


def test_port_53_opens_no_blocked_address(usual, further):
    for address in ("169.254.169.253", "168.63.129.16", "fd00:ec2::253"):
        assert not admits(usual, "model", "Egress", Peer(address=address), 53, "UDP")
    for address in (API_SERVER, API_SERVER_6):
        assert not admits(further, "model", "Egress", Peer(address=address), 53)


def test_models_reach_model_data(usual):
    for address in ("203.0.113.1", "10.0.0.1", "2001:db8::1"):
        assert admits(usual, "model", "Egress", Peer(address=address), 443)


def test_gateways_and_operators_connect_to_anything(usual):
    for pod in ("gateway", "operator"):
        assert admits(usual, pod, "Egress", Peer(address=API_SERVER), 443)


def test_peers_may_be_named(further):
    for pod, port in (("gateway", 8090), ("operator", 8091), ("model", 8080)):
        assert admits(further, pod, "Ingress", PROMETHEUS, port)
        assert not admits(further, pod, "Ingress", A_POD, port)
    assert admits(further, "model", "Ingress", Peer(labels_of(further, "gateway")), 8080)


def test_addresses_may_be_blocked_and_opened(further):
    for address in (API_SERVER, API_SERVER_6, "10.1.2.3", "169.254.169.254"):
        assert not admits(further, "model", "Egress", Peer(address=address), 443)
    assert admits(further, "model", "Egress", Peer({"app": "minio"}), 9000)
    assert admits(further, "model", "Egress", Peer(address="169.254.170.23"), 80)
    assert admits(further, "model", "Egress", Peer(address="203.0.113.1"), 443)


def test_without_policies_there_are_none():
    objects = rendered(enabled=False)
    assert not [each for each in objects if each["kind"] == "NetworkPolicy"]


def test_the_operator_reads_the_gateways_streams(further):
    assert admits(further, "gateway", "Ingress", Peer(labels_of(further, "operator")), 8090)
    assert not admits(further, "gateway", "Ingress", A_NEIGHBOUR, 8090)
