"""Lists of objects, whole or in chunks, each chunk as of the first one's version.

Later changes are undone in the answer, as long as they are remembered. So a client that follows a
list to its end has seen each object once, and can watch from the list's version on.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from partway.gateway.apis.kubernetes.custom_object import CustomKind, CustomObject
from partway.gateway.apis.kubernetes.errors import (
    BadKubernetesRequest,
    VersionAhead,
    VersionExpired,
)
from partway.gateway.apis.kubernetes.limits import LIST_WRITE, MAX_CONTINUE
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.apis.kubernetes.schemas import LABEL
from partway.gateway.apis.kubernetes.selectors import Selector
from partway.gateway.http.exchange import Exchange

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_VERSION: Final = re.compile(r"[0-9]{1,18}")
_TOKEN: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_CONTINUE}}}={{0,2}}")
_PLACE: Final = re.compile(
    rf"(?P<version>{_VERSION.pattern})/(?P<namespace>{LABEL.pattern})/(?P<name>{LABEL.pattern})"
)

#: The version in a token that continues with the current objects.
_ANY_VERSION: Final = 0


class ListPage(NamedTuple):
    """A list, or one chunk of a list.

    Attributes:
        found: the objects, sorted by namespace and name.
    """

    found: list[CustomObject]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ListAsked:
    """A request for a list.

    Attributes:
        limit: the largest number of objects; 0 for all.
        version: the version to list; None for the current one.
        least: the oldest version that the answer may have.
        after: the namespace and the name of the last object before the answer; None for the first
            chunk.
    """

    limit: int = 0
    version: int | None = None
    least: int = 0
    after: tuple[str, str] | None = None

    def page(
        self, objects: CustomObjects, kind: CustomKind, selects: Selector, *, counts: bool
    ) -> ListPage:
        """Return the requested page.

        Args:
            counts: whether to count the remaining objects; False with selectors, as in Kubernetes.

        Raises:
            VersionExpired: the changes since the version are forgotten.
            VersionAhead: the version is in the future.
        """
        latest = objects.history.latest
        version = self.version or latest
        if max(version, self.least) > latest:
            raise VersionAhead(
                f"Too large resource version: {max(version, self.least)}, current: {latest}",
                causes=[
                    {
                        "reason": "ResourceVersionTooLarge",
                        "message": "Too large resource version",
                    }
                ],
                retryAfterSeconds=1,
            )
        left = sorted(
            (each for each in self._at(objects, kind, version) if self._is_left(each, selects)),
            key=lambda each: each.key,
        )
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        rest = len(left) - self.limit
        if not self.limit or rest <= 0:
            return ListPage(left, metadata)
        found = left[: self.limit]
        metadata["continue"] = _token(version, found[-1].key)
        if counts:
            metadata["remainingItemCount"] = rest
        return ListPage(found, metadata)

    def _at(self, objects: CustomObjects, kind: CustomKind, version: int) -> Iterable[CustomObject]:
        try:
            return objects.at(kind, version)
        except VersionExpired:
            if self.after is None:
                raise
            raise VersionExpired(
                "The provided continue parameter is too old to display a consistent list result. "
                "You can start a new list without the continue parameter, or use the continue "
                "token in this response to retrieve the remainder of the results as they are now",
                again=_token(_ANY_VERSION, self.after),
            ) from None

    def _is_left(self, each: CustomObject, selects: Selector) -> bool:
        return (self.after is None or each.key > self.after) and selects(each)


def list_asked(parameters: Mapping[str, str]) -> ListAsked:
    """Parse the query's ``limit``, ``continue`` and ``resourceVersion``.

    Raises:
        BadKubernetesRequest: a parameter cannot be parsed, or they conflict.
    """
    limit = parameters.get("limit") or "0"
    if not _WHOLE.fullmatch(limit):
        raise BadKubernetesRequest("limit must be a whole number")
    most = max(0, int(limit))
    version, match = parameters.get("resourceVersion", ""), _match(parameters)
    if token := parameters.get("continue", ""):
        if version not in ("", "0"):
            raise BadKubernetesRequest(
                "resourceVersion must be left out if continue is given, which contains a version"
            )
        return _continued(token, most)
    if not version:
        return ListAsked(most)
    if not _VERSION.fullmatch(version):
        raise BadKubernetesRequest(
            "the parameter 'resourceVersion' must be the value of metadata.resourceVersion in an "
            "earlier list"
        )
    # As in Kubernetes, a version with a limit and without a match is exact.
    is_exact = match == "Exact" or (not match and most and int(version))
    if is_exact and not int(version):
        raise BadKubernetesRequest("resourceVersion must not be 0 if resourceVersionMatch is Exact")
    if is_exact:
        return ListAsked(most, version=int(version))
    return ListAsked(most, least=int(version))


def _match(parameters: Mapping[str, str]) -> str:
    match = parameters.get("resourceVersionMatch", "")
    if match not in ("", "Exact", "NotOlderThan"):
        raise BadKubernetesRequest("resourceVersionMatch must be Exact or NotOlderThan")
    if match and (not parameters.get("resourceVersion") or parameters.get("continue")):
        raise BadKubernetesRequest(
            "resourceVersionMatch must be left out without resourceVersion, and if continue is "
            "given"
        )
    return match


def _continued(token: str, limit: int) -> ListAsked:
    found = None
    if _TOKEN.fullmatch(token):
        try:
            found = _PLACE.fullmatch(base64.urlsafe_b64decode(token).decode("ascii"))
        except ValueError:
            found = None  # it is not base64 of ASCII
    if found is None:
        raise BadKubernetesRequest(
            "the parameter 'continue' must be the value of metadata.continue in an earlier list"
        )
    version = int(found["version"])
    after = found["namespace"], found["name"]
    return ListAsked(limit, None if version == _ANY_VERSION else version, after=after)


def _token(version: int, key: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode("/".join((str(version), *key)).encode()).decode()


# --- To the client -------------------------------------------------------------------------------


async def say(
    exchange: Exchange, head: Mapping[str, Any], member: str, each: Iterable[Mapping[str, Any]]
) -> None:
    """Answer with an object whose last member is an array, which may be long.

    Args:
        member: the name of the last member.
        each: the elements of the array, made while the client reads.

    Raises:
        ClientLeft: the client has left, or does not read.
    """
    pieces = _pieces(head, member, each)
    first, second = next(pieces), next(pieces, None)
    headers = {"Content-Type": "application/json"}
    if second is None:
        exchange.respond(200, first, headers)
        return
    await exchange.begin(200, headers)
    for piece in chain((first, second), pieces):
        await exchange.write(piece)
        await asyncio.sleep(0)  # other tasks get their turn, however fast the client reads
    await exchange.end()


def _pieces(
    head: Mapping[str, Any], member: str, each: Iterable[Mapping[str, Any]]
) -> Iterator[bytes]:
    """Yield the object's text, a few elements at a time: a whole list may be 256 MiB."""
    written = [json.dumps(head)[:-1], f", {json.dumps(member)}: ["]
    size, between = 0, ""
    for element in each:
        written += [between, json.dumps(element)]
        between = ", "
        size += len(written[-1])
        if size >= LIST_WRITE:
            yield "".join(written).encode()
            written, size = [], 0
    yield "".join((*written, "]}")).encode()
