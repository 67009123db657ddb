"""What kubectl asks for, and what it is answered: paths, bodies, statuses, exact JSON."""

from __future__ import annotations

import asyncio
import copy
import json

import pytest

from partway.gateway.apis.control.resources import maker_of
from partway.gateway.quota import Quota, QuotaLimits
from tests.gateway.apis.control.kept_endpoints import PATIENCE
from tests.gateway.apis.kubernetes.served import (
    APPLY,
    CBOR_APPLY,
    ENDPOINTS,
    JSON,
    MERGE,
    MODELS,
    PATCH,
    STRATEGIC,
    TABLE,
    THEN_SAID,
    KubernetesGateway,
    a_destination,
    a_model,
    an_endpoint,
)
from tests.gateway.fleet.fakes import turns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

ONE = f"{MODELS}/my-tf-model"
MINE = f"{ENDPOINTS}/mine"


def failure(code, reason, message, **details):
    """A Status as Kubernetes' clients read it."""
    said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    said |= {"message": message, "reason": reason}
    if details:
        said["details"] = details
    return code, {**said, "code": code}


def about(plural="deployedmodels", name="my-tf-model"):
    group = "aiplatform.gdc.goog" if plural == "endpoints" else "prediction.aiplatform.gdc.goog"
    return {"name": name, "group": group, "kind": plural}


# --- The documented status -----------------------------------------------------------------------


async def test_a_deployed_model_and_its_endpoint_say_what_the_documents_show(gateway):
    await gateway.deploy()
    model, endpoint = await gateway.get(ONE), await gateway.get(MINE)
    assert list(model["status"]["primaryCondition"].items()) == [
        ("firstObservedTime", THEN_SAID),
        ("lastUpdateTime", THEN_SAID),
        ("message", "DeployedModel is ready"),
        ("observedGeneration", 1),
        ("reason", "Ready"),
        ("resourceName", "my-tf-model"),
        ("type", "DeployedModel"),
    ]
    (condition,) = endpoint["status"]["conditions"]
    assert list(condition.items()) == [
        ("lastTransitionTime", THEN_SAID),
        ("message", "Endpoint Ready"),
        ("observedGeneration", 1),
        ("reason", "ResourceReady"),
        ("status", "True"),
        ("type", "EndpointReady"),
    ]
    assert endpoint["status"]["endpointFQDN"] == "mine.localhost"


async def test_what_is_made_is_answered_whole(gateway):
    body = a_model()
    body["metadata"] |= {"labels": {"app": "chat"}, "annotations": {"a": "b"}}
    status, said = await gateway.ask("POST", f"{MODELS}?fieldManager=me", body)
    metadata = said["metadata"]
    assert status == 201
    assert said == {
        "apiVersion": "prediction.aiplatform.gdc.goog/v1",
        "kind": "DeployedModel",
        "metadata": {
            "annotations": {"a": "b"},
            "creationTimestamp": THEN_SAID,
            "generation": 1,
            "labels": {"app": "chat"},
            "name": "my-tf-model",
            "namespace": "default",
            "resourceVersion": metadata["resourceVersion"],
            "uid": metadata["uid"],
        },
        "spec": body["spec"],
    }


# --- Finding -------------------------------------------------------------------------------------


