"""partway.gateway.storage.archives.links: as the kernel would have it, and never outside."""

from __future__ import annotations

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.gateway.storage.archives.heads import ArchiveError
from partway.gateway.storage.archives.links import LinkedWays

FOLDERS = {"a", "a/b"}
FILES = {"x", "a/x"}


def refusal(ways: LinkedWays, name: str) -> str:
    """Why a link is refused; empty if it is not."""
    try:
        ways.check(name)
    except ArchiveError as error:
        return str(error)
    return ""


_PARTS = st.lists(
    st.sampled_from(["a", "b", "x", "l", "m", "..", "..", ".", ""]), min_size=1, max_size=6
)
_TARGETS = _PARTS.map("/".join).filter(lambda target: target and not target.startswith("/"))


@settings(max_examples=300)
@given(links=st.dictionaries(st.sampled_from(["l", "m", "a/l", "a/b/m"]), _TARGETS, min_size=1))
def test_it_is_as_the_kernel_has_it(tmp_path_factory, links):
    top = tmp_path_factory.mktemp("any")
    for name in sorted(FOLDERS):
        (top / name).mkdir()
    for name in FILES:
        (top / name).write_bytes(b"")
    for name, target in links.items():
        (top / name).symlink_to(target)
    ways = LinkedWays(FOLDERS, FILES, links)
    for name in links:
        said = refusal(ways, name)
        if not said:
            assert (top / name).resolve(strict=True).is_relative_to(top)
        elif "leads out of it" not in said:
            assert not (top / name).exists()


@pytest.mark.parametrize(
    "links",
    [
        {"l": "../x"},
        {"a/b/l": "../../.."},
        {"a/b/up": "../..", "l": "a/b/up/../x"},
        {"a/b/up": "..", "l": "a/b/up/../../into/x"},  # and back, by what the folder may be called
    ],
)
def test_no_step_is_outside(links):
    ways = LinkedWays(FOLDERS, FILES, links)
    assert any(refusal(ways, name).endswith("leads out of it; leave it out") for name in links)


@pytest.mark.parametrize("target", ["none", "x/", "x/.", "x/..", "a/x/y", "l", "m"])
def test_what_leads_to_nothing(target):
    with pytest.raises(ArchiveError, match="leads to nothing in it"):
        LinkedWays(FOLDERS, FILES, {"l": target, "m": "l"}).check("l")


@pytest.mark.parametrize("order", [1, -1])
def test_as_many_links_in_a_way_as_the_kernel_follows(tmp_path, order):
    links = {f"l{number}": f"l{number + 1}" for number in range(41)} | {"l41": "x"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "x").write_bytes(b"")
    ways = LinkedWays(FOLDERS, FILES, links)
    refused = {name for name in [*links][::order] if refusal(ways, name)}
    assert refused == {"l0", "l1"} == {name for name in links if not (tmp_path / name).exists()}


def test_links_that_are_followed_again_and_again_cost_little():
    """On a disk each of them takes a tenth of a second."""
    deep = "/".join("d" * 60)
    folders = {deep[: 2 * depth + 1] for depth in range(60)}
    links = {f"{deep}/a{n}": "../d/" * 60 + f"a{n + 1}" for n in range(38)}
    links |= {f"{deep}/a38": "../" * 60 + "x"}
    links |= {f"{deep}/l{n}": "a0" for n in range(2000)}
    ways, before = LinkedWays(folders, FILES, links), time.process_time()
    for name in links:
        ways.check(name)
    assert time.process_time() - before < 5


def test_a_long_path_at_which_many_links_end_is_held_once():
    deep = "😀" + "/".join("d" * 240 for _ in range(4))
    folders = {deep.rsplit("/", up)[0] for up in range(4)}
    links = {"k": deep} | {f"l{n}": "k/x" for n in range(2000)}
    ways = LinkedWays(folders, {f"{deep}/x"}, links)
    tracemalloc.start()
    for name in links:
        ways.check(name)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1 << 20
