"""Permissions for objects: the IAM actions of the underlying operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, TypeAlias

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, CustomKind
from partway.gateway.arns import Arns

#: Operations on objects; ``list`` includes watches.
Verb: TypeAlias = Literal["get", "list", "create", "update", "delete"]

_SERVICE: Final = "sagemaker"


class ObjectLeave:
    """Checks permissions for objects.

    Args:
        is_there: whether an endpoint exists, which is then updated.
    """

    def __init__(self, arns: Arns, is_there: Callable[[str], bool]) -> None:
        self._arns = arns
        self._is_there = is_there

    def check(
        self,
        identity: Identity,
        verb: Verb,
        kind: CustomKind,
        name: str = "",
        endpoint: str = "",
        models: Iterable[str] = (),
    ) -> None:
        """Refuse a caller without the permissions.

        Args:
            name: the name of the object; empty for all.

        Raises:
            AccessDenied: the caller lacks a permission.
        """
        for action, resource in self._needed(verb, kind, name, endpoint):
            identity.check(f"{_SERVICE}:{action}", resource)
        for each in models:
            identity.check(f"{_SERVICE}:DescribeModel", self._arns.of("model", each))

    def may_list(self, identity: Identity, kind: CustomKind) -> bool:
        needed = self._needed("list", kind, "", "")
        return all(identity.may(f"{_SERVICE}:{action}", each) for action, each in needed)

    def _needed(
        self, verb: Verb, kind: CustomKind, name: str, endpoint: str
    ) -> Iterator[tuple[str, str]]:
        is_model = kind is DEPLOYED_MODEL
        noun = "Model" if is_model else "Endpoint"
        if verb == "list":
            yield f"List{noun}s", "*"
            # A list shows whole objects, including the environments of models.
            yield f"Describe{noun}", self._arns.of(noun.lower(), "*")
        elif verb == "get":
            yield f"Describe{noun}", self._arns.of(noun.lower(), name)
        else:
            yield from self._needed_to_change(verb, is_model, name, endpoint)

    def _needed_to_change(
        self, verb: Verb, is_model: bool, name: str, endpoint: str
    ) -> Iterator[tuple[str, str]]:
        model, of_endpoint = self._arns.of("model", name), self._arns.of("endpoint", endpoint)
        config = self._arns.of("endpoint-config", endpoint)
        if is_model:
            yield ("DeleteModel" if verb == "delete" else "CreateModel"), model
        if verb == "delete" and not is_model:
            yield "DeleteEndpoint", of_endpoint
            yield "DeleteEndpointConfig", config
        else:
            yield "CreateEndpointConfig", config
            made = "UpdateEndpoint" if self._is_there(endpoint) else "CreateEndpoint"
            yield from ((made, each) for each in (of_endpoint, config))
