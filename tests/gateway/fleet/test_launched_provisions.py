"""partway.gateway.fleet.launched_provisions: what a killed gateway has left to an engine."""

from __future__ import annotations

import asyncio
import tarfile
from pathlib import Path
from uuid import uuid4

import pytest

from partway.gateway.fleet.endpoint import Image, Variant
from partway.gateway.fleet.launchers.engine_client import EngineClient
from partway.gateway.fleet.launchers.engine_request import (
    GATEWAY_LABEL,
    INSTANCE_LABEL,
    MADE_OF_LABEL,
    MODEL_LABEL,
)
from partway.gateway.fleet.launchers.kept_programs import KeptProgram
from partway.gateway.fleet.launchers.launcher import Order
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.fleet.routing.router import Router
from partway.gateway.gateway import Gateway
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.model_data.model_data import HeldData
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.fakes import PROGRAM
from tests.gateway.fleet.launchers.fake_engine import FakeEngine
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.kept_in_memory import KeptInMemory
from tests.gateway.streams.fakes import FakeClock

pytestmark = pytest.mark.usefixtures("docker_host")


@pytest.fixture
async def left(fake, data) -> None:
    """A gateway was killed that had an engine run a container."""
    Provisions(LoopClock(), data).means.launcher(Variant(source=Image("model:1")))
    await leave(fake, {GATEWAY_LABEL: data.id, INSTANCE_LABEL: "one"})


async def acquired(provisions: Provisions, archive: str) -> HeldData:
    """Have the model data of an instance fetched."""
    order = Order("one", "echo", Variant(source=PROGRAM, model_data=archive), 0, uuid4().hex)
    held = await provisions._launched().models.of(order)
    assert held is not None
    return held


async def leave(fake: FakeEngine, labels: dict[str, str]) -> None:
    """Let an engine run a container that somebody has made."""
    client = EngineClient(fake.where, LoopClock())
    await soon(client.create("one", {"Labels": labels}))
    await soon(client.start("one"))
    await client.aclose()
    fake.asked.clear()


def hangs(fake: FakeEngine, what: str) -> asyncio.Event:
    """Let an engine not answer; returns what is set once it is asked."""
    asked = asyncio.Event()

    async def hang() -> None:
        asked.set()
        await asyncio.Event().wait()

    fake.answers[what] = hang
    return asked


async def test_leftovers_are_removed_though_there_is_no_image_any_more(left, fake, data):
    gateway = Gateway(Settings(port=0), data=data)
    await soon(gateway.start())
    await eventually(lambda: fake.containers == {})
    await soon(gateway.drain())


async def test_a_gateway_that_stops_does_not_wait_for_it(left, fake, data):
    asked = hangs(fake, "GET /containers")
    gateway = Gateway(Settings(port=0), data=data)
    await soon(gateway.start())
    await soon(asked.wait())
    await soon(gateway.drain())


async def test_an_engine_that_is_away_is_a_warning(left, fake, data, caplog):
    await fake.stop()
    provisions = Provisions(LoopClock(), data)
    await soon(provisions.remove_leftovers())
    assert "leftover containers may still run" in caplog.text
    assert fake.where in caplog.text
    await provisions.aclose()


async def test_an_engine_that_takes_too_long_is_a_warning(left, fake, data, caplog, monkeypatch):
    monkeypatch.setattr("partway.gateway.fleet.launched_provisions.LEFTOVERS_TIMEOUT", 30.0)
    # The launcher's clock is the loop's.
    removals = "partway.gateway.fleet.launchers.engine_removals"
    monkeypatch.setattr(f"{removals}.ENGINE_REMOVAL_TIMEOUT", 0.05)
    clock = FakeClock()
    asked = hangs(fake, "DELETE")
    provisions = Provisions(clock, data)
    removing = asyncio.create_task(provisions.remove_leftovers())
    await soon(asked.wait())
    clock.advance(30)
    await soon(removing)
    assert "did not remove all of them within 30 s" in caplog.text
    await provisions.aclose()


# --- Model data of what was left -----------------------------------------------------------------


@pytest.fixture
def models(data) -> tuple[Path, Path]:
    """Two that a gateway which was killed has unpacked."""
    names = tuple(data.models / (digit * 64) for digit in "ab")
    for name in names:
        name.mkdir()
    return names


@pytest.fixture
def archive(tmp_path: Path) -> str:
    (tmp_path / "weights").write_text("1 2 3")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as made:
        made.add(tmp_path / "weights", "weights")
    return str(tmp_path / "model.tar.gz")


