"""Deployments: a model, a configuration and an endpoint at once, for the gateway's operator.

The operations of the API make them, and they are resources of the API. In addition, all three are
created and deleted together, and the operator may name a command and any path of this machine.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.aws_json.protocol import Answer
from partway.gateway.apis.control.control_plane import ControlPlane
from partway.gateway.apis.control.endpoint_plans import DeploymentPlan, Members
from partway.gateway.apis.control.endpoint_reconciler import EndpointKeeper
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.operator_models import (
    INSTEAD_OF_IMAGE,
    OperatorCommand,
    is_made_for,
    kept_of,
)
from partway.gateway.apis.control.resources import Kind, Resources
from partway.gateway.fleet.endpoint import DEFAULT_VARIANT
from partway.gateway.fleet.status import EndpointState
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, InternalServerError
from partway.protocol.limits import MAX_ENDPOINT_NAME

#: Members of a variant that are kept, replaced, or without effect on a single variant.
_OF_VARIANT: Final = frozenset(
    {"InitialInstanceCount", "InitialVariantWeight", "InstanceType", "ModelName", "VariantName"}
)

#: Members of a configuration that are replaced.
_OF_CONFIG: Final = frozenset({"EndpointConfigName", "ProductionVariants"})

#: The log of all changes, of every caller.
log = logging.getLogger("partway.audit")

_OPERATOR: Final = "operator"

#: Characters of an endpoint's name; its model's name adds a number of up to nine digits.
_LONGEST_NAME: Final = MAX_ENDPOINT_NAME - len("-v123456789")

#: The order of deletion, with the operations that delete.
_DELETING: Final[Mapping[Kind, tuple[str, str]]] = {
    "endpoint-config": ("DeleteEndpointConfig", "EndpointConfigName"),
    "model": ("DeleteModel", "ModelName"),
}


def kept_of_variant(before: DeploymentPlan | None) -> dict[str, Any]:
    """Return the members that the new variant takes over: the number and the type of its instances.

    Args:
        before: the endpoint's earlier plan; None if there is no endpoint.
    """
    variant = None if before is None else _taken_over(before)
    if before is None or variant is None:
        return {}
    kept: dict[str, Any] = {"InitialInstanceCount": before.instances_of(variant)}
    if "InstanceType" in variant:
        kept["InstanceType"] = variant["InstanceType"]
    return kept


def gone_with(before: DeploymentPlan | None) -> list[str]:
    """Name the parts of an endpoint that the operator's deployment drops.

    Args:
        before: the endpoint's earlier plan; None if there is no endpoint.
    """
    if before is None:
        return []
    variant = _taken_over(before)
    gone = [*(each for each in before.config if each not in _OF_CONFIG)]
    if variant is not None:
        gone += [each for each in variant if each not in _OF_VARIANT]
        if len(before.containers_of(variant)) > 1:
            gone.append("Containers")
    gone += [f"variant {each['VariantName']}" for each in before.variants if each is not variant]
    return gone


def _taken_over(before: DeploymentPlan) -> Members | None:
    """Return the variant that the new one replaces: the one of its name, or the only one."""
    variants = before.variants
    of_its_name = [each for each in variants if each["VariantName"] == DEFAULT_VARIANT]
    found = of_its_name or (variants if len(variants) == 1 else ())
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class DeploymentAsked:
    """A requested deployment.

    Attributes:
        container: members of the model's container; without an Image if there is a command.
        variant: members of the configuration's variant, without its name and its model's name.
        command: runs instead of an image; None if there is an image.
    """

    container: Members = field(repr=False)  # may hold secrets
    variant: Members
    command: OperatorCommand | None

    @classmethod
    def read(cls, members: Members) -> DeploymentAsked:
        """Parse the members ``container``, ``variant``, ``command`` and ``folder``.

        Raises:
            ValidationException: a member is not valid; the message says what it must be.
        """
        found = {name: members.get(name, {}) for name in ("container", "variant")}
        for name, value in found.items():
            if not isinstance(value, dict):
                raise ValidationException(f"{name} must be an object.")
        command = None
        if "command" in members:
            command = OperatorCommand.read(members["command"], members.get("folder"))
        if (command is None) != ("Image" in found["container"]):
            raise ValidationException("Either Image or command must be given, and not both.")
        return cls(**found, command=command)


class _Operator:
    """The operator in one change, who has every permission; the checked actions are recorded."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._asked: dict[tuple[str, str], None] = {}  # in order, each once
        self._identity = Identity(_OPERATOR, may=self._may)

    async def __call__(
        self, operation: str, members: Members, kept: Mapping[str, Any] | None = None
    ) -> Answer:
        return await self._plane.ask_as_operator(operation, members, self._identity, kept or {})

    def tell(self, outcome: str) -> None:
        """Log the change, in the format of the API's changes."""
        log.info(
            LogLine(
                "change asked for",
                principal=_OPERATOR,
                action=" ".join(dict.fromkeys(action for action, _ in self._asked)) or None,
                resource=" ".join(dict.fromkeys(resource for _, resource in self._asked)) or None,
                outcome=outcome,
            )
        )

    def _may(self, action: str, resource: str) -> bool:
        self._asked[action, resource] = None
        return True


