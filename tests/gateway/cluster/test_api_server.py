"""partway.gateway.cluster.api_server: the exact requests, and each way a server can answer."""

from __future__ import annotations

import asyncio
import json
import zlib

import pytest
from aiohttp import web

from partway.gateway.cluster.answers import (
    ClusterAway,
    ClusterRefusal,
    Collection,
    NoSuchObject,
    VersionForgotten,
    WatchBroken,
    WriteConflict,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.cluster.limits import (
    MAX_EVENT,
    REQUEST_TIMEOUT,
    TOKEN_AGE,
    WATCH_LIFETIME,
    WATCH_MARGIN,
    WATCH_SILENCE,
)
from tests.gateway.cluster.fake_api_server import FakeApiServer, failure
from tests.gateway.fleet.waiting import eventually, soon

PODS = Collection("v1", "pods", "default")
SLICES = Collection("discovery.k8s.io/v1", "endpointslices", "models", "a/b=c")


def pod(name: str, **members: object) -> dict[str, object]:
    return {"metadata": {"name": name}, **members}


# --- Requests ------------------------------------------------------------------------------------


def test_paths():
    assert PODS.path == "/api/v1/namespaces/default/pods"
    assert Collection("v1", "nodes").path == "/api/v1/nodes"
    assert SLICES.path == "/apis/discovery.k8s.io/v1/namespaces/models/endpointslices"
    assert PODS.path_of("a", "status") == "/api/v1/namespaces/default/pods/a/status"
    assert PODS.path_of("../a?b") == "/api/v1/namespaces/default/pods/..%2Fa%3Fb"


async def test_the_requests_of_an_objects_life(client, server):
    made = await soon(client.create(PODS, pod("a", spec={"x": 1})))
    assert made["metadata"]["uid"]
    assert (await soon(client.get(PODS, "a")))["spec"] == {"x": 1}
    changed = await soon(client.patch(PODS, "a", {"spec": {"x": None, "y": 2}}))
    assert changed["spec"] == {"y": 2}
    await soon(client.patch(PODS, "a", {"status": {"z": 3}}, subresource="status"))
    assert server.find("v1", "pods", "a")["status"] == {"z": 3}
    uid, version = made["metadata"]["uid"], str(server.version)
    await soon(client.delete(PODS, "a", uid=uid, version=version))
    assert server.find("v1", "pods", "a") is None
    root = "/api/v1/namespaces/default/pods"
    assert [str(each) for each in server.asked] == [
        f"POST {root}", f"GET {root}/a", f"PATCH {root}/a", f"PATCH {root}/a/status",
        f"DELETE {root}/a",
    ]  # fmt: skip
    kinds = [each.headers.get("Content-Type") for each in server.asked]
    merge = "application/merge-patch+json"
    assert kinds == ["application/json", None, merge, merge, "application/json"]
    assert all(each.headers["Accept-Encoding"] == "identity" for each in server.asked)
    assert server.asked[-1].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid, "resourceVersion": version},
    }


async def test_a_replacement(client, server):
    made = await soon(client.create(PODS, pod("a", spec={"x": 1, "y": 2})))
    replaced = await soon(client.replace(PODS, "a", {**made, "spec": {"z": 3}}))
    assert replaced["spec"] == {"z": 3}
    assert str(server.asked[-1]) == "PUT /api/v1/namespaces/default/pods/a"
    with pytest.raises(WriteConflict):
        await soon(client.replace(PODS, "a", made))


async def test_a_change_that_must_not_be_made_is_not_sent(server, clock):
    def refuse() -> float:
        raise ClusterAway("not now")

    server.put("v1", "pods", pod("a"))
    client = ApiServer(ClusterSettings(server.url, "default"), clock, refuse)
    changes = (
        client.create(PODS, pod("b")),
        client.patch(PODS, "a", {}),
        client.replace(PODS, "a", pod("a")),
        client.delete(PODS, "a"),
    )
    for each in changes:
        with pytest.raises(ClusterAway, match="not now"):
            await soon(each)
    await soon(client.get(PODS, "a"))
    assert [each.method for each in server.asked] == ["GET"]
    await client.aclose()


