from __future__ import annotations

import pytest

from tests.frame_factory import BINARY, frame
from tests.wire.conftest import container, gateway_for
from tests.wire.peers import MSGPACK

__all__ = ["container", "gateway_for"]


def get(path, method="GET"):
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


@pytest.mark.parametrize(("path", "body"), [("/healthz", b"ok\n"), ("/readyz", b"ready\n")])
async def test_health_and_readiness(gateway_for, path, body):
    gateway = await gateway_for()
    response = await gateway.request(get(path))
    assert (response.status, response.body) == (200, body)
    assert response.headers["content-type"] == "text/plain; charset=utf-8"


async def test_head_has_no_body(gateway_for):
    gateway = await gateway_for()
    client = await gateway.connect()
    client.send(get("/healthz", "HEAD"), get("/readyz"))
    assert b"200 OK" in await client.read_head()
    assert (await client.response()).body == b"ready\n"


async def test_a_draining_gateway_is_alive_and_not_ready(gateway_for):
    gateway = await gateway_for()
    gateway.gateway.streams.draining = True
    assert (await gateway.request(get("/healthz"))).status == 200
    response = await gateway.request(get("/readyz"))
    assert (response.status, response.body) == (503, b"draining\n")


async def test_metrics_of_a_stream_while_it_runs(gateway_for):
    gateway = await gateway_for()
    client, model = await gateway.open(MSGPACK)
    model.send(frame(BINARY, b"12345"), frame(BINARY, b"678"))
    await client.frames(2)
    page = (await gateway.request(get("/metrics"))).body.decode()
    for line in (
        'partway_streams_open{endpoint="model"} 1.0',
        'partway_parts_total{direction="from_container",endpoint="model"} 2.0',
        'partway_part_bytes_total{direction="from_container",endpoint="model"} 8.0',
        'partway_parts_total{direction="from_client",endpoint="model"} 0.0',
        'partway_buffered_bytes{endpoint="model"} 0.0',
    ):
        assert line in page


async def test_the_page_of_metrics_is_made_once_a_second_at_most(gateway_for, monkeypatch):
    """It walks all open streams, and anybody may ask for it."""
    gateway = await gateway_for()
    first = (await gateway.request(get("/metrics"))).body
    await gateway.request(get("/nothing"))
    assert (await gateway.request(get("/metrics"))).body == first
    monkeypatch.setattr("partway.gateway.status_routes.METRICS_AGE", 0)
    assert b"UnknownOperationException" in (await gateway.request(get("/metrics"))).body
