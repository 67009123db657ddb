"""partway.gateway.cluster.watched_collection: a copy that follows, whatever happens between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from partway.gateway.cluster.answers import Collection
from partway.gateway.cluster.limits import MAX_EVENT, RETRY_LONGEST
from partway.gateway.cluster.watched_collection import WatchedCollection
from tests.gateway.cluster.fake_api_server import FakeApiServer, failure
from tests.gateway.fleet.waiting import eventually, soon

PODS = Collection("v1", "pods", "default")

#: A follower fails at it.
ODD = "odd"


class Followed:
    def __init__(self, client, clock) -> None:
        self.clock = clock
        self.told: list[tuple[str, object, object]] = []
        self.copy = WatchedCollection(client, PODS, clock, self._told)

    def _told(self, key, now, before) -> None:
        if now and now["spec"] == ODD:
            raise KeyError("containers")
        self.told.append((key.name, now and now["spec"], before and before["spec"]))

    def specs(self) -> dict[str, object]:
        return {key.name: each["spec"] for key, each in self.copy.objects.items()}

    async def until(self, specs: dict[str, object]) -> None:
        """Wait until the copy is as wanted; the time of pauses passes meanwhile."""

        def is_so() -> bool:
            for timer in self.clock.armed[:1]:
                if timer.due - self.clock.now <= RETRY_LONGEST:
                    self.clock.advance_to(timer.due)
            return self.specs() == specs

        await eventually(is_so)


@pytest.fixture
async def followed(client, server, clock) -> AsyncIterator[Followed]:
    put(server, "a", 1)
    followed = Followed(client, clock)
    followed.copy.start()
    await soon(followed.copy.listed.wait())
    await eventually(lambda: server.watching)
    yield followed
    await followed.copy.aclose()


def put(server: FakeApiServer, name: str, spec: object) -> None:
    server.put("v1", "pods", {"metadata": {"name": name}, "spec": spec})


async def test_changes_are_told_in_order(followed, server):
    put(server, "b", 2)
    put(server, "a", 3)
    server.remove("v1", "pods", "b")
    put(server, "c", 4)
    await followed.until({"a": 3, "c": 4})
    assert followed.told == [
        ("a", 1, None), ("b", 2, None), ("a", 3, 1), ("b", None, 2), ("c", 4, None),
    ]  # fmt: skip
    assert followed.copy.trouble == ""


async def test_after_a_dropped_connection_it_watches_on(followed, server):
    server.cut_watches()
    await eventually(lambda: not server.watching)
    put(server, "b", 2)
    await followed.until({"a": 1, "b": 2})
    lists = [each for each in server.asked if "watch" not in each.query]
    assert len(lists) == 1
    assert followed.told == [("a", 1, None), ("b", 2, None)]


async def test_a_bookmark_moves_the_version(followed, server):
    server.bookmark("v1", "pods")
    put(server, "b", 2)
    await followed.until({"a": 1, "b": 2})
    server.bookmark("v1", "pods")
    version = server.version
    await eventually(lambda: followed.copy._version == str(version))
    server.cut_watches()
    await eventually(lambda: not server.watching)
    await followed.until({"a": 1, "b": 2})
    await eventually(lambda: server.watching or followed.clock.advance(RETRY_LONGEST))
    assert server.asked[-1].query["resourceVersion"] == str(version)


async def test_after_410_the_differences_are_told(followed, server):
    put(server, "b", 2)
    put(server, "c", 3)
    await followed.until({"a": 1, "b": 2, "c": 3})
    followed.told.clear()
    server.cut_watches()
    await eventually(lambda: not server.watching)
    server.remove("v1", "pods", "a")
    put(server, "b", 4)
    put(server, "d", 5)
    server.forget()
    await followed.until({"b": 4, "c": 3, "d": 5})
    assert followed.told == [("a", None, 1), ("b", 4, 2), ("d", 5, None)]


async def test_an_event_that_is_too_large_is_listed(followed, server):
    put(server, "b", "x" * MAX_EVENT)
    await followed.until({"a": 1, "b": "x" * MAX_EVENT})


async def test_after_an_object_of_another_form_it_begins_anew(followed, server, caplog):
    server.put("v1", "pods", {"metadata": {"name": "odd"}, "spec": ODD})
    await eventually(lambda: "a watch has failed" in caplog.text)
    put(server, "b", 2)
    await followed.until({"a": 1, "b": 2, "odd": ODD})
    await eventually(lambda: followed.copy.trouble == "")


async def test_while_the_server_is_away_the_copy_stays(followed, server, caplog):
    await server.stop()
    clock = followed.clock
    for _ in range(8):  # the pauses, and not the longer limits of requests
        await eventually(lambda: clock.armed and clock.armed[0].due - clock.now <= RETRY_LONGEST)
        clock.advance_to(clock.armed[0].due)
    assert followed.specs() == {"a": 1}
    assert "does not answer" in followed.copy.trouble
    assert caplog.text.count("a collection cannot be followed") == 1
    server.remove("v1", "pods", "a")
    put(server, "b", 2)
    await server.start()
    await followed.until({"b": 2})
    await eventually(lambda: followed.copy.trouble == "")


async def test_tries_come_less_and_less_often(client, server, clock):
    server.fault = lambda asked: failure(500, "InternalError")
    copy = WatchedCollection(client, PODS, clock, lambda *_: None)
    copy.start()
    waits = []
    for count in range(1, 9):
        await eventually(
            lambda n=count: len(server.asked) == n and copy.trouble and len(clock.armed) == 1
            and clock.armed[0].due - clock.now < RETRY_LONGEST
        )  # fmt: skip
        waits.append(clock.armed[0].due - clock.now)
        clock.advance_to(clock.armed[0].due)
    for wait, longest in zip(waits, [0.25, 0.5, 1, 2, 4, 8, 8, 8], strict=True):
        assert longest / 2 <= wait <= longest
    await copy.aclose()


async def test_a_watch_that_ends_at_once_is_not_begun_at_once(client, server, clock):
    async def over(*_):
        return failure(200, "")

    server._watch = over
    copy = WatchedCollection(client, PODS, clock, lambda *_: None)
    copy.start()
    for count in range(1, 4):
        await eventually(lambda n=count: len(server.asked) == n + 1 and clock.armed)
        clock.advance(RETRY_LONGEST)
    await copy.aclose()


async def test_an_answer_to_a_write_is_taken_ahead_of_its_event(followed, client, server):
    changed = await soon(client.patch(PODS, "a", {"spec": 2}))
    put(server, "a", 3)
    await followed.until({"a": 3})
    followed.copy.take(changed)
    assert followed.specs() == {"a": 3}
    newer = {**changed, "spec": 4, "metadata": {**changed["metadata"], "resourceVersion": "999"}}
    followed.copy.take(newer)
    assert followed.specs() == {"a": 4}
    followed.copy.take({**newer, "metadata": {**newer["metadata"], "name": "gone"}})
    assert followed.specs() == {"a": 4}
    put(server, "a", 5)  # 998 or less, which is older
    put(server, "b", 6)
    await followed.until({"a": 4, "b": 6})


async def test_closing_before_and_during(client, server, clock):
    copy = WatchedCollection(client, PODS, clock, lambda *_: None)
    await copy.aclose()
    never = asyncio.Event()

    async def wait(*_):
        await never.wait()

    server._usual = wait
    copy.start()
    await eventually(lambda: server.asked)
    await soon(copy.aclose())
    never.set()
