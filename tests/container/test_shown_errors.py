"""A model's exception as clients see it, in development and in production."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from partway.container.hosting.script import Script
from partway.container.model import Model
from partway.container.server import ModelServer
from partway.container.stream import Stream
from partway.container.testing import Served
from partway.protocol.limits import REFUSAL_BODY_BYTES

pytestmark = pytest.mark.usefixtures("no_leaks")

SCRIPT = """
    import json
    def model_fn(model_dir): return None
    def helper(data): return json.loads(data)
    def predict_fn(data, model):
        return helper("a " * data.shape[1])
"""


@asynccontextmanager
async def served(model: Model, *, show_errors: bool) -> AsyncIterator[Served]:
    server = ModelServer(model, show_errors=show_errors)
    try:
        port = await server.start()
        await server.load()
        yield Served(f"http://127.0.0.1:{port}")
    finally:
        await server.aclose()


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "failing_script", raising=False)
    path = tmp_path / "failing_script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


async def test_in_development_a_script_s_own_frames_are_shown(script: Path) -> None:
    async with served(Script(script), show_errors=True) as running:
        answer = await running.invoke("[[1]]", "application/json")
    assert answer.status == 500
    assert answer.body.decode() == textwrap.dedent(
        f"""\
        the model failed: JSONDecodeError: Expecting value: line 1 column 1 (char 0)
          File "{str(script)[-160:]}", line 6, in predict_fn
            return helper("a " * data.shape[1])
          File "{str(script)[-160:]}", line 4, in helper
            def helper(data): return json.loads(data)
        """
    )


async def test_in_production_the_type_alone_is(script: Path) -> None:
    async with served(Script(script), show_errors=False) as running:
        answer = await running.invoke("[[1]]", "application/json")
    assert (answer.status, answer.body) == (500, b"the model failed: JSONDecodeError\n")


async def test_a_refusal_of_the_model_s_own_is_as_ever(script: Path) -> None:
    async with served(Script(script), show_errors=True) as running:
        answer = await running.invoke("{", "application/json")
    assert (answer.status, answer.body) == (
        400,
        b"the body is not application/json, as its type says\n",
    )


class Failing(Model):
    """Raises what it is asked with."""

    async def invoke(self, request: object) -> str:
        def deeper(levels: int) -> str:
            if levels:
                return deeper(levels - 1)
            raise LookupError("ü" * 100_000)

        return deeper(100)

    async def stream(self, stream: Stream) -> None:
        raise LookupError("no such word")


async def test_what_is_shown_is_bounded() -> None:
    async with served(Failing(), show_errors=True) as running:
        answer = await running.invoke()
    assert answer.status == 500
    assert answer.body.startswith("the model failed: LookupError: üü".encode())
    assert answer.body.decode().count('File "') == 4
    assert len(answer.body) <= REFUSAL_BODY_BYTES


@pytest.mark.parametrize(
    ("show", "reason"),
    [(True, "the model failed: LookupError: no such word"), (False, "the model failed: LookupErr")],
)
async def test_a_stream_s_close_says_it_as_far_as_it_fits(show: bool, reason: str) -> None:
    async with served(Failing(), show_errors=show) as running, running.stream() as client:
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    assert closed.value.rcvd.reason.startswith(reason)
    assert ("no such word" in closed.value.rcvd.reason) == show
