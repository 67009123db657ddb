"""partway.gateway.admin.logs: whose lines, how many, and until when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import psutil
import pytest

from partway.gateway.admin import logs as admin_logs
from partway.gateway.admin.logs import LogsAsked, log_lines
from partway.gateway.fleet.output.log_tail import LogTail
from partway.gateway.limits import LOG_FOLLOW_INTERVAL, MAX_LOGS_TOGETHER
from partway.protocol.errors import InputValidationError
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.streams.fakes import FakeClock

# --- What is asked -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, LogsAsked("echo", None, 100, follow=False)),
        ({"lines": "0", "follow": "0"}, LogsAsked("echo", None, 0, follow=False)),
        (
            {"lines": "1000000", "follow": "1", "instance": "echo-A-1", "more": "1"},
            LogsAsked("echo", "echo-A-1", 1_000_000, follow=True),
        ),
    ],
)
def test_what_may_be_asked(query, expected):
    assert LogsAsked.read("echo", query) == expected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        *[
            ({"lines": lines}, "it must be a whole number from 0 to 1000000")
            for lines in ("", "-1", "1e3", "1000001", "9" * 5000, "\u0663", "\x1b[2J")
        ],
        *[({"follow": follow}, "it must be 0 or 1") for follow in ("", "2", "true")],
        *[
            ({"instance": instance}, "it must be an instance's id: letters, digits and hyphens")
            for instance in ("", "../x", "a/b", "a\0", "-a", "a.log", "a" * 201, "\u00e4")
        ],
    ],
)
def test_what_may_not(query, said):
    (name,) = query
    with pytest.raises(InputValidationError) as refused:
        LogsAsked.read("echo", query)
    assert str(refused.value).startswith(f"{name}: '")
    assert str(refused.value).endswith(said)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


# --- Whose lines ---------------------------------------------------------------------------------


class Logs:
    """An endpoint's instances and what they have printed; each look is a test's to allow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.closing = asyncio.Event()
        #: By instance, whether it lives; None once the endpoint is there no more.
        self.instances: dict[str, bool] | None = {"echo-A-1": True}
        self.lines: AsyncGenerator[bytes, None]
        self._coming: asyncio.Future[bytes] | None = None

    def printed(self, instance: str, data: bytes) -> None:
        with (self.folder / f"{instance}.log").open("ab") as file:
            file.write(data)

    def ask(self, *, instance: str | None = None, lines: int = 100, follow: bool = False) -> None:
        asked = LogsAsked("echo", instance, lines, follow)
        self.lines = log_lines(asked, lambda: self.instances, self.folder, self.clock, self.closing)

    def _begun(self) -> asyncio.Future[bytes]:
        if self._coming is None:
            self._coming = asyncio.ensure_future(anext(self.lines, b""))
        return self._coming

    async def next(self) -> bytes:
        """What comes next, after however many looks; empty at the end."""
        coming, self._coming = self._begun(), None
        while not coming.done():
            self.clock.advance(LOG_FOLLOW_INTERVAL)
            await asyncio.wait((coming,), timeout=0.001)
        return coming.result()

    async def at_once(self) -> bytes:
        """What comes next, while no time passes."""
        coming, self._coming = self._begun(), None
        return await soon(coming)

    async def look(self) -> None:
        """Wait for a look that has brought nothing; the next one is not allowed yet."""
        coming = self._begun()
        await eventually(lambda: self.clock.armed or coming.done())
        assert not coming.done()

    async def all(self) -> bytes:
        found = b""
        while data := await self.next():
            found += data
        return found


@pytest.fixture
async def logs(tmp_path, no_leaks) -> AsyncIterator[Logs]:
    before = psutil.Process().num_fds()
    logs = Logs(tmp_path)
    yield logs
    await logs.lines.aclose()
    assert psutil.Process().num_fds() <= before, "files are open"


async def test_one_instance(logs):
    logs.printed("echo-A-1", b"one\ntwo\nthree")
    logs.ask(lines=2)
    assert await logs.all() == b"two\nthree\n"


