"""The interface of a model, with its requests and replies."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from multidict import CIMultiDictProxy, MultiDict, MultiDictProxy, MultiMapping

from partway.container.serving.body import PredictBody, read_whole
from partway.container.stream import Stream
from partway.container.workers import Processes, Threads, Workers
from partway.protocol.limits import INVOCATION_PATH, MAX_INVOCATION_PATH

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry  # imported when it is used

    from partway.container.settings import Settings  # pydantic, which few models need

#: Default path of a model's streams (clause 1.1-4).
DEFAULT_PATH = "invocations-bidirectional-stream"

_FRAMING = frozenset({"connection", "content-length", "transfer-encoding", "upgrade"})
#: Statuses whose responses have no body: a client would read one as the next response.
WITHOUT_BODY = frozenset({204, 205, 304})
#: Reserved paths, which no handler can be mounted on.
_TAKEN = frozenset({"ping", "invocations", "execution-parameters"})
#: Methods of request routes: HEAD's and CONNECT's answers have no body.
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PARAMETER = re.compile(r"[a-zA-Z0-9][A-Za-z0-9_-]*")  # as clause 1.6-1's query allows
_Handler = TypeVar("_Handler", bound=Callable[..., object])


def _no_query() -> MultiMapping[str]:
    return MultiDictProxy(MultiDict())


@dataclass(frozen=True, slots=True)
class Request:
    """A request to ``/invocations``, or to a path of :func:`request_route`.

    Attributes:
        headers: the request's headers; their names may be looked up in any case.
        content_type: the body's type; ``application/octet-stream`` if the client names none.
        length: the body's length in bytes; None if it came chunked.
        body: the bytes as they arrive, chunk by chunk. A body that is too large, too slow or cut
            raises an exception while it is read. Let it pass: the runtime turns it into the right
            answer. Only one task may read the body at a time, and none after the request was
            answered.
        query: the parameters of the query; each may be repeated.
    """

    headers: CIMultiDictProxy[str]
    content_type: str
    length: int | None
    body: AsyncIterable[bytes]
    query: MultiMapping[str] = field(default_factory=_no_query)
    _predict_body: PredictBody = field(default_factory=PredictBody, repr=False, compare=False)

    async def read(self) -> bytes:
        """Read the whole body."""
        return await read_whole(self.body)

    async def instances(self) -> list[Any]:
        """Read the instances of a prediction request, ``{"instances": […]}``; at least one.

        They are checked by the gateway's rules: invalid JSON, missing instances, repeated members,
        NaN and excessive nesting are refused. The base64 of ``{"b64": …}`` is padded. A whole
        number of more than 64 bits may be a ``float``.

        Raises:
            BodyError: the body is invalid or cannot be read; let it pass.
        """
        return await self._predict_body.instances(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a :class:`Request` with more than a body.

    Attributes:
        body: the whole body, or an iterator of its items. Each item is sent as one chunk (clause
            1.1-5). The next item is requested once the client has taken most of the earlier ones.
        content_type: the body's type; by default ``text/plain; charset=utf-8`` for text, and
            ``application/octet-stream`` for bytes.
        headers: further headers of the response; the runtime sets ``Date`` and ``Server``.
        length: the length in bytes of a body made of items, if it is known; the body is then not
            chunked.
    """

    body: bytes | str | AsyncIterable[bytes | str]
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    length: int | None = None

    def __post_init__(self) -> None:
        if not 200 <= self.status <= 599:
            raise ValueError(
                f"status {self.status} was given; a final response's status must be 200 to 599"
            )
        if self.status in WITHOUT_BODY and self.body not in (b"", ""):
            raise ValueError(
                f"a response with status {self.status} must not have a body (RFC 9110 §6.4.1)"
            )
        forbidden = sorted({name.lower() for name in self.headers} & _FRAMING)
        if forbidden:
            raise ValueError(f"a reply must not set {', '.join(forbidden)}: the runtime sets it")


#: Types that ``invoke`` may return.
Answer = bytes | str | Reply


@dataclass(frozen=True, slots=True)
class Opening:
    """A request to open a stream.

    Attributes:
        id: the gateway's request id (clause 1.6-1).
        path: the path that the client has named, without its first slash.
        query: the query's parameters; each may be repeated.
        headers: the upgrade's headers; their names may be looked up in any case.
    """

    id: str
    path: str
    query: MultiMapping[str]
    headers: CIMultiDictProxy[str]


