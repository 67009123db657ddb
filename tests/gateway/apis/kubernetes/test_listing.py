"""Lists in chunks: each object once and as of one version, whatever changes meanwhile."""

from __future__ import annotations

import base64
import json
import random

import pytest

from partway.gateway.apis.kubernetes import change_history as history_module
from partway.gateway.apis.kubernetes import listing
from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, ENDPOINT, CustomObject
from partway.gateway.apis.kubernetes.errors import VersionExpired
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.storage.store.memory import MemoryStore
from tests.gateway.apis.kubernetes.served import MERGE, MODELS, TABLE, a_model
from tests.gateway.fleet.fakes import turns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


@pytest.fixture
async def five(gateway):
    """A gateway with the models a to e, whose status is noted."""
    await gateway.make(*map(a_model, "dbeca"))
    await turns(200)
    return gateway


def names(said):
    return "".join(each["metadata"]["name"] for each in said["items"])


def token(text):
    return base64.urlsafe_b64encode(text.encode()).decode()


async def forget_all_but_the_last_change(gateway, monkeypatch):
    monkeypatch.setattr(history_module, "HISTORY_CHANGES", 1)
    for value in "xy":
        label = {"metadata": {"labels": {"a": value}}}
        assert (await gateway.ask("PATCH", f"{MODELS}/a", label, MERGE))[0] == 200


async def test_chunks_are_one_list_of_one_version(five):
    whole = await five.get(MODELS)
    assert whole["metadata"].keys() == {"resourceVersion"}
    first = await five.get(f"{MODELS}?limit=2")
    assert (names(first), first["metadata"]["remainingItemCount"]) == ("ab", 3)
    assert first["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
    # Of what happens now no chunk tells.
    await five.ask("DELETE", f"{MODELS}/c")
    await five.ask("DELETE", f"{MODELS}/a")
    for value in "xy":
        label = {"metadata": {"labels": {"a": value}}}
        await five.ask("PATCH", f"{MODELS}/d", label, MERGE)
    await five.until_gone(f"{MODELS}/c")
    await five.until_gone(f"{MODELS}/a")
    await five.make(a_model("bb"), a_model("c"))
    await turns(200)
    second = await five.get(f"{MODELS}?limit=2&continue={first['metadata']['continue']}")
    assert second["items"] == whole["items"][2:4]
    assert second["metadata"]["remainingItemCount"] == 1
    last = await five.get(f"{MODELS}?limit=2&continue={second['metadata']['continue']}")
    assert last["items"] == whole["items"][4:]
    assert last["metadata"] == {"resourceVersion": whole["metadata"]["resourceVersion"]}
    everything = await five.get(f"{MODELS}?continue={first['metadata']['continue']}")
    assert everything["items"] == whole["items"][2:]
    assert [each["metadata"]["name"] for each in (await five.get(MODELS))["items"]] == [
        *("b", "bb", "c", "d", "e")
    ]


async def test_rows_come_in_chunks_too(five):
    status, said = await five.ask("GET", f"{MODELS}?limit=3", accept=TABLE)
    assert (status, said["kind"], said["metadata"]["remainingItemCount"]) == (200, "Table", 2)
    again = f"{MODELS}?limit=3&continue={said['metadata']['continue']}"
    _, rest = await five.ask("GET", again, accept=TABLE)
    found = [row["cells"][0] for each in (said, rest) for row in each["rows"]]
    assert (found, "continue" in rest["metadata"]) == ([*"abcde"], False)
    assert len(said["columnDefinitions"]) == 5


async def test_what_is_selected_is_chunked_and_not_counted(five):
    for name in "ace":
        label = {"metadata": {"labels": {"odd": "yes"}}}
        await five.ask("PATCH", f"{MODELS}/{name}", label, MERGE)
    said = await five.get(f"{MODELS}?limit=2&labelSelector=odd")
    assert (names(said), said["metadata"].keys()) == ("ac", {"resourceVersion", "continue"})
    again = f"{MODELS}?limit=2&labelSelector=odd&continue={said['metadata']['continue']}"
    assert names(await five.get(again)) == "e"


async def test_who_comes_back_too_late_may_have_the_rest_as_it_is(five, monkeypatch):
    first = await five.get(f"{MODELS}?limit=2")
    await five.make(a_model("bb"))
    await turns(200)
    await forget_all_but_the_last_change(five, monkeypatch)
    again = f"{MODELS}?limit=2&continue={first['metadata']['continue']}"
    status, said = await five.ask("GET", again)
    assert (status, said["reason"], said["code"]) == (410, "Expired", 410)
    assert "too old to display a consistent list" in said["message"]
    rest = await five.get(f"{MODELS}?limit=2&continue={said['metadata']['continue']}")
    assert (names(rest), rest["metadata"]["remainingItemCount"]) == ("bbc", 2)
    assert rest["metadata"]["resourceVersion"] > first["metadata"]["resourceVersion"]
    last = await five.get(f"{MODELS}?continue={rest['metadata']['continue']}")
    assert names(last) == "de"


async def test_a_list_is_as_of_the_version_that_is_asked_for(five, monkeypatch):
    then = await five.get(MODELS)
    version = then["metadata"]["resourceVersion"]
    await five.make(a_model("f"))
    await turns(200)
    exact = f"{MODELS}?resourceVersion={version}&resourceVersionMatch=Exact"
    assert await five.get(exact) == then
    unsaid = await five.get(f"{MODELS}?resourceVersion={version}&limit=9")
    assert (names(unsaid), unsaid["metadata"]["resourceVersion"]) == ("abcde", version)
    for query in ("resourceVersion=0&limit=9", f"resourceVersion={version}"):
        assert names(await five.get(f"{MODELS}?{query}")) == "abcdef"
    ahead = f"resourceVersion={'9' * 18}"
    for query in (ahead, f"{ahead}&resourceVersionMatch=NotOlderThan", f"{ahead}&limit=1"):
        status, said = await five.ask("GET", f"{MODELS}?{query}")
        assert (status, said["reason"]) == (504, "Timeout")
        assert said["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    await forget_all_but_the_last_change(five, monkeypatch)
    status, said = await five.ask("GET", exact)
    assert (status, said["reason"], said["metadata"]) == (410, "Expired", {})


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("limit=x", "limit must be a whole number"),
        ("limit=1e3", "limit must be a whole number"),
        ("continue=!", "the parameter 'continue' must be the value of metadata.continue"),
        ("continue=AAAAA", "the parameter 'continue' must be the value of metadata.continue"),
        (
            f"continue={token('1/a')}",
            "the parameter 'continue' must be the value of metadata.continue",
        ),
        (
            f"continue={token('1/a/B')}",
            "the parameter 'continue' must be the value of metadata.continue",
        ),
        (
            f"continue={token('1/ä/b')}",
            "the parameter 'continue' must be the value of metadata.continue",
        ),
        (
            f"continue={'A' * 300}",
            "the parameter 'continue' must be the value of metadata.continue",
        ),
        (f"continue={token('1/a/b')}&resourceVersion=1", "resourceVersion must be left out"),
        (
            "resourceVersion=x",
            "the parameter 'resourceVersion' must be the value of metadata.resourceVersion",
        ),
        ("resourceVersionMatch=Exact", "resourceVersionMatch must be left out without"),
        ("resourceVersion=1&resourceVersionMatch=x", "resourceVersionMatch must be Exact or"),
        ("resourceVersion=0&resourceVersionMatch=Exact", "resourceVersion must not be 0"),
    ],
)
async def test_what_cannot_be_a_list_is_refused(gateway, query, said):
    status, answer = await gateway.ask("GET", f"{MODELS}?{query}")
    assert (status, answer["reason"]) == (400, "BadRequest")
    assert answer["message"].startswith(said)