async def test_discovery_names_what_there_is(gateway):
    groups = await gateway.get("/kubernetes/apis")
    assert [each["name"] for each in groups["groups"]] == [
        "prediction.aiplatform.gdc.goog",
        "aiplatform.gdc.goog",
    ]
    for group in groups["groups"]:
        (version,) = group["versions"]
        resources = await gateway.get(f"/kubernetes/apis/{version['groupVersion']}")
        (resource,) = resources["resources"]
        assert resource["namespaced"] is True
        assert {"get", "list", "watch", "create", "patch", "delete"} <= set(resource["verbs"])
        paths = (await gateway.get("/kubernetes/openapi/v3"))["paths"]
        schema = await gateway.get(paths[f"apis/{version['groupVersion']}"]["serverRelativeURL"])
        assert any(each.endswith(resource["kind"]) for each in schema["components"]["schemas"])
    assert (await gateway.get("/kubernetes/api"))["versions"] == []
    assert (await gateway.get("/kubernetes/version"))["major"] == "1"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/kubernetes"),
        ("GET", "/kubernetes/api/v1/namespaces/default/pods"),
        ("GET", "/kubernetes/apis/prediction.aiplatform.gdc.goog/v1/namespaces/default/endpoints"),
        ("POST", "/kubernetes/apis/apps/v1/namespaces/default/deployments"),
        ("DELETE", MODELS),
    ],
)
async def test_what_is_not_there_is_a_status(gateway, method, path):
    body = {} if method == "POST" else None
    assert await gateway.ask(method, path, body) == failure(
        404, "NotFound", "the server could not find the requested resource"
    )


async def test_lists_are_in_order_and_of_a_namespace_or_all(gateway):
    elsewhere = MODELS.replace("default", "other")
    await gateway.make(a_model("b"), a_model("a"))
    assert (await gateway.ask("POST", elsewhere, a_model("c")))[0] == 201
    everywhere = MODELS.replace("/namespaces/default", "")
    for path, names in [(MODELS, ["a", "b"]), (elsewhere, ["c"]), (everywhere, ["a", "b", "c"])]:
        said = await gateway.get(path)
        assert said["kind"] == "DeployedModelList"
        assert [each["metadata"]["name"] for each in said["items"]] == names
    said = await gateway.get(f"{MODELS}?fieldSelector=metadata.name%3Db")
    assert [each["metadata"]["name"] for each in said["items"]] == ["b"]


