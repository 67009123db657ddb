"""The possible answers of a Kubernetes API server, and its objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote

from partway.gateway.cluster.limits import MAX_SHOWN
from partway.gateway.plain_text import cut, safe

#: An object as the server's JSON has it.
ClusterObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Collection:
    """The objects of one kind that a list or a watch is about.

    Attributes:
        api_version: such as ``v1`` or ``apps/v1``.
        plural: the kind's name in paths, such as ``deployments``.
        namespace: empty for all namespaces, and for kinds without namespaces.
        labels: a label selector; empty for all objects.
    """

    api_version: str
    plural: str
    namespace: str = ""
    labels: str = ""

    @property
    def path(self) -> str:
        root = "/api" if "/" not in self.api_version else "/apis"
        place = f"/namespaces/{quote(self.namespace, safe='')}" if self.namespace else ""
        return f"{root}/{self.api_version}{place}/{self.plural}"

    def path_of(self, name: str, subresource: str = "") -> str:
        """Return the path of an object, or of a part of it, such as ``status``."""
        end = f"/{subresource}" if subresource else ""
        return f"{self.path}/{quote(name, safe='')}{end}"


class ObjectList(NamedTuple):
    """The answer to a list.

    Attributes:
        version: the ``resourceVersion`` at which a watch continues.
    """

    objects: list[ClusterObject]
    version: str


class WatchEvent(NamedTuple):
    """A change of an object, as a watch tells it.

    Attributes:
        kind: ``ADDED``, ``MODIFIED``, ``DELETED``, or ``BOOKMARK``, which only has a version.
        object: as it is now, or was last.
    """

    kind: str
    object: ClusterObject

    @property
    def version(self) -> str:
        return str(self.object["metadata"]["resourceVersion"])


class ClusterError(Exception):
    """A request to the API server has failed; the message says which one, and why."""


class ClusterAway(ClusterError):
    """The API server gives no valid answer now; the same request may succeed later.

    A change may have been made all the same.
    """


class AnswerTooLarge(ClusterAway):
    """An answer has more bytes than are read."""


class WatchBroken(ClusterError):
    """A watch has ended with an error, or an event that cannot be read: list again."""


class ClusterRefusal(ClusterError):
    """The API server has refused a request; the message has its words.

    Attributes:
        status: the status code.
        reason: the reason in one word, such as ``AlreadyExists``; empty if none is given.
    """

    #: The status of a subclass.
    of_status: ClassVar[int]

    def __init__(self, message: str, status: int, reason: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class NoSuchObject(ClusterRefusal):
    """The API server has no such object, or no such kind."""

    of_status = 404


class WriteConflict(ClusterRefusal):
    """The object exists already, or has another ``resourceVersion`` or uid than the request."""

    of_status = 409

    @property
    def exists(self) -> bool:
        """Whether the object to create exists already."""
        return self.reason == "AlreadyExists"


class VersionForgotten(ClusterRefusal):
    """The API server has forgotten the changes since a version: list again."""

    of_status = 410


_REFUSALS: Final = {
    each.of_status: each for each in (NoSuchObject, WriteConflict, VersionForgotten)
}

#: The server has too much to do (429), or failed; another try may succeed.
_TOO_MANY: Final = 429


def refusal(asked: str, status: int, answer: object) -> ClusterError:
    """Make the error for an answer that is no success.

    Args:
        asked: the request, for the message.
        answer: the answer's JSON: a Kubernetes ``Status``, unless something else has answered.
    """
    members = answer if isinstance(answer, Mapping) else {}
    words = cut(safe(str(members.get("message") or "no reason is given")), MAX_SHOWN)
    message = f"{asked}: the API server answered {status}: {words}"
    if status == _TOO_MANY or status >= 500:
        return ClusterAway(message)
    kind = _REFUSALS.get(status, ClusterRefusal)
    return kind(message, status, cut(safe(str(members.get("reason") or "")), MAX_SHOWN))


def event_of(asked: str, said: Mapping[str, Any]) -> WatchEvent:
    """Return the event of a watch's line.

    Raises:
        WatchBroken: the server reports an error, such as 410 for a version that it has forgotten.
        KeyError, TypeError: the line is no event.
    """
    event = WatchEvent(str(said["type"]), said["object"])
    if event.kind == "ERROR":
        code, words = event.object.get("code", "-"), str(event.object.get("message", ""))
        raise WatchBroken(f"{asked}: the API server reports {code}: {cut(safe(words), MAX_SHOWN)}")
    if event.kind != "BOOKMARK":
        _ = event.object["metadata"]["name"]
    _ = event.version  # each has one
    return event
