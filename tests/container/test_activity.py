"""What may begin, what is under way, and what has to end, without a server around it."""

from __future__ import annotations

import asyncio

import pytest

from partway.container.activity import STOPPING, Activity, check_not_a_page, is_from_a_page
from partway.protocol.websocket.handshake import UpgradeError

pytestmark = pytest.mark.usefixtures("no_leaks")


class FakeStream:
    """Writes down the closes that it gets."""

    def __init__(self) -> None:
        self.closes: list[tuple[int, str]] = []

    def close(self, code: int, reason: str) -> None:
        self.closes.append((code, reason))


def ready() -> str | None:
    return None


async def run_for(activity: Activity, until: asyncio.Event) -> None:
    with activity.counted():
        await until.wait()


async def begin(activity: Activity, until: asyncio.Event) -> asyncio.Task[None]:
    task = asyncio.create_task(run_for(activity, until))
    await asyncio.sleep(0)
    return task


async def test_the_obstacles_in_their_order() -> None:
    loading: str | None = "loading"
    activity = Activity(1, lambda: loading)
    over = asyncio.Event()
    assert activity.obstacle() == activity.absence() == "loading"
    loading = None
    assert activity.obstacle() is None
    activity.check_stream()
    task = await begin(activity, over)
    full = "1 streams and requests are under way, and that is the limit"
    assert activity.obstacle() == full
    assert activity.absence() is None, "who asks /ping has an answer however many are under way"
    with pytest.raises(UpgradeError, match="that is the limit") as refused:
        activity.check_stream()
    assert refused.value.status == 503
    activity.draining = True
    assert activity.obstacle() == activity.absence() == STOPPING
    over.set()
    await task


async def test_idle_is_said_when_the_last_one_has_ended() -> None:
    activity = Activity(10, ready)
    idle: list[bool] = []
    activity.on_idle = lambda: idle.append(activity.idle)
    first, second = asyncio.Event(), asyncio.Event()
    tasks = [await begin(activity, first), await begin(activity, second)]
    assert not activity.idle
    first.set()
    await tasks[0]
    assert (activity.idle, idle) == (False, [])
    second.set()
    await tasks[1]
    assert (activity.idle, idle) == (True, [True])


async def test_a_stream_is_known_and_told_while_it_is_open() -> None:
    activity = Activity(10, ready)
    stream, other = FakeStream(), FakeStream()
    with activity.open(stream):
        with activity.open(other):
            assert set(activity.streams) == {stream, other}
        leaving = activity.leave()
        assert leaving == (stream,)
        activity.take_leave(stream)
        activity.take_leave(other)
    assert not activity.streams
    assert stream.closes == [(1001, STOPPING)]
    assert other.closes == [], "it had ended by itself"


@pytest.mark.parametrize("stays", [True, False])
async def test_a_stream_that_opens_when_all_have_been_told_is_told_too(stays: bool) -> None:
    activity = Activity(10, ready)
    activity.leave()
    late = FakeStream()
    with activity.open(late):
        assert late.closes == [], "it does not run yet"
        if stays:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert late.closes == ([(1001, STOPPING)] if stays else [])


async def test_what_is_cancelled_and_what_ignores_it() -> None:
    activity = Activity(10, ready)
    release = asyncio.Event()

    async def stubborn() -> None:
        with activity.counted():
            try:
                await release.wait()
            except asyncio.CancelledError:
                await release.wait()

    willing, further = await begin(activity, release), asyncio.create_task(release.wait())
    ignoring = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    assert await activity.cancel(0.01, (further,)) == {ignoring}
    assert willing.cancelled()
    assert further.cancelled()
    release.set()
    await ignoring
    assert await activity.cancel(0.01) == set()


@pytest.mark.parametrize(
    "header",
    [
        ("Origin", "https://page.example"),
        ("origin", ""),
        ("ORIGIN", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("sec-fetch-site", " Same-Site "),
    ],
)
def test_what_a_page_asks_for_is_refused(header: tuple[str, str]) -> None:
    assert is_from_a_page([("Host", "c"), header])
    with pytest.raises(UpgradeError, match="not from web pages") as refused:
        check_not_a_page([("Host", "c"), header])
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "header",
    [
        ("X-Origin", "https://page.example"),
        ("Referer", "https://page.example"),
        ("Sec-Fetch-Site", "none"),  # somebody has typed the address
        ("Sec-Fetch-Site", "same-origin"),
    ],
)
def test_what_no_page_of_others_asks_for_passes(header: tuple[str, str]) -> None:
    assert not is_from_a_page([("Host", "c"), header])
    check_not_a_page([("Host", "c"), header])