async def test_kubectl_get_prints_columns(gateway):
    await gateway.deploy()
    status, said = await gateway.ask("GET", MINE, accept=TABLE)
    assert (status, said["kind"], said["apiVersion"]) == (200, "Table", "meta.k8s.io/v1")
    columns = [each["name"] for each in said["columnDefinitions"]]
    assert columns == ["Name", "Endpoint", "Ready", "Reason", "Age"]
    (row,) = said["rows"]
    assert row["cells"] == ["mine", "mine", "True", "ResourceReady", "0s"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    status, said = await gateway.ask("GET", f"{ENDPOINTS}?includeObject=None", accept=TABLE)
    assert [each["cells"][0] for each in said["rows"]] == ["mine"]
    assert "object" not in said["rows"][0]
    status, said = await gateway.ask("GET", MINE, accept="application/yaml")
    assert (status, said["reason"]) == (406, "NotAcceptable")


# --- Changing ------------------------------------------------------------------------------------


async def test_a_conflict_of_each_kind(gateway):
    made = await gateway.make(a_model())
    named = 'deployedmodels.prediction.aiplatform.gdc.goog "my-tf-model"'
    assert await gateway.ask("POST", MODELS, a_model()) == failure(
        409, "AlreadyExists", f"{named} already exists", **about()
    )
    assert await gateway.ask("GET", f"{MODELS}/none") == failure(
        404,
        "NotFound",
        'deployedmodels.prediction.aiplatform.gdc.goog "none" not found',
        **about(name="none"),
    )
    stale = copy.deepcopy(made)
    stale["metadata"]["resourceVersion"] = "1"
    status, said = await gateway.ask("PUT", ONE, stale)
    assert (status, said["reason"]) == (409, "Conflict")
    assert "the object has been modified" in said["message"]
    options = {"preconditions": {"uid": "another"}}
    status, said = await gateway.ask("DELETE", ONE, options)
    assert (status, said["reason"]) == (409, "Conflict")
    status, said = await gateway.ask("PATCH", ONE, {"metadata": {"uid": "another"}}, MERGE)
    assert (status, said["reason"]) == (409, "Conflict")


async def test_a_patch_changes_what_it_says_and_nothing_else(gateway):
    made = await gateway.make(a_model())
    _, labelled = await gateway.ask("PATCH", ONE, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert labelled["metadata"]["labels"] == {"a": "b"}
    assert labelled["metadata"]["generation"] == 1
    assert labelled["spec"] == made["spec"]
    patch = {"metadata": {"labels": {"a": None}}, "spec": {"modelSpec": {"id": "x"}}}
    _, patched = await gateway.ask("PATCH", ONE, patch, MERGE)
    assert "labels" not in patched["metadata"]
    assert (patched["spec"]["modelSpec"]["id"], patched["metadata"]["generation"]) == ("x", 2)
    await turns(100)  # its status is noted by then, which is a change of its own
    before = await gateway.get(ONE)
    _, same = await gateway.ask("PATCH", ONE, {"spec": {"modelSpec": {"id": "x"}}}, MERGE)
    assert same == before


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize(
    ("content_type", "body", "words"),
    [
        (
            PATCH,
            [{"op": "add", "path": "/spec/modelSpec/id", "value": "x"}],
            f"use kubectl patch --type=merge ({MERGE})",
        ),
        (APPLY, a_model(image="chat"), "use kubectl apply without --server-side"),
        (APPLY, b"spec: {}", "use kubectl apply without --server-side"),
        (CBOR_APPLY, b"\xa0", "use kubectl apply without --server-side"),
        (STRATEGIC, {"spec": {"modelSpec": {"id": "x"}}}, f"types include: {MERGE}; Content-Type"),
    ],
)
async def test_a_patch_of_another_type_is_refused_and_changes_nothing(
    gateway, is_there, content_type, body, words
):
    if is_there:
        await gateway.make(a_model())
    path = f"{ONE}?fieldManager=me&force=true"
    for each in (content_type, f"{content_type.upper()}; charset=utf-8"):
        status, said = await gateway.ask("PATCH", path, body, each)
        assert (status, said) == failure(415, "UnsupportedMediaType", said["message"])
        assert words in said["message"]
    status, now = await gateway.ask("GET", ONE)
    assert (status, now.get("spec")) == ((200, a_model()["spec"]) if is_there else (404, None))


async def test_a_status_is_there_to_be_read_alone(gateway):
    """Who writes it means nothing of the spec, and who deletes it not the object."""
    made = await gateway.make(a_model())
    assert (await gateway.get(f"{ONE}/status"))["spec"] == made["spec"]
    other = a_model(image="chat")
    for asked in (("PUT", other), ("PATCH", other, MERGE), ("PATCH", other, APPLY), ("DELETE",)):
        method, *body = asked
        status, said = await gateway.ask(method, f"{ONE}/status?fieldManager=me", *body)
        assert (status, said["reason"]) == (404, "NotFound")
    now = await gateway.get(ONE)
    assert (now["spec"], "deletionTimestamp" in now["metadata"]) == (made["spec"], False)


async def test_what_a_client_has_left_behind_is_seen_as_it_is_written(gateway, monkeypatch):
    """Written down and not seen, it would be there after a restart, and its version twice."""
    write, go_on = gateway.store.write, asyncio.Event()

    async def slowly(*changes):
        await write(*changes)  # a disk does it, whoever has left
        await go_on.wait()

    monkeypatch.setattr(gateway.store, "write", slowly)
    for asked in (("POST", MODELS, a_model()), ("DELETE", ONE)):
        go_on.clear()
        serving = asyncio.create_task(gateway.serve(gateway.exchange(*asked)))
        await turns(200)
        serving.cancel()
        await asyncio.wait((serving,))
        go_on.set()
        await turns(200)
        monkeypatch.setattr(gateway.store, "write", write)
        status, _ = await gateway.ask("GET", ONE)
        assert status == (200 if asked[0] == "POST" else 404)
        monkeypatch.setattr(gateway.store, "write", slowly)
    go_on.set()


async def test_managed_fields_of_clients_are_taken_and_not_kept(gateway):
    """An object that kubectl has written to a file may have them."""
    fields = [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]
    body = a_model()
    body["metadata"]["managedFields"] = fields
    status, made = await gateway.ask("POST", f"{MODELS}?fieldManager=me", body)
    assert (status, "managedFields" in made["metadata"]) == (201, False)
    await turns(100)  # its status is noted by then, which is a change of its own
    before = await gateway.get(ONE)
    for method, change, kind in (
        ("PUT", body, JSON),
        ("PATCH", {"metadata": {"managedFields": fields}}, MERGE),
        ("PATCH", {"metadata": {"managedFields": [{}]}}, MERGE),
    ):
        answer = await gateway.ask(method, f"{ONE}?fieldManager=another", change, kind)
        assert answer == (200, before)


async def test_a_dry_run_changes_nothing(gateway):
    status, said = await gateway.ask("POST", f"{MODELS}?dryRun=All", a_model())
    assert (status, said["spec"]) == (201, a_model()["spec"])
    assert (await gateway.ask("GET", ONE))[0] == 404
    await gateway.make(a_model())
    assert (await gateway.ask("DELETE", ONE, {"dryRun": ["All"]}))[0] == 200
    assert "deletionTimestamp" not in (await gateway.get(ONE))["metadata"]
    status, said = await gateway.ask("POST", f"{MODELS}?dryRun=Some", a_model("other"))
    assert (status, said["message"]) == (400, "dryRun must be All, or left out")


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ({"imageUri": "x"}, "imageUri", "unknown field"),
        ({"command": ["sh"]}, "command", "may not choose a command"),
        ({"args": ["-c"]}, "args", "may not choose arguments"),
        ({"ports": [80]}, "ports[0]", "80 was given; it must be at least 8080"),
        ({"env": [{"value": "x"}]}, "env[0].name", "must be given"),
        ({"imageURI": 7}, "imageURI", "must be of type string, not int"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(gateway, change, path, said):
    status, answer = await gateway.ask("POST", MODELS, a_model(**change))
    field = f"spec.modelSpec.modelContainerSpec.{path}"
    (cause,) = answer["details"]["causes"]
    assert (status, answer["reason"], cause["field"]) == (422, "Invalid", field)
    assert said in cause["message"]
    assert field in answer["message"]
    assert (await gateway.ask("GET", ONE))[0] == 404


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (a_model(image="no image"), "at 'primaryContainer.image'"),
        (a_model(image="partway://command"), "it must be an image's name"),
        ({**a_model(), "extra": 1}, "'extra': unknown field"),
        (a_model("Upper"), "metadata.name: must be 1 to 63 characters"),
        (a_model(endpoint="Upper"), "spec.endpointPath: 'endpoints/Upper' must be endpoints/"),
        (
            {**a_model(), "metadata": {"name": "a", "finalizers": ["x"]}},
            "metadata.finalizers: not supported",
        ),
        (
            {**a_model(), "metadata": {"generateName": "a-"}},
            "metadata.generateName: not supported",
        ),
        ({**a_model(), "metadata": {"name": "a", "labels": {"a": 1}}}, "metadata.labels.a"),
    ],
)
async def test_what_is_wrong_with_an_object_is_said(gateway, body, said):
    status, answer = await gateway.ask("POST", MODELS, body)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert said in answer["message"]


@pytest.mark.parametrize(
    ("destinations", "said"),
    [
        ([], "spec.destinations: 0 items were given; there must be at least 1"),
        ([a_destination(share=50)], "is 50 together; it must be 100"),
        ([a_destination(share=50), a_destination(share=50)], "must be in one destination only"),
        ([{"serviceRef": {"kind": "Service", "name": "a"}}], "kind: 'Service' must be"),
        (
            [{"serviceRef": {"kind": "DeployedModel", "name": "a", "namespace": "b"}}],
            "serviceRef.namespace: must be the Endpoint's own namespace, default",
        ),
    ],
)
async def test_traffic_that_cannot_be_sent_is_refused(gateway, destinations, said):
    body = an_endpoint()
    body["spec"]["destinations"] = destinations
    status, answer = await gateway.ask("POST", ENDPOINTS, body)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert said in answer["message"]


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"apiVersion: v1", "application/yaml", 415),
        (b"[" * 40 + b"]" * 40, "application/json", 400),
        (json.dumps({**a_model(), "kind": "Pod"}).encode(), "application/json", 400),
        (json.dumps({**a_model(), "metadata": 3}).encode(), "application/json", 400),
    ],
)
async def test_a_body_that_is_no_object_is_refused(gateway, body, content_type, code):
    status, said = await gateway.ask("POST", MODELS, body, content_type)
    assert (status, said["kind"], said["code"]) == (code, "Status", code)


