"""Models whose requests and messages are bodies of records, in any format of inference."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from multidict import MultiMapping

from partway.container.errors import ModelError
from partway.container.model import Model, Opening, Reply, Request
from partway.container.serving.body import HeldBodies
from partway.container.stream import Stream
from partway.protocol.formats import (
    ANSWER_TYPES,
    MediaFault,
    Tabular,
    accepted,
    decoder_for,
    format_of,
)
from partway.protocol.formats.guessing import json_type

CSV: Final = "text/csv"
LIBSVM: Final = "text/libsvm"
JSON: Final = "application/json"
JSON_LINES: Final = "application/jsonlines"
RECORDIO: Final = "application/x-recordio-protobuf"
NPY: Final = "application/x-npy"

#: Text formats, which are sent to streams as text.
_TEXT: Final = frozenset({CSV, JSON, JSON_LINES})
_RECORDIO_BEGINS: Final = b"\x0a\x23\xd7\xce"
_NPY_BEGINS: Final = b"\x93NUMPY"


class RecordModel(Model, ABC):
    """Answers bodies of records, on ``/invocations`` and as messages of streams.

    Attributes:
        answer_types: media types of answers; the first one is for clients that ask for none.
    """

    answer_types: ClassVar[tuple[str, ...]] = ANSWER_TYPES

    #: Created on first use, so that a subclass's ``__init__`` need not call ours.
    _bodies: HeldBodies | None = None

    @abstractmethod
    def answer_body(self, body: bytes, content_type: str, media_type: str) -> bytes:
        """Answer a body of records in ``media_type``; called on a worker.

        Raises:
            ModelError: the body cannot be read, or the model refuses a record.
        """

    def check_readable(self, content_type: str) -> None:
        """Check that records of a format can be read at all.

        Raises:
            UnsupportedMedia: they cannot.
        """
        decoder_for(content_type, Tabular(sparse=True))

    async def invoke(self, request: Request) -> Reply:
        """Answer a body of records, in the format that ``Accept`` prefers."""
        with told_to_the_client():
            self.check_readable(request.content_type)  # before reading the body
            media_type = accepted(request.headers.getall("Accept", ()), self.answer_types)
        if self._bodies is None:
            self._bodies = HeldBodies()
        async with self._bodies.whole(request.body) as body:
            answer = await self.workers.run(
                self.answer_body, body, request.content_type, media_type
            )
        return Reply(answer, media_type)

    async def admit(self, opening: Opening) -> None:
        self._asked(opening.query)

    async def stream(self, stream: Stream) -> None:
        """Answer each message, which is a body of records, with one message.

        The query may give the formats of messages and of answers: ``content_type`` and ``accept``.
        By default each message is answered in its own format. An invalid message is answered with
        its error, and the stream goes on.
        """
        content_type, accept = self._asked(stream.query)
        async for message in stream.messages():
            body = message.encode() if isinstance(message, str) else message
            found = content_type or guessed(body)
            media_type = accept or self._own_answer(found)
            try:
                answer = await self.workers.run(self.answer_body, body, found, media_type)
            except ModelError as error:
                await stream.send(json.dumps({"error": error.reason}))
                continue
            text = media_type in _TEXT
            await stream.send(answer.decode().removesuffix("\n") if text else answer)

    def _asked(self, query: MultiMapping[str]) -> tuple[str | None, str | None]:
        """Return the types of a stream's messages and answers; None if the query lacks them."""
        content_type, accept = query.get("content_type"), query.getall("accept", ())
        with told_to_the_client():
            if content_type is not None:
                self.check_readable(content_type)
            return content_type, accepted(accept, self.answer_types) if accept else None

    def _own_answer(self, content_type: str) -> str:
        name = format_of(content_type).name
        return name if name in self.answer_types else CSV


def guessed(body: bytes) -> str:
    """Guess the format of a stream's message.

    An object is JSON Lines, or JSON if its first member belongs to a whole body, such as
    ``instances``. An array is JSON, or JSON Lines if another line follows without a comma. NumPy
    and RecordIO have distinctive first bytes. Other text is libsvm if a line has a colon, otherwise
    CSV.
    """
    if body.startswith(_NPY_BEGINS):
        return NPY
    if body.startswith(_RECORDIO_BEGINS):
        return RECORDIO
    text = body.lstrip()
    if text.startswith((b"{", b"[")):
        return json_type(text)
    return LIBSVM if b":" in body.partition(b"\n")[0] else CSV


@contextmanager
def told_to_the_client() -> Iterator[None]:
    """Turn a fault of a body or of ``Accept`` into a :class:`ModelError` for the client."""
    try:
        yield
    except MediaFault as fault:
        raise ModelError(fault.reason, status=fault.status) from fault
