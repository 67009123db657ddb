"""Resources as operations handle them: found, made and deleted, with AWS's errors (clause 5)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.errors import (
    NotWrittenDown,
    ResourceLimitExceeded,
    ValidationException,
)
from partway.gateway.apis.control.limits import MAX_RESOURCE_BYTES, MAX_RESOURCES
from partway.gateway.apis.control.listing import Listed
from partway.gateway.apis.control.resources import Kind, Resource, Resources
from partway.gateway.arns import Arns
from partway.gateway.storage.store.store import StoreError

#: Each kind as AWS's messages have it, and as actions do.
NOUNS: Final[Mapping[Kind, str]] = {
    "model": "model",
    "endpoint-config": "endpoint configuration",
    "endpoint": "endpoint",
    "transform-job": "transform job",
}

_NOTHING: Final[Mapping[str, Any]] = {}


class Catalogue:
    """The resources of a gateway, for the operations on them.

    Args:
        resources: what there is.
        arns: makes their names.
        wall_clock: returns epoch seconds.
    """

    def __init__(self, resources: Resources, arns: Arns, wall_clock: Callable[[], float]) -> None:
        self._resources = resources
        self._arns = arns
        self._wall_clock = wall_clock

    def arn(self, kind: Kind, name: str) -> str:
        """The ARN of a resource, be it there or not."""
        return self._arns.of(kind, name)

    def listed(self, kind: Kind, prefix: str) -> Iterator[Listed]:
        """All resources of a kind as a list has them that says their names and times alone.

        Args:
            kind: of the resources.
            prefix: what the names of members begin with, such as ``Model``.
        """
        for each in self._resources.all(kind):
            summary = {
                f"{prefix}Name": each.name,
                f"{prefix}Arn": self.arn(kind, each.name),
                "CreationTime": each.created,
            }
            yield Listed(each.name, each.created, each.modified, summary)

    def existing(self, kind: Kind, name: str) -> Resource:
        """The resource of that kind and name, whatever its case.

        Raises:
            ValidationException: there is none.
        """
        resource = self._resources.find(kind, name)
        if resource is None:
            raise ValidationException(f'Could not find {NOUNS[kind]} "{self.arn(kind, name)}".')
        return resource

    def allowed(self, identity: Identity, action: str, kind: Kind, name: str) -> str:
        """Return a resource's ARN, for who may do something with it.

        Args:
            identity: who asks.
            action: without its service, such as ``CreateModel``.
            kind: the resource's.
            name: the resource's.

        Raises:
            AccessDenied: they may not.
        """
        arn = self.arn(kind, name)
        identity.check(f"sagemaker:{action}", arn)
        return arn

    def existing_model(self, identity: Identity, name: str) -> Resource:
        """The model that a request has run, for a sender who may describe it.

        A model that runs shows its secrets to those who invoke it. AWS has the condition
        ``sagemaker:ModelArn`` for such requests; there are no conditions here.

        Raises:
            AccessDenied: the sender may not describe it, be it there or not.
            ValidationException: the model is not there.
        """
        self.allowed(identity, "DescribeModel", "model", name)
        return self.existing("model", name)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Change what there is, alone.

        Raises:
            NotWrittenDown: the change cannot be written down; nothing is changed.
        """
        try:
            async with self._resources.changing():
                yield
        except StoreError as error:
            raise NotWrittenDown(str(error)) from error

    def check_can_be_made(self, kind: Kind, name: str, *, is_taken: bool = False) -> None:
        """Refuse one resource too many, and a second one of its name.

        Args:
            kind: the resource's.
            name: the resource's.
            is_taken: whether something has the name that the API has not made.

        Raises:
            ValidationException: the name is taken.
            ResourceLimitExceeded: there are as many as there may be.
        """
        if is_taken or self._resources.find(kind, name) is not None:
            raise ValidationException(
                f'Cannot create already existing {NOUNS[kind]} "{self.arn(kind, name)}".'
            )
        if sum(1 for _ in self._resources.all(kind)) >= MAX_RESOURCES:
            raise ResourceLimitExceeded(
                f"The service limit 'Number of {NOUNS[kind]}s' is {MAX_RESOURCES}, with current "
                f"utilization of {MAX_RESOURCES} and a request delta of 1; delete what is not "
                "needed any more."
            )

    async def create(
        self,
        kind: Kind,
        name: str,
        members: Mapping[str, Any],
        tags: Mapping[str, str],
        kept: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Make a resource.

        Args:
            kind: the resource's.
            name: the resource's.
            members: what was asked for.
            tags: the resource's.
            kept: what no caller of the API is told of it.

        Raises:
            ValidationException: there is one of its name, or it is too large.
            ResourceLimitExceeded: there are as many as there may be.
            NotWrittenDown: it cannot be written down.
        """
        size = len(json.dumps([members, tags, kept]))
        if size > MAX_RESOURCE_BYTES:
            raise ValidationException(
                f"The {NOUNS[kind]} has {size} bytes; it must have at most {MAX_RESOURCE_BYTES}."
            )
        async with self.changing():
            self.check_can_be_made(kind, name)
            now = round(self._wall_clock(), 3)  # as AWS's: milliseconds
            await self._resources.put(Resource(kind, name, now, now, members, tags, kept))

    async def tag(
        self, kind: Kind, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> Mapping[str, str]:
        """Give a resource other tags, and return these.

        Args:
            kind: the resource's.
            name: the resource's.
            change: makes its tags of those that it has.

        Raises:
            ValidationException: there is no such resource, or its tags are not to be changed so.
            NotWrittenDown: they cannot be written down.
        """
        async with self.changing():
            resource = self.existing(kind, name)
            tags = change(resource.tags)
            await self._resources.put(dataclasses.replace(resource, tags=tags))
        return tags

    async def delete(self, kind: Kind, name: str) -> None:
        """Remove a resource; what was made from it has copies.

        Raises:
            ValidationException: there is no such resource.
            NotWrittenDown: that cannot be written down; it is still there.
        """
        async with self.changing():
            await self._resources.delete(self.existing(kind, name))