async def test_of_several_each_line_says_whose_it_is(logs):
    logs.instances = {"echo-A-1": True, "echo-B-1": False, "echo-C-1": True}
    logs.printed("echo-A-1", b"one\n\ntwo\n")
    logs.printed("echo-B-1", b"x" * 3)
    logs.ask()
    assert await logs.all() == b"echo-A-1 | one\necho-A-1 | \necho-A-1 | two\necho-B-1 | xxx\n"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("echo-A-1", b"echo-A-1_pre | one\necho-A-1_model | two\n"),
        ("echo-A-1_model", b"two\n"),
        ("echo-A-2", b"echo-A-2_pre | three\n"),
    ],
)
async def test_an_instance_with_its_containers_or_one_of_them(logs, asked, expected):
    names = ("echo-A-1_pre", "echo-A-1_model", "echo-A-2_pre", "echo-A-2_model")
    logs.instances = dict.fromkeys(names, False)
    for name, word in zip(names, (b"one", b"two", b"three"), strict=False):
        logs.printed(name, word)
    logs.ask(instance=asked)
    assert await logs.all() == expected


async def test_one_of_several(logs):
    logs.instances = {"echo-A-1": True, "echo-B-1": True}
    logs.printed("echo-A-1", b"one\n")
    logs.printed("echo-B-1", b"two\n")
    logs.ask(instance="echo-B-1")
    assert await logs.all() == b"two\n"


async def test_one_whose_life_is_over(logs):
    logs.printed("echo-A-0", b"boom\n")
    logs.ask(instance="echo-A-0", follow=True)
    assert await logs.all() == b"boom\n"


@pytest.mark.parametrize("instance", ["echo-A-9", "voice-A-1", "ech"])
async def test_one_that_is_not_there(logs, instance):
    logs.printed("voice-A-1", b"another endpoint's\n")
    with pytest.raises(InputValidationError) as refused:
        logs.ask(instance=instance)
    assert str(refused.value) == (
        f"there is no instance {instance!r} of endpoint 'echo'; there are echo-A-1"
    )
    logs.ask()


async def test_an_endpoint_without_instances(logs):
    logs.instances = {}
    logs.ask()
    assert await logs.all() == b""


async def test_more_instances_than_are_read_together(logs):
    logs.instances = {f"echo-A-{number}": True for number in range(MAX_LOGS_TOGETHER + 1)}
    with pytest.raises(InputValidationError, match="the logs of at most 64 can be read"):
        logs.ask()
    logs.ask(instance="echo-A-7")
    assert await logs.all() == b""


# --- Followed ------------------------------------------------------------------------------------


async def test_what_comes_later(logs):
    logs.printed("echo-A-1", b"one\ntwo\n")
    logs.ask(lines=1, follow=True)
    assert await logs.next() == b"two\n"
    logs.printed("echo-A-1", b"three\nfo")
    assert await logs.next() == b"three\n"
    logs.printed("echo-A-1", b"ur\n")
    assert await logs.next() == b"four\n"


async def test_over_a_rotation(logs):
    logs.printed("echo-A-1", b"one\n")
    logs.ask(follow=True)
    assert await logs.next() == b"one\n"
    logs.printed("echo-A-1", b"two\n")
    log = logs.folder / "echo-A-1.log"
    log.replace(f"{log}.1")
    logs.printed("echo-A-1", b"three\n")
    assert await logs.next() == b"two\n"
    assert await logs.next() == b"three\n"


async def test_an_instance_in_the_place_of_another(logs):
    """From its first line on, and from there on it is said whose lines are whose."""
    logs.printed("echo-A-1", b"before\n")
    logs.ask(lines=0, follow=True)
    await logs.look()
    logs.printed("echo-A-1", b"one\n")
    assert await logs.next() == b"one\n"
    await logs.look()
    logs.printed("echo-A-1", b"and out")
    logs.printed("echo-A-2", b"first\nsecond\n")
    logs.instances = {"echo-A-2": True}
    found = {await logs.next(), await logs.next()}
    assert found == {b"echo-A-1 | and out\n", b"echo-A-2 | first\necho-A-2 | second\n"}


