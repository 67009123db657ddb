"""The catalogue of resources, with AWS's errors (clause 5)."""

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

#: The names of kinds in AWS's messages and actions.
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
        wall_clock: returns epoch seconds.
    """

    def __init__(self, resources: Resources, arns: Arns, wall_clock: Callable[[], float]) -> None:
        self._resources = resources
        self._arns = arns
        self._wall_clock = wall_clock

    def arn(self, kind: Kind, name: str) -> str:
        """Return the ARN of a resource, which need not exist."""
        return self._arns.of(kind, name)

    def listed(self, kind: Kind, prefix: str) -> Iterator[Listed]:
        """Yield all resources of a kind for a list of names and times.

        Args:
            prefix: the prefix of members' names, such as ``Model``.
        """
        for each in self._resources.all(kind):
            summary = {
                f"{prefix}Name": each.name,
                f"{prefix}Arn": self.arn(kind, each.name),
                "CreationTime": each.created,
            }
            yield Listed(each.name, each.created, each.modified, summary)

    def existing(self, kind: Kind, name: str) -> Resource:
        """Return a resource regardless of case, or raise ValidationException."""
        resource = self._resources.find(kind, name)
        if resource is None:
            raise ValidationException(f'Could not find {NOUNS[kind]} "{self.arn(kind, name)}".')
        return resource

    def allowed(self, identity: Identity, action: str, kind: Kind, name: str) -> str:
        """Return a resource's ARN, if the caller has a permission for the resource.

        Args:
            action: the action without its service, such as ``CreateModel``.

        Raises:
            AccessDenied: the caller lacks the permission.
        """
        arn = self.arn(kind, name)
        identity.check(f"sagemaker:{action}", arn)
        return arn

    def existing_model(self, identity: Identity, name: str) -> Resource:
        """Return the model that a request wants to run, if the sender may describe it.

        A running model shows its secrets to those who invoke it. AWS has the condition
        ``sagemaker:ModelArn`` for such requests; this gateway has no conditions.

        Raises:
            AccessDenied: the sender may not describe the model, which need not exist.
            ValidationException: the model does not exist.
        """
        self.allowed(identity, "DescribeModel", "model", name)
        return self.existing("model", name)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """Hold the lock for changes during the block.

        Raises:
            NotWrittenDown: the change cannot be stored; nothing is changed.
        """
        try:
            async with self._resources.changing():
                yield
        except StoreError as error:
            raise NotWrittenDown(str(error)) from error

    def check_can_be_made(self, kind: Kind, name: str, *, is_taken: bool = False) -> None:
        """Refuse a resource beyond the limit, or with a name that is taken.

        Args:
            is_taken: whether something outside the API has the name.

        Raises:
            ValidationException: the name is taken.
            ResourceLimitExceeded: the limit of resources is reached.
        """
        if is_taken or self._resources.find(kind, name) is not None:
            raise ValidationException(
                f'Cannot create already existing {NOUNS[kind]} "{self.arn(kind, name)}".'
            )
        if sum(1 for _ in self._resources.all(kind)) >= MAX_RESOURCES:
            raise ResourceLimitExceeded(
                f"The service limit 'Number of {NOUNS[kind]}s' is {MAX_RESOURCES}, with "
                f"current utilization of {MAX_RESOURCES} and a request delta of 1; delete an "
                f"unneeded {NOUNS[kind]}."
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
            members: the members that the caller asked for.
            kept: notes that no caller of the API sees.

        Raises:
            ValidationException: the name is taken, or the resource is too large.
            ResourceLimitExceeded: the limit of resources is reached.
            NotWrittenDown: the resource cannot be stored.
        """
        size = len(json.dumps([members, tags, kept]))
        if size > MAX_RESOURCE_BYTES:
            raise ValidationException(
                f"The {NOUNS[kind]} has {size} bytes; it must have at most {MAX_RESOURCE_BYTES}."
            )
        async with self.changing():
            self.check_can_be_made(kind, name)
            now = round(self._wall_clock(), 3)  # AWS's times are milliseconds too
            await self._resources.put(Resource(kind, name, now, now, members, tags, kept))

    async def tag(
        self, kind: Kind, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> Mapping[str, str]:
        """Change the tags of a resource, and return them.

        Raises:
            ValidationException: there is no such resource, or the change of tags is refused.
            NotWrittenDown: the tags cannot be stored.
        """
        async with self.changing():
            resource = self.existing(kind, name)
            tags = change(resource.tags)
            await self._resources.put(dataclasses.replace(resource, tags=tags))
        return tags

    async def delete(self, kind: Kind, name: str) -> None:
        """Remove a resource; endpoints that were made from it have copies.

        Raises:
            ValidationException: there is no such resource.
            NotWrittenDown: the removal cannot be stored; the resource still exists.
        """
        async with self.changing():
            await self._resources.delete(self.existing(kind, name))
