"""A lifespan, word by word."""

from __future__ import annotations

import asyncio

import pytest

from partway.container.hosting.asgi_lifespan import Lifespan
from partway.container.hosting.asgi_messages import Message, Receive, Scope, Send
from tests.container.wire import PATIENCE

pytestmark = pytest.mark.usefixtures("no_leaks")


async def test_a_whole_one() -> None:
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["type"], await receive()))
        scope["state"]["pool"] = 5
        await send({"type": "lifespan.startup.complete"})
        seen.append(await receive())
        await send({"type": "lifespan.shutdown.complete"})
        for _ in range(9):
            await asyncio.sleep(0)
        seen.append("returned")

    lifespan = Lifespan(app)
    await lifespan.startup()
    assert lifespan.state == {"pool": 5}
    assert seen == [("lifespan", {"type": "lifespan.startup"})]
    await lifespan.shutdown(5)
    assert seen[1:] == [{"type": "lifespan.shutdown"}, "returned"]
    await lifespan.shutdown(5)  # again, which is nothing


@pytest.mark.parametrize("raises", [False, True])
async def test_an_app_that_knows_none(raises: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if raises:
            raise NotImplementedError(scope["type"])

    lifespan = Lifespan(app)
    await lifespan.startup()
    await lifespan.shutdown(5)
    assert caplog.records == []


async def test_a_startup_that_fails() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    lifespan = Lifespan(app)
    with pytest.raises(RuntimeError, match="no database"):
        await lifespan.startup()
    await lifespan.shutdown(5)


async def test_a_startup_that_fails_with_an_exception() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.failed", "message": "Traceback …"})
        raise ZeroDivisionError

    lifespan = Lifespan(app)
    with pytest.raises(ZeroDivisionError):
        await lifespan.startup()
    await lifespan.shutdown(5)


@pytest.mark.parametrize(
    "word", ["lifespan.startup.complete", "lifespan.startup.failed", "http.response.start"]
)
async def test_words_out_of_place(word: str) -> None:
    refused: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.complete"})
        try:
            await send({"type": word})
        except RuntimeError as error:
            refused.append(str(error))

    lifespan = Lifespan(app)
    await lifespan.startup()
    await lifespan.shutdown(5)
    assert refused == [f"the app must not send {word} at this point of its lifespan"]


SHUTDOWNS: dict[str, list[Message]] = {
    "the app's lifespan failed": [],
    'the app\'s shutdown failed reason="no disk"': [
        {"type": "lifespan.shutdown.failed", "message": "no disk"}
    ],
}


@pytest.mark.parametrize(("says", "messages"), SHUTDOWNS.items())
async def test_a_shutdown_that_fails_is_in_the_log(
    says: str, messages: list[Message], caplog: pytest.LogCaptureFixture
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await receive()
        for message in messages:
            await send(message)
        if not messages:
            raise ZeroDivisionError

    lifespan = Lifespan(app)
    await lifespan.startup()
    await lifespan.shutdown(5)
    assert [record.getMessage() for record in caplog.records] == [says]


async def test_one_that_ignores_its_cancellation_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partway.container.hosting.asgi_lifespan.CANCEL_GRACE", 0.05)
    release = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.complete"})
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    lifespan = Lifespan(app)
    await lifespan.startup()
    try:
        async with asyncio.timeout(PATIENCE):
            await lifespan.shutdown(0.01)
    finally:
        release.set()