async def test_a_list_of_several_pages(client, server):
    server.page = 2
    for name in "abcde":
        server.put("v1", "pods", pod(name))
    found = await soon(client.list(PODS))
    assert [each["metadata"]["name"] for each in found.objects] == list("abcde")
    assert found.version == str(server.version)
    assert [each.query for each in server.asked] == [
        {"limit": "100"},
        {"limit": "100", "continue": "2"},
        {"limit": "100", "continue": "4"},
    ]


async def test_an_empty_list_may_be_null(client, server):
    server.fault = lambda asked: web.json_response(
        {"metadata": {"resourceVersion": "7"}, "items": None}
    )
    assert await soon(client.list(PODS)) == ([], "7")


async def test_a_selection(client, server):
    for name, value in (("a", "c"), ("b", "d")):
        labels = {"a/b": value}
        metadata = {"name": name, "namespace": "models", "labels": labels}
        server.put(SLICES.api_version, SLICES.plural, {"metadata": metadata})
    found = await soon(client.list(SLICES))
    assert [each["metadata"]["name"] for each in found.objects] == ["a"]


@pytest.mark.parametrize(
    ("said", "release"), [(("1", "30"), (1, 30)), (("1", "9"), (1, 9)), (("1", "30+"), (1, 30))]
)
async def test_the_version_of_kubernetes(client, server, said, release):
    server.release = said
    assert await soon(client.release()) == release


async def test_a_version_that_is_none(client, server):
    server.release = ("one", "")
    with pytest.raises(ClusterAway, match=r"GET /version: .* is no Kubernetes API"):
        await soon(client.release())


async def test_the_versions_of_a_group(client, server):
    assert await soon(client.versions("discovery.k8s.io")) == ()
    server.all("discovery.k8s.io/v1beta1", "endpointslices")
    assert await soon(client.versions("discovery.k8s.io")) == ("v1beta1",)


# --- Refusals and faults -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, NoSuchObject), (409, WriteConflict), (410, VersionForgotten),
        (401, ClusterRefusal), (403, ClusterRefusal), (422, ClusterRefusal),
        (302, ClusterRefusal), (429, ClusterAway), (500, ClusterAway), (503, ClusterAway),
    ],
)  # fmt: skip
async def test_refusals(client, server, status, kind):
    server.fault = lambda asked: failure(status, "Why", "the\x1b[31m reason")
    with pytest.raises(kind) as caught:
        await soon(client.get(PODS, "a"))
    words = f"GET /api/v1/namespaces/default/pods/a: the API server answered {status}: the"
    assert str(caught.value) == f"{words}�[31m reason"
    if isinstance(caught.value, ClusterRefusal):
        assert (caught.value.status, caught.value.reason) == (status, "Why")


async def test_the_two_conflicts(client, server):
    server.put("v1", "pods", pod("a"))
    with pytest.raises(WriteConflict) as caught:
        await soon(client.create(PODS, pod("a")))
    assert caught.value.exists
    with pytest.raises(WriteConflict) as caught:
        await soon(client.patch(PODS, "a", {"metadata": {"resourceVersion": "1"}}))
    assert not caught.value.exists


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ConnectionResetError, "does not answer: "),
        (lambda: web.Response(text="hello"), "is no Kubernetes API, or its answer is invalid"),
        (lambda: web.json_response([]), "is no Kubernetes API, or its answer is invalid"),
        (
            lambda: web.json_response({"items": []}),
            "is no Kubernetes API, or its answer is invalid",
        ),
        (lambda: web.Response(status=502, text="<html>"), "answered 502: no reason is given"),
        (lambda: web.json_response([1], status=500), "answered 500: no reason is given"),
    ],
)
async def test_answers_of_another_form(client, server, answer, words):
    server.fault = lambda asked: answer()
    with pytest.raises(ClusterAway, match=words):
        await soon(client.list(PODS))


async def test_an_answer_that_is_too_large(client, server, monkeypatch):
    monkeypatch.setattr("partway.gateway.cluster.api_connection.MAX_ANSWER", 1000)
    server.put("v1", "pods", pod("a", spec="x" * 1000))
    with pytest.raises(ClusterAway, match="the answer has more than 1000 bytes"):
        await soon(client.get(PODS, "a"))


