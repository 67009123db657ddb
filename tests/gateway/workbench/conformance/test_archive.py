"""What is read of strangers' archives, and how far."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.gateway.storage.archives.heads import ArchiveError
from partway.gateway.workbench.conformance import archive
from partway.gateway.workbench.conformance.archive import (
    MAX_DOCUMENT,
    MAX_INFLATED,
    MAX_RECORDS,
    MAX_UNPACKED,
    read_documents,
)
from tests.gateway.workbench.conformance.archives import LAYER, saved, tar, written


def head(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def refusal(tmp_path: Path, data: bytes, packed: bool = False) -> str:
    path = tmp_path / "image.tar"
    path.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(ArchiveError) as caught:
        read_documents(path)
    return str(caught.value)


# --- What tarfile writes --------------------------------------------------------------------------

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/."), min_size=1, max_size=150)


@settings(deadline=None)
@given(
    members=st.dictionaries(
        st.lists(_NAMES, min_size=1, max_size=3).map("/".join),
        st.sampled_from([b"", b"{}", b"[" + b" " * 511, LAYER, b"{" + b"x" * 600]),
        max_size=6,
    ),
    form=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    packed=st.booleans(),
)
def test_each_document_is_found_by_its_name(
    tmp_path_factory: pytest.TempPathFactory,
    members: Mapping[str, bytes],
    form: int,
    packed: bool,
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.tar"
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as written_to:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), 1.5  # a pax header each
            written_to.addfile(member, io.BytesIO(data))
    data = file.getvalue()
    path.write_bytes(gzip.compress(data) if packed else data)
    assert read_documents(path) == {
        os.path.normpath(name): data for name, data in members.items() if data[:1] in (b"{", b"[")
    }


def test_a_name_in_two_fields(tmp_path):
    name = "/".join(["directory" * 5] * 4)
    path = tmp_path / "image.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as written_to:
        member = tarfile.TarInfo(name)
        member.size = 2
        written_to.addfile(member, io.BytesIO(b"{}"))
    assert read_documents(path) == {name: b"{}"}


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_layer_of_more_than_eight_gigabytes(tmp_path, form):
    """Its size has no room in the octal digits of a head."""
    member = tarfile.TarInfo("layer.tar")
    member.size = 9 << 30
    path = tmp_path / "image.tar"
    with path.open("wb") as file:  # it takes up nothing
        file.write(member.tobuf(form))
        file.seek(member.size, os.SEEK_CUR)
        file.write(tar({"manifest.json": b"[]"}))
    assert read_documents(path) == {"manifest.json": b"[]"}


def test_an_archive_without_its_last_blocks(tmp_path):
    path = tmp_path / "image.tar"
    path.write_bytes(head("manifest.json", 2) + b"[]".ljust(512, b"\0"))
    assert read_documents(path) == {"manifest.json": b"[]"}


def test_links_and_devices_are_passed_over(tmp_path):
    path = tmp_path / "image.tar"
    with tarfile.open(path, "w") as written_to:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo("manifest.json")
            member.type, member.linkname = kind, "/etc/passwd"
            written_to.addfile(member)
    assert read_documents(path) == {}


# --- What is no archive ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04" + bytes(1000),
        tar(saved())[:700],
        tar(saved())[:1700],
        gzip.compress(tar(saved()))[:300],
        gzip.compress(b"no tar"),
        b"\x1f\x8b" + bytes(100),
        b"x" * 512,
        head("a", 1)[:-1],
    ],
    ids=["zip", "cut", "cut-head", "cut-gzip", "gzip", "no-gzip", "text", "half a head"],
)
def test_what_is_no_archive(tmp_path, data):
    assert "not a tar archive, or is damaged" in refusal(tmp_path, data)


def test_a_byte_of_a_head_is_changed(tmp_path):
    data = bytearray(tar(saved()))
    data[3] ^= 1
    assert "a header's checksum is wrong" in refusal(tmp_path, bytes(data))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "image.tar")
    with pytest.raises(OSError, match="this is a pipe; it must be a regular file"):
        read_documents(tmp_path / "image.tar")


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_whatever_a_file_is_it_is_read_or_refused(tmp_path_factory, data):
    whole = tar({"a.json": b"{}", "long" * 50: b"[]"})
    at = data.draw(st.integers(0, len(whole) - 1))
    broken = whole[:at] + data.draw(st.binary(max_size=40)) + whole[at + 20 :]
    path = tmp_path_factory.getbasetemp() / "broken.tar"
    path.write_bytes(broken)
    with suppress(ArchiveError):
        read_documents(path)


# --- Bounds ---------------------------------------------------------------------------------------


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    read_documents(written(tmp_path, saved()))
    with pytest.raises(ArchiveError, match="more than 3 files"):
        read_documents(written(tmp_path, {"more": b"", **saved()}))


def test_documents_that_are_too_big_are_not_read(tmp_path):
    members = {"a": b"{" + b" " * MAX_DOCUMENT, "b": b"{" + b" " * (MAX_DOCUMENT - 1)}
    assert list(read_documents(written(tmp_path, members))) == ["b"]


def test_too_much_that_might_be_a_document(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_DOCUMENTS", 1000)
    members = {f"{n}.json": b"{" + b" " * 400 for n in range(3)}
    with pytest.raises(ArchiveError, match="the archive's documents have more than 1000 bytes"):
        read_documents(written(tmp_path, members))


def test_layers_are_no_documents_however_small(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_DOCUMENTS", 2000)
    layers = {f"{n}/layer.tar": LAYER for n in range(3)}
    assert len(read_documents(written(tmp_path, {**layers, **saved()}))) == 2


@pytest.mark.parametrize(
    "kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE]
)
def test_a_head_of_many_bytes(tmp_path, kind):
    """tarfile would read all of it; of digits, in a time that grows with the square."""
    content = b"1" * (200 << 10)
    before = time.process_time()
    said = refusal(tmp_path, head("long", len(content), kind) + content + bytes(1024), packed=True)
    assert said == (
        f"the archive has a file with a header of {200 << 10} bytes; "
        f"it must be at most {MAX_RECORDS}"
    )
    assert time.process_time() - before < 1


def test_what_a_head_says_that_is_not_needed_is_passed_over(tmp_path):
    path = tmp_path / "image.tar"
    content = b"1" * (200 << 10)
    path.write_bytes(head("long", len(content), tarfile.XGLTYPE) + content + tar({"a": b"{}"}))
    assert read_documents(path) == {"a": b"{}"}


def test_heads_that_announce_one_another(tmp_path):
    """To tarfile each is a call within a call."""
    chain = (head("long", 5, tarfile.GNUTYPE_LONGNAME) + b"name\0".ljust(512, b"\0")) * 3000
    path = tmp_path / "image.tar"
    path.write_bytes(chain + tar({"a": b"{}"}))
    assert read_documents(path) == {"name": b"{}"}


def test_heads_upon_heads(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_RECORDS_IN_ALL", 1000)
    each = head("long", 300, tarfile.GNUTYPE_LONGNAME) + bytes(512) + head("a", 0)
    assert refusal(tmp_path, each * 4) == "the archive's headers have more than 1000 bytes"


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (b"9" * 100, "a pax header has no records"),
        (b"999999 a=b\n", "a pax header has no records"),
        (b"0 a=b\n", "a pax header has no records"),
        (b"-6 a=b\n", "a pax header has no records"),
        (b"6 a=b\nx", "a pax header has no records"),
        (b"7 a=bc", "a pax header has no records"),
        (b"10 size=x\n", "a pax header has no size"),
        (b"12 size=-10\n", "a pax header has no size"),
        (b"30 size=%s\n" % (b"9" * 21), "a pax header has no size"),
    ],
)
def test_a_pax_header_that_is_none(tmp_path, records, said):
    data = head("x", len(records), tarfile.XHDTYPE) + records.ljust(512, b"\0") + tar({"a": b"{}"})
    assert refusal(tmp_path, data) == f"the archive is damaged: {said}"


def test_a_file_with_holes(tmp_path):
    data = head("sparse", 0, tarfile.GNUTYPE_SPARSE) + bytes(1024)
    assert "a file with holes: pack it without tar's --sparse" in refusal(tmp_path, data)


def test_a_layer_beyond_all_bounds_is_not_unpacked(tmp_path):
    data = head("layer.tar", MAX_UNPACKED + 1) + bytes(1024)
    assert refusal(tmp_path, data) == "the archive has more than 64 GiB"


def test_more_is_inflated_than_anybody_waits_for(tmp_path, monkeypatch):
    """A kilobyte of a packed archive is a megabyte of zeros, each of which has to be passed."""
    assert refusal(tmp_path, head("layer.tar", MAX_INFLATED), packed=True) == (
        "the archive has more than 2 GiB once it is unpacked: unpack it, and give the .tar: of "
        "a .tar only the small documents are read"
    )
    monkeypatch.setattr(archive, "MAX_INFLATED", 1 << 20)
    data = head("layer.tar", 1 << 20) + bytes(1 << 20)
    assert "unpack it, and give the .tar" in refusal(tmp_path, data, packed=True)
    (tmp_path / "whole.tar").write_bytes(data + tar({"a": b"{}"}))
    assert read_documents(tmp_path / "whole.tar") == {"a": b"{}"}
