"""A namespace is kept as its objects say, whatever happens between, and wherever one is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from partway.gateway.cluster.watched_collection import WatchedCollection
from partway.gateway.operator.kept_namespace import PodSettings
from partway.gateway.operator.model_deployments import ModelDataAccess
from partway.gateway.operator.model_faults import model_faults
from partway.gateway.operator.unreachable_pods import UnreachablePods
from tests.gateway.cluster.fake_api_server import failure
from tests.gateway.fleet.statuses import a_variant, an_instance
from tests.gateway.fleet.statuses import an_endpoint as gateway_endpoint
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_cluster import (
    BUDGETS,
    DEPLOYMENTS,
    ENDPOINTS,
    MODELS,
    NOW_SAID,
    PODS,
    REPORTS,
    SERVICES,
    SLICES,
    Keeping,
    PlayedCluster,
    a_model,
    a_report,
    a_running_pod,
    an_endpoint,
    annotated,
    deployed_model,
    gateways_slice,
    kept,
    names_of,
    started_cluster,
    until_reasons,
)
from tests.gateway.operator.a_gateway import Answering, page_of
from tests.gateway.operator.test_gateway_pods import slice_of


async def ready(cluster, *names: str) -> None:
    """Have models of these names, and their pods ready."""
    cluster.add(*(a_model(name) for name in names))
    for name in names:
        await eventually(lambda name=name: cluster.find(*DEPLOYMENTS, name))
        cluster.make_ready(name)
    await until_reasons(cluster, **dict.fromkeys(names, "Ready"))


async def until_message(cluster, words: str) -> None:
    """Wait until the model's message has these words."""
    await eventually(lambda: words in cluster.condition("one").get("message", ""))


async def test_a_model_becomes_a_deployment_and_a_service_of_its_name(cluster):
    async with kept(cluster):
        cluster.add(a_model(), an_endpoint())
        await until_reasons(cluster, one="Progressing", chat="Progressing")
        assert names_of(cluster.all(*DEPLOYMENTS)) == names_of(cluster.all(*SERVICES)) == ["one"]
        cluster.make_ready()
        await until_reasons(cluster, one="Ready", chat="ResourceReady")
    assert cluster.find(*MODELS, "one")["status"] == {
        "primaryCondition": {
            "firstObservedTime": NOW_SAID, "lastUpdateTime": NOW_SAID,
            "message": "DeployedModel is ready", "observedGeneration": 1, "reason": "Ready",
            "resourceName": "one", "type": "DeployedModel",
        }
    }  # fmt: skip
    assert cluster.find(*ENDPOINTS, "chat")["status"] == {
        "conditions": [
            {
                "lastTransitionTime": NOW_SAID, "message": "Endpoint Ready",
                "observedGeneration": 1, "reason": "ResourceReady", "status": "True",
                "type": "EndpointReady",
            }
        ],
        "endpointFQDN": "chat.localhost",
    }  # fmt: skip