async def test_a_page_that_is_too_large_makes_pages_small(client, server, monkeypatch):
    monkeypatch.setattr("partway.gateway.cluster.api_connection.MAX_ANSWER", 10_000)
    names = [f"{number:02}" for number in range(21)]
    for name in names:
        server.put("v1", "pods", pod(name, spec="x" * 500))
    found = await soon(client.list(PODS))
    assert [each["metadata"]["name"] for each in found.objects] == names
    assert [each.query for each in server.asked] == [
        {"limit": "100"},
        {"limit": "10"},
        {"limit": "10", "continue": "10"},
        {"limit": "10", "continue": "20"},
    ]
    server.put("v1", "pods", pod("00", spec="x" * 10_000))
    with pytest.raises(ClusterAway, match="the answer has more than 10000 bytes"):
        await soon(client.list(PODS))


async def test_a_list_that_is_too_long(client, server, monkeypatch):
    monkeypatch.setattr("partway.gateway.cluster.api_server.MAX_PAGES", 2)
    server.page = 1
    for name in "abc":
        server.put("v1", "pods", pod(name))
    with pytest.raises(ClusterAway, match="the list has more than 200 objects"):
        await soon(client.list(PODS))


async def test_a_change_must_be_answered_in_the_time_that_is_left(server, clock):
    never = asyncio.Event()
    server.fault = lambda asked: never.wait()
    client = ApiServer(ClusterSettings(server.url, "default"), clock, lambda: 2.5)
    asking = asyncio.create_task(client.delete(PODS, "a"))
    await eventually(lambda: server.asked)
    clock.advance(2.5)
    with pytest.raises(ClusterAway, match=r"has not answered within 2\.5 s"):
        await soon(asking)
    never.set()
    await client.aclose()


async def test_a_list_whose_pages_are_too_large_together(client, server, monkeypatch):
    monkeypatch.setattr("partway.gateway.cluster.api_server.MAX_LIST", 2000)
    server.page = 1
    for name in "ab":
        server.put("v1", "pods", pod(name, spec="x" * 500))
    assert len((await soon(client.list(PODS))).objects) == 2
    server.put("v1", "pods", pod("c", spec="x" * 500))
    with pytest.raises(ClusterAway, match="the list has more than 2000 bytes"):
        await soon(client.list(PODS))


@pytest.mark.parametrize("ask", ["list", "watch"])
async def test_a_compressed_answer_is_refused(client, server, ask):
    data = zlib.compress(json.dumps({"metadata": {"resourceVersion": "7"}, "items": []}).encode())
    headers = {"Content-Encoding": "deflate", "Content-Type": "application/json"}
    server.fault = lambda asked: web.Response(body=data, headers=headers)

    async def answered() -> None:
        if ask == "list":
            await client.list(PODS)
        async with client.watch(PODS, "7"):
            pass

    with pytest.raises(ClusterAway, match=r"its answer is compressed \(deflate\), unasked"):
        await soon(answered())


@pytest.mark.parametrize("method", ["get", "watch"])
async def test_a_server_that_does_not_answer(client, server, clock, method):
    never = asyncio.Event()

    async def wait(asked):
        await never.wait()

    server._usual = lambda request, asked: wait(asked)

    async def ask():
        if method == "get":
            await client.get(PODS, "a")
        async with client.watch(PODS, "1"):
            pass

    asking = asyncio.create_task(ask())
    await eventually(lambda: server.asked)
    clock.advance(REQUEST_TIMEOUT)
    with pytest.raises(ClusterAway, match="has not answered within 10 s"):
        await soon(asking)
    never.set()


async def test_a_server_that_is_away(client, server):
    await server.stop()
    with pytest.raises(ClusterAway, match=f"at {server.url} does not answer: "):
        await soon(client.get(PODS, "a"))


async def test_a_file_of_roots_that_is_missing(server, clock, tmp_path):
    settings = ClusterSettings("https://127.0.0.1:9", "default", None, tmp_path / "ca")
    client = ApiServer(settings, clock)
    with pytest.raises(ClusterAway, match="ca: the file of roots cannot be used: No such file"):
        await soon(client.get(PODS, "a"))
    (tmp_path / "ca").write_text("-----BEGIN")
    with pytest.raises(ClusterAway, match="ca: the file of roots cannot be used: no PEM"):
        await soon(client.get(PODS, "a"))
    await client.aclose()


