"""Watches: what a client is told, from where on, and how a watch ends."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from partway.gateway.apis.kubernetes import watches as watching
from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, CustomObject
from partway.gateway.apis.kubernetes.limits import BOOKMARK_INTERVAL, WATCH_LIFETIME
from partway.gateway.quota import Quota, QuotaLimits
from tests.gateway.apis.kubernetes.served import (
    MERGE,
    MODELS,
    TABLE,
    THEN_SAID,
    a_model,
    an_endpoint,
)
from tests.gateway.fleet.fakes import turns

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")

ONE = f"{MODELS}/my-tf-model"


class Watch:
    def __init__(self, exchange):
        self._exchange = exchange

    @property
    def events(self):
        lines = b"".join(each for each in self._exchange.said if isinstance(each, bytes))
        return [json.loads(line) for line in lines.splitlines()]

    @property
    def told(self):
        """Types of the events, with the objects' names."""
        return [(each["type"], each["object"]["metadata"].get("name")) for each in self.events]

    @property
    def most_at_once(self):
        """Lines that were written together."""
        return max(each.count(b"\n") for each in self._exchange.said if isinstance(each, bytes))

    @property
    def is_over(self):
        return "end" in self._exchange.said


@asynccontextmanager
async def watching_of(gateway, path, **headers):
    exchange = gateway.exchange("GET", path, **headers)
    serving = asyncio.create_task(gateway.serve(exchange))
    await turns(100)
    yield Watch(exchange)
    serving.cancel()
    await asyncio.wait((serving,))


async def version_of(gateway):
    return (await gateway.get(MODELS))["metadata"]["resourceVersion"]


async def test_objects_are_written_a_few_at_a_time(gateway, monkeypatch):
    """All together they may be 256 MiB, which a client that reads nothing would hold."""
    monkeypatch.setattr(watching, "WATCH_WRITE", 1)
    for name in ("a", "b", "c"):
        await gateway.make(a_model(name))
    await turns(100)
    async with watching_of(gateway, f"{MODELS}?watch=1") as watch:
        assert watch.told[:3] == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
        assert watch.most_at_once == 1


async def test_each_change_is_told_from_a_version_on(gateway):
    await gateway.make(a_model("before"))
    await turns(100)
    since = await version_of(gateway)
    async with watching_of(gateway, f"{MODELS}?watch=1&resourceVersion={since}") as watch:
        assert watch.events == []
        await gateway.deploy()
        await turns(100)
        of_mine = [each for each in watch.events if each["object"]["metadata"]["name"] != "before"]
        assert of_mine[0]["type"] == "ADDED"
        assert {each["type"] for each in of_mine[1:]} == {"MODIFIED"}
        ready = of_mine[-1]["object"]
        assert ready["status"]["primaryCondition"]["message"] == "DeployedModel is ready"
        versions = [int(each["object"]["metadata"]["resourceVersion"]) for each in watch.events]
        assert versions == sorted(set(versions))
        await gateway.ask("DELETE", f"{MODELS}/before")
        await gateway.until_gone(f"{MODELS}/before")
        await turns(100)
        assert watch.told[-1] == ("DELETED", "before")


async def test_without_a_version_all_objects_come_first(gateway):
    await gateway.make(a_model("b"), a_model("a"), an_endpoint())
    await turns(100)
    async with watching_of(gateway, f"{MODELS}?watch=true") as watch:
        assert watch.told == [("ADDED", "a"), ("ADDED", "b")]


async def test_who_selects_sees_objects_come_and_go(gateway):
    await gateway.make(a_model())
    since = await version_of(gateway)
    query = f"watch=1&resourceVersion={since}&labelSelector=app%3Dchat"
    async with watching_of(gateway, f"{MODELS}?{query}") as watch:
        for value in ("chat", "other"):
            await gateway.ask("PATCH", ONE, {"metadata": {"labels": {"app": value}}}, MERGE)
        await turns(100)
        assert [each for each, _ in watch.told][-1] == "DELETED"
        assert watch.told[0] == ("ADDED", "my-tf-model")