async def test_an_object_has_a_bound(gateway):
    body = a_model()
    body["metadata"]["annotations"] = {"a": "x" * 140_000}
    status, said = await gateway.ask("POST", MODELS, body)
    assert status == 422
    assert "it must have at most 131072" in said["message"]


# --- Who may -------------------------------------------------------------------------------------

TOKEN = "a-token-of-somebody-here"


@pytest.fixture
async def asked_for_names(tmp_path, anyio_backend):
    """A gateway that asks who asks."""
    file = tmp_path / "principals.toml"
    file.write_text(
        f"""
[[principals]]
name = "reader"
actions = ["sagemaker:Describe*", "sagemaker:List*"]
tokens = ["{TOKEN}-reads"]
[[principals]]
name = "deployer"
actions = ["sagemaker:Describe*", "sagemaker:CreateModel", "sagemaker:CreateEndpoint*"]
tokens = ["{TOKEN}-deploys"]
[[principals]]
name = "lister"
actions = ["sagemaker:List*"]
tokens = ["{TOKEN}-lists"]
[[principals]]
name = "stranger"
actions = ["sagemaker:DescribeEndpoint", "sagemaker:CreateModel", "sagemaker:CreateEndpoint*"]
tokens = ["{TOKEN}-strange"]
[[principals]]
name = "owner"
actions = ["sagemaker:*", "s3:GetObject"]
resources = ["arn:aws:sagemaker:*:*:*", "arn:aws:s3:::hers/*"]
tokens = ["{TOKEN}-owns"]
"""
    )
    file.chmod(0o600)
    gateway = await KubernetesGateway(principals=file).start()
    yield gateway
    await gateway.aclose()