# --- Tokens --------------------------------------------------------------------------------------


@pytest.fixture
async def with_token(server: FakeApiServer, clock, tmp_path):
    (tmp_path / "token").write_text("one\n")
    client = ApiServer(ClusterSettings(server.url, "default", tmp_path / "token"), clock)
    yield client
    await client.aclose()


async def test_a_renewed_token_is_read_at_a_refusal(server, with_token, tmp_path):
    server.tokens = {"one"}
    server.put("v1", "pods", pod("a"))
    await soon(with_token.get(PODS, "a"))
    (tmp_path / "token").write_text("two")
    server.tokens = {"two"}
    await soon(with_token.get(PODS, "a"))
    bearers = [each.headers["Authorization"] for each in server.asked]
    assert bearers == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_refused_token_is_sent_once(server, with_token):
    server.tokens = {"other"}
    with pytest.raises(ClusterRefusal, match="answered 401: Unauthorized"):
        await soon(with_token.get(PODS, "a"))
    assert len(server.asked) == 1


async def test_a_token_is_read_again_in_time(server, with_token, tmp_path, clock):
    server.put("v1", "pods", pod("a"))
    await soon(with_token.get(PODS, "a"))
    (tmp_path / "token").write_text("two")
    await soon(with_token.get(PODS, "a"))
    clock.advance(TOKEN_AGE)
    await soon(with_token.get(PODS, "a"))
    bearers = [each.headers["Authorization"] for each in server.asked]
    assert bearers == ["Bearer one", "Bearer one", "Bearer two"]


@pytest.mark.parametrize("data", [b"", b"a b", "ä".encode(), b"x" * 70_000, b"a\nb"])
async def test_a_file_that_holds_no_token(with_token, tmp_path, data):
    (tmp_path / "token").write_bytes(data)
    with pytest.raises(ClusterAway, match="token: the file must hold a token: one word"):
        await soon(with_token.get(PODS, "a"))


async def test_a_token_file_that_is_missing(with_token, tmp_path):
    (tmp_path / "token").unlink()
    with pytest.raises(ClusterAway, match="token: the token cannot be read: No such file"):
        await soon(with_token.get(PODS, "a"))


# --- Watches -------------------------------------------------------------------------------------


async def test_a_watch(client, server):
    server.put("v1", "pods", pod("a"))
    found = await soon(client.list(PODS))
    async with client.watch(PODS, found.version) as events:
        server.put("v1", "pods", pod("a", spec=1))
        server.put("v1", "pods", pod("b"))
        server.remove("v1", "pods", "a")
        server.bookmark("v1", "pods")
        told = [await soon(anext(events)) for _ in range(4)]
    assert [each.kind for each in told] == ["MODIFIED", "ADDED", "DELETED", "BOOKMARK"]
    assert told[-1].version == str(server.version)
    query = server.asked[-1].query
    assert WATCH_LIFETIME <= int(query.pop("timeoutSeconds")) <= 2 * WATCH_LIFETIME
    version = found.version
    assert query == {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}


async def written(client, server, data: bytes, *, cut: bool = False):
    """The events of a watch whose server sends these bytes."""

    async def watch(request, *_):
        answer = web.StreamResponse()
        await answer.prepare(request)
        for begin in range(0, len(data), 100_000):
            await answer.write(data[begin : begin + 100_000])
        if cut:
            request.transport.abort()
        return answer

    server._watch = watch
    async with client.watch(PODS, "1") as events:
        return [each async for each in events]


def line(what: str, **members: object) -> bytes:
    return json.dumps({"type": what, "object": members}).encode() + b"\n"


def event(name: str = "a", **members: object) -> bytes:
    return line("ADDED", metadata={"name": name, "resourceVersion": "7"}, **members)


async def test_events_that_come_together(client, server):
    found = await soon(written(client, server, event("a") + event("b")))
    assert [each.object["metadata"]["name"] for each in found] == ["a", "b"]