async def test_a_model_runs_before_its_endpoint_is_there(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        cluster.add(an_endpoint())
        await until_reasons(cluster, chat="ResourceReady")


async def test_a_pod_that_leaves_is_noticed(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        cluster.add(an_endpoint())
        await until_reasons(cluster, chat="ResourceReady")
        cluster.put(*SLICES, cluster.slice_of("one", False))
        await until_reasons(cluster, one="Progressing", chat="Progressing")
        cluster.put(*SLICES, cluster.slice_of("one", None))
        await until_reasons(cluster, one="Ready", chat="ResourceReady")


async def test_a_pod_that_gateways_do_not_find_does_not_count(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        given = cluster.slice_of("one")
        cluster.put(*SLICES, {**given, "ports": [*given["ports"], {"name": "x", "port": 1}]})
        await until_reasons(cluster, one="Progressing")


async def test_why_a_pod_does_not_start_is_said(cluster):
    async with kept(cluster):
        cluster.add(a_model())
        await eventually(lambda: cluster.find(*DEPLOYMENTS, "one"))
        waiting = {"reason": "ErrImagePull", "message": "not\x07found"}
        labels = {"partway.dev/model": "one"}
        statuses = [{"state": {"waiting": waiting}}]
        pod = {"metadata": {"name": "p", "labels": labels}}
        cluster.put(*PODS, {**pod, "status": {"containerStatuses": statuses}})
        await eventually(
            lambda: (
                cluster.condition("one").get("message")
                == "Its instances are being started: ErrImagePull: not�found"
            )
        )


async def test_another_image_replaces_the_deployment_and_leaves_what_others_decide(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        found = cluster.find(*DEPLOYMENTS, "one")
        spec = {**found["spec"], "replicas": 5, "paused": True}
        notes = {**found["metadata"]["annotations"], "deployment.kubernetes.io/revision": "3"}
        metadata = {**found["metadata"], "annotations": notes}
        cluster.put(*DEPLOYMENTS, {**found, "metadata": metadata, "spec": spec})
        cluster.add(a_model(imageURI="registry.example/echo:2"))
        await eventually(
            lambda: image_of(cluster.find(*DEPLOYMENTS, "one")) == "registry.example/echo:2"
        )
        found = cluster.find(*DEPLOYMENTS, "one")
        assert found["spec"]["replicas"] == 5
        assert "paused" not in found["spec"]
        assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
        await until_reasons(cluster, one="Progressing")
        assert cluster.condition("one")["observedGeneration"] == 2


@pytest.mark.parametrize(
    ("fault", "reason", "words"),
    [
        ((403, "Forbidden", "exceeded quota"), "Refused", "exceeded quota"),
        ((409, "Conflict", "modified"), "Progressing", "about to be changed"),
        ((500, "InternalError", "no leader"), "Progressing", "no leader"),
        ((), "Progressing", "about to be changed: PUT /apis/apps/v1/"),
    ],
)
async def test_a_change_that_is_not_made_is_not_called_ready(cluster, fault, reason, words):
    """A script that waits for the new generation's state would go on with the old version."""

    def refused(asked):
        if asked.method != "PUT" or not asked.path.endswith("/deployments/one"):
            return None
        return failure(*fault) if fault else ConnectionResetError()

    async with kept(cluster):
        await ready(cluster, "one")
        cluster.fault = refused
        cluster.add(a_model(imageURI="registry.example/echo:2"))
        await eventually(lambda: cluster.condition("one").get("observedGeneration") == 2)
        await until_message(cluster, words)
        assert cluster.condition("one")["reason"] == reason
        cluster.fault = lambda _: None
        cluster.put(*SLICES, cluster.slice_of("one"))
        await eventually(lambda: "2" in image_of(cluster.find(*DEPLOYMENTS, "one")))


async def test_a_new_operator_leaves_what_runs(cluster):
    """An upgrade of the operator restarts no model; the next change of a model renews it."""
    model = a_model()
    model["spec"]["modelSpec"]["artifactLocation"] = "s3://bucket/model/"

    def first_image() -> str:
        spec = cluster.find(*DEPLOYMENTS, "one")["spec"]["template"]["spec"]
        return str(spec["initContainers"][0]["image"])

    async with kept(cluster, PodSettings(data=ModelDataAccess("partway:1"))):
        cluster.add(model)
        await until_reasons(cluster, one="Progressing")
        cluster.make_ready()
        await until_reasons(cluster, one="Ready")
    async with kept(cluster, PodSettings(data=ModelDataAccess("partway:2"))):
        cluster.add(a_model("two"))
        await until_reasons(cluster, two="Progressing")
        assert (first_image(), cluster.reasons()["one"]) == ("partway:1", "Ready")
        cluster.add(annotated(model, limits="memory=1Gi"))
        await eventually(lambda: first_image() == "partway:2")


def image_of(deployment):
    return deployment["spec"]["template"]["spec"]["containers"][0]["image"]


async def test_what_was_deleted_is_made_again(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        cluster.remove(*DEPLOYMENTS, "one")
        cluster.remove(*SERVICES, "one")
        await eventually(
            lambda: cluster.find(*DEPLOYMENTS, "one") and cluster.find(*SERVICES, "one")
        )


async def test_a_deleted_model_takes_everything_with_it(cluster):
    async with kept(cluster):
        await ready(cluster, "one", "two")
        cluster.add(an_endpoint("chat", one=50, two=50))
        await until_reasons(cluster, chat="ResourceReady")
        cluster.remove(*MODELS, "one")
        await eventually(
            lambda: (
                "There is no DeployedModel one" in cluster.condition("chat", ENDPOINTS)["message"]
            )
        )
        assert names_of(cluster.all(*DEPLOYMENTS)) == names_of(cluster.all(*SERVICES)) == ["two"]
        assert cluster.condition("chat", ENDPOINTS)["status"] == "True"
        cluster.remove(*MODELS, "two")
        await until_reasons(cluster, chat="DestinationNotFound")


async def test_a_model_that_is_being_deleted_gets_nothing(cluster):
    model = a_model()
    model["metadata"]["deletionTimestamp"] = NOW_SAID
    async with kept(cluster):
        cluster.add(model, a_model("two"))
        await eventually(lambda: cluster.find(*DEPLOYMENTS, "two"))
    assert names_of(cluster.all(*DEPLOYMENTS)) == ["two"]


@pytest.mark.parametrize(
    ("release", "policy", "lifecycle"),
    [
        (("1", "30+"), "policy/v1", {"preStop": {"sleep": {"seconds": 2}}}),
        (("1", "29"), "policy/v1beta1", None),
    ],
)
async def test_what_a_version_of_kubernetes_has_is_used(cluster, release, policy, lifecycle):
    budgets = (policy, BUDGETS[1])
    cluster.release = release
    cluster.all(*budgets)
    async with kept(cluster):
        cluster.add(a_model())
        await eventually(lambda: cluster.find(*DEPLOYMENTS, "one"))
    spec = cluster.find(*DEPLOYMENTS, "one")["spec"]["template"]["spec"]
    assert spec["containers"][0].get("lifecycle") == lifecycle
    assert names_of(cluster.all(*budgets)) == ["one"]


# --- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Service", "Deployment"])
async def test_a_name_that_another_has_taken(cluster, kind):
    where = SERVICES if kind == "Service" else DEPLOYMENTS
    theirs = {"metadata": {"name": "one"}, "spec": {"replicas": 0}}
    cluster.put(*where, theirs)
    async with kept(cluster):
        cluster.add(a_model(), an_endpoint())
        await until_reasons(cluster, one="Refused", chat="Refused")
        assert cluster.condition("one")["message"] == (
            f"there is a {kind} one that the operator did not make; delete it, or give the "
            "DeployedModel another name"
        )
        assert cluster.find(*where, "one")["spec"] == {"replicas": 0}
        cluster.remove(*where, "one")
        await eventually(lambda: cluster.find(*DEPLOYMENTS, "one"))
        cluster.make_ready()
        await until_reasons(cluster, one="Ready", chat="ResourceReady")


async def test_what_an_earlier_model_of_the_name_has_left_is_waited_for(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        cluster.all(*MODELS).pop(("default", "one"))
        again = a_model()
        again["metadata"]["uid"] = "another"
        cluster.add(again)
        await until_reasons(cluster, one="Refused")
        assert "belongs to an earlier DeployedModel" in cluster.condition("one")["message"]
        for kind in (DEPLOYMENTS, SERVICES, BUDGETS):
            cluster.remove(*kind, "one")
        await until_reasons(cluster, one="Progressing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"command": ["sh"]}, "spec.modelSpec.modelContainerSpec.command: not supported: callers"),
        ({"ports": [80]}, "spec.modelSpec.modelContainerSpec.ports[0]: 80 was given"),
        ({"env": [{"name": "SAGEMAKER_BIND_TO_PORT"}]}, "which only the operator sets"),
        ({"env": [{"name": "AIP_HEALTH_ROUTE"}]}, "containers of Vertex AI do not run"),
        ({"env": [{"name": "A"}, {"name": "A"}]}, "a variable is given twice"),
    ],
)
async def test_a_model_that_cannot_be_honoured(cluster, change, message):
    async with kept(cluster):
        cluster.add(a_model(**change))
        await until_reasons(cluster, one="Refused")
        assert message in cluster.condition("one")["message"]
        assert not cluster.all(*DEPLOYMENTS)
        cluster.add(a_model())
        await until_reasons(cluster, one="Progressing")


async def test_a_wrong_change_leaves_what_runs(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        cluster.add(an_endpoint())
        await until_reasons(cluster, chat="ResourceReady")
        cluster.add(annotated(a_model(), gpus="1"))
        await until_reasons(cluster, one="Refused")
        refused = "There is no DeployedModel one with the endpointPath endpoints/chat, or it is"
        await eventually(lambda: refused in cluster.condition("chat", ENDPOINTS)["message"])
        assert cluster.condition("chat", ENDPOINTS)["status"] == "True"
        said = cluster.condition("one")
        assert said["message"].startswith("metadata.annotations.partway.dev/gpus: unknown; there")
        assert image_of(cluster.find(*DEPLOYMENTS, "one")) == "registry.example/echo:1"
        cluster.put(*SLICES, cluster.slice_of("one", False))
        await until_reasons(cluster, chat="DestinationNotFound")


async def test_shares_that_are_not_the_whole(cluster):
    async with kept(cluster):
        cluster.add(an_endpoint("chat", one=50, two=40))
        await until_reasons(cluster, chat="Refused")
        assert "is 90 together; it must be 100" in cluster.condition("chat", ENDPOINTS)["message"]


async def test_two_endpoints_of_one_name(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        cluster.add(an_endpoint())
        await until_reasons(cluster, chat="ResourceReady")
        other = an_endpoint("zebra")
        other["spec"]["id"] = "chat"
        cluster.add(other)
        await until_reasons(cluster, zebra="Refused", chat="ResourceReady")
        assert cluster.condition("zebra", ENDPOINTS)["message"] == (
            "the endpoint chat belongs to the Endpoint chat, which is older"
        )
        cluster.remove(*ENDPOINTS, "chat")
        await until_reasons(cluster, zebra="ResourceReady")


async def test_a_status_of_another_hand_is_replaced(cluster):
    model = {**a_model(), "status": {"primaryCondition": {"reason": "Ready"}, "conditions": [1, 2]}}
    async with kept(cluster):
        cluster.add(model)
        await until_reasons(cluster, one="Progressing")


@pytest.mark.parametrize("status", [422, 403])
async def test_what_the_server_refuses_is_said(cluster, status):
    """A 403 comes from admission webhooks and quotas, too."""

    def fault(asked):
        is_ours = (asked.method, asked.path.rpartition("/")[2]) == ("POST", "deployments")
        return failure(status, "Invalid", "the name is too long") if is_ours else None

    cluster.fault = fault
    async with kept(cluster):
        cluster.add(a_model())
        await until_reasons(cluster, one="Refused")
        assert "the name is too long" in cluster.condition("one")["message"]


@pytest.mark.parametrize(
    ("place", "is_allowed"),
    [
        ("s3://models/chat/3", True),
        ("s3://models/chat", True),
        ("s3://models/chat.tar.gz", False),
        ("s3://models/chatty/3", False),
        ("s3://models/chat/../secrets", False),
        ("s3://models//chat", False),
        ("s3://models/chat/$(AWS_SECRET_ACCESS_KEY)", False),
        ("s3://other/chat", False),
        ("/data/chat", False),
    ],
)
def test_model_data_come_from_the_roots_alone(place, is_allowed):
    model = a_model()
    model["spec"]["modelSpec"]["artifactLocation"] = place
    data = ModelDataAccess("image", roots=("s3://models/chat/", "s3://voices"))
    said = list(model_faults(deployed_model(model), data))
    assert [each["field"] for each in said] == (
        [] if is_allowed else ["spec.modelSpec.artifactLocation"]
    )
    if place == "s3://other/chat":
        assert said[0]["message"] == (
            "'s3://other/chat' was given; the operator allows places below s3://models/chat/, "
            "s3://voices alone"
        )


async def test_model_data_needs_an_image(cluster):
    model = a_model()
    model["spec"]["modelSpec"]["artifactLocation"] = "s3://bucket/model/"
    async with kept(cluster):
        cluster.add(model)
        await until_reasons(cluster, one="Refused")
        assert "set its --image" in cluster.condition("one")["message"]
    async with kept(cluster, PodSettings(data=ModelDataAccess("partway:1"))):
        await until_reasons(cluster, one="Progressing")


# --- Conflicts, faults and kills -----------------------------------------------------------------


THEIRS = {"primaryCondition": {"firstObservedTime": "t", "lastUpdateTime": "t", "reason": "Theirs"}}


@pytest.mark.parametrize("when", ["before its event", "after its event"])
async def test_a_status_that_conflicts_is_written_again(cluster, when):
    """Another one writes the status between our look and our write; nothing else changes."""
    changed = []

    def version() -> str:
        (copy,) = (each for each in keeping.kept.copies if each.collection.plural == MODELS[1])
        (found,) = copy.objects.values()
        return found["metadata"]["resourceVersion"]

    async def fault(asked):
        if not asked.path.endswith("/status") or changed:
            return
        found = cluster.find(*MODELS, "one")
        cluster.hold_events = when == "before its event"
        changed.append(cluster.put(*MODELS, {**found, "status": THEIRS})["metadata"])
        if when == "after its event":
            await eventually(lambda: version() == changed[0]["resourceVersion"])

    cluster.add(a_model())
    async with kept(cluster) as keeping:
        await eventually(lambda: cluster.find(*DEPLOYMENTS, "one"))
        await until_reasons(cluster, one="Progressing")
        cluster.make_ready()
        await until_reasons(cluster, one="Ready")
        cluster.fault = fault
        cluster.put(*SLICES, cluster.slice_of("one", False))  # nothing else has it looked at
        if when == "before its event":
            await eventually(lambda: changed and cluster.answered == len(cluster.asked))
            cluster.release_events()
        await until_reasons(cluster, one="Progressing")


async def test_what_exists_though_its_event_has_not_come(cluster, monkeypatch, caplog):
    """The answers to all creations are lost, and so is what the watch would tell."""
    monkeypatch.setattr("partway.gateway.apis.kubernetes.controller.RETRY_INTERVAL", 0.05)
    lost = []

    def after(asked):
        if asked.method != "POST" or str(asked) in lost:
            return None
        lost.append(str(asked))
        return ConnectionResetError()

    cluster.after = after
    cluster.add(a_model())
    async with kept(cluster) as keeping:
        await eventually(lambda: keeping.kept.copies)
        for copy in keeping.kept.copies:
            await soon(copy.listed.wait())
        cluster.hold_events = True
        await eventually(lambda: len(lost) == 3 and cluster.writes().count(lost[2]) == 2)
        cluster.release_events()
        await until_message(cluster, "Its instances are being started")
    assert caplog.text.count("a custom resource could not be applied") == len(lost)


@pytest.mark.parametrize("fault", [failure(500, "InternalError"), ConnectionResetError()])
async def test_the_api_server_away(cluster, fault, monkeypatch):
    monkeypatch.setattr("partway.gateway.apis.kubernetes.controller.RETRY_INTERVAL", 0.05)
    failed = []

    def once_each(asked):
        if asked.method == "GET" or str(asked) in failed:
            return None
        failed.append(str(asked))
        return fault if isinstance(fault, Exception) else failure(500, "InternalError")

    cluster.fault = once_each
    async with kept(cluster):
        await ready(cluster, "one")
    assert len(failed) == 4  # the three creations, and the status


async def life(cluster) -> None:
    """A change of each kind, and what the cluster's other controllers do meanwhile."""
    cluster.add(a_model(), a_model("bad", ports=[1]), an_endpoint())
    await until_reasons(cluster, one="Progressing", chat="Progressing", bad="Refused")
    cluster.make_ready()
    await until_reasons(cluster, one="Ready", chat="ResourceReady")
    cluster.add(annotated(a_model(), limits="nvidia.com/gpu=1"))
    await until_reasons(cluster, one="Progressing")
    cluster.make_ready()
    await until_reasons(cluster, one="Ready")
    cluster.remove(*MODELS, "one")
    await until_reasons(cluster, chat="DestinationNotFound")


async def test_pods_with_streams_are_spared(cluster):
    gateway = Answering()
    await gateway.start()
    pods = a_variant(an_instance("chat-one-pod-uid-of-p", streams=1), name="one")
    gateway.answer = {"body": page_of(gateway_endpoint("chat", pods))}
    given = slice_of("gateways", g={})
    at = {**given["endpoints"][0], "addresses": [gateway.gateway().host]}
    cluster.put(*SLICES, {**given, "endpoints": [at], "ports": [{"port": gateway.port}]})
    labels = {"partway.dev/model": "one"}
    cluster.put(*PODS, {"metadata": {"name": "pod", "uid": "uid-of-pod", "labels": labels}})
    try:
        async with kept(cluster, PodSettings(gateways="gateways")) as keeping:
            await eventually(lambda: "annotations" in cluster.find(*PODS, "pod")["metadata"])
            assert keeping.kept.silent_gateways == 0
    finally:
        await gateway.aclose()


class Killer:
    """Kills the process that keeps the namespace at its nth write, before or after it is made."""

    def __init__(self, cluster: PlayedCluster, number: int, *, made: bool) -> None:
        self._cluster, self._number = cluster, number
        self._count = 0
        self._killed = asyncio.Event()
        self._keeping = Keeping(cluster)
        if made:
            cluster.after = self._look
        else:
            cluster.fault = self._look
        self._watching = asyncio.create_task(self._begin_again())

    def _look(self, asked):
        if asked.method != "GET":
            self._count += 1
        if self._count >= self._number:
            self._killed.set()
        return ConnectionResetError() if self._killed.is_set() else None

    async def _begin_again(self) -> None:
        await self._killed.wait()
        await self._keeping.end()
        self._cluster.fault = self._cluster.after = lambda _: None
        self._keeping = Keeping(self._cluster)

    async def aclose(self) -> None:
        await soon(self._watching)
        await self._keeping.end()


async def test_killed_at_every_write_it_ends_the_same(anyio_backend, no_leaks):
    async with started_cluster() as cluster, kept(cluster):
        await life(cluster)
        expected, writes = cluster.made(), cluster.writes()
    assert len(writes) >= 10, writes
    for number in range(1, len(writes) + 1):
        for made in (False, True):
            async with started_cluster() as cluster:
                killer = Killer(cluster, number, made=made)
                await life(cluster)
                await killer.aclose()
                assert cluster.made() == expected, f"killed at {writes[number - 1]}"


def followed(keeping: Keeping) -> Mapping[str, WatchedCollection]:
    return {each.collection.plural: each for each in keeping.kept.copies}


async def test_pods_that_gateways_cannot_reach(cluster):
    """Reports, gateways and pods are seen in any order."""
    async with kept(cluster, PodSettings(gateways="gateways")) as keeping:
        await eventually(lambda: "unreachablepods" in followed(keeping))
        for each in keeping.kept.copies:
            await soon(each.listed.wait())
        cluster.put(*SLICES, gateways_slice("g", "h"))
        for gateway in ("g", "h"):
            cluster.put(*REPORTS, a_report("a", gateway))
        await eventually(lambda: len(followed(keeping)["unreachablepods"].objects) == 2)
        cluster.put(*PODS, a_running_pod("a"))
        await eventually(lambda: not cluster.all(*PODS))


async def test_annotations_of_a_pod_are_no_news(cluster, monkeypatch):
    looks = []
    monkeypatch.setattr(UnreachablePods, "look", lambda self: looks.append(self))

    async with kept(cluster, PodSettings(gateways="gateways")) as keeping:
        await eventually(lambda: "unreachablepods" in followed(keeping))

        async def looks_after(pod) -> int:
            looks.clear()
            version = cluster.put(*PODS, pod)["metadata"]["resourceVersion"]
            pods = followed(keeping)["pods"].objects
            await eventually(
                lambda: [each["metadata"]["resourceVersion"] for each in pods.values()] == [version]
            )
            return len(looks)

        pod = a_running_pod("a")
        metadata = {**pod["metadata"], "managedFields": ["x"], "annotations": {"x": "y"}}
        assert await looks_after(pod) == 1
        assert await looks_after({**pod, "metadata": metadata}) == 0
        metadata["labels"] |= {"partway.dev/unreachable": "true"}
        assert await looks_after({**pod, "metadata": metadata}) == 1
        assert await looks_after({**pod, "metadata": metadata, "status": {}}) == 1


async def test_without_the_gateways_service_no_report_is_read(cluster):
    async with kept(cluster):
        await ready(cluster, "one")
        assert not [each for each in cluster.asked if "unreachablepods" in each.path]