@pytest.mark.parametrize("query", ["limit=-1", "limit=0", "limit=", "limit=5", "continue="])
async def test_without_a_limit_all_come(five, query):
    said = await five.get(f"{MODELS}?{query}")
    assert (names(said), said["metadata"].keys()) == ("abcde", {"resourceVersion"})


@pytest.mark.parametrize("accept", ["application/json", TABLE])
async def test_a_long_list_is_written_a_few_objects_at_a_time(five, monkeypatch, accept):
    """All together they may be 256 MiB, which a client that reads nothing would hold."""
    _, whole = await five.ask("GET", MODELS, accept=accept)
    monkeypatch.setattr(listing, "LIST_WRITE", 1)
    exchange = five.exchange("GET", MODELS, accept=accept)
    await five.serve(exchange)
    status, *pieces, end = exchange.said
    assert (status, end, len(pieces)) == (200, "end", 6)
    assert json.loads(b"".join(pieces)) == whole


async def test_objects_are_told_as_they_were_at_each_version_that_is_remembered(monkeypatch):
    """Beside a model that keeps all of them at each version."""
    monkeypatch.setattr(history_module, "HISTORY_CHANGES", 40)
    drawn = random.Random(7)
    objects = CustomObjects(MemoryStore(), None, lambda: 0.001)
    then = {objects.history.latest: []}
    for _ in range(120):
        kind, name = drawn.choice([DEPLOYED_MODEL, ENDPOINT]), drawn.choice("abcd")
        there = objects.find(kind, "space", name)
        if there is not None and drawn.random() < 0.4:
            await objects.remove(there)
        else:
            await objects.put(there or CustomObject(kind, "space", name, "", 0, 1, ""))
        then[objects.history.latest] = sorted(objects.all(DEPLOYED_MODEL), key=repr)
    kept = []
    for version, found in then.items():
        try:
            assert sorted(objects.at(DEPLOYED_MODEL, version), key=repr) == found
            kept.append(version)
        except VersionExpired:
            assert not kept
    assert len(kept) == 41
