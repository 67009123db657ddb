"""storage.archives.heads: what a tar file's heads say, read as tarfile reads them."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.storage.archives import heads
from partway.gateway.storage.archives.heads import (
    ArchiveError,
    HeadBounds,
    Member,
    Tape,
    members,
    padded,
)

BOUNDS = HeadBounds(files=100, records=4096, records_in_all=100_000)


def read(data: bytes, bounds: HeadBounds = BOUNDS) -> list[tuple[Member, bytes]]:
    tape = Tape(io.BytesIO(data), 1 << 20, "the archive is too long")
    found = []
    for member in members(tape, bounds):
        end = tape.at + padded(member.size)
        found.append((member, b"".join(tape.pieces(member.size))))
        tape.pass_to(end)
    return found


def head(name: str, kind: bytes, size: int = 0, **more: object) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    for each, value in more.items():
        setattr(member, each, value)
    return member.tobuf(tarfile.GNU_FORMAT)


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=120)
_KINDS = st.sampled_from(
    [tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE]
)


@given(
    said=st.lists(st.tuples(_NAMES, _NAMES, _KINDS, st.integers(0, 0o777)), max_size=5),
    form=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    data=st.data(),
)
def test_names_links_kinds_modes_and_contents_of_what_tarfile_writes(
    said: list[tuple[str, str, bytes, int]], form: int, data: st.DataObject
) -> None:
    file, expected = io.BytesIO(), []
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for name, link, kind, mode in said:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.mtime = kind, mode, 1.5
            is_link = kind in (tarfile.LNKTYPE, tarfile.SYMTYPE)
            member.linkname = link if is_link else ""
            content = data.draw(st.binary(max_size=1500)) if kind == tarfile.REGTYPE else b""
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
            shown = name + "/" if kind == tarfile.DIRTYPE else name
            link_bytes = member.linkname.encode()
            expected.append(
                (Member(shown.encode(), len(content), kind[0], link_bytes, mode), content)
            )
    assert read(file.getvalue()) == expected


def test_what_was_announced_is_said_of_one_member_alone() -> None:
    long = b"l" * 200
    announced = head("x", tarfile.GNUTYPE_LONGLINK, len(long)) + long.ljust(512, b"\0")
    found = read(announced + head("a", tarfile.SYMTYPE) + head("b", tarfile.SYMTYPE, linkname="c"))
    assert [(member.name, member.link) for member, _ in found] == [(b"a", long), (b"b", b"c")]


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE])
def test_what_is_no_file_has_no_content_whatever_is_said(kind: bytes) -> None:
    """Else the heads behind it would be read as its content, or its content as heads."""
    records = b"13 size=1024\n"
    said = head("x", tarfile.XHDTYPE, len(records)) + records.ljust(512, b"\0")
    found = read(said + head("a", kind, 512) + head("b", tarfile.REGTYPE))
    assert [member.name.rstrip(b"/") for member, _ in found] == [b"a", b"b"]


def test_a_file_with_holes_by_pax() -> None:
    records = b"22 GNU.sparse.major=1\n"
    said = head("x", tarfile.XHDTYPE, len(records)) + records.ljust(512, b"\0")
    with pytest.raises(ArchiveError, match="a file with holes: pack it without tar's --sparse"):
        read(said + head("a", tarfile.REGTYPE))


def test_an_archive_that_is_too_long() -> None:
    with pytest.raises(ArchiveError, match="the archive is too long"):
        read(head("a", tarfile.REGTYPE, 2 << 20))


def test_a_content_is_held_in_pieces() -> None:
    size = 3 * heads._PIECE + 1
    tape = Tape(io.BytesIO(bytes(size)), size, "too long")
    assert [len(piece) for piece in tape.pieces(size)] == [heads._PIECE] * 3 + [1]
    assert tape.at == size
