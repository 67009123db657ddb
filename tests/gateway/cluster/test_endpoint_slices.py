"""EndpointSlices as instances: any split over slices, either IP family, and what is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.cluster.endpoint_slices import (
    NO_PORT,
    InstancesFound,
    ServiceInstance,
    ServiceRefused,
    find_instances,
    service_of,
)

PORTS = [{"name": "http", "protocol": "TCP", "port": 8080}]


def service(**spec):
    return {"metadata": {"name": "chat"}, "spec": spec}


def endpoint(number, *, family="IPv4", **conditions):
    host = f"10.0.0.{number}" if family == "IPv4" else f"fd00::{number}"
    target = {"kind": "Pod", "name": f"chat-{number}", "uid": f"uid-{number}", "of": "later"}
    return {"addresses": [host], "conditions": conditions, "targetRef": target, "later": True}


def slice_of(name, *endpoints, family="IPv4", ports=PORTS, of_kubernetes=False):
    labels = {"kubernetes.io/service-name": "chat"}
    if of_kubernetes:
        labels["endpointslice.kubernetes.io/managed-by"] = "endpointslice-controller.k8s.io"
    return {
        "metadata": {"name": name, "labels": labels},
        "addressType": family,
        "ports": ports,
        "endpoints": list(endpoints),
    }


def pod(number, **keys):
    return ServiceInstance(f"uid-{number}", f"chat-{number}", f"10.0.0.{number}", 8080, **keys)


# --- Any split over slices ------------------------------------------------------------------------

CONDITIONS = st.sampled_from(
    [
        ({}, True, False),
        ({"ready": True}, True, False),
        ({"ready": None, "serving": None, "terminating": None}, True, False),
        ({"ready": True, "serving": True, "terminating": False}, True, False),
        ({"ready": False}, False, False),
        ({"ready": False, "serving": True, "terminating": True}, False, True),
        ({"ready": False, "serving": False, "terminating": True}, False, True),
    ]
)
PODS = st.dictionaries(st.integers(1, 30), CONDITIONS, max_size=12)


@given(PODS, st.randoms(use_true_random=False), st.sampled_from(["IPv4", "IPv6"]), st.booleans())
def test_each_pod_once_whatever_slices_it_is_in(pods, random, first, has_both):
    families = ["IPv4", "IPv6"] if has_both else [first]
    slices = [slice_of(f"{each}-{n}", family=each) for each in families for n in range(3)]
    for number, (conditions, _, _) in pods.items():
        for family in families:
            there = [each for each in slices if each["addressType"] == family]
            for each in random.sample(there, random.choice([1, 2])):
                each["endpoints"].append(endpoint(number, family=family, **conditions))
    random.shuffle(slices)
    found = find_instances(service(ipFamilies=[first]), slices)
    host = "10.0.0.{}" if first == "IPv4" else "fd00::{}"
    assert {each.key: each for each in found.instances} == {
        f"uid-{number}": ServiceInstance(
            f"uid-{number}", f"chat-{number}", host.format(number), 8080, ready, terminating
        )
        for number, (_, ready, terminating) in pods.items()
    }
    assert len(found.instances) == len(pods)
    assert bool(found.trouble) is (not pods)


@given(st.permutations([{"terminating": True, "ready": False}, {"ready": True}, {"ready": False}]))
def test_terminating_wins_over_a_slice_that_is_late(conditions):
    slices = [slice_of(str(n), endpoint(1, **each)) for n, each in enumerate(conditions)]
    assert find_instances(service(), slices).instances == (
        pod(1, is_ready=False, is_terminating=True),
    )


@given(st.permutations([{"ready": True}, {"ready": False}]))
def test_ready_wins_over_not_ready(conditions):
    slices = [slice_of(str(n), endpoint(1, **each)) for n, each in enumerate(conditions)]
    assert find_instances(service(), slices).instances == (pod(1),)


def test_a_pod_that_only_the_second_family_has():
    slices = [
        slice_of("four", endpoint(1)),
        slice_of("six", endpoint(1, family="IPv6"), endpoint(2, family="IPv6"), family="IPv6"),
    ]
    assert [each.host for each in find_instances(service(), slices).instances] == [
        "10.0.0.1",
        "fd00::2",
    ]


def test_terminating_told_by_the_other_family_counts():
    slices = [
        slice_of("four", endpoint(1)),
        slice_of("six", endpoint(1, family="IPv6", terminating=True), family="IPv6"),
    ]
    assert find_instances(service(), slices).instances == (pod(1, is_terminating=True),)


def test_endpoints_without_a_pod_are_known_by_their_address():
    four, six = endpoint(1), endpoint(1, family="IPv6")
    del four["targetRef"], six["targetRef"]
    slices = [slice_of("four", four), slice_of("again", four), slice_of("six", six, family="IPv6")]
    assert find_instances(service(), slices).instances == (
        ServiceInstance("10.0.0.1", "10.0.0.1", "10.0.0.1", 8080),
    )
    assert find_instances(service(), slices[2:]).instances[0].host == "fd00::1"


# --- Ports ----------------------------------------------------------------------------------------

TWO_PORTS = [
    {"name": "http", "port": 8080},
    {"name": "grpc", "port": 9000, "protocol": "TCP", "appProtocol": "grpc"},
    {"name": "dns", "port": 53, "protocol": "UDP"},
]


@pytest.mark.parametrize(("wanted", "port"), [("grpc", 9000), (9000, 9000), ("http", 8080)])
def test_a_port_by_name_or_number(wanted, port):
    found = find_instances(service(), [slice_of("a", endpoint(1), ports=TWO_PORTS)], wanted)
    assert [each.port for each in found.instances] == [port]


def test_a_name_may_have_another_number_in_each_slice():
    slices = [slice_of(str(n), endpoint(n), ports=[{"name": "http", "port": n}]) for n in (1, 2)]
    assert [each.port for each in find_instances(service(), slices, "http").instances] == [1, 2]


@pytest.mark.parametrize("ports", [None, [], [{"name": "all", "port": None}]])
def test_a_service_without_ports_takes_a_number(ports):
    there = [slice_of("a", endpoint(1), ports=ports)]
    assert find_instances(service(), there, 9000).instances[0].port == 9000
    assert "service_port must name one" in find_instances(service(), there).trouble


@pytest.mark.parametrize(
    ("wanted", "trouble"),
    [
        (None, "has not one TCP port but 8080 (http), 9000 (grpc); service_port must name one"),
        (1, "service_port: 1 is no TCP port of the EndpointSlice 'a'; it must be one of: 8080 "),
        ("dns", "service_port: 'dns' is no TCP port of"),
    ],
)
def test_a_slice_without_the_port_is_left_out_by_name(wanted, trouble):
    slices = [slice_of("a", endpoint(1), ports=TWO_PORTS)]
    found = find_instances(service(), slices, wanted)
    assert not found.instances
    assert trouble in found.trouble


def test_without_a_port_all_slices_count():
    slices = [slice_of("a", endpoint(1), ports=TWO_PORTS), slice_of("b", endpoint(2), ports=[])]
    assert len(find_instances(service(), slices, NO_PORT).instances) == 2


# --- What is left out or refused ------------------------------------------------------------------


def test_host_names_are_left_out_by_name_and_the_rest_counts():
    named = {**endpoint(2), "addresses": ["chat.example"]}
    found = find_instances(
        service(), [slice_of("a", endpoint(1)), slice_of("b", named, family="FQDN")]
    )
    assert found.instances == (pod(1),)
    assert found.trouble == (
        "the EndpointSlice 'b' has the address type 'FQDN'; it must be IPv4 or IPv6"
    )


@pytest.mark.parametrize(
    ("family", "address", "why"),
    [
        ("IPv4", "127.0.0.1", "it is a loopback address, which no pod has"),
        ("IPv4", "169.254.169.254", "it is a link-local address"),
        ("IPv4", "224.0.0.1", "it is a multicast address"),
        ("IPv4", "0.0.0.0", "it is an unspecified address"),
        ("IPv4", "fd00::1", "it must be an IPv4 address"),
        ("IPv4", "chat.example", "it must be an IPv4 address"),
        ("IPv4", "10.0.0.1\r\n", "it must be an IPv4 address"),
        ("IPv4", "010.0.0.1", "it must be an IPv4 address"),
        ("IPv6", "10.0.0.1", "it must be an IPv6 address"),
        ("IPv6", "::1", "it is a loopback address"),
        ("IPv6", "fe80::1", "it is a link-local address"),
        ("IPv6", "::ffff:127.0.0.1", "without an IPv4 address or a zone in it"),
        ("IPv6", "fd00::1%\r\n", "without an IPv4 address or a zone in it"),
    ],
)
def test_an_address_that_no_pod_has_is_left_out_by_name(family, address, why):
    wrong = {**endpoint(2), "addresses": [address]}
    right = endpoint(1, family=family)
    found = find_instances(service(), [slice_of("a", right, wrong, family=family)])
    assert [each.key for each in found.instances] == ["uid-1"]
    assert found.trouble.startswith("the EndpointSlice 'a' has the address '")
    assert why in found.trouble
    assert "\n" not in found.trouble


def test_many_wrong_addresses_are_one_trouble():
    wrong = [{**endpoint(n), "addresses": [f"127.0.0.{n}"]} for n in range(100)]
    found = find_instances(service(), [slice_of("a", *wrong, {"addresses": []})])
    assert (found.instances, found.trouble.count("the EndpointSlice")) == ((), 1)


def test_pods_of_this_machine_count_where_the_api_server_is_on_it():
    here = {**endpoint(1), "addresses": ["127.0.0.1"]}
    found = find_instances(service(), [slice_of("a", here)], loopback=True)
    assert [each.host for each in found.instances] == ["127.0.0.1"]


def test_kubernetes_has_the_last_word_on_its_pods():
    liar = {**endpoint(1, terminating=True), "addresses": ["10.9.9.9"]}
    six = {**endpoint(1, family="IPv6", terminating=True)}
    slices = [
        slice_of("a", liar),
        slice_of("b", endpoint(1), of_kubernetes=True),
        slice_of("c", six, endpoint(2, family="IPv6"), family="IPv6"),
    ]
    found = find_instances(service(), slices)
    assert [(each.host, each.is_terminating) for each in found.instances] == [
        ("10.0.0.1", False),
        ("fd00::2", False),
    ]


def test_a_slice_without_endpoints_needs_no_port():
    empty = slice_of("a", ports=None)
    assert "selector matches none" in find_instances(service(), [empty]).trouble
    assert find_instances(service(), [empty, slice_of("b", endpoint(1))]).trouble == ""


def test_a_ready_instance():
    def has_ready(*endpoints):
        return find_instances(service(), [slice_of("a", *endpoints)]).has_ready

    assert not has_ready()
    assert not has_ready(endpoint(1, ready=False))
    assert not has_ready(endpoint(1, ready=True, terminating=True))
    assert has_ready(endpoint(1, ready=False), endpoint(2))


def test_a_service_that_publishes_pods_that_are_not_ready_is_refused():
    with pytest.raises(ServiceRefused, match="'chat' has publishNotReadyAddresses: true"):
        find_instances(service(publishNotReadyAddresses=True), [slice_of("a", endpoint(1))])


def test_a_service_of_a_name_outside_is_refused():
    with pytest.raises(ServiceRefused, match="ExternalName"):
        find_instances(service(type="ExternalName", externalName="chat.example"), [])


#: Kubernetes makes one for a Service without pods, and may leave it beside those with pods.
WITHOUT_PODS = {**slice_of("a"), "endpoints": None, "ports": None}


def test_a_slice_without_pods_needs_no_port():
    found = find_instances(service(), [WITHOUT_PODS, slice_of("b", endpoint(1))])
    assert (len(found.instances), found.trouble) == (1, "")


@pytest.mark.parametrize("slices", [[], [slice_of("a")], [WITHOUT_PODS]])
def test_a_service_without_pods_says_so(slices):
    assert find_instances(service(), slices) == InstancesFound(
        (), "the Service 'chat' has no pod: its selector matches none"
    )


def test_the_service_of_a_slice():
    assert service_of(slice_of("a")) == "chat"
    assert service_of({"metadata": {"name": "a"}}) == ""