async def test_columns_are_told_once(gateway):
    await gateway.make(a_model("a"), a_model("b"))
    await turns(100)
    async with watching_of(gateway, f"{MODELS}?watch=1", accept=TABLE) as watch:
        tables = [each["object"] for each in watch.events]
        assert [bool(each["columnDefinitions"]) for each in tables] == [True, False]
        assert [each["rows"][0]["cells"][0] for each in tables] == ["a", "b"]


async def test_a_version_that_is_not_known_any_more_is_gone(gateway):
    await gateway.make(a_model())
    await turns(100)
    status, said = await gateway.ask("GET", f"{MODELS}?watch=1&resourceVersion=5")
    assert (status, said["reason"], said["code"]) == (410, "Expired", 410)
    status, said = await gateway.ask("GET", f"{MODELS}?watch=1&resourceVersion=soon")
    assert (status, said["reason"]) == (400, "BadRequest")
    since = int(await version_of(gateway))
    status, said = await gateway.ask("GET", f"{MODELS}?watch=1&resourceVersion={since + 1}")
    assert status == 410


async def test_who_cannot_follow_is_told_so_in_the_watch(gateway, monkeypatch):
    monkeypatch.setattr("partway.gateway.apis.kubernetes.change_history.HISTORY_CHANGES", 2)
    since = await version_of(gateway)
    async with watching_of(gateway, f"{MODELS}?watch=1&resourceVersion={since}") as watch:
        for name in "abc":  # which are all written before the watch has its turn
            gateway.objects.history.add("ADDED", an_object(gateway, name), None)
        await turns(100)
        assert watch.is_over
        assert watch.events[-1]["type"] == "ERROR"
        assert watch.events[-1]["object"]["code"] == 410


def an_object(gateway, name):
    """An object whose change is the next one."""
    version = gateway.objects.history.latest + 1
    spec = a_model(name)["spec"]
    return CustomObject(DEPLOYED_MODEL, "default", name, name, version, 1, THEN_SAID, spec)


async def test_bookmarks_come_to_who_asks_for_them(gateway):
    await gateway.make(a_model())
    await turns(100)
    since = await version_of(gateway)
    query = f"watch=1&resourceVersion={since}&allowWatchBookmarks=true"
    async with watching_of(gateway, f"{MODELS}?{query}") as watch:
        gateway.of.clock.advance(BOOKMARK_INTERVAL)
        await turns(100)
        (event,) = watch.events
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["resourceVersion"] == since


@pytest.mark.parametrize(("query", "seconds"), [("timeoutSeconds=7", 7), ("", WATCH_LIFETIME)])
async def test_a_watch_has_its_time(gateway, query, seconds):
    async with watching_of(gateway, f"{MODELS}?watch=1&{query}") as watch:
        for _ in range(int(seconds) // 30):
            assert not watch.is_over
            gateway.of.clock.advance(30)
            await turns(20)
        gateway.of.clock.advance(30)
        await turns(100)
        assert watch.is_over


async def test_watches_have_a_bound_and_end_with_the_gateway(gateway, monkeypatch):
    monkeypatch.setattr(gateway.service._watches, "_open", Quota(QuotaLimits(1, 1)))
    async with watching_of(gateway, f"{MODELS}?watch=1") as watch:
        status, said = await gateway.ask("GET", f"{MODELS}?watch=1")
        assert (status, said["reason"]) == (429, "TooManyRequests")
        await gateway.service.aclose()
        await turns(100)
        assert watch.is_over


async def test_a_watch_ends_where_leave_is_taken_away(gateway):
    async with watching_of(gateway, f"{MODELS}?watch=1") as watch:
        gateway.service._leave.may_list = lambda *_: False
        await gateway.make(a_model())
        await turns(100)
        assert watch.is_over