async def test_who_may_do_what_is_in_iams_words(asked_for_names):
    gateway = asked_for_names

    async def code(method, path, body=None, token=""):
        headers = {"authorization": f"Bearer {TOKEN}{token}"} if token else {}
        status, said = await gateway.ask(method, path, body, **headers)
        return status, said.get("reason")

    assert await code("GET", "/kubernetes/apis") == (200, None)
    assert await code("GET", MODELS) == (401, "Unauthorized")
    assert await code("GET", MODELS, token="-nobodys") == (401, "Unauthorized")
    assert await code("GET", MODELS, token="-reads") == (200, None)
    assert await code("POST", MODELS, a_model(), "-reads") == (403, "Forbidden")
    assert await code("POST", MODELS, a_model(), "-deploys") == (201, None)
    assert await code("POST", ENDPOINTS, an_endpoint(), "-deploys") == (201, None)
    assert await code("GET", MODELS, token="-deploys") == (403, "Forbidden")
    assert await code("DELETE", MINE, None, "-deploys") == (403, "Forbidden")
    assert await code("GET", MINE, None, "-reads") == (200, None)


def a_model_of_data(place, **container):
    body = a_model(**container)
    body["spec"]["modelSpec"]["artifactLocation"] = place
    return body


async def asked_by(gateway, who, method, path, body=None):
    """Status and message of a request by a principal's token."""
    form = MERGE if method == "PATCH" else JSON
    token = f"Bearer {TOKEN}-{who}"
    status, said = await gateway.ask(method, path, body, form, authorization=token)
    return status, said.get("message", "")


