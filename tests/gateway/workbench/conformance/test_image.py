"""Images' archives, read without an engine, and what is found in them."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

import pytest

from partway.gateway.workbench.conformance import image
from partway.gateway.workbench.conformance.image import (
    CHECKS,
    LABEL,
    MAX_DOCUMENT,
    Configuration,
    ImageError,
    examine,
    read_image,
)
from partway.gateway.workbench.conformance.verdict import Severity, Verdict
from tests.gateway.workbench.conformance.archives import GOOD, LAYER, Layout, saved, tar, written

READ = Configuration(
    entrypoint=("partway-container",),
    labels={LABEL: "true"},
    ports=frozenset({"8080/tcp"}),
    directory="/opt/program",
)


# --- Reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_what_docker_save_writes(tmp_path, packed):
    assert read_image(written(tmp_path, saved(), packed)) == READ


@pytest.mark.parametrize("packed", [False, True])
def test_an_oci_layout(tmp_path, packed):
    layout = Layout()
    assert read_image(written(tmp_path, layout.index(layout.image()), packed)) == READ


def test_a_layout_of_several_platforms_and_what_attests_to_them(tmp_path):
    layout = Layout()
    arm = {**layout.image(User="arm"), "platform": {"architecture": "arm64", "os": "linux"}}
    amd = {**layout.image(User="amd"), "platform": {"architecture": "amd64", "os": "linux"}}
    note = {
        **layout.image(User="attestation"),
        "platform": {"architecture": "amd64"},
        "annotations": {"vnd.docker.reference.type": "attestation-manifest"},
    }
    inner = layout.blob({"manifests": [note, arm, amd]})
    assert read_image(written(tmp_path, layout.index(inner))).user == "amd"
    inner = layout.blob({"manifests": [note, arm]})
    assert read_image(written(tmp_path, layout.index(inner))).user == "arm"


def test_names_may_begin_with_a_dot(tmp_path):
    members = {f"./{name}": data for name, data in saved().items()}
    assert read_image(written(tmp_path, members)) == READ


def test_an_image_that_says_nothing(tmp_path):
    members = saved(dict.fromkeys(GOOD))
    assert read_image(written(tmp_path, members)) == Configuration()
    config = b'{"architecture": "amd64"}'
    manifest = b'[{"Config": "c.json"}]'
    assert (
        read_image(written(tmp_path, {"c.json": config, "manifest.json": manifest}))
        == Configuration()
    )


def _layout(document: Mapping[str, Any]) -> dict[str, bytes]:
    layout = Layout()
    return layout.index(layout.blob(document))


def _circle() -> dict[str, bytes]:
    """An index that leads to itself; nobody looks whether a digest is one of the bytes."""
    name = "0" * 64
    data = json.dumps({"manifests": [{"digest": f"sha256:{name}"}]}).encode()
    return {"index.json": data, f"blobs/sha256/{name}": data}


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"etc/passwd": b"root"}, "neither manifest.json nor index.json"),
        ({"manifest.json": b"{}"}, "manifest.json must be a list of images"),
        ({"manifest.json": b"[1]"}, "manifest.json must be a list of images"),
        ({"manifest.json": b"[]"}, "0 images"),
        ({"manifest.json": b"[{}, {}]"}, "2 images"),
        ({"manifest.json": b"[{}]"}, "None is missing"),
        ({"manifest.json": b"[{"}, "is not JSON"),
        ({"manifest.json": b"[" * 100_000}, "is not JSON"),
        ({"manifest.json": b'[{"Config": "../../etc/passwd"}]'}, "'../../etc/passwd' is missing"),
        ({"manifest.json": b'[{"Config": ["a"]}]'}, "is missing"),
        (
            {"manifest.json": b'[{"Config": "c"}]', "c": b"[]"},
            "the image's configuration must be an object that has",
        ),
        (
            {"manifest.json": b'[{"Config": "c"}]', "c": b'{"config": {"Labels": []}}'},
            "Labels in the image's configuration must be an object",
        ),
        (
            {"manifest.json": b'[{"Config": "c"}]', "c": b'{"config": {"Entrypoint": "a b"}}'},
            "Entrypoint in the image's configuration must be a list",
        ),
        ({"index.json": b"[]"}, "leads to no image"),
        ({"index.json": b'{"manifests": []}'}, "lists no image"),
        ({"index.json": b'{"manifests": [{}]}'}, "None stands where a digest must be"),
        (
            {"index.json": b'{"manifests": [{"digest": "sha256:../x"}]}'},
            "stands where a digest must be",
        ),
        (_layout({"layers": []}), "leads to no image"),
        (_circle(), "leads to no image"),
    ],
)
def test_what_is_no_image(tmp_path, members, why):
    with pytest.raises(ImageError, match=why):
        read_image(written(tmp_path, members))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK\x03\x04" + bytes(1000),
        tar(saved())[:700],
        gzip.compress(tar(saved()))[:300],
        gzip.compress(b"no tar"),
        b"\x1f\x8b" + bytes(100),
    ],
    ids=["empty", "zip", "cut", "cut-gzip", "gzip", "no-gzip"],
)
def test_what_is_no_archive(tmp_path, data):
    path = tmp_path / "image.tar"
    path.write_bytes(data)
    with pytest.raises(ImageError, match=r"not a tar archive|neither manifest.json"):
        read_image(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_image(tmp_path / "image.tar")


# --- Bounds ---------------------------------------------------------------------------------------


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(image, "MAX_MEMBERS", 3)
    assert read_image(written(tmp_path, saved())) == READ
    with pytest.raises(ImageError, match="more than 3 files"):
        read_image(written(tmp_path, {"more": b"", **saved()}))


def test_documents_that_are_too_big_are_not_read(tmp_path):
    members = saved()
    members["manifest.json"] += b" " * MAX_DOCUMENT
    with pytest.raises(ImageError, match="neither manifest"):
        read_image(written(tmp_path, members))


def test_too_much_that_might_be_a_document(tmp_path, monkeypatch):
    monkeypatch.setattr(image, "MAX_DOCUMENTS", 1000)
    members = {f"{n}.json": b"{" + b" " * 400 for n in range(3)}
    with pytest.raises(ImageError, match="the archive's documents have more than 1000 bytes"):
        read_image(written(tmp_path, {**members, **saved()}))


def test_layers_are_no_documents_however_small(tmp_path, monkeypatch):
    monkeypatch.setattr(image, "MAX_DOCUMENTS", 2000)
    layers = {f"{n}/layer.tar": LAYER for n in range(3)}
    assert read_image(written(tmp_path, {**layers, **saved()})) == READ


def test_a_name_of_many_megabytes(tmp_path):
    """A bomb of a few kilobytes, which tarfile by itself would unpack into memory."""
    long = tarfile.TarInfo("././@LongLink")
    long.type = tarfile.GNUTYPE_LONGNAME
    long.size = MAX_DOCUMENT + 1
    path = tmp_path / "image.tar.gz"
    path.write_bytes(gzip.compress(long.tobuf() + bytes(MAX_DOCUMENT + 1024)))
    with pytest.raises(ImageError, match="a head of many megabytes"):
        read_image(path)


def test_documents_and_heads_in_a_row_are_counted_apart(tmp_path):
    """What is read between two files counts for the one before: no archive is too long for it."""
    large = b" " * (MAX_DOCUMENT - 2) + b"{}"
    empty = {f"layers/{n}": b"" for n in range(2000)}
    members = {"large.json": large, **empty, "another.json": large, **saved()}
    assert read_image(written(tmp_path, members)) == READ


def test_heads_upon_heads(tmp_path, monkeypatch):
    monkeypatch.setattr(image, "MAX_READ", 1 << 16)
    with pytest.raises(ImageError, match="a head of many megabytes"):
        read_image(written(tmp_path, {str(n): b"" for n in range(200)}))


def test_a_layer_beyond_all_bounds_is_not_unpacked(tmp_path):
    vast = tarfile.TarInfo("layer.tar")
    vast.size = image.MAX_UNPACKED + 1
    path = tmp_path / "image.tar"
    path.write_bytes(vast.tobuf() + bytes(1024))
    with pytest.raises(ImageError, match="more than 64 GiB"):
        read_image(path)


def test_links_and_devices_are_passed_over(tmp_path):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo("manifest.json")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
    path = tmp_path / "image.tar"
    path.write_bytes(file.getvalue())
    with pytest.raises(ImageError, match="neither manifest"):
        read_image(path)


# --- Checks ---------------------------------------------------------------------------------------


def verdicts(**changes: Any) -> dict[str, Verdict]:
    """What has not passed, of a good image with some changes."""
    found = {**_configuration(), **changes}
    report = examine(Configuration(**found), "image")
    assert [each.check for each in report.results] == list(CHECKS)
    return {
        each.check.id: each.verdict for each in report.results if each.verdict is not Verdict.PASS
    }


def _configuration() -> dict[str, Any]:
    return {name: getattr(READ, name) for name in Configuration.__dataclass_fields__}


@pytest.mark.clause("1.1-1", "1.1-4")
def test_a_good_image():
    report = examine(READ, "image.tar")
    assert verdicts() == {}
    assert (report.subject, report.conformant, report.status) == ("image.tar", True, 0)


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({"labels": {}}, {"image.label": Verdict.FAIL}),
        ({"labels": {LABEL: "True"}}, {"image.label": Verdict.FAIL}),
        ({"entrypoint": ("/usr/bin/tini", "--", "app")}, {"image.tini": Verdict.FAIL}),
        ({"entrypoint": ("dumb-init", "app")}, {"image.tini": Verdict.FAIL}),
        ({"entrypoint": ("app", "serve")}, {"image.serve": Verdict.FAIL}),
        ({"entrypoint": ("serve",)}, {}),
        ({"entrypoint": ("bash", "start.sh")}, {}),
        ({"user": "nobody"}, {"image.user": Verdict.FAIL}),
        ({"user": "1000:0"}, {"image.user": Verdict.FAIL}),
        ({"user": "0:0"}, {}),
        ({"user": "root"}, {}),
        ({"stop_signal": "SIGINT"}, {"image.stop": Verdict.FAIL}),
        ({"stop_signal": "SIGTERM"}, {}),
        ({"ports": frozenset()}, {"image.port": Verdict.NOTE}),
        ({"ports": frozenset({"8080/udp"})}, {"image.port": Verdict.NOTE}),
        ({"directory": "/opt/ml/model"}, {"image.code": Verdict.FAIL}),
        ({"directory": "/opt/ml/model/code/"}, {"image.code": Verdict.FAIL}),
        ({"directory": "/opt/ml/models"}, {}),
        ({"entrypoint": ("python", "/opt/ml/model/app.py")}, {"image.code": Verdict.FAIL}),
    ],
)
def test_what_an_image_breaks(changes, failed):
    assert verdicts(**changes) == failed


@pytest.mark.parametrize(
    "entrypoint",
    [(), ("/bin/sh", "-c", "python app.py"), ("/bin/bash", "-lc", "app"), ("sh", "-e", "-c", "a")],
)
def test_an_entry_point_that_is_none_blocks_what_looks_at_it(entrypoint):
    assert verdicts(entrypoint=entrypoint) == {
        "image.entrypoint": Verdict.FAIL,
        "image.tini": Verdict.BLOCKED,
        "image.serve": Verdict.BLOCKED,
    }


def test_what_the_messages_say():
    broken = Configuration(entrypoint=("sh", "-c", 'a "b"'), labels={LABEL: "yes"})
    said = {each.check.id: (each.said, each.remedy) for each in examine(broken, "image").results}
    what, remedy = said["image.entrypoint"]
    assert what == (
        'the ENTRYPOINT is a shell\'s, ["sh", "-c", "a \\"b\\""]: it loses `serve`, and may keep '
        "SIGTERM to itself"
    )
    assert remedy == (
        'write ENTRYPOINT ["program", "argument"] in the Dockerfile: a list, in double quotes'
    )
    assert said["image.label"] == (
        f"the label {LABEL} is 'yes', not 'true'",
        f"add to the Dockerfile: LABEL {LABEL}=true",
    )


def test_which_ones_a_platform_refuses_an_image_for():
    musts = [check.id for check in CHECKS if check.severity is Severity.MUST]
    assert musts == ["image.entrypoint", "image.tini", "image.label"]
