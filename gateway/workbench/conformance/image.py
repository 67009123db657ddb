"""An image as an archive: its configuration, and whether the platform can start it.

No container engine is needed, and nothing is unpacked: of ``docker save``'s archives and of OCI
layouts, ``.tar`` and ``.tar.gz``, only the few small documents are read that lead to the image's
configuration. An archive may come from anywhere, so all that is read is bounded.
"""

from __future__ import annotations

import gzip
import io
import json
import posixpath
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

from partway.gateway.workbench.conformance.check import Check, Checks, Need
from partway.gateway.workbench.conformance.run import Report, Result
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried, Verdict

#: Bytes of one JSON document, and of all files that might be one. A configuration has some
#: kilobytes.
MAX_DOCUMENT: Final = 4 << 20
MAX_DOCUMENTS: Final = 16 << 20

#: Files in an archive: an image has at most 127 layers, and each of them three files.
MAX_MEMBERS: Final = 10_000

#: Bytes of an unpacked archive; the platform's registry takes layers of 52,000 MiB, and nobody
#: waits for as much here.
MAX_UNPACKED: Final = 64 << 30

#: Bytes that are read of an archive: documents, and the heads of all files. Layers are passed over.
MAX_READ: Final = 64 << 20

#: Bytes that are read one after the other, of a head or of a document. tarfile keeps all of a long
#: name, however long it says it is; from Python 3.14 on it asks for the name in pieces.
_MAX_IN_A_ROW: Final = MAX_DOCUMENT

#: How many indexes may lie within each other.
_MAX_DEPTH: Final = 4

_GZIP = b"\x1f\x8b"
_DIGEST = re.compile(r"(sha256|sha512):([0-9a-f]{64,128})")

LABEL: Final = "com.amazonaws.sagemaker.capabilities.bidirectional-streaming"
ARTIFACTS: Final = "/opt/ml/model"

_KINDS: Final[Mapping[type[Any], str]] = {str: "a string", list: "a list", dict: "an object"}

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})
_INITS = frozenset(
    {"tini", "tini-static", "docker-init", "dumb-init", "catatonit", "s6-svscan", "supervisord"}
)


class ImageError(Exception):
    """The archive cannot be read as an image; says why, and what to do."""


# --- Reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Configuration:
    """What an image says of itself.

    Attributes:
        entrypoint: the words of its ENTRYPOINT; empty if there is no ENTRYPOINT.
        user: the user as whom it runs; empty for root.
        labels: names and values of its labels.
        ports: the ports it names, as ``8080/tcp``.
        stop_signal: its STOPSIGNAL; empty for SIGTERM.
        directory: the folder in which it starts.
    """

    entrypoint: tuple[str, ...] = ()
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: frozenset[str] = frozenset()
    stop_signal: str = ""
    directory: str = ""


def read_image(path: Path) -> Configuration:
    """Read an archive's one image.

    Raises:
        ImageError: the file is not an archive of one image, or is beyond the bounds.
        OSError: the file cannot be read.
    """
    documents = _documents(path)
    if "manifest.json" in documents:
        configuration = _saved(documents)
    elif "index.json" in documents:
        configuration = _laid_out(documents)
    else:
        raise ImageError(
            "the archive has neither manifest.json nor index.json: make it with docker save, not "
            "with docker export"
        )
    return _configuration(configuration)


def _documents(path: Path) -> dict[str, bytes]:
    """The files of an archive that might be JSON, by their names, read in one pass."""
    found: dict[str, bytes] = {}
    size = count = 0
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        whole: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=file) if packed else file
        try:
            bounded = _Bounded(whole)
            with tarfile.open(fileobj=bounded, mode="r:") as archive:
                for member in _members(archive, bounded):
                    count += 1
                    if count > MAX_MEMBERS:
                        raise ImageError(f"the archive has more than {MAX_MEMBERS} files")
                    content = archive.extractfile(member) if member.isreg() else None
                    if content is None or not 0 < member.size <= MAX_DOCUMENT:
                        continue
                    if content.read(1) not in b"{[":  # a layer
                        continue
                    content.seek(0)
                    data = content.read()
                    size += len(data)
                    if size > MAX_DOCUMENTS:
                        raise ImageError(
                            f"the archive's documents have more than {MAX_DOCUMENTS} bytes"
                        )
                    found[posixpath.normpath(member.name)] = data
        except (tarfile.TarError, EOFError, ValueError, gzip.BadGzipFile, zlib.error) as error:
            raise ImageError(f"the file is not a tar archive, or is damaged ({error})") from error
    return found