async def test_an_event_that_was_cut_off_is_none(client, server):
    assert len(await soon(written(client, server, event() + event()[:-5]))) == 1


async def test_a_watch_whose_connection_is_dropped(client, server):
    with pytest.raises(ClusterAway, match=r"watch of /api/v1/.*does not answer"):
        await soon(written(client, server, event(), cut=True))


async def test_the_largest_event(client, server):
    found = await soon(written(client, server, event(spec="x" * (MAX_EVENT - 1000))))
    assert len(found) == 1
    with pytest.raises(WatchBroken, match=f"an event has more than {MAX_EVENT} bytes"):
        await soon(written(client, server, event(spec="x" * MAX_EVENT)))


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n", b"[]\n", b"{}\n", b"\n", line("ADDED"), line("BOOKMARK", metadata={}),
        line("ADDED", metadata={"resourceVersion": "7"}), b'{"type":"ADDED","object":1}\n',
        b"\xff\n", line("MODIFIED", metadata=[]),
    ],
)  # fmt: skip
async def test_events_of_another_form(client, server, data):
    with pytest.raises(WatchBroken, match="an event cannot be read"):
        await soon(written(client, server, data))


async def test_an_event_that_is_an_error(client, server):
    data = line("ERROR", kind="Status", code=500, message="etcd \x07 is away")
    with pytest.raises(WatchBroken, match=r"the API server reports 500: etcd . is away"):
        await soon(written(client, server, data))


async def test_a_forgotten_version(client, server):
    server.fault = lambda asked: failure(410, "Expired")
    with pytest.raises(VersionForgotten):
        await soon(written(client, server, b""))


async def test_a_fault_of_who_reads_events_stays_its_own(client, server):
    async def read():
        async with client.watch(PODS, str(server.version)) as events:
            async for each in events:
                raise KeyError(each.kind)

    reading = asyncio.create_task(read())
    await eventually(lambda: server.watching)
    server.put("v1", "pods", pod("a"))
    with pytest.raises(KeyError):
        await soon(reading)


async def test_a_silent_watch_ends(client, server, clock):
    async def read():
        async with client.watch(PODS, str(server.version)) as events:
            return [each async for each in events]

    reading = asyncio.create_task(read())
    await eventually(lambda: server.watching and clock.armed)
    clock.advance(WATCH_SILENCE - 1)
    server.put("v1", "pods", pod("a"))
    await eventually(lambda: clock.armed and clock.armed[0].due > clock.now + 100)
    clock.advance(WATCH_SILENCE)
    assert [each.kind for each in await soon(reading)] == ["ADDED"]


async def dripping(client, server, clock, what: bytes, seconds: float, most: float) -> float:
    """The seconds that a watch lasts whose server sends something now and then, and never ends."""
    drops, ended = asyncio.Queue[bytes](), asyncio.Event()

    async def watch(request, *_):
        answer = web.StreamResponse()
        await answer.prepare(request)
        while not ended.is_set():
            await answer.write(await drops.get())
        return answer

    server._watch = watch
    began = clock.now

    async def read():
        async with client.watch(PODS, "1") as events:
            return [each async for each in events]

    reading = asyncio.create_task(read())
    while not reading.done() and clock.now < began + most:
        await eventually(lambda: reading.done() or clock.armed)
        looked = clock.armed
        drops.put_nowait(what)
        await eventually(lambda: reading.done() or clock.armed != looked)  # noqa: B023 (called in its own round only)
        clock.advance(seconds)
    await soon(reading)
    ended.set()
    drops.put_nowait(b" ")
    return clock.now - began


async def test_bytes_that_are_no_event_are_silence(client, server, clock):
    lasted = await dripping(client, server, clock, b" ", 10, 10 * WATCH_SILENCE)
    assert lasted <= WATCH_SILENCE + 10


async def test_a_watch_ends_that_its_server_does_not_end(client, server, clock):
    longest = 2 * WATCH_LIFETIME + WATCH_MARGIN
    lasted = await dripping(client, server, clock, event(), WATCH_SILENCE / 2, 10 * longest)
    assert WATCH_LIFETIME < lasted <= longest + WATCH_SILENCE
