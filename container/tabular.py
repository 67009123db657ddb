"""Models of tables: arrays in, columns of numbers out, whatever a request's format is.

::

    class Iris(TabularModel):
        takes = Tabular(width=4)
        answers = Columns("score", "predicted_label")

        def load(self, model_dir: Path) -> None:
            self.weights = np.load(model_dir / "weights.npy")

        def predict(self, batch: Batch) -> tuple[Numbers, Numbers]:
            score = batch.dense() @ self.weights
            return score, score > 0
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
from multidict import MultiMapping
from numpy.typing import NDArray

from partway.container.errors import Busy, ModelError
from partway.container.limits import MAX_ANSWER_NUMBERS, MAX_HELD_BODIES
from partway.container.model import Model, Opening, Reply, Request
from partway.container.stream import Stream
from partway.protocol.media import (
    ANSWER_TYPES,
    AnswerColumns,
    Batch,
    MediaFault,
    SparseRows,
    Tabular,
    accepted,
    decode,
    decoder_for,
    encode_answers,
    format_of,
)
from partway.protocol.media.guessing import json_type

Numbers = NDArray[Any]

CSV: Final = "text/csv"
LIBSVM: Final = "text/libsvm"
JSON: Final = "application/json"
JSON_LINES: Final = "application/jsonlines"
RECORDIO: Final = "application/x-recordio-protobuf"
NPY: Final = "application/x-npy"

#: Answers that are text, and go to streams as such.
_TEXT: Final = frozenset({CSV, JSON, JSON_LINES})
_RECORDIO_BEGINS: Final = b"\x0a\x23\xd7\xce"
_NPY_BEGINS: Final = b"\x93NUMPY"


class Columns:
    """How a model of tables answers: one column of numbers or several, by their names.

    Args:
        names: each column's, as clients read it.
        key: the member of the answer in JSON that has one object for each record.

    Raises:
        ValueError: there is no name, or one comes twice.
    """

    def __init__(self, *names: str, key: str = "predictions") -> None:
        if not names or len(set(names)) != len(names):
            raise ValueError(f"the columns {names} were given; each must have a name of its own")
        self.names = names
        self.key = key


class TabularModel(Model, ABC):
    """A model whose requests are rows of numbers: :meth:`predict` is all that there is to write.

    It answers ``/invocations`` in each of :data:`~partway.protocol.media.RECORD_TYPES`, by
    ``Accept``, and streams, where each message is a body. What a client does wrong never gets as
    far as :meth:`predict`: a body of another type (415), an ``Accept`` that allows no answer (406),
    a body that is broken or whose records do not fit (400).

    Attributes:
        takes: what records must be; ``load`` may set it, where the model's file says it.
        answers: the columns that :meth:`predict` returns.
        configurable: whether :meth:`predict` reads what requests configure; otherwise a request
            that configures anything is refused.
    """

    takes: Tabular = Tabular()
    answers: ClassVar[Columns]
    configurable: ClassVar[bool] = False

    #: Bytes of bodies; set here, so that a subclass's ``__init__`` need not call ours.
    _held: int = 0

    @abstractmethod
    def predict(self, batch: Batch) -> Numbers | Sequence[Numbers]:
        """Answer the records of one body; on a worker.

        Args:
            batch: the records. Their features are float64 whatever format they came in: dense, or
                :class:`~partway.protocol.media.SparseRows` where :attr:`takes` allows it and a
                record is sparse. They are the model's own, to write to.

        Returns:
            The columns of :attr:`answers` in their order, or the only one: for each record a
            number, or a row of several. Numbers must be finite.

        Raises:
            ModelError: the client is to be told, with a ``status`` of 400 for its own fault.
        """

    async def invoke(self, request: Request) -> Reply:
        """Answer a body of records, in the format that ``Accept`` prefers."""
        with _told_to_the_client():
            _check_readable(request.content_type)  # before the body is read
            media_type = accepted(request.headers.getall("Accept", ()), ANSWER_TYPES)
        body = bytearray()
        try:
            async for chunk in request.body:
                body += chunk
                self._held += len(chunk)
                if self._held > MAX_HELD_BODIES:
                    raise Busy(f"requests of more than {MAX_HELD_BODIES} bytes are under way")
            answer = await self.workers.run(
                self.answer_body, bytes(body), request.content_type, media_type
            )
        finally:
            self._held -= len(body)
        return Reply(answer, media_type)

    async def admit(self, opening: Opening) -> None:
        """See that a stream's formats are known."""
        _asked(opening.query)

    async def stream(self, stream: Stream) -> None:
        """Answer each message, which is a body of records, with one message.

        The query may say what messages are, and how they are to be answered: ``content_type`` and
        ``accept``. By default each is answered in its own format. A message that cannot be answered
        is answered with its error; the stream goes on.
        """
        content_type, accept = _asked(stream.query)
        async for message in stream.messages():
            body = message.encode() if isinstance(message, str) else message
            found = content_type or guessed(body)
            media_type = accept or _own_answer(found)
            try:
                answer = await self.workers.run(self.answer_body, body, found, media_type)
            except ModelError as error:
                await stream.send(json.dumps({"error": error.reason}))
                continue
            text = media_type in _TEXT
            await stream.send(answer.decode().removesuffix("\n") if text else answer)

    def answer_body(self, body: bytes, content_type: str, media_type: str) -> bytes:
        """Answer a body; on a worker.

        Args:
            body: the records.
            content_type: what the body is.
            media_type: what its answer must be.

        Raises:
            ModelError: the body cannot be read, or the model refuses a record.
            ValueError: the model's answer is not one number, or one row, for each record.
        """
        with _told_to_the_client():
            batch = _as_float64(decode(body, content_type, self.takes))
        if not self.configurable:
            _check_nothing_configured(batch)
        columns = self._columns(self.predict(batch), len(batch))
        return encode_answers(
            AnswerColumns(columns, self.answers.key, batch.uid, batch.metadata), media_type
        )

    def _columns(self, predicted: Numbers | Sequence[Numbers], records: int) -> dict[str, Numbers]:
        given = (predicted,) if isinstance(predicted, np.ndarray) else tuple(predicted)
        names = self.answers.names
        if len(given) != len(names):
            raise ValueError(
                f"predict() returned {len(given)} columns; it must return {', '.join(names)}"
            )
        columns = {}
        for name, each in zip(names, given, strict=True):
            column = np.asarray(each)
            if column.ndim == 0 or len(column) != records:
                raise ValueError(
                    f"predict() returned a {name} of shape {column.shape}; it must have one for "
                    f"each of {records} records"
                )
            columns[name] = column.astype(np.int64) if column.dtype.kind == "b" else column
        check_answer_size(records, sum(each.size for each in columns.values()) // max(1, records))
        return columns


def check_answer_size(records: int, numbers: int) -> None:
    """See that an answer is not too large; a model asks before it computes what fills memory.

    Args:
        records: how many there are.
        numbers: that each is answered with.

    Raises:
        ModelError: 413, they are more than :data:`~partway.container.limits.MAX_ANSWER_NUMBERS`.
    """
    if records * numbers > MAX_ANSWER_NUMBERS:
        raise ModelError(
            f"{records} records are answered with {numbers} numbers each, more than "
            f"{MAX_ANSWER_NUMBERS} in all: send at most {MAX_ANSWER_NUMBERS // numbers} records",
            status=413,
        )


def guessed(body: bytes) -> str:
    """The format of a stream's message, where nothing says it.

    An object is JSON Lines, or JSON if its first member is one of a whole body's, as ``instances``
    is. An array is JSON, or JSON Lines if another line follows it without a comma. NumPy's and
    RecordIO's beginnings are their own; of other text a line with a colon is libsvm, without one
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
def _told_to_the_client() -> Iterator[None]:
    try:
        yield
    except MediaFault as fault:
        raise ModelError(fault.reason, status=fault.status) from fault


def _asked(query: MultiMapping[str]) -> tuple[str | None, str | None]:
    """What a stream's messages are, and what their answers must be; None where it does not say."""
    content_type, accept = query.get("content_type"), query.getall("accept", ())
    with _told_to_the_client():
        if content_type is not None:
            _check_readable(content_type)
        return content_type, accepted(accept, ANSWER_TYPES) if accept else None


def _check_readable(content_type: str) -> None:
    """See that records are read in a format, whatever they must be."""
    decoder_for(content_type, Tabular(sparse=True))


def _own_answer(content_type: str) -> str:
    name = format_of(content_type).name
    return name if name in ANSWER_TYPES else CSV


def _as_float64(batch: Batch) -> Batch:
    """The same records, so that a model computes the same whatever format they came in.

    It may write to them, too: what a decoder has left where it was in the body is copied.
    """
    features = batch.features
    if isinstance(features, SparseRows):
        values = np.require(features.values, np.float64, "W")
        return replace(batch, features=replace(features, values=values))
    return replace(batch, features=np.require(features, np.float64, "W"))


def _check_nothing_configured(batch: Batch) -> None:
    place = "the body" if batch.configuration else None
    for number, each in enumerate(batch.configurations or ()):
        if each and place is None:
            place = f"record {number}"
    if place is not None:
        raise ModelError(
            f"{place}: configuration must be empty: the model has nothing to configure", status=400
        )
