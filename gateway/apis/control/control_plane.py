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

#: SageMaker's API, as targets and as botocore's files have it.
_TARGETS: Final = "SageMaker"
_SERVICE: Final = "sagemaker"
_VERSION: Final = "2017-07-24"

_T = TypeVar("_T")

_NO_OPERATIONS: Final[Mapping[str, ControlOperation]] = MappingProxyType({})


class ControlPlane:
    """The operations on models, endpoint configurations and tags, and those that are added.

    Args:
        resources: what there is; operations are refused while it has not been read.
        arns: makes their names.
        wall_clock: returns epoch seconds.
        clock: measures what is left of work when the gateway stops.
        is_local: whether a path of this machine may stand for a place in S3 that is read.
        async_rules: what configurations may say of asynchronous requests; by default nothing that
            names this machine, or a topic.
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
        #: By AWS's names of them; they expect inputs that have been checked.
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
            operations: by AWS's names of them.
            of_operator: those of them that do more where the gateway's operator asks.
        """
        self._operations.update(operations)
        self._of_operator.update(of_operator)

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        """All of them, as callers have them called."""
        return {
            name: partial(self._when_read, self._whole_of(name, operation))
            for name, operation in self._operations.items()
        }

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes of all operations."""
        return operation_routes(_TARGETS, self.operations, self)

    async def checked(self, operation: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the members of an operation's input, those left out that are null.

        Raises:
            SerializationException: a value is of another type than the operation's.
            ValidationException: a value is not allowed, or cannot be honoured; the message says
                which, and why.
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
        """Answer a call of the gateway's operator's: the API's operations, with more that is meant.

        Called inside of what :meth:`whole` runs.

        Args:
            operation: AWS's name of it.
            members: of its input, which may name any path of this machine.
            identity: the operator.
            kept: what is kept of a model or a configuration that is made, beside its members.

        Raises:
            ApiError: as where the API is asked.
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
        """Answer a call of the gateway's own, for what callers have asked for in another way.

        Its input may say what theirs may. Called inside of what :meth:`whole` runs.

        Args:
            operation: as of :meth:`ask_as_operator`.
            members: likewise.
            identity: likewise.
            kept: likewise.

        Raises:
            ApiError: as where the API is asked.
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
        """Return what the work returns; it goes on where its caller is cancelled.

        Raises:
            ServiceUnavailable: as many changes as may be are under way; it is not begun.
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
        """Say nothing of resources while it is not known which there are.

        Raises:
            NotReadYet: the disk has not given them yet.
        """
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
        """Wait for changes whose callers have left."""
        await self._work.aclose()
