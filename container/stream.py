"""The stream interface that a model's handler uses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Generic, Literal, Protocol, TypeVar, overload

from multidict import CIMultiDictProxy, MultiMapping

from partway.protocol.parts import PayloadPart
from partway.protocol.websocket.close_codes import NORMAL

_Fragment = TypeVar("_Fragment", str, bytes, contravariant=True)


class StreamClosed(Exception):
    """The stream is over and takes nothing more. A handler may let it pass.

    Attributes:
        code: the code of the Close that ended the stream, ours or the client's; 1005 for a Close
            without a code, 1006 if there was no Close.
        reason: the Close's reason, or a description of the end.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code = code
        self.reason = reason


class Outgoing(Protocol, Generic[_Fragment]):
    """A message that is sent in fragments."""

    async def send(self, fragment: _Fragment) -> None:
        """Send a fragment, as one frame; waits while the client is behind.

        A fragment is sent when the next one comes, or at the message's end: only then is it known
        whether it is the last one.

        Raises:
            StreamClosed: the stream is over.
        """


class Stream(Protocol):
    """One bidirectional stream, as seen by its handler.

    The client's input has one reader at a time, :meth:`messages` or :meth:`fragments`. Any number
    of tasks may send; messages are sent one after the other.
    """

    @property
    def id(self) -> str:
        """The gateway's request id, as in its log and its client's (clause 1.6-1)."""

    @property
    def path(self) -> str:
        """The path that the stream was opened on, without its first slash."""

    @property
    def query(self) -> MultiMapping[str]:
        """The query's parameters; each may be repeated."""

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        """The upgrade's headers; their names may be looked up in any case."""

    @property
    def client_gone(self) -> bool:
        """Whether the client has left and takes no answer; its handler is cancelled.

        A client has left if its Close said so or reported a failure (1001 to 1014; clause 1.5-9).
        It has also left if the connection is lost. A client that has only ended its input, by a
        Close 1000, still waits for the answer.
        """

    @property
    def closed(self) -> bool:
        """Whether the stream is over: nothing more is taken or sent."""

    def messages(self) -> AsyncIterator[str | bytes]:
        """The client's messages, whole: text as ``str``, binary as ``bytes``.

        The iteration ends at the client's Close, after all earlier messages. The handler's later
        output still reaches the client. When the stream ends, the iteration ends at once. A handler
        that takes nothing holds the client back. A message over ``MAX_MESSAGE_BYTES`` ends the
        stream with 1009.
        """

    def fragments(self) -> AsyncIterator[PayloadPart]:
        """The client's frames as they arrive, one part each; ends as :meth:`messages` does.

        A text fragment may end in the middle of a code point (clause 1.2-5).
        """

    async def send(self, message: str | bytes) -> None:
        """Send a whole message in one frame, ``str`` as text; waits while the client is behind.

        Raises:
            StreamClosed: the stream is over.
            RuntimeError: :meth:`send_part` has begun a message, or this task has one open.
        """

    @overload
    def message(self, *, text: Literal[True]) -> AbstractAsyncContextManager[Outgoing[str]]: ...
    @overload
    def message(
        self, *, text: Literal[False] = False
    ) -> AbstractAsyncContextManager[Outgoing[bytes]]: ...
    def message(
        self, *, text: bool = False
    ) -> AbstractAsyncContextManager[Outgoing[str] | Outgoing[bytes]]:
        """Send one message in fragments.

        ::

            async with stream.message(text=True) as out:
                await out.send("Generating")
                await out.send(" response")

        Each fragment is one frame; a message without fragments is one empty frame. If an exception
        leaves the block, the message is ended only when another one follows. Before a Close it
        stays unfinished (clause 1.5-7).

        Args:
            text: whether the message's fragments are ``str`` rather than ``bytes``.
        """

    async def send_part(self, part: PayloadPart) -> None:
        """Send a part as one frame; waits while the client is behind.

        Parts between a ``PARTIAL`` and its ``COMPLETE`` continue its message, and their
        ``data_type`` is ignored (clause 1.2-4).

        Raises:
            StreamClosed: the stream is over.
        """

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """End the stream after all sent messages. Only the first call counts.

        Raises:
            ValueError: the code must not be sent (RFC 6455 §7.4).
        """