class Model:
    """A model. One object serves all requests of a process, many at a time.

    Override what the model can do: :meth:`stream` for bidirectional streams, :meth:`invoke` for
    ``/invocations``. Methods that compute are plain ``def`` and are called through :attr:`workers`,
    so that they never block the event loop.

    Attributes:
        runs_on: where :attr:`workers` run methods: :class:`~partway.container.workers.Threads` of
            this process, or :class:`~partway.container.workers.Processes` that each load the model.
        workers: set by the runtime before :meth:`load`.
        settings_type: the class of the model's :class:`~partway.Settings`; None for no settings.
        settings: an object of ``settings_type``. The runtime reads it from the environment before
            :meth:`load`, unless the model has one already. Worker processes get the same object.
        max_concurrent_transforms: the answer of ``/execution-parameters`` to a batch transform.
        max_payload_mb: the largest payload in that answer, in MB.
    """

    runs_on: ClassVar[Threads | Processes | None] = None
    workers: Workers
    settings_type: ClassVar[type[Settings] | None] = None
    settings: Any = None
    max_concurrent_transforms: int = 1
    max_payload_mb: int = 6

    @property
    def metrics(self) -> CollectorRegistry:
        """The registry of the author's own metrics, which ``/metrics`` shows beside the runtime's.

        ::

            self.words = Counter("talk_words", "Words said", registry=self.metrics)

        In a worker process this is a registry of that process, which nobody sees.
        """
        from prometheus_client import CollectorRegistry

        # A worker and the event loop may ask at the same time: the first registry stays.
        registry: CollectorRegistry = vars(self).setdefault("_metrics", CollectorRegistry())
        return registry

    def load(self, model_dir: Path) -> None:
        """Load the model, on a worker; ``/ping`` answers 503 until the method returns.

        Args:
            model_dir: ``/opt/ml/model``, or the folder in ``SM_MODEL_DIR``. Read-only (clause
                1.1-6).

        Raising ends the process: the platform replaces a container that cannot load.
        """

    def unload(self) -> None:
        """Release the resources of :meth:`load`: threads, devices, files.

        It is called on a thread, once every stream and request has ended. The runtime waits for it
        1.5 s. It is not called in worker processes.
        """

    def healthy(self) -> bool:
        """Return whether the model can serve; called on its own thread, at most once a second.

        False makes ``/ping`` answer 503. So does an exception, with the reason of a
        :class:`~partway.container.errors.ModelError`, and an answer that takes over 1.5 s.
        """
        return True

    async def admit(self, opening: Opening) -> None:
        """Check a stream before it is accepted.

        To refuse the stream, raise a :class:`~partway.container.errors.ModelError` with a
        ``status``.
        """

    async def stream(self, stream: Stream) -> None:
        """Handle one bidirectional stream (clause 1.1-4).

        When the method returns, the stream closes with 1000 or with the client's own code. When it
        raises, the stream closes with 1011. The handler is cancelled when the client is lost, or
        when it stays silent too long after the end of the input.
        """
        raise NotImplementedError

    async def invoke(self, request: Request) -> Answer:
        """Answer one request to ``/invocations`` (clause 1.1-2).

        The method may be an async generator: each item it yields is sent as a chunk (clause 1.1-5).
        An exception is answered with 500, or the ``status`` of a
        :class:`~partway.container.errors.ModelError`.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StreamRoute:
    """A path that takes streams.

    Attributes:
        path: the path, without its first slash.
        query: the parameters that the handler accepts; None for any.
    """

    path: str = DEFAULT_PATH
    query: frozenset[str] | None = None
    required: frozenset[str] = frozenset()


def route(
    path: str = DEFAULT_PATH,
    *,
    query: Collection[str] | None = None,
    required: Collection[str] = (),
) -> Callable[[_Handler], _Handler]:
    """Mount a method of a model on a path, as its handler of streams (clause 1.6-1).

    ::

        @route("v1/listen", query={"language"}, required={"model"})
        async def listen(self, stream: Stream) -> None: ...

    Args:
        path: the path that clients name in ``X-Amzn-SageMaker-Model-Invocation-Path``.
        query: the optional parameters that the handler accepts; None accepts any. A stream with
            another parameter is refused before it is opened.
        required: the required parameters; a stream without one is refused.

    Raises:
        TypeError: ``query`` or ``required`` is a string.
        ValueError: the path or a parameter has a name that no client could send.
    """
    if isinstance(query, str) or isinstance(required, str):
        raise TypeError("query and required must be collections of names, not a str")
    path = _free_path(path)
    for name in (*(query or ()), *required):
        if not _PARAMETER.fullmatch(name):
            raise ValueError(f"{name!r} cannot be a parameter of a query (clause 4-7)")
    known = None if query is None else frozenset(query) | frozenset(required)

    def mount(handler: _Handler) -> _Handler:
        handler.__partway_route__ = StreamRoute(path, known, frozenset(required))  # type: ignore[attr-defined]
        return handler

    return mount


@dataclass(frozen=True, slots=True)
class RequestRoute:
    """A path that takes requests beside ``/invocations``.

    Attributes:
        path: the path, without its first slash.
        method: the only method that it takes.
    """

    path: str
    method: str


def request_route(path: str, *, method: str = "POST") -> Callable[[_Handler], _Handler]:
    """Mount a method of a model on a path, as its handler of requests.

    The handler is like :meth:`Model.invoke`.

    ::

        @request_route("v1/models", method="GET")
        async def models(self, request: Request) -> Answer: ...

    On SageMaker, clients reach ``/v1/chat/completions`` alone; a Partway gateway forwards every
    path below ``/v1``.

    Raises:
        ValueError: the path or the method has a form that no client could send.
    """
    path = _free_path(path)
    if method not in _METHODS:
        raise ValueError(f"method: {method!r} was given; it must be one of {', '.join(_METHODS)}")

    def mount(handler: _Handler) -> _Handler:
        handler.__partway_request_route__ = RequestRoute(path, method)  # type: ignore[attr-defined]
        return handler

    return mount


def _free_path(path: str) -> str:
    """Return a path without its first slash, unless it cannot be mounted on."""
    path = path.removeprefix("/")
    if len(path) > MAX_INVOCATION_PATH or not INVOCATION_PATH.fullmatch(path):
        raise ValueError(f"{path!r} cannot be an invocation path (clause 4-7)")
    if path in _TAKEN:
        raise ValueError(f"/{path} is reserved: handlers must be mounted on another path")
    return path
