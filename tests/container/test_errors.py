"""partway.container.errors: what a client may know of a failure."""

from __future__ import annotations

import logging
import pickle
import re
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from partway.container.errors import (
    Busy,
    HandlerBlocked,
    ModelError,
    TooSlow,
    WorkerDied,
    cause_of,
    log_failure,
    reason_of,
)
from partway.container.hosting.script import Script
from partway.container.model import Model
from partway.container.server import ModelServer
from partway.container.stream import Stream
from partway.container.testing import Served
from partway.protocol.limits import REFUSAL_BODY_BYTES

pytestmark = pytest.mark.usefixtures("no_leaks")


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (ModelError("no"), 1011, 500),
        (ModelError("no", code=4000, status=418), 4000, 418),
        (Busy("full"), 1013, 503),
        (TooSlow("late"), 1011, 504),
        (WorkerDied("gone"), 1011, 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_close_code_and_status(error, code, status):
    assert (error.code, error.status) == (code, status)
    assert reason_of(error) == str(error)


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2999, 5000])
def test_a_code_that_may_not_travel(code):
    with pytest.raises(ValueError, match=f"close code {code} must not be sent"):
        ModelError("no", code=code)


@pytest.mark.parametrize("status", [0, 200, 399, 600])
def test_a_status_that_is_no_errors(status):
    with pytest.raises(ValueError, match=f"{status} "):
        ModelError("no", status=status)


class Special(ModelError):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} of {second}", code=4001)


def test_it_crosses_from_a_worker_process_as_it_is():
    crossed = pickle.loads(pickle.dumps(Special(1, 2)))
    assert (type(crossed), crossed.reason, crossed.code) == (Special, "1 of 2", 4001)


def test_of_another_exception_its_type_alone():
    assert reason_of(ValueError("what somebody else has sent")) == "the model failed: ValueError"


def test_the_one_cause_of_tasks_that_failed_together():
    one = ValueError("one")
    assert cause_of(ExceptionGroup("a", [ExceptionGroup("b", [one])])) is one
    two = ExceptionGroup("a", [one, KeyError("two")])
    assert cause_of(two) is two


@pytest.mark.parametrize(
    ("error", "level", "traceback"),
    [
        (ModelError("no"), logging.INFO, False),
        (HandlerBlocked("too long"), logging.ERROR, True),
        (ValueError("x"), logging.ERROR, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_log_has_a_traceback_where_one_is_needed(caplog, error, level, traceback):
    with caplog.at_level(logging.INFO, "tests"):
        log_failure(logging.getLogger("tests"), "stream", error, request_id="1")
    (record,) = caplog.records
    assert record.levelno == level
    event = r"the model (reported an error|failed) what=stream request_id=1\b"
    assert re.match(event, record.getMessage())
    assert bool(record.exc_info) is traceback


# --- What a client sees of them in development ---------------------------------------------------

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
        b"the body is not application/json, although its Content-Type says so\n",
    )


class Failing(Model):
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
