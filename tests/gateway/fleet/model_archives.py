"""Model data packed by tarfile, good and bad."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MODEL = {"model.bin": b"weights" * 1000, "code/inference.py": b"print()\n", "code/empty": b""}


def file(name: str, content: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A member of any kind."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime = len(content), 1.5  # of a pax header
    for each, value in more.items():
        setattr(member, each, value)
    return member, content


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return file(name, type=kind, linkname=target)


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return file(name, type=tarfile.DIRTYPE)


def tar(members: Iterable[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def packed(files: dict[str, bytes]) -> bytes:
    return gzip.compress(tar([file(name, content) for name, content in files.items()]), 1)


def tree(top: Path) -> dict[str, bytes]:
    """The files below a folder, by their paths in it."""
    paths = (path for path in top.rglob("*") if path.is_file())
    return {str(path.relative_to(top)): path.read_bytes() for path in paths}


#: Archives that are refused, each with a part of what is said.
BAD: dict[str, tuple[bytes, str]] = {
    "traversal": (
        gzip.compress(tar([file("../evil", b"x")])),
        "'../evil' leads out of it; leave it out",
    ),
    "traversal inside": (
        gzip.compress(tar([file("a/../../evil", b"x")])),
        "'a/../../evil' leads out of it",
    ),
    "absolute": (gzip.compress(tar([file("/etc/evil", b"x")])), "'/etc/evil' leads out of it"),
    "link up": (
        gzip.compress(tar([link("l", "../../etc/passwd")])),
        "'l', a link to '../../etc/passwd', leads out of it",
    ),
    "absolute link": (
        gzip.compress(tar([link("l", "/etc/passwd")])),
        "'l', a link to '/etc/passwd', leads out of it",
    ),
    "hard link up": (
        gzip.compress(tar([link("l", "../../../../etc/passwd", tarfile.LNKTYPE)])),
        "leads out of it",
    ),
    "absolute hard link": (
        gzip.compress(tar([link("l", "/etc/passwd", tarfile.LNKTYPE)])),
        "leads out of it",
    ),
    "hard link to nothing": (
        gzip.compress(tar([link("l", "etc/passwd", tarfile.LNKTYPE)])),
        "'l' links to 'etc/passwd', which is not a file in it",
    ),
    "hard link to a folder": (
        gzip.compress(tar([folder("d"), link("l", "d", tarfile.LNKTYPE)])),
        "'l' links to 'd', which is not a file in it",
    ),
    "hard link through a link": (
        gzip.compress(tar([link("d", "."), link("l", "d/l2", tarfile.LNKTYPE)])),
        "which is not a file in it",
    ),
    "hard link to a link that leads out from there": (
        gzip.compress(
            tar([file("x"), link("a/l", "../x"), link("l2", "a/l", tarfile.LNKTYPE)]),
        ),
        "'l2', a link to '../x', leads out of it",
    ),
    "hard link to a link that leads to nothing from there": (
        gzip.compress(
            tar([file("x"), link("l", "x"), folder("a"), link("a/l", "l", tarfile.LNKTYPE)]),
        ),
        "'a/l' links to 'x', which leads to nothing in it",
    ),
    "hard link to one that comes later": (
        gzip.compress(
            tar([link("a", "b", tarfile.LNKTYPE), link("b", "x", tarfile.LNKTYPE), file("x")]),
        ),
        "'a' links to 'b', which is not a file in it",
    ),
    "the same link twice": (
        gzip.compress(tar([file("x"), link("l", "x"), link("l", "x")])),
        "the archive has 'l' twice; pack it again",
    ),
    "the same link twice, once as a hard one": (
        gzip.compress(tar([file("x"), link("l", "x"), link("l", "l", tarfile.LNKTYPE)])),
        "the archive has 'l' twice; pack it again",
    ),
    "file through a link": (
        gzip.compress(tar([link("d", "."), file("d/x", b"x")])),
        "the archive has 'd' twice",
    ),
    "link in place of a folder": (
        gzip.compress(tar([file("d/x", b"x"), link("d", ".")])),
        "the archive has 'd' twice",
    ),
    "links that lead out together": (
        gzip.compress(tar([folder("a/b"), link("a/b/up", ".."), link("x", "a/b/up/../../y")])),
        "leads",
    ),
    "a link to nothing": (
        gzip.compress(tar([file("x"), link("l", "nothing")])),
        "'l' links to 'nothing', which leads to nothing in it",
    ),
    "a link to no name": (
        gzip.compress(tar([link("l", "")])),
        "'l' links to '', which leads to nothing in it",
    ),
    "links in a circle": (
        gzip.compress(tar([link("a", "b"), link("b", "a")])),
        "which leads to nothing in it",
    ),
    "device": (
        gzip.compress(tar([file("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)])),
        "'null' is a device, a pipe or of an unknown kind; leave it out",
    ),
    "block device": (
        gzip.compress(tar([file("sda", type=tarfile.BLKTYPE, devmajor=8)])),
        "'sda' is a device",
    ),
    "pipe": (gzip.compress(tar([file("pipe", type=tarfile.FIFOTYPE)])), "'pipe' is a device, a pi"),
    "unknown kind": (
        gzip.compress(tar([file("x", type=b"Q")])),
        "'x' is a device, a pipe or of an unknown kind",
    ),
    "the same file twice": (
        gzip.compress(tar([file("x", b"1"), file("x", b"2")])),
        "the archive has 'x' twice; pack it again",
    ),
    "a file in a file": (
        gzip.compress(tar([file("x", b"1"), file("x/y", b"2")])),
        "the archive has 'x",
    ),
    "a long path": (
        gzip.compress(tar([file("d/" * 50 + "x" * 1000)])),
        "it must have at most 1024",
    ),
    "a long name": (gzip.compress(tar([file("x" * 256)])), "255 bytes of a name"),
    "deep": (gzip.compress(tar([file("d/" * 65 + "x")])), "64 folders"),
    "deep folders": (gzip.compress(tar([folder("d/" * 65)])), "64 folders"),
    "a long link": (
        gzip.compress(tar([link("l", "./" * 600)])),
        "'l' links to a path that is too long",
    ),
    "a link of too many steps": (
        gzip.compress(tar([folder("d"), file("x"), link("l", "d/../" * 100 + "x")])),
        "'l' links to a path that is too long",
    ),
    "a link of too many bytes": (
        gzip.compress(tar([link("l", "😀" * 1024)])),
        "'l' links to a path that is too long",
    ),
    "no name": (gzip.compress(tar([file("./", b"x", type=b"0")])), "a file without a name"),
    "cut": (packed(MODEL)[:-20], "the archive is cut"),
    "cut early": (packed(MODEL)[:200], "the archive is cut"),
    "cut in its head": (packed(MODEL)[:5], "the archive is cut"),
    "cut tar": (gzip.compress(tar([file("x", bytes(5000))])[:3000]), "the archive is cut"),
    "a wrong sum": (
        packed(MODEL)[:-8] + bytes(4) + packed(MODEL)[-4:],
        "the archive is damaged",
    ),
    "rubbish behind": (packed(MODEL) + b"rubbish", "the archive is damaged"),
    "two in one": (packed(MODEL) * 2, "the archive continues after its end"),
    "plain tar": (
        tar([file("x", b"x")]),
        "the file is an uncompressed tar archive; model data must be a gzipped tar: pack it",
    ),
    "zip": (b"PK\x03\x04" + bytes(1000), "the file is a zip archive; model data must be a gz"),
    "bzip2": (b"BZh9" + bytes(1000), "the file is a bzip2 file"),
    "xz": (b"\xfd7zXZ\x00" + bytes(1000), "the file is an xz file"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(1000), "the file is a zstd file"),
    "text": (b"x" * 1000, "the file is not a gzip file; model data must be a gzipped tar"),
    "empty": (b"", "the file is empty; model data must be a gzipped tar"),
    "gzip of nothing": (gzip.compress(b""), "the archive holds no files"),
    "tar of nothing": (
        gzip.compress(tar([folder("."), folder("d")])),
        "the archive holds no files",
    ),
    "gzip of no tar": (gzip.compress(b"x" * 2000), "the file is not a tar archive, or is damaged"),
}
