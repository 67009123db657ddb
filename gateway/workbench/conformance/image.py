"""The checks of an image's archive: its configuration, and whether the platform can start it.

No container engine is needed, and nothing is unpacked. Archives of ``docker save`` and OCI layouts
are read only as far as the small documents that lead to the configuration.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from partway.gateway.fleet.launchers.engine_image import (
    ARTIFACTS,
    ENTRYPOINT_REMEDY,
    LABEL_REMEDY,
    ImageConfiguration,
    entrypoint_trouble,
    image_configuration,
    label_trouble,
    shown,
)
from partway.gateway.storage.archives.heads import ArchiveError
from partway.gateway.workbench.conformance.archive import (
    MAX_DOCUMENT,
    read_documents,
)
from partway.gateway.workbench.conformance.check import Check, Checks, Need
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried, Verdict

#: Most indexes that may lie within each other.
_MAX_DEPTH: Final = 4

_DIGEST = re.compile(r"(sha256|sha512):([0-9a-f]{64,128})")

_INITS = frozenset(
    {"tini", "tini-static", "docker-init", "dumb-init", "catatonit", "s6-svscan", "supervisord"}
)


# --- Reading --------------------------------------------------------------------------------------


def read_image(path: Path) -> ImageConfiguration:
    """Read an archive's one image.

    Raises:
        ArchiveError: the file is not an archive of one image, or is beyond the bounds.
        OSError: the file cannot be read.
    """
    documents = read_documents(path)
    try:
        if "manifest.json" in documents:
            return _configuration(_saved(documents))
        if "index.json" in documents:
            return _configuration(_laid_out(documents))
    except RecursionError:  # showing a value takes more of the stack than reading it
        raise ArchiveError("the archive has a document that is nested too deeply") from None
    raise ArchiveError(
        "the archive has neither manifest.json nor index.json: make it with docker save, not "
        "with docker export"
    )


def _saved(documents: Mapping[str, bytes]) -> Any:
    images = _parsed(documents, "manifest.json")
    if not isinstance(images, list) or not all(isinstance(each, dict) for each in images):
        raise ArchiveError("manifest.json must be a list of images")
    if len(images) != 1:
        raise ArchiveError(f"the archive has {len(images)} images: save one of them, by its name")
    return _parsed(documents, images[0].get("Config"))


def _laid_out(documents: Mapping[str, bytes]) -> Any:
    """The configuration in an OCI layout: of linux/amd64, or else of the first platform."""
    document = _parsed(documents, "index.json")
    for _ in range(_MAX_DEPTH):
        if not isinstance(document, dict):
            break
        if isinstance(document.get("config"), dict):
            return _parsed(documents, _blob(document["config"]))
        manifests = document.get("manifests")
        if not isinstance(manifests, list):
            break
        images = [each for each in manifests if isinstance(each, dict) and not _attests(each)]
        if not images:
            raise ArchiveError("index.json lists no image")
        images.sort(key=lambda each: each.get("platform") is not None and not _usual(each))
        document = _parsed(documents, _blob(images[0]))
    raise ArchiveError("index.json leads to no image's manifest")


def _attests(descriptor: Mapping[str, Any]) -> bool:
    """Whether a descriptor leads to a build attestation rather than to an image."""
    notes = descriptor.get("annotations")
    return isinstance(notes, dict) and "vnd.docker.reference.type" in notes


def _usual(descriptor: Mapping[str, Any]) -> bool:
    platform = descriptor.get("platform")
    return isinstance(platform, dict) and platform.get("architecture") == "amd64"


def _blob(descriptor: Mapping[str, Any]) -> str:
    digest = _DIGEST.fullmatch(str(descriptor.get("digest")))
    if digest is None:
        raise ArchiveError(f"{shown(descriptor.get('digest'))} was found; it must be a digest")
    return f"blobs/{digest[1]}/{digest[2]}"


def _parsed(documents: Mapping[str, bytes], name: object) -> Any:
    data = documents.get(posixpath.normpath(name)) if isinstance(name, str) else None
    if data is None:
        raise ArchiveError(
            f"{shown(name)} is missing, or is not JSON of at most {MAX_DOCUMENT} bytes"
        )
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"{shown(name)} is not JSON: {error}") from error


def _configuration(document: Any) -> ImageConfiguration:
    members = (document.get("config") or {}) if isinstance(document, dict) else None
    if not isinstance(members, dict):
        raise ArchiveError(
            "the image's configuration must be an object that has the object 'config'"
        )
    try:
        return image_configuration(members)
    except ValueError as error:
        raise ArchiveError(str(error)) from None


# --- Checking -------------------------------------------------------------------------------------

#: Looks at an image. It returns if the clause is kept, and raises Broken if not.
_Rule = Callable[[ImageConfiguration], None]

_checks = Checks()
_RULES: dict[str, _Rule] = {}


def _rule(
    id: str,  # noqa: A002 (what a check calls it)
    *clauses: str,
    title: str,
    remedy: str,
    severity: Severity = Severity.MUST,
    requires: tuple[str, ...] = (),
) -> Callable[[_Rule], _Rule]:
    def take(rule: _Rule) -> _Rule:
        _checks.add(
            id,
            *clauses,
            title=title,
            remedy=remedy,
            severity=severity,
            requires=requires,
            needs=(Need.IMAGE,),
        )(_without_image)
        _RULES[id] = rule
        return rule

    return take


async def _without_image(trial: Trial) -> None:  # noqa: ARG001 (every check is given one)
    raise Untried(f"needs {Need.IMAGE.value}")


@_rule(
    "image.entrypoint",
    "1.1-1",
    title="the image has an ENTRYPOINT in exec form",
    remedy=ENTRYPOINT_REMEDY,
)
def _entrypoint(image: ImageConfiguration) -> None:
    if trouble := entrypoint_trouble(image):
        raise Broken(trouble)


@_rule(
    "image.tini",
    "1.1-1",
    title="the ENTRYPOINT starts the container's program, not an init",
    remedy="start the program itself: the platform does not accept tini as an entry point",
    requires=("image.entrypoint",),
)
def _tini(image: ImageConfiguration) -> None:
    if posixpath.basename(image.entrypoint[0]) in _INITS:
        raise Broken(f"the ENTRYPOINT is {image.words}")


@_rule(
    "image.serve",
    "1.1-1",
    severity=Severity.SHOULD,
    title="the ENTRYPOINT does not have `serve`, which the platform appends",
    remedy="leave `serve` out of the ENTRYPOINT; CMD may have it",
    requires=("image.entrypoint",),
)
def _serve(image: ImageConfiguration) -> None:
    if "serve" in image.entrypoint[1:]:
        raise Broken(f"the ENTRYPOINT is {image.words}, and the platform appends another `serve`")


@_rule(
    "image.label",
    "1.1-4",
    title="the image has the label for bidirectional streams",
    remedy=LABEL_REMEDY,
)
def _label(image: ImageConfiguration) -> None:
    if trouble := label_trouble(image):
        raise Broken(trouble)


@_rule(
    "image.user",
    "1.1-1",
    severity=Severity.SHOULD,
    title="the image runs as root",
    remedy="leave USER out: the platform's mounts and ports are made for root",
)
def _user(image: ImageConfiguration) -> None:
    if image.user.partition(":")[0] not in {"", "root", "0"}:
        raise Broken(f"the image runs as {shown(image.user)}")


@_rule(
    "image.stop",
    "1.1-1",
    severity=Severity.SHOULD,
    title="SIGTERM is the image's stop signal",
    remedy="leave STOPSIGNAL out, and end on SIGTERM: the platform sends no other signal",
)
def _stop(image: ImageConfiguration) -> None:
    if image.stop_signal not in {"", "SIGTERM", "TERM", "15"}:
        raise Broken(f"the STOPSIGNAL is {shown(image.stop_signal)}")


@_rule(
    "image.code",
    "1.1-6",
    severity=Severity.SHOULD,
    title=f"the image has no program under {ARTIFACTS}",
    remedy="put the code elsewhere, such as /opt/program: the platform mounts the artifacts at "
    f"{ARTIFACTS}, and they hide the code",
)
def _code(image: ImageConfiguration) -> None:
    for path in (image.directory, *image.entrypoint):
        if f"{posixpath.normpath(path)}/".startswith(f"{ARTIFACTS}/"):
            raise Broken(f"the image uses {shown(path)}")


@_rule(
    "image.port",
    "1.1-2",
    severity=Severity.NOTE,
    title="the image exposes port 8080",
    remedy="add EXPOSE 8080 to the Dockerfile; the platform ignores it, but it tells people the "
    "port",
)
def _port(image: ImageConfiguration) -> None:
    if not image.ports & {"8080", "8080/tcp"}:
        raise Broken("there is no EXPOSE 8080")


#: The checks that an engine's launcher makes too.
_STOPPING: Final = frozenset({"image.entrypoint", "image.label"})

#: The checks that need only the image's configuration.
CHECKS: Final[tuple[Check, ...]] = tuple(_checks)


def examine(image: ImageConfiguration, subject: str, checks: Iterable[Check] = CHECKS) -> Report:
    """Try checks of this module on an image; ``subject`` is the image's name in the report."""
    report = Report(subject=subject)
    passed: set[str] = set()
    for check in checks:
        blocking = next((each for each in check.requires if each not in passed), None)
        if blocking is not None:
            result = Result(check, Verdict.BLOCKED, said=f"{blocking} did not pass")
        else:
            result = _result(check, image)
        if result.verdict is Verdict.PASS:
            passed.add(check.id)
        report.results.append(result)
    return report


def stops_the_start(report: Report) -> str:
    """The failed check that keeps the image's containers from being started, or ""."""
    return next(
        (
            each.check.id
            for each in report.results
            if each.verdict is Verdict.FAIL and each.check.id in _STOPPING
        ),
        "",
    )


def _result(check: Check, image: ImageConfiguration) -> Result:
    try:
        _RULES[check.id](image)
    except Broken as broken:
        verdict = Verdict.NOTE if check.severity is Severity.NOTE else Verdict.FAIL
        return Result(check, verdict, said=broken.what, remedy=broken.remedy or check.remedy)
    return Result(check, Verdict.PASS)