class _Bounded(io.RawIOBase):
    """A file of which little is read in a row, a bounded number of bytes in all, and forward."""

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        self._file = file
        self._left = MAX_READ
        self._in_a_row = 0

    def begin(self) -> None:
        """Note that the head of another file of the archive is read from here on."""
        self._in_a_row = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= min(_MAX_IN_A_ROW - self._in_a_row, self._left):
            raise ImageError("the archive has a file with a head of many megabytes")
        data = self._file.read(size)
        self._in_a_row += len(data)
        self._left -= max(len(data), 1)  # who reads at the end again and again gets there as well
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or not 0 <= offset <= MAX_UNPACKED:
            raise ImageError(f"the archive has more than {MAX_UNPACKED >> 30} GiB")
        self._in_a_row = 0
        return self._file.seek(offset)


def _members(archive: tarfile.TarFile, bounded: _Bounded) -> Iterator[tarfile.TarInfo]:
    """The files of an archive, in their order; each has a head of its own."""
    for member in archive:
        yield member
        bounded.begin()


def _saved(documents: Mapping[str, bytes]) -> Any:
    """The configuration in what ``docker save`` writes."""
    images = _parsed(documents, "manifest.json")
    if not isinstance(images, list) or not all(isinstance(each, dict) for each in images):
        raise ImageError("manifest.json must be a list of images")
    if len(images) != 1:
        raise ImageError(f"the archive has {len(images)} images: save one of them, by its name")
    return _parsed(documents, images[0].get("Config"))


def _laid_out(documents: Mapping[str, bytes]) -> Any:
    """The configuration in an OCI layout; of several platforms linux/amd64, or the first one."""
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
            raise ImageError("index.json lists no image")
        images.sort(key=lambda each: each.get("platform") is not None and not _usual(each))
        document = _parsed(documents, _blob(images[0]))
    raise ImageError("index.json leads to no image's manifest")


def _attests(descriptor: Mapping[str, Any]) -> bool:
    """Whether a descriptor leads to how an image was built, rather than to an image."""
    notes = descriptor.get("annotations")
    return isinstance(notes, dict) and "vnd.docker.reference.type" in notes


def _usual(descriptor: Mapping[str, Any]) -> bool:
    platform = descriptor.get("platform")
    return isinstance(platform, dict) and platform.get("architecture") == "amd64"


def _blob(descriptor: Mapping[str, Any]) -> str:
    digest = _DIGEST.fullmatch(str(descriptor.get("digest")))
    if digest is None:
        raise ImageError(f"{descriptor.get('digest')!r} stands where a digest must be")
    return f"blobs/{digest[1]}/{digest[2]}"


def _parsed(documents: Mapping[str, bytes], name: object) -> Any:
    data = documents.get(posixpath.normpath(name)) if isinstance(name, str) else None
    if data is None:
        raise ImageError(f"{name!r} is missing, or is not JSON of at most {MAX_DOCUMENT} bytes")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{name!r} is not JSON: {error}") from error


def _configuration(document: Any) -> Configuration:
    members = (document.get("config") or {}) if isinstance(document, dict) else None
    if not isinstance(members, dict):
        raise ImageError("the image's configuration must be an object that has the object 'config'")

    def member(name: str, kind: type[Any]) -> Any:
        value = members.get(name)
        if value is None:
            return kind()
        if not isinstance(value, kind):
            raise ImageError(f"{name} in the image's configuration must be {_KINDS[kind]}")
        return value

    return Configuration(
        entrypoint=tuple(map(str, member("Entrypoint", list))),
        user=member("User", str),
        labels={name: str(value) for name, value in member("Labels", dict).items()},
        ports=frozenset(member("ExposedPorts", dict)),
        stop_signal=member("StopSignal", str),
        directory=member("WorkingDir", str),
    )


# --- Checking -------------------------------------------------------------------------------------

#: Looks at an image; returns if the clause is kept, raises Broken if not.
_Rule = Callable[[Configuration], None]

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
    remedy='write ENTRYPOINT ["program", "argument"] in the Dockerfile: a list, in double quotes',
)
def _entrypoint(image: Configuration) -> None:
    if not image.entrypoint:
        raise Broken("there is no ENTRYPOINT: the platform starts a program `serve` of the image")
    program = posixpath.basename(image.entrypoint[0])
    if program in _SHELLS and any(re.fullmatch("-[a-z]*c", word) for word in image.entrypoint[1:]):
        raise Broken(
            f"the ENTRYPOINT is a shell's, {_words(image)}: it loses `serve`, and may keep SIGTERM "
            "to itself"
        )


