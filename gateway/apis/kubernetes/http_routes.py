"""The routes of the custom resources, between HTTP and the operations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import parse_qsl

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.control.limits import MAX_CONTROL_BODY
from partway.gateway.apis.kubernetes.controller import EndpointController
from partway.gateway.apis.kubernetes.custom_object import (
    PREFIX,
    VERSION,
    CustomKind,
    CustomObject,
    kind_of,
)
from partway.gateway.apis.kubernetes.discovery import documents
from partway.gateway.apis.kubernetes.errors import (
    BadKubernetesRequest,
    InvalidObject,
    ObjectNotFound,
    kubernetes_status,
)
from partway.gateway.apis.kubernetes.listing import list_asked, say
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.apis.kubernetes.operations import Asker, ObjectOperations, ObjectPlace
from partway.gateway.apis.kubernetes.permissions import ObjectLeave
from partway.gateway.apis.kubernetes.request_bodies import read_merge_patch, read_object
from partway.gateway.apis.kubernetes.schemas import LABEL
from partway.gateway.apis.kubernetes.selectors import selector_of
from partway.gateway.apis.kubernetes.tables import (
    AcceptedForm,
    IncludeObject,
    accepted_form,
    table,
    table_head,
    table_row,
)
from partway.gateway.apis.kubernetes.watches import WatchAsked, Watches
from partway.gateway.http.content_codings import decoded_body
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import GatheredPayload
from partway.gateway.http.routes import READING, Leave, Operation, Route
from partway.gateway.plain_text import cut, safe
from partway.gateway.timing.clock import Clock

_KIND: Final = rf"/apis/(?P<group>[a-z0-9.-]{{1,253}})/{VERSION}"
_NAMESPACE: Final = r"/namespaces/(?P<namespace>[^/]{1,253})"
_PLURAL: Final = r"/(?P<plural>[a-z]{1,63})"
_OBJECT: Final = r"/(?P<name>[^/]{1,253})"

_EVERYWHERE: Final = re.compile(PREFIX + _KIND + _PLURAL)
_SOMEWHERE: Final = re.compile(PREFIX + _KIND + _NAMESPACE + _PLURAL)
_ONE: Final = re.compile(PREFIX + _KIND + _NAMESPACE + _PLURAL + _OBJECT)
_ONE_OR_STATUS: Final = re.compile(_ONE.pattern + r"(?:/status)?")
_ANY: Final = re.compile(PREFIX + r"(?:/.*)?", re.DOTALL)

_METHODS: Final = READING | {"POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

_JSON: Final[Mapping[str, str]] = {"Content-Type": "application/json"}

#: The content type of an empty protobuf message, which clients of Kubernetes 1.20 accept as a
#: schema.
_OPENAPI_V2: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_PARAMETERS: Final = 32


class KubernetesService:
    """The API that kubectl uses, for the gateway's custom kinds.

    Args:
        check_read: raises ApiError until the objects have been read.
        wall_clock: returns epoch seconds.
    """

    def __init__(
        self,
        objects: CustomObjects,
        operations: ObjectOperations,
        controller: EndpointController,
        leave: ObjectLeave,
        check_read: Callable[[], None],
        clock: Clock,
        wall_clock: Callable[[], float],
    ) -> None:
        self._objects = objects
        self._operations = operations
        self._controller = controller
        self._leave = leave
        self._check_read = check_read
        self._wall_clock = wall_clock
        self._watches = Watches(objects, clock)
        self._documents = documents()

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes; the last one refuses all other paths."""
        anyone = Access.ANYONE
        asked_first = tuple(
            Route(
                *("DiscoverResources", READING, re.compile(re.escape(PREFIX + path))),
                *(partial(_say, body), anyone),
                errors=kubernetes_status,
            )
            for path, body in self._documents.items()
        )
        return (
            *asked_first,
            Route(
                *("DiscoverResources", READING, re.compile(f"{PREFIX}/openapi/v2")),
                *(_say_no_schema, anyone),
                errors=kubernetes_status,
            ),
            self._route("ListObjects", READING, _EVERYWHERE, self._list),
            self._route("ListObjects", READING, _SOMEWHERE, self._list),
            self._route("GetObject", READING, _ONE_OR_STATUS, self._get),
            self._change("CreateObject", "POST", _SOMEWHERE, self._create),
            self._change("ReplaceObject", "PUT", _ONE, self._replace),
            self._change("PatchObject", "PATCH", _ONE, self._patch),
            self._change("DeleteObject", "DELETE", _ONE, self._delete),
            Route(
                *("UnknownKubernetesPath", _METHODS, _ANY, _refuse, anyone),
                errors=kubernetes_status,
            ),
        )

    def _route(
        self, name: str, methods: frozenset[str], path: re.Pattern[str], operation: Operation
    ) -> Route:
        return Route(
            *(name, methods, path, self._when_read(operation), Access.SIGNED_OR_BEARER),
            errors=kubernetes_status,
            leave=Leave.OF_OPERATION,
            control=True,
        )

    def _change(self, name: str, method: str, path: re.Pattern[str], operation: Operation) -> Route:
        return Route(
            *(name, frozenset({method}), path, self._when_read(operation)),
            access=Access.SIGNED_OR_BEARER,
            payload=GatheredPayload(MAX_CONTROL_BODY),
            errors=kubernetes_status,
            leave=Leave.OF_OPERATION,
            control=True,
            changes=True,
        )

    def _when_read(self, operation: Operation) -> Operation:
        async def answer(exchange: Exchange, identity: Identity, named: Mapping[str, str]) -> None:
            self._check_read()
            await operation(exchange, identity, named)

        return answer

    async def load(self) -> None:
        """Read the stored objects; call this first.

        Raises:
            StoreError: the objects cannot be read; this may be called again.
        """
        await self._objects.load()

    def start(self) -> None:
        self._controller.start()

    async def aclose(self) -> None:
        self._watches.close()
        await self._controller.aclose()

    # --- Reading ---------------------------------------------------------------------------------

    async def _get(self, exchange: Exchange, identity: Identity, named: Mapping[str, str]) -> None:
        form = accepted_form(exchange.headers.get("accept", ""))
        found = self._operations.get(_place(named), identity)
        parameters = _parameters(exchange)
        self._answer(exchange, HTTPStatus.OK, found, form, _included(parameters))

    async def _list(self, exchange: Exchange, identity: Identity, named: Mapping[str, str]) -> None:
        place = _place(named, allow_all=True)
        self._leave.check(identity, "list", place.kind)
        form = accepted_form(exchange.headers.get("accept", ""))
        parameters = _parameters(exchange)
        selects = selector_of(parameters)

        def means(each: CustomObject) -> bool:
            return place.namespace in ("", each.namespace) and selects(each)

        if parameters.get("watch") in ("1", "true", "True"):
            await self._watch(exchange, identity, place.kind, means, form, parameters)
            return
        counts = not (parameters.get("labelSelector") or parameters.get("fieldSelector"))
        asked = list_asked(parameters)
        found, metadata = asked.page(self._objects, place.kind, means, counts=counts)
        if form.table:
            include, now = _included(parameters), self._wall_clock()
            rows = (table_row(each, form.table, include, now) for each in found)
            await say(exchange, table_head(form.table, metadata), "rows", rows)
            return
        head = {
            "apiVersion": place.kind.api_version,
            "kind": f"{place.kind.kind}List",
            "metadata": metadata,
        }
        await say(exchange, head, "items", (each.shown() for each in found))

    async def _watch(
        self,
        exchange: Exchange,
        identity: Identity,
        kind: CustomKind,
        means: Callable[[CustomObject], bool],
        form: AcceptedForm,
        parameters: Mapping[str, str],
    ) -> None:
        if parameters.get("sendInitialEvents") == "true":
            raise InvalidObject(
                "sendInitialEvents is not supported; list the objects, and watch from the "
                "resourceVersion of the list"
            )
        include = _included(parameters)

        def show(each: CustomObject, is_first: bool) -> dict[str, Any]:
            if not form.table:
                return each.shown()
            metadata = {"resourceVersion": str(each.version)}
            return self._table([each], form, include, metadata, with_columns=is_first)

        asked = WatchAsked(
            kind,
            means,
            _version(parameters.get("resourceVersion", "")),
            _seconds(parameters.get("timeoutSeconds", "")),
            parameters.get("allowWatchBookmarks") in ("1", "true", "True"),
            show,
            lambda: identity.stands(None) and self._leave.may_list(identity, kind),
            identity.principal,
        )
        await self._watches.serve(exchange, asked)

    # --- Changing --------------------------------------------------------------------------------

    async def _create(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        body = read_object(*await _body(exchange))
        made = await self._operations.create(_place(named), body, _asker(exchange, identity))
        self._changed(exchange, made, HTTPStatus.CREATED)

    async def _replace(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        body = read_object(*await _body(exchange))
        made = await self._operations.replace(_place(named), body, _asker(exchange, identity))
        self._changed(exchange, made)

    async def _patch(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        place, who = _place(named), _asker(exchange, identity)
        patch = read_merge_patch(*await _body(exchange))
        made = await self._operations.patch(place, patch, who)
        self._changed(exchange, made)

    async def _delete(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        options = read_object(*await _body(exchange))
        preconditions = options.get("preconditions") or {}
        if not isinstance(preconditions, dict):
            raise BadKubernetesRequest("preconditions must be an object")
        who = _asker(exchange, identity, is_dry_run=bool(options.get("dryRun")))
        gone = await self._operations.delete(_place(named), preconditions, who)
        self._changed(exchange, gone)

    def _changed(
        self, exchange: Exchange, made: CustomObject, status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        form = accepted_form(exchange.headers.get("accept", ""))
        self._answer(exchange, status, made, form, _included(_parameters(exchange)))

    def _answer(
        self,
        exchange: Exchange,
        status: HTTPStatus,
        found: CustomObject,
        form: AcceptedForm,
        include: IncludeObject,
    ) -> None:
        shown = found.shown()
        if form.table:
            metadata = {"resourceVersion": str(found.version)}
            shown = self._table([found], form, include, metadata)
        exchange.respond(status, json.dumps(shown).encode(), _JSON)

    def _table(
        self,
        found: Iterable[CustomObject],
        form: AcceptedForm,
        include: IncludeObject,
        metadata: Mapping[str, Any],
        *,
        with_columns: bool = True,
    ) -> dict[str, Any]:
        now = self._wall_clock()
        return table(found, form.table, include, now, metadata, with_columns=with_columns)


# --- Parsing of requests -------------------------------------------------------------------------


async def _say(body: bytes, exchange: Exchange, *_: object) -> None:
    exchange.respond(HTTPStatus.OK, body, _JSON)


async def _say_no_schema(exchange: Exchange, *_: object) -> None:
    exchange.respond(HTTPStatus.OK, b"", {"Content-Type": _OPENAPI_V2})


async def _refuse(*_: object) -> None:
    raise ObjectNotFound("the server could not find the requested resource")


async def _body(exchange: Exchange) -> tuple[str, bytes]:
    body = await decoded_body(exchange, MAX_CONTROL_BODY)
    return exchange.headers.get("content-type", ""), body


def _place(named: Mapping[str, str], *, allow_all: bool = False) -> ObjectPlace:
    """Return the object, or the objects, that a path names.

    Raises:
        ObjectNotFound: there is no such resource.
        BadKubernetesRequest: the namespace is not a valid name.
    """
    kind = kind_of(named["group"], named["plural"])
    if kind is None:
        raise ObjectNotFound("the server could not find the requested resource")
    namespace = named.get("namespace", "")
    if not LABEL.fullmatch(namespace) and not (allow_all and not namespace):
        raise BadKubernetesRequest(
            f"namespace: {cut(safe(namespace), 64)!r} was given; it must be a DNS label (RFC 1123)"
        )
    return ObjectPlace(kind, namespace, named.get("name", ""))


def _parameters(exchange: Exchange) -> dict[str, str]:
    try:
        return dict(parse_qsl(exchange.query, keep_blank_values=True, max_num_fields=_PARAMETERS))
    except ValueError:
        raise BadKubernetesRequest(
            f"the query must have at most {_PARAMETERS} parameters"
        ) from None


def _asker(exchange: Exchange, identity: Identity, *, is_dry_run: bool = False) -> Asker:
    parameters = _parameters(exchange)
    if parameters.get("dryRun", "All") != "All":
        raise BadKubernetesRequest("dryRun must be All, or left out")
    return Asker(identity, is_dry_run or "dryRun" in parameters)


def _included(parameters: Mapping[str, str]) -> IncludeObject:
    include = parameters.get("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise BadKubernetesRequest("includeObject must be None, Metadata or Object")
    return cast("IncludeObject", include)


def _version(text: str) -> int | None:
    """Return the version that a client has seen; None if it wants all objects first."""
    if text in ("", "0"):
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise BadKubernetesRequest("resourceVersion must be a version from the answer to a list")
    return int(text)


def _seconds(text: str) -> float:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        return float("inf")
    return float(text) or float("inf")
