"""Paths of this machine: what callers of the API may name, wherever links lead."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from partway.gateway.storage.places.local_roots import LocalRoots


@pytest.fixture
def folders(tmp_path):
    """A root, and a folder beside it."""
    root, beside = tmp_path / "models", tmp_path / "models-of-others"
    for each in (root, beside):
        (each / "chat").mkdir(parents=True)
    return root, beside


def test_what_is_below_a_root_may_be_named(folders):
    root, _ = folders
    roots = LocalRoots([root])
    for location in (f"{root}/chat", f"file://{root}/chat", f"file://localhost{root}/%63hat"):
        assert roots.path_of(location) == root / "chat"
        assert roots.allow(location)
    assert roots.path_of(f"{root}/not-there-yet") == root / "not-there-yet"
    assert roots.path_of(str(root)) == root


def test_without_roots_nothing_may_be_named(folders):
    assert not LocalRoots().allow(str(folders[0]))


def test_what_leads_elsewhere_may_not(folders):
    root, beside = folders
    roots = LocalRoots([root])
    for location in (
        "/etc/passwd",
        str(beside),
        f"{root}/../models-of-others",
        f"file://elsewhere{root}/chat",
        f"file://{root}/chat?x",
        f"file:{root.name}",
        f"{root}/\0",
        f"file://{root}/%00",
        "models/chat",
        "file://[",
    ):
        assert not roots.allow(location), location
        with pytest.raises(ValueError, match=r"below|URL"):
            roots.path_of(location)


def test_links_are_followed_only_where_a_file_may_be_looked_at(folders, monkeypatch):
    """What is written is looked at on the loop's thread, which no file system may hold up."""
    root, beside = folders
    (root / "out").symlink_to(beside)
    roots = LocalRoots([root])
    with pytest.raises(ValueError, match="must be below one of the local_roots"):
        roots.path_of(f"{root}/out/chat")
    for looking in ("stat", "lstat", "readlink", "getcwd"):
        monkeypatch.setattr(os, looking, lambda *_, **__: pytest.fail("a file is looked at"))
    allowed = [roots.allow(f"{root}/{below}") for below in ("out/chat", "chat", "../elsewhere")]
    monkeypatch.undo()
    assert allowed == [True, True, False]


def test_a_root_may_be_a_link_itself(folders, tmp_path):
    root, _ = folders
    link = tmp_path / "link"
    link.symlink_to(root)
    roots = LocalRoots([link])
    assert roots.path_of(f"{link}/chat") == root / "chat"
    assert roots.allow(f"{link}/chat")


def test_links_in_a_circle_lead_nowhere(folders):
    """Whether that is found out here or when the path is opened is the Python's matter."""
    root, beside = folders
    (root / "circle").symlink_to(beside / "circle")
    (beside / "circle").symlink_to(root / "circle")
    roots = LocalRoots([root])
    with suppress(ValueError):
        assert roots.path_of(f"{root}/circle").is_relative_to(root)


def test_what_is_the_gateways_own_may_not(folders):
    """Neither what is in it, nor a folder that it is in: a container sees all that is below."""
    root, _ = folders
    data, key = root / "gateway" / "data", root / "keys" / "tls.pem"
    for each in (data, key.parent, root / "key"):
        each.mkdir(parents=True)
    key.touch()
    (root / "link").symlink_to(data)
    roots = LocalRoots([root], kept_out=[root / "link", key])
    for location in (
        str(root),
        str(data),
        f"{data}/models",
        str(data.parent),
        f"{root}/link",
        str(key),
        str(key.parent),
    ):
        with pytest.raises(ValueError, match=r"data of the gateway itself.*it must be elsewhere"):
            roots.path_of(location)
    for location in (f"{root}/chat", f"{root}/key", f"{root}/gateway/database"):
        roots.path_of(location)


def test_the_operator_may_name_all_but_the_gateways_own(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    roots = LocalRoots((), [own]).for_operator
    assert roots.path_of("/usr") == Path("/usr").resolve()
    for kept_out in (own, tmp_path, own / "key"):
        with pytest.raises(ValueError, match="data of the gateway itself"):
            roots.path_of(str(kept_out))
