"""Images' archives, read without an engine, and what is found in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from partway.gateway.fleet.launchers.engine_image import LABEL, ImageConfiguration
from partway.gateway.storage.archives.heads import ArchiveError
from partway.gateway.workbench.conformance.image import CHECKS, examine, read_image
from partway.gateway.workbench.conformance.verdict import Severity, Verdict
from tests.gateway.workbench.conformance.archives import GOOD, Layout, saved, written

READ = ImageConfiguration(
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
    assert read_image(written(tmp_path, members)) == ImageConfiguration()
    config = b'{"architecture": "amd64"}'
    manifest = b'[{"Config": "c.json"}]'
    assert (
        read_image(written(tmp_path, {"c.json": config, "manifest.json": manifest}))
        == ImageConfiguration()
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
        ({"index.json": b'{"manifests": [{}]}'}, "None was found; it must be a digest"),
        (
            {"index.json": b'{"manifests": [{"digest": "sha256:../x"}]}'},
            "was found; it must be a digest",
        ),
        (_layout({"layers": []}), "leads to no image"),
        (_circle(), "leads to no image"),
    ],
)
def test_what_is_no_image(tmp_path, members, why):
    with pytest.raises(ArchiveError, match=why):
        read_image(written(tmp_path, members))


@pytest.mark.parametrize("where", ["Entrypoint", "Labels", "digest"])
def test_values_that_are_nested_deep(tmp_path, where):
    """Whatever Python makes of them at whatever depth, it is one of two things."""
    for depth in (100, 300, 900, 970, 990, 2000, 20_000):
        deep = "[" * depth + "]" * depth
        if where == "digest":
            members = {"index.json": f'{{"manifests": [{{"digest": {deep}}}]}}'.encode()}
        else:
            value = f"[{deep}]" if where == "Entrypoint" else f'{{"a": {deep}}}'
            members = {
                "manifest.json": b'[{"Config": "c"}]',
                "c": f'{{"config": {{"{where}": {value}}}}}'.encode(),
            }
        try:
            found = read_image(written(tmp_path, members))
        except ArchiveError as error:
            assert len(str(error)) < 1000  # noqa: PT017 (either may be)
        else:
            assert where != "digest"
            assert deep in (*found.entrypoint, *found.labels.values())


# --- Checks ---------------------------------------------------------------------------------------


def verdicts(**changes: Any) -> dict[str, Verdict]:
    """What has not passed, of a good image with some changes."""
    found = {**_configuration(), **changes}
    report = examine(ImageConfiguration(**found), "image")
    assert [each.check for each in report.results] == list(CHECKS)
    return {
        each.check.id: each.verdict for each in report.results if each.verdict is not Verdict.PASS
    }


def _configuration() -> dict[str, Any]:
    return {name: getattr(READ, name) for name in ImageConfiguration.__dataclass_fields__}


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
    broken = ImageConfiguration(entrypoint=("sh", "-c", 'a "b"'), labels={LABEL: "yes"})
    said = {each.check.id: (each.said, each.remedy) for each in examine(broken, "image").results}
    what, remedy = said["image.entrypoint"]
    assert what == (
        'the ENTRYPOINT runs a shell, ["sh", "-c", "a \\"b\\""], which drops the argument '
        "`serve` and may not pass SIGTERM on"
    )
    assert remedy == (
        'write ENTRYPOINT ["program", "argument"] in the Dockerfile: a list, in double quotes'
    )
    assert said["image.label"] == (
        f"the label {LABEL} is 'yes', not 'true'",
        f"add to the Dockerfile: LABEL {LABEL}=true",
    )


def test_of_what_an_image_says_a_message_repeats_little():
    long = "x" * 100_000
    broken = ImageConfiguration(("app", "serve", long), long, {LABEL: long}, stop_signal=long)
    for result in examine(broken, "image").results:
        assert len(result.said) < 600


def test_which_ones_a_platform_refuses_an_image_for():
    musts = [check.id for check in CHECKS if check.severity is Severity.MUST]
    assert musts == ["image.entrypoint", "image.tini", "image.label"]
