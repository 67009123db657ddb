"""storage.disk_recovery: what is left over of a start, tried again until it is done."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.limits import DISK_RETRY_INTERVAL
from partway.gateway.storage.disk_recovery import DiskRecovery, DiskStep
from partway.gateway.storage.disk_refusals import DiskRefusal
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.anyio


class Step:
    """Fails as it is told, once for each error, and is done then."""

    def __init__(self, *errors: Exception) -> None:
        self.left = list(errors)
        self.tries = 0

    async def __call__(self) -> None:
        self.tries += 1
        if self.left:
            raise self.left.pop(0)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_nothing_refused_is_nothing_to_do(tmp_path, caplog):
    recovery = DiskRecovery(tmp_path, FakeClock())
    step = Step()
    assert await recovery.attempt(DiskStep(("x",), step))
    recovery.start()
    await recovery.aclose()
    assert (caplog.messages, step.tries) == ([], 1)


async def test_steps_are_tried_in_their_order_until_each_is_done(tmp_path, caplog):
    caplog.set_level("INFO")
    clock = FakeClock()
    recovery = DiskRecovery(tmp_path, clock)
    full = [DiskRefusal("the disk is full") for _ in range(3)]
    first, second = Step(full[0]), Step(*full[1:])
    assert not await recovery.attempt(DiskStep(("changes", "logs"), first))
    assert not await recovery.attempt(DiskStep(("logs", "commands"), second))
    recovery.start()
    (line,) = caplog.messages
    assert f"folder={tmp_path} bytes_free=" in line
    assert 'refused="changes; logs; commands" reason="the disk is full" next_try_s=5.0' in line
    for _ in range(3):
        await turns()
        clock.advance(DISK_RETRY_INTERVAL)
    await turns()
    assert (first.tries, second.tries) == (2, 3)
    assert [each.partition("still_refused=")[2] for each in caplog.messages[1:]] == [
        '"logs; commands"',
        "-",
    ]
    assert clock.armed == []
    await recovery.aclose()


@pytest.mark.parametrize("fault", [ValueError("damaged"), DiskRefusal("full")], ids=repr)
async def test_a_step_is_not_repeated_for_the_one_that_follows_it(tmp_path, caplog, fault):
    clock = FakeClock()
    recovery = DiskRecovery(tmp_path, clock)
    opening, announcing = Step(DiskRefusal("full")), Step(fault, fault)
    following = DiskStep(("commands",), announcing)
    assert not await recovery.attempt(DiskStep(("port",), opening, following))
    recovery.start()
    for _ in range(4):
        await turns()
        clock.advance(DISK_RETRY_INTERVAL)
    await turns()
    assert (opening.tries, announcing.tries) == (2, 3)
    (said,) = (each for each in caplog.records if "refused=commands" in each.getMessage())
    assert str(fault) in f"{said.getMessage()} {said.exc_info}"
    await recovery.aclose()


async def test_the_first_try_of_a_following_step_is_of_the_start(tmp_path, caplog):
    recovery = DiskRecovery(tmp_path, FakeClock())
    following = Step(DiskRefusal("full"))
    assert not await recovery.attempt(DiskStep(("a",), Step(), DiskStep(("b",), following)))
    recovery.start()
    (line,) = caplog.messages
    assert " refused=b " in line
    await recovery.aclose()
    caplog.clear()
    recovery = DiskRecovery(tmp_path, FakeClock())
    assert await recovery.attempt(DiskStep(("a",), Step(), DiskStep(("b",), following)))
    recovery.start()
    assert caplog.messages == []


async def test_another_fault_ends_the_start_and_not_what_serves(tmp_path, caplog):
    clock = FakeClock()
    recovery = DiskRecovery(tmp_path, clock)
    with pytest.raises(ValueError, match="damaged"):
        await recovery.attempt(DiskStep(("x",), Step(ValueError("damaged"))))
    taken = ValueError("another gateway has taken it")
    step = Step(DiskRefusal("full"), taken, taken, DiskRefusal("full"))
    await recovery.attempt(DiskStep(("x",), step))
    recovery.start()
    for _ in range(4):
        await turns()
        clock.advance(DISK_RETRY_INTERVAL)
    await turns()
    assert step.tries == 5
    said = [each for each in caplog.records if each.levelname != "INFO"][1:]
    assert [(each.levelname, each.getMessage()) for each in said] == [
        ("ERROR", "a part of the start failed and will be retried refused=x"),
        ("WARNING", "the disk still refuses the gateway's data refused=x reason=full"),
    ]
    assert said[0].exc_info is not None
    assert said[0].exc_info[1] is taken
    await recovery.aclose()


async def test_nothing_is_tried_behind_its_end(tmp_path):
    clock = FakeClock()
    recovery = DiskRecovery(tmp_path, clock)
    step = Step(DiskRefusal("full"))
    await recovery.attempt(DiskStep(("x",), step))
    recovery.start()
    await turns()
    await recovery.aclose()
    clock.advance(DISK_RETRY_INTERVAL)
    await turns()
    assert step.tries == 1