class Deployments:
    def __init__(self, plane: ControlPlane, resources: Resources, keeper: EndpointKeeper) -> None:
        self._plane = plane
        self._resources = resources
        self._keeper = keeper
        self._changing: set[str] = set()

    async def describe(self, name: str) -> Members | None:
        """Return DescribeEndpoint's answer for an endpoint; None if no endpoint has the name."""
        try:
            return await _Operator(self._plane)("DescribeEndpoint", {"EndpointName": name})
        except ValidationException:
            if self._is_there(name):
                raise
            return None

    async def deploy(self, name: str, asked: DeploymentAsked) -> Members:
        """Create an endpoint, or update the existing one of this name.

        The deployment begins even if the caller is cancelled. If a step is refused, the resources
        that were made before it are removed.

        Returns:
            ``ModelName``, ``EndpointConfigName`` and ``Operation`` of the change, and ``Gone``: the
            parts of the endpoint that the change drops.

        Raises:
            ApiError: the deployment cannot begin; the message says why.
        """
        return await self._plane.whole(
            self._change(name, lambda operator: self._deploy(operator, name, asked))
        )

    async def delete(self, name: str) -> Members:
        """Delete an endpoint, with the models and configurations that were deployed for it.

        An endpoint can be deleted during a change, however long that takes; a running deletion
        continues. The deletion is done even if the caller is cancelled.

        Returns:
            ``Deleted``: the deleted resources, as in ARNs. The endpoint drains, and is gone later.

        Raises:
            ApiError: the endpoint cannot be deleted; the message says why.
        """
        return await self._plane.whole(
            self._change(name, lambda operator: self._delete(operator, name))
        )

    async def _change(self, name: str, work: Callable[[_Operator], Awaitable[Members]]) -> Members:
        operator = _Operator(self._plane)
        try:
            with self._alone(name):
                done = await work(operator)
        except Exception as error:
            operator.tell((error if isinstance(error, ApiError) else InternalServerError).name)
            raise
        operator.tell("done")
        return done

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """Lock out a second change of an endpoint, which would remove this one's resources."""
        self._keeper.check_takes_changes()
        if name.lower() in self._changing:
            raise ValidationException(
                f"Another change of {name} is about to begin; try again when it has begun."
            )
        self._changing.add(name.lower())
        try:
            yield
        finally:
            self._changing.discard(name.lower())

    async def _deploy(self, operator: _Operator, name: str, asked: DeploymentAsked) -> Members:
        is_there = self._check_deployable(name)
        in_use = self._in_use(name)
        new = self._new_name(name, in_use)
        await self._sweep(operator, name, but=in_use)
        operation = "UpdateEndpoint" if is_there else "CreateEndpoint"
        endpoint = {"EndpointName": name, "EndpointConfigName": new}
        before = self._plan_of(name)
        try:
            await self._make_model(operator, name, new, asked)
            await self._make_config(operator, name, new, asked, before)
            await operator(operation, endpoint)
        except ApiError:
            await self._sweep(operator, name, but=in_use)
            raise
        return {
            "ModelName": new,
            "EndpointConfigName": new,
            "Operation": operation,
            "Gone": gone_with(before),
        }

    async def _make_model(
        self, operator: _Operator, name: str, new: str, asked: DeploymentAsked
    ) -> None:
        container = dict(asked.container)
        if asked.command is not None:
            container["Image"] = INSTEAD_OF_IMAGE
        members = {"ModelName": new, "PrimaryContainer": container}
        await operator("CreateModel", members, kept_of(name, asked.command))

    async def _make_config(
        self,
        operator: _Operator,
        name: str,
        new: str,
        asked: DeploymentAsked,
        before: DeploymentPlan | None,
    ) -> None:
        variant = {
            "InitialInstanceCount": 1,
            **kept_of_variant(before),
            **asked.variant,
            "VariantName": DEFAULT_VARIANT,
            "ModelName": new,
        }
        members = {"EndpointConfigName": new, "ProductionVariants": [variant]}
        await operator("CreateEndpointConfig", members, kept_of(name))

    async def _delete(self, operator: _Operator, name: str) -> Members:
        deleted = []
        try:
            await operator("DeleteEndpoint", {"EndpointName": name})
            deleted.append(f"endpoint/{name}")
        except ValidationException:
            if self._is_there(name) or not any(self._made_for(name)):
                raise
        deleted += await self._sweep(operator, name)
        return {"Deleted": deleted}

    # --- Lookups ---------------------------------------------------------------------------------

    def _is_there(self, name: str) -> bool:
        if name.lower() in self._keeper.of_settings:
            return True
        return self._resources.find("endpoint", name) is not None

    def _check_deployable(self, name: str) -> bool:
        """Return whether the endpoint exists already.

        Raises:
            ValidationException: the endpoint cannot be deployed now, or not under this name.
        """
        if len(name) > _LONGEST_NAME:
            raise ValidationException(
                f"The name {name!r} has {len(name)} characters; it must have at most "
                f"{_LONGEST_NAME}: the gateway appends a number to it to name the model."
            )
        found = self._keeper.find(name)
        if found is not None and not self._keeper.may_be_updated(found):
            state, _ = self._keeper.state_of(found)
            if state is not EndpointState.FAILED:
                raise ValidationException(
                    f"The endpoint {name} is still {state}; deploy it again when that change "
                    "has ended. To delete it now, with the instances that serve: partway "
                    f"delete {name}"
                )
            raise ValidationException(
                f"The endpoint {name} has failed and was never in service, so it cannot be "
                f"updated; delete it first: partway delete {name}"
            )
        return self._is_there(name)

    def _plan_of(self, name: str) -> DeploymentPlan | None:
        found = self._keeper.find(name)
        return None if found is None else self._keeper.record_of(found).plan

    def _in_use(self, name: str) -> set[str]:
        """Return the names, in lower case, of an endpoint's current and next configuration."""
        found = self._keeper.find(name)
        if found is None:
            return set()
        record = self._keeper.record_of(found)
        plans = (record.serving, record.coming)
        return {plan.config_name.lower() for plan in plans if plan is not None}

    def _made_for(self, name: str) -> Iterator[tuple[Kind, str]]:
        """Yield kind and name of an endpoint's deployed resources, in the order of deletion."""
        for kind in _DELETING:
            for each in self._resources.all(kind):
                if is_made_for(each.kept, name):
                    yield kind, each.name

    def _new_name(self, name: str, in_use: Collection[str]) -> str:
        """Return a numbered name that no model and no configuration has."""
        numbers = [made.rpartition("-v")[2] for _, made in self._made_for(name)]
        next_number = 1 + max(map(int, numbers), default=0)
        for number in count(next_number):
            new = f"{name}-v{number}"
            is_taken = any(self._resources.find(kind, new) is not None for kind in _DELETING)
            if not is_taken and new.lower() not in in_use:
                return new
        raise AssertionError("there are only so many resources")

    async def _sweep(self, operator: _Operator, name: str, but: Collection[str] = ()) -> list[str]:
        """Delete the resources that were made for an endpoint, and return them.

        Args:
            but: lower-case names of the configurations that stay, with their models.
        """
        deleted = []
        for kind, made in list(self._made_for(name)):
            if made.lower() not in but:
                operation, member = _DELETING[kind]
                await operator(operation, {member: made})
                deleted.append(f"{kind}/{made}")
        return deleted
