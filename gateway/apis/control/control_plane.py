"""The control plane: all operations of AWS's JSON protocol, from request to answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.aws_json.protocol import (
    Answer,
    ControlOperation,
    changes_something,
    operation_routes,
)
from partway.gateway.apis.aws_json.shapes import ServiceShapes
from partway.gateway.apis.aws_json.validation import CheckedInputs, LocalRule, no_local_paths
from partway.gateway.apis.control.async_rules import AsyncRules
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.coverage import check_covered
from partway.gateway.apis.control.endpoint_configs import EndpointConfigOperations
from partway.gateway.apis.control.errors import NotReadYet
from partway.gateway.apis.control.models import ModelOperations
from partway.gateway.apis.control.resources import Resources
from partway.gateway.apis.control.tags import TagOperations
from partway.gateway.apis.control.uncancellable_work import UnbrokenWork
from partway.gateway.arns import Arns
from partway.gateway.http.routes import Route
from partway.gateway.storage.places import locations
from partway.gateway.storage.store.store import StoreUnavailable
from partway.gateway.timing.clock import Clock

#: SageMaker's API, as in targets and in botocore's files.
_TARGETS: Final = "SageMaker"
_SERVICE: Final = "sagemaker"
_VERSION: Final = "2017-07-24"

_T = TypeVar("_T")

_NO_OPERATIONS: Final[Mapping[str, ControlOperation]] = MappingProxyType({})


class ControlPlane:
    """The operations on models, endpoint configurations and tags, and all that are added.

    Args:
        resources: the resources; operations are refused until they have been read.
        wall_clock: returns epoch seconds.
        is_local: whether a path of this machine may stand for a place in S3 that is read.
        async_rules: the rules for asynchronous requests; by default they allow no path of this
            machine, and no topic.
    """

    def __init__(
        self,
        resources: Resources,
        arns: Arns,
        wall_clock: Callable[[], float],
        clock: Clock,
        is_local: LocalRule = no_local_paths,
        async_rules: AsyncRules | None = None,
    ) -> None:
        rules = async_rules or AsyncRules()

        def may_be_named(location: str) -> bool:
            return is_local(location) or rules.allows_path(location)

        self._resources = resources
        catalogue = Catalogue(resources, arns, wall_clock)
        self._models = ModelOperations(catalogue)
        self._configs = EndpointConfigOperations(catalogue, rules)
        #: The operations by AWS's names; they expect inputs that have been checked.
        self._operations: dict[str, ControlOperation] = {
            **self._models.operations,
            **self._configs.operations,
            **TagOperations(catalogue).operations,
        }
        self._of_operator: dict[str, ControlOperation] = {}
        self._work = UnbrokenWork(clock)
        shapes = ServiceShapes(_SERVICE, _VERSION, self._operations)
        self._inputs = CheckedInputs(shapes, may_be_named)
        self._inputs_of_operator = CheckedInputs(shapes, locations.is_local)

    def add(
        self,
        operations: Mapping[str, ControlOperation],
        of_operator: Mapping[str, ControlOperation] = _NO_OPERATIONS,
    ) -> None:
        """Add operations, before the first is called.

        Args:
            of_operator: variants of some operations that allow the gateway's operator more.
        """
        self._operations.update(operations)
        self._of_operator.update(of_operator)

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        return {
            name: partial(self._when_read, self._whole_of(name, operation))
            for name, operation in self._operations.items()
        }

    @property
    def routes(self) -> tuple[Route, ...]:
        return operation_routes(_TARGETS, self.operations, self)

    async def checked(self, operation: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the members of an operation's input, without members that are null.

        Raises:
            SerializationException: a value has another type than its shape.
            ValidationException: a value is not allowed, or cannot be honoured; the message names it
                and says why.
        """
        checked = await self._inputs.checked(operation, members)
        check_covered(operation, checked)
        return checked

    async def ask_as_operator(
        self,
        operation: str,
        members: Mapping[str, Any],
        identity: Identity,
        kept: Mapping[str, Any],
    ) -> Answer:
        """Answer a call of the gateway's operator, which may use members beyond the API.

        Call this inside work that :meth:`whole` runs.

        Args:
            members: the input, which may name any path of this machine.
            kept: notes on the new model or configuration, beside its members.

        Raises:
            ApiError: as for a call of the API.
        """
        checked = await self._inputs_of_operator.checked(operation, members)
        check_covered(operation, checked)
        return await self._ask(operation, checked, identity, kept)

    async def ask_for_callers(
        self,
        operation: str,
        members: Mapping[str, Any],
        identity: Identity,
        kept: Mapping[str, Any],
    ) -> Answer:
        """Answer a call that the gateway makes for callers of another API.

        The same inputs are allowed as in the API. Call this inside work that :meth:`whole` runs.

        Raises:
            ApiError: as for a call of the API.
        """
        return await self._ask(operation, await self.checked(operation, members), identity, kept)

    async def _ask(
        self,
        operation: str,
        checked: Mapping[str, Any],
        identity: Identity,
        kept: Mapping[str, Any],
    ) -> Answer:
        self.check_read()
        match operation:
            case "CreateModel":
                return await self._models.make(checked, identity, kept)
            case "CreateEndpointConfig":
                return await self._configs.make(checked, identity, kept)
            case _:
                answer = self._of_operator.get(operation) or self._operations[operation]
                return await answer(checked, identity, "")

    async def whole(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run work to its end, even if the caller is cancelled, and return its result.

        Raises:
            ServiceUnavailable: too many changes are running; the work is not begun.
        """
        return await self._work.run(work)

    def _whole_of(self, name: str, operation: ControlOperation) -> ControlOperation:
        return partial(self._whole, operation) if changes_something(name) else operation

    async def _when_read(
        self,
        operation: ControlOperation,
        members: Mapping[str, Any],
        identity: Identity,
        request_id: str,
    ) -> Answer:
        self.check_read()
        return await operation(members, identity, request_id)

    def check_read(self) -> None:
        """Raise NotReadYet until the disk has given the resources."""
        try:
            self._resources.check_read()
        except StoreUnavailable as error:
            raise NotReadYet(str(error)) from error

    async def _whole(
        self,
        operation: ControlOperation,
        members: Mapping[str, Any],
        identity: Identity,
        request_id: str,
    ) -> Answer:
        async def answer() -> Answer:
            return await operation(members, identity, request_id)

        return await self.whole(answer())

    async def aclose(self) -> None:
        await self._work.aclose()
