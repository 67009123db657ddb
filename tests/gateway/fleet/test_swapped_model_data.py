"""Model data of a caller's on this machine, at whose path a link is put between look and use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from partway.gateway.fleet.endpoint import Program, Variant
from partway.gateway.fleet.launchers.launcher import LaunchError, Order
from partway.gateway.fleet.provisions import Provisions
from partway.gateway.storage.model_data import model_data
from partway.gateway.storage.places.pinned_path import OpenFolder, PinnedPath
from partway.gateway.timing.clock import LoopClock
from tests.gateway.fleet.model_archives import packed
from tests.gateway.fleet.waiting import soon

CHANGED = "has changed since the endpoint was created: a link"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Bob's archive and folder, and those of others that he may not read."""
    top = tmp_path.resolve()
    for owner in ("bob", "alice"):
        folder = top / owner / "model"
        folder.mkdir(parents=True)
        (folder / "weights").write_text(owner)
        (top / owner / "model.tar.gz").write_bytes(packed({"weights": owner.encode()}))
    return top


@pytest.fixture
async def provisions(anyio_backend: object) -> AsyncIterator[Provisions]:
    provisions = Provisions(LoopClock())
    yield provisions
    await soon(provisions.aclose())


def put_link(path: Path, target: Path) -> None:
    """Replace a file or folder by a link."""
    path.rename(path.with_name("away"))
    path.symlink_to(target)


async def weights_of_instance(
    provisions: Provisions,
    path: Path,
    before_launch: Callable[[], object] = lambda: None,
    *,
    of_caller: bool = True,
) -> str:
    """Run an instance that reads its weights.

    ``before_launch`` is called once its model data are there.
    """
    seen = path.parent.parent / "seen"
    program = Program(("/bin/sh", "-c", f"cat $SM_MODEL_DIR/weights > {seen}"))
    pinned = PinnedPath.of(path) if of_caller else None
    variant = Variant(source=program, model_data=str(path), pinned=pinned)
    launcher, order = provisions.means.launcher(variant), Order("one", "echo", variant, 0, "v")
    try:
        await soon(provisions._launched().models.of(order))
        before_launch()
        container = await soon(launcher.launch(order))
        assert str(await soon(container.wait())) == "ended with status 0"
    finally:
        launcher.release("v")
    return seen.read_text()


@contextmanager
def swapped_before(
    monkeypatch: pytest.MonkeyPatch, name: str, swap: Callable[[], object]
) -> Iterator[None]:
    """Have a function of the module of model data called after the swap."""
    function = getattr(model_data, name)

    def after_swap(*args: object) -> object:
        swap()
        monkeypatch.setattr(model_data, name, function)
        return function(*args)

    monkeypatch.setattr(model_data, name, after_swap)
    yield
    assert getattr(model_data, name) is function, "it was called"


@pytest.mark.parametrize("name", ["model", "model.tar.gz"])
async def test_what_is_still_there(provisions, top, name):
    assert await weights_of_instance(provisions, top / "bob" / name) == "bob"


@pytest.mark.parametrize("moment", ["find", "digest_of"])
async def test_a_link_in_place_of_an_archive(provisions, top, monkeypatch, moment):
    archive = top / "bob" / "model.tar.gz"
    swap = partial(put_link, archive, top / "alice" / "model.tar.gz")
    with swapped_before(monkeypatch, moment, swap), pytest.raises(LaunchError, match=CHANGED):
        await weights_of_instance(provisions, archive)


@pytest.mark.parametrize("name", ["model", "model.tar.gz"])
async def test_a_link_on_the_way(provisions, top, monkeypatch, name):
    swap = partial(put_link, top / "bob", top / "alice")
    with swapped_before(monkeypatch, "find", swap), pytest.raises(LaunchError, match=CHANGED):
        await weights_of_instance(provisions, top / "bob" / name)


async def test_a_link_in_place_of_a_folder(provisions, top, monkeypatch):
    folder = top / "bob" / "model"
    swap = partial(put_link, folder, top / "alice" / "model")
    with swapped_before(monkeypatch, "find", swap), pytest.raises(LaunchError, match=CHANGED):
        await weights_of_instance(provisions, folder)


async def test_a_program_has_the_folder_that_was_checked(provisions, top):
    folder = top / "bob" / "model"
    swap = partial(put_link, folder, top / "alice" / "model")
    assert await weights_of_instance(provisions, folder, swap) == "bob"


async def test_without_proc_the_path_is_looked_at_before_the_start(provisions, top, monkeypatch):
    monkeypatch.setattr(OpenFolder, "program_path", None)
    folder = top / "bob" / "model"
    assert await weights_of_instance(provisions, folder) == "bob"
    swap = partial(put_link, folder, top / "alice" / "model")
    with pytest.raises(LaunchError, match=CHANGED):
        await weights_of_instance(provisions, folder, swap)


@pytest.mark.parametrize("name", ["model", "model.tar.gz"])
async def test_links_of_the_operators_are_followed(provisions, top, name):
    put_link(top / "bob" / name, top / "alice" / name)
    found = await weights_of_instance(provisions, top / "bob" / name, of_caller=False)
    assert found == "alice"


async def test_a_folder_is_closed_with_its_endpoint(provisions, top):
    folder = top / "bob" / "model"
    while_held: list[bool] = []
    await weights_of_instance(provisions, folder, lambda: while_held.append(is_open(folder)))
    assert (while_held, is_open(folder)) == ([True], False)


def is_open(folder: Path) -> bool:
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it is closed by now, as that of the listing is
            if each.samefile(folder):
                return True
    return False
