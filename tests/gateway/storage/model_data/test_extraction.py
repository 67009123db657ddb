"""storage.model_data.extraction: what is unpacked, read-only, and every archive that is not."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import resource
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.gateway.storage.archives.heads import ArchiveError
from partway.gateway.storage.file_threads import Wanted, WorkStopped, remove_tree
from partway.gateway.storage.limits import (
    MODEL_DATA_DEPTH,
    MODEL_DATA_RATIO,
    MODEL_DATA_RATIO_FROM,
)
from partway.gateway.storage.model_data import extraction
from partway.gateway.storage.model_data.disk_room import DiskRoom, NoRoom, RoomShare
from partway.gateway.storage.model_data.extraction import digest_of, unpack
from tests.conftest import ROOT
from tests.gateway.fleet.model_archives import (
    BAD,
    MODEL,
    file,
    folder,
    link,
    packed,
    tar,
    tree,
)


def share(most: int = 1 << 30) -> RoomShare:
    return DiskRoom(most).share()


def unpacked(tmp_path: Path, data: bytes, room: RoomShare | None = None) -> Path:
    archive, into = tmp_path / "model.tar.gz", tmp_path / "into"
    archive.write_bytes(data)
    assert unpack(archive, into, room or share(), Wanted()) == hashlib.sha256(data).hexdigest()
    return into


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


def of(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    return gzip.compress(tar(members, form))


# --- What is unpacked -----------------------------------------------------------------------------


@pytest.mark.clause("1.1-7")
@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_files_and_folders(tmp_path, form):
    members = [folder("."), folder("code"), *(file(f"./{n}", c) for n, c in MODEL.items())]
    into = unpacked(tmp_path, of(*members, folder("none"), form=form))
    assert tree(into) == MODEL
    assert (into / "none").is_dir()


def test_as_tar_packs_it(tmp_path):
    """The command that messages and pages name."""
    source = tmp_path / "source"
    (source / "a b" / "ä").mkdir(parents=True)
    (source / "a b" / "ä" / ("long" * 50)).write_bytes(b"1")
    (source / "link").symlink_to("a b/ä")
    archive = tmp_path / "model.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", source, "."], check=True)
    into = unpacked(tmp_path, archive.read_bytes())
    assert tree(into) == tree(source)
    assert (into / "link").readlink() == Path("a b/ä")


def test_a_link_of_two_names_as_tar_packs_it(tmp_path):
    """The second is a hard link to the first, and so is the second name of a file."""
    source = tmp_path / "source"
    (source / "a").mkdir(parents=True)
    (source / "x").write_bytes(b"1")
    (source / "a" / "x").write_bytes(b"2")
    (source / "link").symlink_to("x")
    for name in ("l", "m", "a/l"):
        os.link(source / "link", source / name, follow_symlinks=False)
    os.link(source / "x", source / "y")
    archive = tmp_path / "model.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", source, "."], check=True)
    with tarfile.open(archive) as tar_file:
        assert [member.islnk() for member in tar_file].count(True) == 4
    into = unpacked(tmp_path, archive.read_bytes())
    assert tree(into) == tree(source)
    assert {(into / name).readlink() for name in ("link", "l", "m", "a/l")} == {Path("x")}
    assert (into / "x").stat().st_ino == (into / "y").stat().st_ino


@pytest.mark.clause("1.1-6")
def test_nobody_may_write(tmp_path):
    into = unpacked(tmp_path, of(file("a/b/x", b"1", mode=0o777), file("y", b"2", mode=0o6622)))
    modes = {path.name: path.stat().st_mode & 0o7777 for path in into.rglob("*")}
    assert modes == {"a": 0o555, "b": 0o555, "x": 0o555, "y": 0o444}
    remove_tree(into)
    assert not into.exists()


def test_links_that_stay_inside(tmp_path):
    into = unpacked(
        tmp_path,
        of(
            link("snapshot/model.bin", "../blobs/0"),  # as Hugging Face's cache has them
            file("blobs/0", b"weights"),
            link("latest", "snapshot"),
            link("same", "blobs/0", tarfile.LNKTYPE),
            link("here", "."),
        ),
    )
    assert (into / "latest" / "model.bin").read_bytes() == b"weights"
    assert (into / "same").stat().st_ino == (into / "blobs" / "0").stat().st_ino
    assert (into / "here").resolve() == into


def test_as_many_folders_within_one_another_as_are_said(tmp_path):
    """The file in the last of them is none."""
    deep = "d/" * MODEL_DATA_DEPTH
    into = unpacked(tmp_path, of(folder(deep), file(f"{deep}x", b"1"), link(f"{deep}l", "x")))
    assert (into / deep / "l").read_bytes() == b"1"


def test_several_packed_one_after_another_are_one(tmp_path):
    data = tar([file("x", b"1" * 1000)])
    assert tree(unpacked(tmp_path, gzip.compress(data[:700]) + gzip.compress(data[700:]))) == {
        "x": b"1" * 1000
    }


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/."), min_size=1, max_size=60)


@given(files=st.dictionaries(_NAMES, st.binary(max_size=1500), min_size=1, max_size=5))
def test_whatever_is_packed_comes_out(tmp_path_factory, files):
    path = tmp_path_factory.mktemp("any")
    assert tree(unpacked(path, packed(files))) == files


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.clause("1.1-7")
@pytest.mark.parametrize("name", BAD)
def test_a_bad_archive(tmp_path, name):
    data, said = BAD[name]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "model.tar.gz").write_bytes(data)
    with pytest.raises(ArchiveError) as caught:
        unpack(outside / "model.tar.gz", outside / "into", share(), Wanted())
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == {"outside"}
    assert names(outside) <= {"model.tar.gz", "into"}


@given(data=st.data())
def test_whatever_a_file_is_nothing_comes_out_beside_it(tmp_path_factory, data):
    whole = tar([file("a", b"1" * 600), link("b", "a"), folder("d"), file("d/" + "n" * 120, b"2")])
    at = data.draw(st.integers(0, len(whole) - 1))
    broken = whole[:at] + data.draw(st.binary(max_size=40)) + whole[at + 20 :]
    path = tmp_path_factory.mktemp("any")
    (path / "model.tar.gz").write_bytes(gzip.compress(broken, 1))
    with suppress(ArchiveError):
        unpack(path / "model.tar.gz", path / "into", share(), Wanted())
    assert names(path) <= {"model.tar.gz", "into"}


_PATHS = st.lists(st.sampled_from(["a", "b", "c", ".."]), min_size=1, max_size=4).map("/".join)
_MEMBERS = st.lists(
    st.one_of(
        st.builds(file, _PATHS, st.just(b"x")),
        st.builds(folder, _PATHS),
        st.builds(link, _PATHS, _PATHS, st.sampled_from([tarfile.SYMTYPE, tarfile.LNKTYPE])),
    ),
    max_size=6,
)


@given(members=_MEMBERS)
def test_whatever_lies_where_nothing_outside_is_touched(tmp_path_factory, members):
    """With files outside that each name could mean."""
    path = tmp_path_factory.mktemp("any")
    top = path / "b" / "a"
    top.mkdir(parents=True)
    outside = [path / "a", path / "c", path / "b" / "b", path / "b" / "c"]
    for each in outside:
        each.write_bytes(b"outside")
    (path / "model.tar.gz").write_bytes(gzip.compress(tar(members), 1))
    with suppress(ArchiveError):
        unpack(path / "model.tar.gz", top / "into", share(), Wanted())
    assert names(top) <= {"into"}
    for each in outside:
        assert each.read_bytes() == b"outside"
        assert each.stat().st_nlink == 1


#: Links on which ways lead up and down within an archive, so that many more lead nowhere else.
_WAYS = [
    *(folder("a/b"), file("x", b"x")),
    *(link("a/b/up", ".."), link("a/b/top", "../.."), link("down", "a/b")),
]
_STEPS = st.lists(st.sampled_from(["..", "..", "..", "a", "b", "x", "into"]), max_size=5)
_TARGETS = st.builds(
    lambda begins, steps: "/".join([*begins, *steps]) or ".",
    st.sampled_from([[], ["a/b/up"], ["a/b/top"], ["down"], ["down/up"]]),
    _STEPS,
)
_NEW_LINKS = st.dictionaries(st.sampled_from(["l", "a/l"]), _TARGETS, min_size=1)


@settings(max_examples=300)
@given(links=_NEW_LINKS)
def test_however_links_lie_nothing_leads_out(tmp_path_factory, links):
    """Nor once the folder has another name, as it has when it is whole."""
    path = tmp_path_factory.mktemp("any")
    (path / "x").write_bytes(b"outside")
    (path / "model.tar.gz").write_bytes(
        gzip.compress(tar([*_WAYS, *(link(*each) for each in links.items())]), 1)
    )
    with suppress(ArchiveError):
        unpack(path / "model.tar.gz", path / "into", share(), Wanted())
        whole = (path / "into").rename(path / "whole")
        assert all(each.resolve(strict=True).is_relative_to(whole) for each in whole.rglob("*"))


def test_a_link_lets_nothing_out_and_nothing_in(tmp_path):
    outside = tmp_path / "secret"
    outside.write_bytes(b"secret")
    for number, members in enumerate(
        [
            [link("l", "../secret")],
            [link("l", str(outside))],
            [link("up", ".."), file("up/evil", b"x")],
            [link("up", ".."), link("l", "up/secret")],
            [link("l", "../secret", tarfile.LNKTYPE)],
            [link("up", ".."), link("l", "up/secret", tarfile.LNKTYPE)],
            # By its words each of these stays inside; followed, the last one does not.
            [folder("a/b"), link("a/b/up", ".."), link("l", "a/b/up/../../secret")],
            [folder("a/b"), link("c", "a/b"), link("a/b/up", "../.."), link("l", "c/up/../secret")],
            # This one comes back, by the folder's name; it would lead out once that is another.
            [
                *(folder("a/b"), file("x"), link("a/b/up", "..")),
                link("l", "a/b/up/../../into8/x"),
            ],
        ]
    ):
        (tmp_path / "model.tar.gz").write_bytes(of(*members))
        with pytest.raises(ArchiveError, match="leads"):
            unpack(tmp_path / "model.tar.gz", tmp_path / f"into{number}", share(), Wanted())
    assert not (tmp_path / "evil").exists()


# --- Bounds ---------------------------------------------------------------------------------------


def zeros(size: int) -> bytes:
    """A gzipped tar with a file of zeros."""
    member, _ = file("zeros")
    member.size, member.mtime = size, 0
    target = io.BytesIO()
    with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=1) as stream:
        stream.write(member.tobuf(tarfile.GNU_FORMAT))
        for _ in range(size >> 20):
            stream.write(bytes(1 << 20))
        stream.write(bytes(1024))
    return target.getvalue()


def test_a_bomb_by_its_ratio(tmp_path, monkeypatch):
    monkeypatch.setattr(extraction, "MODEL_DATA_RATIO_FROM", 1 << 20)
    with pytest.raises(ArchiveError, match=r"more than \d+ bytes unpacked, and that is more than"):
        unpacked(tmp_path, zeros(4 << 20))
    assert (tmp_path / "into" / "zeros").stat().st_size == 0  # its head said so


def test_what_packs_well_is_no_bomb_while_it_is_small(tmp_path):
    into = unpacked(tmp_path, zeros(8 << 20))
    assert (into / "zeros").stat().st_size == 8 << 20
    assert MODEL_DATA_RATIO_FROM >= 8 << 20
    assert MODEL_DATA_RATIO < 1000


def test_a_bomb_by_its_size(tmp_path):
    with pytest.raises(
        NoRoom, match=r"it needs more than the 1\.0 MiB that all model data may use"
    ):
        unpacked(tmp_path, zeros(4 << 20), share(1 << 20))
    assert not (tmp_path / "into" / "zeros").exists()


def test_a_bomb_behind_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(extraction, "MODEL_DATA_RATIO_FROM", 1 << 20)
    data = packed(MODEL) + gzip.compress(bytes(4 << 20))
    with pytest.raises(ArchiveError, match="continues after its end"):
        unpacked(tmp_path, data)


@pytest.mark.parametrize("many", ["files", "folders"])
def test_too_many(tmp_path, monkeypatch, many):
    monkeypatch.setattr(extraction, "MODEL_DATA_FILES", 10)
    members = [file(f"{n}" if many == "files" else f"{n}/x") for n in range(11)]
    assert len(tree(unpacked(tmp_path, of(*members[:5])))) == 5
    (tmp_path / "b").mkdir()
    with pytest.raises(ArchiveError, match="more than 10 files and folders"):
        unpacked(tmp_path / "b", of(*members))


@pytest.mark.parametrize(
    "member",
    [
        lambda n: file(f"{n:04}" * 25),
        lambda n: folder(f"{n:04}" * 25),
        lambda n: link(f"{n:04}", "./" * 47 + "0"),
        lambda n: link(f"{n:04}", "f" * 100, tarfile.LNKTYPE),
        lambda n: file(f"{n:02}/" * 7 + "x"),  # by the folders on its way
    ],
    ids=["files", "folders", "links", "hard links", "folders on the way"],
)
def test_names_are_bounded_all_together(tmp_path, monkeypatch, member):
    monkeypatch.setattr(extraction, "MODEL_DATA_NAMES_IN_ALL", 1000)
    first = [file("0"), file("f" * 100)]
    assert (unpacked(tmp_path, of(*first, *map(member, range(6)))) / "0").exists()
    (tmp_path / "b").mkdir()
    with pytest.raises(ArchiveError, match="the archive's names have more than 1000 bytes in all"):
        unpacked(tmp_path / "b", of(*first, *map(member, range(10))))


#: Unpacks ``model.tar.gz`` of a folder, and prints the most bytes that Python held meanwhile.
PEAK = """
import sys, tracemalloc
from pathlib import Path
from partway.gateway.storage.model_data.disk_room import DiskRoom
from partway.gateway.storage.model_data.extraction import unpack
from partway.gateway.storage.file_threads import Wanted
top, share = Path(sys.argv[1]), DiskRoom(1 << 30).share()
tracemalloc.start()
unpack(top / "model.tar.gz", top / "into", share, Wanted())
print(tracemalloc.get_traced_memory()[1])
"""


def test_names_are_held_once(tmp_path):
    """And those of folders; a character takes four bytes wherever one of a name does.

    The process is a new one: the measure counts the other threads of a process too, and those of a
    run of tests do more on a busy machine.
    """
    long = "😀" + "/".join("d" * 240 for _ in range(4))
    data = of(file("x"), *(folder(f"{long}{n}") for n in range(2000)))
    (tmp_path / "model.tar.gz").write_bytes(data)
    command = [sys.executable, "-c", PEAK, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    once = 2000 * 4 * len(long)
    assert once < int(ended.stdout) < 1.5 * once


def test_empty_files_take_space_too(tmp_path):
    with pytest.raises(NoRoom):
        unpacked(tmp_path, of(*(file(f"{n}") for n in range(300))), share(1 << 20))


def test_a_file_with_too_many_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMLINK, "Too many links")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(ArchiveError, match="'l' links to 'x', which has reached the file"):
        unpacked(tmp_path, of(file("x"), link("l", "x", tarfile.LNKTYPE)))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_are_not_made_once_nobody_wants_them(tmp_path, monkeypatch, kind):
    wanted, made = Wanted(), []

    def make(path, target):
        made.append(target)
        wanted.stop()

    monkeypatch.setattr(Path, "symlink_to", make)
    monkeypatch.setattr(Path, "hardlink_to", make)
    members = [file("x"), *(link(f"l{number}", "x", kind) for number in range(3))]
    (tmp_path / "model.tar.gz").write_bytes(of(*members))
    with pytest.raises(WorkStopped):
        unpack(tmp_path / "model.tar.gz", tmp_path / "into", share(), wanted)
    assert len(made) == 1


@pytest.mark.parametrize("key", ["path", "comment"])
def test_a_bomb_of_pax_records(tmp_path, key):
    """tarfile takes minutes for it, in the Pythons up to 3.13."""
    member, content = file("x", pax_headers={key: "1" * (200 << 10)})
    before = time.process_time()
    with pytest.raises(
        ArchiveError, match=r"a file with a header of 20\d+ bytes; it must be at most"
    ):
        unpacked(tmp_path, of((member, content)))
    assert time.process_time() - before < 1


# --- The disk -------------------------------------------------------------------------------------


def test_a_disk_that_is_full(tmp_path):
    """By the bound of a process on its files: no file system has to be filled for it."""
    (tmp_path / "model.tar.gz").write_bytes(zeros(4 << 20))
    program = (
        "import sys; from pathlib import Path; top = Path(sys.argv[1]);"
        "from partway.gateway.storage.model_data.extraction import *;"
        "from partway.gateway.storage.model_data.disk_room import DiskRoom;"
        "share = DiskRoom(1 << 30).share();"
        "unpack(top / 'model.tar.gz', top / 'into', share, Wanted())"
    )

    def bounded() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    command = [sys.executable, "-B", "-c", program, str(tmp_path)]
    ended = subprocess.run(
        command, preexec_fn=bounded, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert ended.stderr.rstrip().endswith("OSError: [Errno 27] File too large")


# --- Its end --------------------------------------------------------------------------------------


def test_work_that_is_not_wanted_stops(tmp_path):
    (tmp_path / "model.tar.gz").write_bytes(packed(MODEL))
    wanted = Wanted()
    wanted.stop()
    with pytest.raises(WorkStopped):
        unpack(tmp_path / "model.tar.gz", tmp_path / "into", share(), wanted)
    with pytest.raises(WorkStopped):
        digest_of(tmp_path / "model.tar.gz", wanted)


@pytest.mark.parametrize("what", ["pax records", "heads", "zeros behind the end"])
def test_what_packs_to_nothing_stops_as_soon(tmp_path, what):
    """One piece of the file holds all of it, and reading it took 23 s."""
    head = tarfile.TarInfo("x")
    if what == "pax records":
        records = b"4 =\n" * 4096
        head.type, head.size = tarfile.XHDTYPE, len(records)
        data = (head.tobuf() + records) * 200
    elif what == "heads":
        head.type = tarfile.XGLTYPE
        data = head.tobuf() * 2000
    else:
        data = tar([file("x")]) + bytes(200 << 20)
    (tmp_path / "model.tar.gz").write_bytes(gzip.compress(data))

    class OfNoMoreUse(Wanted):
        asked = 0

        def check(self) -> None:
            self.asked += 1
            if self.asked == 100:
                self.stop()
            super().check()

    wanted = OfNoMoreUse()
    with pytest.raises(WorkStopped):
        unpack(tmp_path / "model.tar.gz", tmp_path / "into", share(), wanted)
    assert wanted.asked == 100


def test_the_digest_is_of_the_file_as_it_is(tmp_path):
    (tmp_path / "model.tar.gz").write_bytes(b"1" * 3_000_000)
    digest = digest_of(tmp_path / "model.tar.gz", Wanted())
    assert digest == hashlib.sha256(b"1" * 3_000_000).hexdigest()