async def test_one_that_is_over_and_still_named_is_read_once(logs):
    logs.printed("echo-A-1", b"one\n")
    logs.instances = {"echo-A-1": False}
    logs.ask(follow=True)
    assert await logs.next() == b"one\n"
    logs.instances = {"echo-A-1": False, "echo-A-2": True}
    logs.printed("echo-A-2", b"two\n")
    assert await logs.next() == b"echo-A-2 | two\n"


async def test_the_last_lines_of_one_that_dies_may_come_late(logs):
    """They wait for the disk; meanwhile it is known to be over."""
    logs.ask(instance="echo-A-1", follow=True)
    logs.printed("echo-A-1", b"one\n")
    assert await logs.next() == b"one\n"
    logs.instances = {"echo-A-1": False}
    await logs.look()
    logs.printed("echo-A-1", b"boom\n")
    assert await logs.next() == b"boom\n"


async def test_they_have_their_time_also_where_another_prints_without_a_pause(logs):
    logs.instances = {"echo-A-1": False, "echo-A-2": True}
    logs.ask(follow=True)
    for _ in range(5):
        logs.printed("echo-A-2", b"more\n")
        assert await logs.at_once() == b"echo-A-2 | more\n"
    logs.printed("echo-A-1", b"boom\n")
    logs.printed("echo-A-2", b"more\n")
    found = {await logs.at_once(), await logs.at_once()}
    assert found == {b"echo-A-1 | boom\n", b"echo-A-2 | more\n"}


async def test_a_slow_disk_holds_up_nobody_else_at_the_end(logs, monkeypatch):
    reads, goes_on = threading.Event(), threading.Event()

    def rest(_: LogTail) -> bytes:
        reads.set()
        assert goes_on.wait(10), "the loop stands still"
        return b"boom\n"

    monkeypatch.setattr(LogTail, "rest", rest)
    logs.ask()
    coming = asyncio.create_task(logs.next())
    await eventually(reads.is_set)
    goes_on.set()
    assert await coming == b"boom\n"


async def test_one_that_was_asked_for_is_followed_until_its_life_is_over(logs):
    logs.ask(instance="echo-A-1", follow=True)
    logs.printed("echo-A-1", b"one\n")
    assert await logs.next() == b"one\n"
    logs.printed("echo-A-1", b"boom")
    logs.instances = {"echo-A-2": True}
    assert await logs.all() == b"boom\n"


@pytest.mark.parametrize("how", ["the endpoint is gone", "the gateway stops"])
async def test_the_end(logs, how):
    logs.ask(follow=True)
    logs.printed("echo-A-1", b"one\n")
    assert await logs.next() == b"one\n"
    if how == "the endpoint is gone":
        logs.instances = None
    else:
        logs.closing.set()
        logs.printed("echo-A-1", b"last\n")
    assert await logs.all() == (b"last\n" if how == "the gateway stops" else b"")


async def test_nobody_is_kept_waiting_by_one_that_prints_all_the_time(logs, monkeypatch):
    logs.instances = {"echo-A-1": True, "echo-A-2": True}
    logs.ask(follow=True)
    logs.printed("echo-A-2", b"a word\n")
    for _ in range(5):
        logs.printed("echo-A-1", b"x" * 30_000 + b"\n")
        if await logs.next() == b"echo-A-2 | a word\n":
            return
    pytest.fail("the other one was not heard")


async def test_more_than_may_be_read_together_take_turns(logs, monkeypatch):
    monkeypatch.setattr(admin_logs, "MAX_LOGS_TOGETHER", 1)
    logs.ask(follow=True)
    logs.printed("echo-A-1", b"one\n")
    assert await logs.next() == b"one\n"
    logs.printed("echo-A-2", b"two\n")
    logs.instances = {"echo-A-1": True, "echo-A-2": True}
    logs.printed("echo-A-1", b"three\n")
    assert await logs.next() == b"three\n"
    logs.instances = {"echo-A-1": False, "echo-A-2": True}
    assert await logs.next() == b"two\n"