async def test_what_is_left_keeps_its_model_data_until_it_is_removed(fake, data, models, archive):
    used, unused = models
    data.engine_key()
    labels = {GATEWAY_LABEL: data.id, INSTANCE_LABEL: "one", MADE_OF_LABEL: "that"}
    await leave(fake, {**labels, MODEL_LABEL: str(used)})
    provisions = Provisions(LoopClock(), data)
    held = await soon(acquired(provisions, archive))
    assert (used.exists(), unused.exists(), held.path.exists()) == (True, False, True)
    await soon(provisions.remove_leftovers(lambda *_: True))
    assert (list(fake.containers), used.exists()) == (["one"], True)
    await soon(provisions.remove_leftovers())
    assert fake.containers == {}
    await eventually(lambda: not used.exists())
    held.release()
    await provisions.aclose()


async def test_whoever_gives_up_leaves_it_to_the_next_to_ask_what_is_used(
    fake, data, models, archive
):
    used, unused = models
    data.engine_key()
    labels = {GATEWAY_LABEL: data.id, INSTANCE_LABEL: "one", MADE_OF_LABEL: "that"}
    await leave(fake, {**labels, MODEL_LABEL: str(used)})
    asked = hangs(fake, "GET /containers")
    provisions = Provisions(LoopClock(), data)
    acquiring = asyncio.create_task(acquired(provisions, archive))
    await soon(asked.wait())
    acquiring.cancel()
    await soon(asyncio.wait((acquiring,)))
    del fake.answers["GET /containers"]
    held = await soon(acquired(provisions, archive))
    assert (used.exists(), unused.exists(), held.path.exists()) == (True, False, True)
    held.release()
    await provisions.aclose()


async def test_an_engine_that_does_not_say_what_is_used_holds_nobody_up(
    fake, data, models, archive, monkeypatch
):
    monkeypatch.setattr("partway.gateway.fleet.launched_provisions.LEFTOVERS_LOOK_TIMEOUT", 30.0)
    data.engine_key()
    clock = FakeClock()
    asked = hangs(fake, "GET /containers")
    provisions = Provisions(clock, data)
    acquiring = asyncio.create_task(acquired(provisions, archive))
    await soon(asked.wait())
    clock.advance(30)
    held = await soon(acquiring)
    assert [each.exists() for each in models] == [False, False]
    held.release()
    await provisions.aclose()


def kept_with(model: Path) -> KeptInMemory:
    """What a gateway process has kept of a program with a model, which has ended since."""
    kept = KeptInMemory()
    record = KeptProgram("echo", "made", 1, "mark", (), str(model), 1).written()
    kept.keep("fleet", b"")
    kept.keep("program/one", record, pid=2**22 + 1)  # nobody's
    return kept.next_process()


async def test_a_running_program_keeps_its_model_data_until_it_has_ended(data, models, archive):
    used, unused = models
    provisions = Provisions(LoopClock(), data, kept=kept_with(used))
    held = await soon(acquired(provisions, archive))
    assert (used.exists(), unused.exists(), held.path.exists()) == (True, False, True)
    await soon(provisions.remove_leftovers())
    assert used.exists()
    await soon(provisions.end_unclaimed(Router().load))
    await eventually(lambda: not used.exists())
    held.release()
    await provisions.aclose()


async def test_without_a_data_directory_it_keeps_them_too(archive, tmp_path):
    folder = tmp_path / "models"
    used, unused = (folder / (digit * 64) for digit in "ab")
    for each in (folder, used, unused):
        each.mkdir()
    kept = kept_with(used)
    kept.keep("models", str(folder).encode())
    provisions = Provisions(LoopClock(), kept=kept.next_process())
    held = await soon(acquired(provisions, archive))
    assert (held.path.parent, used.exists(), unused.exists()) == (folder, True, False)
    held.release()
    await soon(provisions.end_unclaimed(Router().load))
    await eventually(lambda: not used.exists())
    await provisions.aclose()
    assert not folder.exists()


async def test_the_next_process_finds_the_folder(archive):
    kept = KeptInMemory()
    provisions = Provisions(LoopClock(), kept=kept)
    held = await soon(acquired(provisions, archive))
    assert kept.record("models").decode() == str(held.path.parent)
    held.release()
    await provisions.aclose()
    assert "models" not in kept.names
    assert not held.path.parent.exists()


async def test_a_process_that_needs_no_model_data_removes_the_folder_too(tmp_path):
    folder = tmp_path / "models"
    (folder / "one").mkdir(parents=True)
    kept = KeptInMemory()
    kept.keep("fleet", b"")
    kept.keep("models", bytes(folder))
    following = kept.next_process()
    provisions = Provisions(LoopClock(), kept=following)
    await soon(provisions.end_unclaimed(Router().load))
    await soon(provisions.aclose())
    assert not folder.exists()
    assert "models" not in following.names
