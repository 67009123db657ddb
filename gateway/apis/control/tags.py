"""The operations AddTags, ListTags and DeleteTags, on all kinds of resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.aws_json.page_tokens import position_of
from partway.gateway.apis.aws_json.protocol import Answer, ControlOperation
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.limits import MAX_TAGS
from partway.gateway.apis.control.resources import KINDS, Kind


def tags_of(listed: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the tags of an input, by their keys.

    Raises:
        ValidationException: a key appears twice, or is one of AWS's own.
    """
    tags: dict[str, str] = {}
    for each in listed:
        key = each["Key"]
        if key in tags:
            raise ValidationException(f"The tags have the key {key!r} twice; each must be unique.")
        if key.lower().startswith("aws:"):
            raise ValidationException(
                f"The tags have the key {key!r}; it must not begin with 'aws:', which is AWS's own."
            )
        tags[key] = each["Value"]
    return tags


def new_tags(members: Mapping[str, Any], identity: Identity, arn: str) -> dict[str, str]:
    """Return the tags of a new resource, if the caller may add tags.

    Raises:
        AccessDenied: there are tags, and the caller may not add any.
        ValidationException: the tags are not valid.
    """
    tags = tags_of(members.get("Tags", ()))
    if tags:
        identity.check("sagemaker:AddTags", arn)
    return tags


def listed_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags in the form of outputs, sorted by key."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


class TagOperations:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        return {"AddTags": self.add, "ListTags": self.list, "DeleteTags": self.delete}

    async def add(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Add tags; a tag replaces the one of the same key."""
        kind, name = self._allowed(identity, "AddTags", members)
        new = tags_of(members["Tags"])

        def added(tags: Mapping[str, str]) -> Mapping[str, str]:
            together = {**tags, **new}
            if len(together) > MAX_TAGS:
                raise ValidationException(
                    f"The resource would have {len(together)} tags; it must have at most "
                    f"{MAX_TAGS}."
                )
            return together

        return {"Tags": listed_tags(await self._catalogue.tag(kind, name, added))}

    async def list(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """List a resource's tags; one page has room for all."""
        kind, name = self._allowed(identity, "ListTags", members)
        resource = self._catalogue.existing(kind, name)
        if token := members.get("NextToken"):
            position_of(["ListTags"], token)  # no list of tags has more than one page
        return {"Tags": listed_tags(resource.tags)}

    async def delete(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Remove tags; missing ones are ignored."""
        kind, name = self._allowed(identity, "DeleteTags", members)
        keys = frozenset(members["TagKeys"])

        def without(tags: Mapping[str, str]) -> Mapping[str, str]:
            return {key: value for key, value in tags.items() if key not in keys}

        await self._catalogue.tag(kind, name, without)
        return {}

    def _allowed(
        self, identity: Identity, action: str, members: Mapping[str, Any]
    ) -> tuple[Kind, str]:
        """Return kind and name of a resource by its ARN, regardless of case."""
        arn: str = members["ResourceArn"]
        _, _, resource = arn.rpartition(":")
        before, _, name = resource.partition("/")
        for kind in KINDS:
            if before.lower() == kind and name and self._catalogue.arn(kind, name) == arn.lower():
                self._catalogue.allowed(identity, action, kind, name)
                return kind, name
        identity.check(f"sagemaker:{action}", arn)  # a caller without permission learns nothing
        kinds = ", ".join(KINDS)
        raise ValidationException(
            f'Could not find resource "{arn}"; it must be of this account and region, and one of: '
            f"{kinds}."
        )
