"""``GET /metrics`` of a served model: what the runtime counts, and what the author adds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from partway.container import Busy, Model, ModelError, Opening, Reply, Request, Stream, Threads
from partway.container import metrics_page as module
from partway.container.model import Answer, request_route, route
from partway.container.server import ModelServer
from partway.container.testing import Served, serving
from tests.container.wire import PATIENCE, QUICK, until

pytestmark = pytest.mark.usefixtures("no_leaks")


class Counted(Model):
    """Does as messages and bodies say, and counts words."""

    runs_on = Threads(queue=0)

    def load(self, model_dir: Path) -> None:
        self.words = Counter("talk_words", "Words said", registry=self.metrics)
        self.computing = threading.Event()
        self.go_on = threading.Event()

    async def admit(self, opening: Opening) -> None:
        if opening.query.get("refuse"):
            raise ModelError("no", status=418)

    @route(query={"refuse"})
    async def stream(self, stream: Stream) -> None:
        async for message in stream.messages():
            self.words.inc()
            if message == "busy":
                raise Busy("later")
            if message == "fail":
                raise ModelError("as asked", code=4000)
            await stream.send(message)

    async def invoke(self, request: Request) -> Answer:
        match await request.read():
            case b"reject":
                return Reply("", status=404)
            case b"busy":
                raise Busy("later")
            case b"fail":
                raise LookupError
            case b"compute":
                await self.workers.run(self.compute)
            case b"wait":
                self.computing.set()
                await asyncio.Event().wait()
        return "done"

    def compute(self) -> None:
        self.computing.set()
        self.go_on.wait(PATIENCE)


async def scrape(url: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{url}/metrics", headers=headers) as response,
    ):
        if response.status == 200:
            assert response.headers["Content-Type"].startswith("text/plain; version=")
        return response.status, await response.text()


async def figures(url: str) -> dict[str, float]:
    """The samples that are not 0, by their name without the common beginning, and their labels."""
    status, text = await scrape(url)
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.value and not sample.name.endswith(("_bucket", "_sum", "_created")):
                labels = " ".join(value for _, value in sorted(sample.labels.items()))
                found[f"{sample.name} {labels}".strip()] = sample.value
    return {name.removeprefix("partway_container_"): value for name, value in found.items()}


async def eventually(url: str, name: str, value: float = 1) -> dict[str, float]:
    """The figures once one of them has a value: a client may be told of an end before it counts."""
    async with asyncio.timeout(PATIENCE):
        while (found := await figures(url)).get(name) != value:  # noqa: ASYNC110 (it has no event)
            await asyncio.sleep(0.01)
    return found


@asynccontextmanager
async def counted() -> AsyncIterator[tuple[Counted, Served]]:
    model = Counted()
    async with asyncio.timeout(2 * PATIENCE), serving(model) as served:
        yield model, served


# --- Figures --------------------------------------------------------------------------------------


async def test_at_first_nothing_is_counted() -> None:
    async with counted() as (_, served):
        assert await figures(served.url) == {}
        _, text = await scrape(served.url)
        assert 'partway_container_refused_total{kind="stream",reason="full"} 0.0' in text
        assert 'partway_container_ended_total{kind="request",outcome="busy"} 0.0' in text


async def test_streams_by_their_outcome() -> None:
    async with counted() as (_, served):
        async with served.stream() as client:
            await client.send("hello")
            assert await client.recv() == "hello"
            found = await figures(served.url)
            assert (found["open stream"], found["begun_total stream"]) == (1, 1)
        await eventually(served.url, "ended_total stream completed")
        for message, outcome in (("busy", "busy"), ("fail", "failed")):
            async with served.stream() as client:
                await client.send(message)
                await client.wait_closed()
            await eventually(served.url, f"ended_total stream {outcome}")
        async with served.stream() as client:
            client.transport.abort()
        found = await eventually(served.url, "ended_total stream client_left")
        assert found == {
            "begun_total stream": 4,
            "ended_total stream completed": 1,
            "ended_total stream busy": 1,
            "ended_total stream failed": 1,
            "ended_total stream client_left": 1,
            "seconds_count stream": 4,
            "talk_words_total": 3,
        }


async def test_requests_by_their_outcome() -> None:
    async with counted() as (_, served):
        statuses = [(await served.invoke(body)).status for body in ("", "reject", "busy", "fail")]
        assert statuses == [200, 404, 503, 500]
        assert await eventually(served.url, "ended_total request failed") == {
            "begun_total request": 4,
            "ended_total request completed": 1,
            "ended_total request rejected": 1,
            "ended_total request busy": 1,
            "ended_total request failed": 1,
            "seconds_count request": 4,
        }


async def test_a_request_whose_client_leaves() -> None:
    async with counted() as (model, served):
        asking = asyncio.create_task(served.invoke("wait"))
        await until(model.computing.is_set)
        assert (await figures(served.url))["open request"] == 1
        asking.cancel()
        await asyncio.wait((asking,))
        assert "open request" not in await eventually(served.url, "ended_total request client_left")


async def test_refusals_by_their_reason() -> None:
    async with counted() as (_, served):
        page = {"Origin": "https://page.example"}
        for path, query, headers in (
            (f"/{'a' * 9}", "", {}),
            ("/invocations-bidirectional-stream", "?voice=x", {}),
            ("/invocations-bidirectional-stream", "?refuse=1", {}),
            ("/invocations-bidirectional-stream", "", page),
        ):
            async with aiohttp.ClientSession() as session:
                with pytest.raises(aiohttp.WSServerHandshakeError):
                    await session.ws_connect(f"{served.url}{path}{query}", headers=headers)
        await served.invoke(**page)
        async with aiohttp.ClientSession() as session:
            for path in ("invocations", "unknown"):
                async with session.get(f"{served.url}/{path}"):
                    pass
        assert await figures(served.url) == {
            "refused_total stream invalid": 2,
            "refused_total stream model": 1,
            "refused_total stream web_page": 1,
            "refused_total request web_page": 1,
            "refused_total request invalid": 2,
        }


async def test_while_the_model_loads_and_when_the_container_stops() -> None:
    server = ModelServer(Counted(), times=QUICK)
    url = f"http://127.0.0.1:{await server.start()}"
    try:
        served = Served(url)
        assert (await served.invoke()).status == 503
        assert await figures(url) == {"refused_total request loading": 1}
        await server.load()
        async with served.stream() as client:
            server.runtime.activity.draining = True
            assert (await served.invoke()).status == 503
            assert (await figures(url))["refused_total request stopping"] == 1
            await server.runtime.activity.cancel(PATIENCE)
            await client.wait_closed()
            await eventually(url, "ended_total stream stopped")
    finally:
        await server.aclose()


async def test_jobs_of_workers() -> None:
    async with counted() as (model, served):
        asking = asyncio.create_task(served.invoke("compute"))
        await until(model.computing.is_set)
        assert (await served.invoke("compute")).status == 503
        found = await figures(served.url)
        assert (found["jobs_running"], found["jobs_refused_total"]) == (1, 1)
        model.go_on.set()
        assert (await asking).status == 200
        assert "jobs_running" not in await figures(served.url)


async def test_durations_are_a_histogram() -> None:
    async with counted() as (_, served):
        await served.invoke()
        await eventually(served.url, "ended_total request completed")
        _, text = await scrape(served.url)
    name = "partway_container_seconds"
    assert f'{name}_bucket{{kind="request",le="+Inf"}} 1.0' in text
    assert f'{name}_bucket{{kind="request",le="1800.0"}} 1.0' in text
    assert f'{name}_bucket{{kind="stream",le="+Inf"}} 0.0' in text


# --- The page -------------------------------------------------------------------------------------


async def test_a_web_page_may_not_ask_and_the_method_is_get() -> None:
    async with counted() as (_, served):
        reason = "a container takes requests from its platform, not from web pages\n"
        assert await scrape(served.url, Origin="https://page.example") == (403, reason)
        assert await scrape(served.url, "POST") == (405, "the method of /metrics must be GET\n")
        assert await scrape(served.url, "HEAD") == (200, "")


async def test_a_model_may_have_the_path_itself() -> None:
    class Own(Model):
        @request_route("metrics", method="GET")
        async def page(self, request: Request) -> Answer:
            return "mine"

    async with (
        serving(Own()) as served,
        aiohttp.ClientSession() as session,
        session.get(f"{served.url}/metrics") as response,
    ):
        assert await response.text() == "mine"


class Broken(Collector):
    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> list[Metric]:
        raise LookupError("a secret")


class Blocking(Broken):
    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.calls = 0

    def collect(self) -> list[Metric]:
        self.calls += 1
        self.go_on.wait(PATIENCE)
        return [GaugeMetricFamily("slow", "", 7)]


async def test_a_collector_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with counted() as (model, served):
        model.metrics.register(Broken())
        assert await scrape(served.url) == (500, "the model failed: LookupError\n")
    assert "the model failed what=metrics" in caplog.text


async def test_a_collector_that_blocks_costs_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "METRICS_TIMEOUT", 0.01)
    async with counted() as (model, served):
        blocking = Blocking()
        model.metrics.register(blocking)
        reason = "the metrics have not come within 0.01 s\n"
        assert [await scrape(served.url) for _ in range(2)] == [(503, reason)] * 2
        assert blocking.calls == 1
        assert (await served.invoke()).status == 200
        blocking.go_on.set()
        monkeypatch.setattr(module, "METRICS_TIMEOUT", PATIENCE)
        assert (await figures(served.url))["slow"] == 7
