"""The interface that a model implements, and what its requests and replies are."""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from multidict import CIMultiDictProxy, MultiMapping

from partway.container.serving.body import PredictBody, read_whole
from partway.container.stream import Stream
from partway.container.workers import Processes, Threads, Workers
from partway.protocol.limits import INVOCATION_PATH, MAX_INVOCATION_PATH

#: Where the platform finds a model's streams unless a client names another path (clause 1.1-4).
DEFAULT_PATH = "invocations-bidirectional-stream"

_FRAMING = frozenset({"connection", "content-length", "transfer-encoding", "upgrade"})
#: With any of these a body would be read as the next response.
_WITHOUT_BODY = frozenset({204, 205, 304})
#: Paths on which no stream can be taken.
_TAKEN = frozenset({"ping", "invocations", "execution-parameters"})
_PARAMETER = re.compile(r"[a-zA-Z0-9][A-Za-z0-9_-]*")  # as clause 1.6-1's query allows
_Handler = TypeVar("_Handler", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Request:
    """A request to ``/invocations``.

    Attributes:
        headers: the request's headers; their names may be looked up in any case.
        content_type: the body's; ``application/octet-stream`` where the client names no type.
        length: the body's, in bytes; None where the body came chunked.
        body: the bytes as they arrive, chunk by chunk. A body that is too large, too slow or cut
            raises in the middle of it; let the exception pass, the runtime makes the right answer
            of it. One task may take it at a time, and none when the request has been answered.
    """

    headers: CIMultiDictProxy[str]
    content_type: str
    length: int | None
    body: AsyncIterable[bytes]
    _predict_body: PredictBody = field(default_factory=PredictBody, repr=False, compare=False)

    async def read(self) -> bytes:
        """The whole body."""
        return await read_whole(self.body)

    async def instances(self) -> list[Any]:
        """The instances of a request for predictions, ``{"instances": […]}``: one at least.

        They are read by the gateway's rules: what is not JSON or has no instances, a member that is
        there twice, NaN and arrays without end never come here. The base64 of ``{"b64": …}`` is
        padded. A whole number of more than 64 bits may be a ``float``.

        Raises:
            BodyError: as of a body that cannot be taken, of which it is one: let it pass.
        """
        return await self._predict_body.instances(self.body)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a :class:`Request`, where bytes alone do not say enough.

    Attributes:
        body: the whole body, or one that is made item by item: that is sent chunked, one chunk for
            each item (clause 1.1-5), and asked for the next item once the client has taken most of
            what came before.
        content_type: the body's; by default ``text/plain; charset=utf-8`` for text, and
            ``application/octet-stream`` for bytes.
        headers: further headers of the response; its ``Date`` and ``Server`` are the runtime's.
        status: the response's; 200 unless set.
        length: bytes of a body that is made item by item, where they are known; the body is then
            not chunked.
    """

    body: bytes | str | AsyncIterable[bytes | str]
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    length: int | None = None

    def __post_init__(self) -> None:
        if not 200 <= self.status <= 599:
            raise ValueError(
                f"the status {self.status} was given; a final response's must be 200 to 599"
            )
        if self.status in _WITHOUT_BODY and self.body not in (b"", ""):
            raise ValueError(
                f"a response with status {self.status} must not have a body (RFC 9110 §6.4.1)"
            )
        forbidden = sorted({name.lower() for name in self.headers} & _FRAMING)
        if forbidden:
            raise ValueError(f"a reply must not set {', '.join(forbidden)}: the runtime does")


#: What ``invoke`` may return.
Answer = bytes | str | Reply


@dataclass(frozen=True, slots=True)
class Opening:
    """A stream that asks to be opened.

    Attributes:
        id: the gateway's request id (clause 1.6-1).
        path: the path that the client names, without its first slash.
        query: the query's parameters; each may come more than once.
        headers: the upgrade's headers; their names may be looked up in any case.
    """

    id: str
    path: str
    query: MultiMapping[str]
    headers: CIMultiDictProxy[str]


class Model:
    """A model. One object serves every request of a process, many at a time.

    Override what the model can do: :meth:`stream` for bidirectional streams, :meth:`invoke` for
    ``/invocations``. Methods that compute are plain ``def`` and are called through
    :attr:`workers`, so that they never keep the event loop.

    Attributes:
        runs_on: where :attr:`workers` computes: :class:`~partway.container.workers.Threads` of this
            process, or :class:`~partway.container.workers.Processes` that each load the model.
        workers: set by the runtime before :meth:`load`.
        max_concurrent_transforms: what ``/execution-parameters`` tells a batch transform.
        max_payload_mb: the largest payload that it tells a batch transform, in MB.
    """

    runs_on: ClassVar[Threads | Processes | None] = None
    workers: Workers
    max_concurrent_transforms: int = 1
    max_payload_mb: int = 6

    def load(self, model_dir: Path) -> None:
        """Load the model, on a worker; ``/ping`` answers 503 until it returns.

        Args:
            model_dir: ``/opt/ml/model``, or what ``SM_MODEL_DIR`` names. Read-only (clause 1.1-6).

        Raising ends the process: a container that cannot load is replaced, not asked.
        """

    def unload(self) -> None:
        """Let go of what :meth:`load` took: threads, devices, files.

        Called on a thread, once every stream and request has ended; after 1.5 s nobody waits for it
        any more. Worker processes end without it.
        """

    def healthy(self) -> bool:
        """Whether the model can serve; called on a thread of its own, at most once a second.

        False makes ``/ping`` answer 503; so does raising, with the reason of a
        :class:`~partway.container.errors.ModelError`, and not returning within 1.5 s.
        """
        return True

    async def admit(self, opening: Opening) -> None:
        """Look at a stream before it is accepted.

        To refuse the stream, raise a :class:`~partway.container.errors.ModelError` with a
        ``status``.
        """

    async def stream(self, stream: Stream) -> None:
        """Handle one bidirectional stream (clause 1.1-4).

        Returning closes the stream, with 1000 or with the client's own code; raising closes it
        with 1011. The handler is cancelled when the client is lost, and a few seconds after the
        input has ended.
        """
        raise NotImplementedError

    async def invoke(self, request: Request) -> Answer:
        """Answer one request to ``/invocations`` (clause 1.1-2).

        The method may be an async generator: each item it yields is sent as a chunk (clause 1.1-5).
        Raising answers 500, or the ``status`` of a :class:`~partway.container.errors.ModelError`.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class StreamRoute:
    """One path that takes streams.

    Attributes:
        path: the path, without its first slash.
        query: the parameters that the handler knows; None for any.
        required: the parameters that must come.
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
    """Mount a method of a model on a path (clause 1.6-1), as its handler of streams.

    ::

        @route("v1/listen", query={"language"}, required={"model"})
        async def listen(self, stream: Stream) -> None: ...

    Args:
        path: what clients name in ``X-Amzn-SageMaker-Model-Invocation-Path``.
        query: the parameters that the handler knows besides those that are required; a stream that
            comes with another one is refused before it is accepted, and None lets any pass.
        required: the parameters without which a stream is refused.

    Raises:
        TypeError: ``query`` or ``required`` is a string.
        ValueError: no client could name that path, or a parameter of that name.
    """
    if isinstance(query, str) or isinstance(required, str):
        raise TypeError("query and required must be collections of names, not a str")
    path = path.removeprefix("/")
    if len(path) > MAX_INVOCATION_PATH or not INVOCATION_PATH.fullmatch(path):
        raise ValueError(f"{path!r} cannot be an invocation path (clause 4-7)")
    if path in _TAKEN:
        raise ValueError(f"/{path} is the contract's own: streams must be mounted on another path")
    for name in (*(query or ()), *required):
        if not _PARAMETER.fullmatch(name):
            raise ValueError(f"{name!r} cannot be a parameter of a query (clause 4-7)")
    known = None if query is None else frozenset(query) | frozenset(required)

    def mount(handler: _Handler) -> _Handler:
        handler.__partway_route__ = StreamRoute(path, known, frozenset(required))  # type: ignore[attr-defined]
        return handler

    return mount
