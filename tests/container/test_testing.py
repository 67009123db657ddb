"""What an author's tests talk to their model with."""

from __future__ import annotations

from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from partway.container.errors import LoadFailed, ModelError
from partway.container.model import Answer, Model, Reply, Request, route
from partway.container.models.echo import Echo
from partway.container.stream import Stream
from partway.container.testing import Answered, serving

pytestmark = pytest.mark.usefixtures("no_leaks")


class Routed(Model):
    """Tells what reached it."""

    weights = ""

    def load(self, model_dir: Path) -> None:
        self.weights = (model_dir / "weights").read_text()

    @route("v1/listen", query={"language"}, required={"model"})
    async def listen(self, stream: Stream) -> None:
        await stream.send(f"{stream.path} {sorted(stream.query.items())}")

    async def invoke(self, request: Request) -> Answer:
        if request.headers.get("X-Amzn-SageMaker-Custom-Attributes") == "fail":
            raise ModelError("as asked", status=418)
        return Reply(f"{self.weights} {request.content_type}", "text/x-what")


class Waiting(Model):
    async def stream(self, stream: Stream) -> None:
        await stream.send("here")
        async for _ in stream.messages():
            pass


async def test_messages_and_their_fragments() -> None:
    async with serving(Echo()) as served, served.stream() as client:
        await client.send("whole")
        assert await client.recv() == "whole"
        await client.send([b"in ", b"fragments"])
        fragments = [fragment async for fragment in client.recv_streaming()]
        assert fragments == [b"in ", b"fragments", b""], "with websockets' own end of a message"


async def test_frames_may_be_as_large_as_the_platform_has_them() -> None:
    whole = bytes(16 << 20)
    async with serving(Echo()) as served, served.stream() as client:
        await client.send(whole)
        assert await client.recv() == whole


async def test_path_and_query(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("w")
    async with serving(Routed(), tmp_path) as served:
        async with served.stream("v1/listen", {"model": "a b"}) as client:
            assert await client.recv() == "v1/listen [('model', 'a b')]"
        twice = [("model", "x"), ("language", "a"), ("language", "b")]
        async with served.stream("v1/listen", twice) as client:
            assert "('language', 'a'), ('language', 'b')" in str(await client.recv())
        with pytest.raises(InvalidStatus, match="400"):
            async with served.stream("v1/listen"):
                pass


async def test_invocations(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("w")
    async with serving(Routed(), tmp_path) as served:
        assert await served.invoke("hello") == Answered(
            200, "text/x-what", b"w application/octet-stream"
        )
        assert (await served.invoke(b"hello", "text/csv")).body == b"w text/csv"
        asked = {"X_Amzn_SageMaker_Custom_Attributes": "fail"}
        answer = await served.invoke(**asked)
        assert (answer.status, answer.body) == (418, b"as asked\n")


async def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(LoadFailed, match="Routed could not be loaded") as raised:
        async with serving(Routed(), tmp_path):
            pass
    assert isinstance(raised.value.__cause__, FileNotFoundError)


async def test_what_a_test_leaves_open_is_cut() -> None:
    """Also when it fails; then its error is what comes out."""

    async def failing() -> None:
        async with serving(Waiting()) as served:
            client = await served.stream()
            left.append(client)
            assert await client.recv() == "there"

    left = []
    with pytest.raises(AssertionError, match="there"):
        await failing()
    (client,) = left
    with pytest.raises(ConnectionClosed):
        await client.recv()