async def test_who_makes_a_model_must_have_leave_to_read_its_data(asked_for_names):
    gateway = asked_for_names
    for place, resource in (
        ("s3://others/m.tar.gz", "others/m.tar.gz"),
        ("s3://others/p", "others/p/*"),
    ):
        for who in ("owns", "deploys"):
            asked = await asked_by(gateway, who, "POST", MODELS, a_model_of_data(place))
            assert asked[0] == 403
            assert f"s3:GetObject on resource: arn:aws:s3:::{resource}" in asked[1]
    hers = a_model_of_data("s3://hers/m.tar.gz")
    assert (await asked_by(gateway, "owns", "POST", MODELS, hers))[0] == 201
    # A change of the spec takes leave for the data, and a change of labels does not.
    spec = a_model_of_data("s3://hers/m.tar.gz", env=[{"name": "A", "value": "1"}])["spec"]
    assert (await asked_by(gateway, "deploys", "PATCH", ONE, {"spec": spec}))[0] == 403
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await asked_by(gateway, "deploys", "PATCH", ONE, labels))[0] == 200
    assert (await asked_by(gateway, "owns", "POST", ENDPOINTS, an_endpoint()))[0] == 201
    async with asyncio.timeout(PATIENCE):
        while gateway.of.model_data.makers != ["owner"]:
            await turns(1)
    model = gateway.resources.find("model", "my-tf-model")
    assert maker_of(model.kept) == "owner"


async def test_an_endpoint_of_a_model_that_its_maker_may_not_describe(asked_for_names):
    gateway = asked_for_names
    denied = "sagemaker:DescribeModel on resource: arn:aws:sagemaker:us-east-1:000000000000:model/"
    assert (await asked_by(gateway, "deploys", "POST", MODELS, a_model()))[0] == 201
    for named in ("my-tf-model", "there-is-none"):
        body = an_endpoint("mine", a_destination(named))
        status, message = await asked_by(gateway, "strange", "POST", ENDPOINTS, body)
        assert (status, f"{denied}{named}" in message) == (403, True)
    # One whose path leads to the endpoint is run too, be it named or not.
    other = a_model("other-model", "elsewhere")
    assert (await asked_by(gateway, "deploys", "POST", MODELS, other))[0] == 201
    body = an_endpoint("elsewhere", a_destination("my-own"))
    status, message = await asked_by(gateway, "strange", "POST", ENDPOINTS, body)
    assert (status, denied in message) == (403, True)
    assert (await asked_by(gateway, "deploys", "POST", ENDPOINTS, an_endpoint()))[0] == 201


async def test_a_list_shows_what_each_of_its_objects_shows(asked_for_names):
    """An environment is in it, which ListModels of AWS's API does not show."""
    gateway = asked_for_names
    for path in (MODELS, f"{MODELS}?watch=1", ENDPOINTS):
        status, message = await asked_by(gateway, "lists", "GET", path)
        assert (status, "sagemaker:Describe" in message) == (403, True)
    assert (await asked_by(gateway, "reads", "GET", ENDPOINTS))[0] == 200


async def test_one_principal_has_not_all_watches(asked_for_names, monkeypatch):
    monkeypatch.setattr(asked_for_names.service._watches, "_open", Quota(QuotaLimits(9, 1)))
    gateway, reads = asked_for_names, {"authorization": f"Bearer {TOKEN}-reads"}
    for _ in range(2):
        exchange = gateway.exchange("GET", f"{MODELS}?watch=1", **reads)
        serving = asyncio.create_task(gateway.serve(exchange))
        await turns(100)
        status, said = await gateway.ask("GET", f"{MODELS}?watch=1", **reads)
        assert (status, said["reason"]) == (429, "TooManyRequests")
        assert "1 watches of reader are open" in said["message"]
        serving.cancel()
        await asyncio.wait((serving,))


async def test_without_names_it_is_asked_from_this_machine_alone(gateway):
    for header, value in (("origin", "http://127.0.0.1:8090"), ("x-forwarded-for", "192.0.2.1")):
        status, said = await gateway.ask("GET", MODELS, **{header: value})
        assert (status, said["reason"]) == (403, "Forbidden")