@_rule(
    "image.tini",
    "1.1-1",
    title="no init stands before the container's own program",
    remedy="start the program itself: the platform does not take tini as an entry point",
    requires=("image.entrypoint",),
)
def _tini(image: Configuration) -> None:
    if posixpath.basename(image.entrypoint[0]) in _INITS:
        raise Broken(f"the ENTRYPOINT is {_words(image)}")


@_rule(
    "image.serve",
    "1.1-1",
    severity=Severity.SHOULD,
    title="`serve` is left to the platform",
    remedy="leave `serve` out of the ENTRYPOINT; CMD may have it",
    requires=("image.entrypoint",),
)
def _serve(image: Configuration) -> None:
    if "serve" in image.entrypoint[1:]:
        raise Broken(f"the ENTRYPOINT is {_words(image)}, and the platform appends another `serve`")


@_rule(
    "image.label",
    "1.1-4",
    title="the image's label tells of bidirectional streams",
    remedy=f"add to the Dockerfile: LABEL {LABEL}=true",
)
def _label(image: Configuration) -> None:
    value = image.labels.get(LABEL)
    if value is None:
        raise Broken(f"there is no label {LABEL}")
    if value != "true":
        raise Broken(f"the label {LABEL} is {value!r}, not 'true'")


@_rule(
    "image.user",
    "1.1-1",
    severity=Severity.SHOULD,
    title="the image runs as root",
    remedy="leave USER out: what the platform mounts and binds is made for root",
)
def _user(image: Configuration) -> None:
    if image.user.partition(":")[0] not in {"", "root", "0"}:
        raise Broken(f"the image runs as {image.user!r}")


@_rule(
    "image.stop",
    "1.1-1",
    severity=Severity.SHOULD,
    title="the image is stopped by SIGTERM",
    remedy="leave STOPSIGNAL out, and end on SIGTERM: that is what the platform sends",
)
def _stop(image: Configuration) -> None:
    if image.stop_signal not in {"", "SIGTERM", "TERM", "15"}:
        raise Broken(f"the STOPSIGNAL is {image.stop_signal!r}")


@_rule(
    "image.code",
    "1.1-6",
    severity=Severity.SHOULD,
    title=f"nothing of the image lies under {ARTIFACTS}",
    remedy=f"put the code elsewhere, such as /opt/program: at {ARTIFACTS} the platform mounts the "
    "artifacts, which hide it",
)
def _code(image: Configuration) -> None:
    for path in (image.directory, *image.entrypoint):
        if f"{posixpath.normpath(path)}/".startswith(f"{ARTIFACTS}/"):
            raise Broken(f"the image needs {path!r}")


@_rule(
    "image.port",
    "1.1-2",
    severity=Severity.NOTE,
    title="the image names port 8080",
    remedy="add EXPOSE 8080 to the Dockerfile; the platform does not need it, people do",
)
def _port(image: Configuration) -> None:
    if not image.ports & {"8080", "8080/tcp"}:
        raise Broken("there is no EXPOSE 8080")


#: What an image can break before it is ever started.
CHECKS: Final[tuple[Check, ...]] = tuple(_checks)


def examine(image: Configuration, subject: str, checks: Iterable[Check] = CHECKS) -> Report:
    """Try checks of this module on an image; ``subject`` is what the report calls the image."""
    report = Report(subject=subject)
    passed: set[str] = set()
    for check in checks:
        blocking = next((each for each in check.requires if each not in passed), None)
        if blocking is not None:
            result = Result(check, Verdict.BLOCKED, said=f"{blocking} comes first")
        else:
            result = _result(check, image)
        if result.verdict is Verdict.PASS:
            passed.add(check.id)
        report.results.append(result)
    return report


def _result(check: Check, image: Configuration) -> Result:
    try:
        _RULES[check.id](image)
    except Broken as broken:
        verdict = Verdict.NOTE if check.severity is Severity.NOTE else Verdict.FAIL
        return Result(check, verdict, said=broken.what, remedy=broken.remedy or check.remedy)
    return Result(check, Verdict.PASS)


def _words(image: Configuration) -> str:
    return json.dumps(image.entrypoint)
