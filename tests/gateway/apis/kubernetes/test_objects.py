"""All objects of a gateway: versions that go on, and room that ends."""

from __future__ import annotations

import pytest

from partway.gateway.apis.kubernetes import objects as module
from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, ENDPOINT
from partway.gateway.storage.store.store import Record
from tests.gateway.apis.kubernetes.served import MODELS, a_model, an_endpoint
from tests.gateway.fleet.fakes import turns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def test_no_version_comes_twice_though_the_clock_stands_still(gateway):
    await gateway.make(a_model("first"), a_model("second"))
    await turns(100)
    last = int((await gateway.get(MODELS))["metadata"]["resourceVersion"])
    after = await gateway.again()
    try:
        made = await after.make(a_model("third"))
        assert int(made["metadata"]["resourceVersion"]) > last
        status, said = await after.ask("GET", f"{MODELS}?watch=1&resourceVersion={last - 1}")
        assert (status, said["reason"]) == (410, "Expired")
    finally:
        await after.aclose()


async def test_an_object_of_before_objects_had_makers(gateway):
    await gateway.make(a_model())
    (record,) = await gateway.store.records("kubernetes-DeployedModel")
    body = {key: value for key, value in record.body.items() if key != "maker"}
    await gateway.store.write(Record(record.kind, record.name, body))
    after = await gateway.again()
    try:
        assert after.objects.find(DEPLOYED_MODEL, "default", "my-tf-model").maker == ""
    finally:
        await after.aclose()


async def test_there_are_only_so_many(gateway, monkeypatch):
    monkeypatch.setattr(module, "MAX_OBJECTS", 1)
    await gateway.make(a_model())
    status, said = await gateway.ask("POST", MODELS, a_model("another"))
    assert (status, said["reason"]) == (429, "TooManyRequests")
    assert "delete unneeded ones" in said["message"]
    label = {"metadata": {"labels": {"a": "b"}}}
    merge = "application/merge-patch+json"
    assert (await gateway.ask("PATCH", f"{MODELS}/my-tf-model", label, merge))[0] == 200


async def test_those_of_an_endpoint_are_found_by_its_name(gateway):
    """Each look at an endpoint went through all objects: of thousands that took seconds."""

    def of(name, objects):
        return sorted(each.name for each in objects.of_endpoint(DEPLOYED_MODEL, name))

    await gateway.make(a_model("a"), a_model("b"), a_model("c", "other"), an_endpoint("mine"))
    await gateway.until(f"{MODELS}/c", "NoEndpoint")
    assert (of("mine", gateway.objects), of("other", gateway.objects)) == (["a", "b"], ["c"])
    (found,) = gateway.objects.of_endpoint(ENDPOINT, "mine")
    assert found is gateway.objects.find(ENDPOINT, "default", "mine")
    after = await gateway.again()
    try:
        assert (of("mine", after.objects), of("other", after.objects)) == (["a", "b"], ["c"])
        for name in "ac":
            assert (await after.ask("DELETE", f"{MODELS}/{name}"))[0] == 200
            await after.until_gone(f"{MODELS}/{name}")
        assert (of("mine", after.objects), of("other", after.objects)) == (["b"], [])
    finally:
        await after.aclose()
