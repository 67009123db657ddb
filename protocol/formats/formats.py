"""The media types of records, with their decoders and encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from partway.protocol.errors import quoted
from partway.protocol.formats.batches import Batch, joined
from partway.protocol.formats.csv import CsvDecoder, CsvEncoder
from partway.protocol.formats.decoding import RecordDecoder, Tabular
from partway.protocol.formats.encoding import Piece, RecordEncoder, put_together
from partway.protocol.formats.faults import UnsupportedMedia
from partway.protocol.formats.json import JsonDecoder, JsonEncoder
from partway.protocol.formats.jsonlines import JsonLinesDecoder, JsonLinesEncoder
from partway.protocol.formats.libsvm import LibsvmDecoder, LibsvmEncoder
from partway.protocol.formats.negotiation import MediaType, media_type, type_given
from partway.protocol.formats.npy import NpyDecoder, NpyEncoder
from partway.protocol.formats.recordio_protobuf import RecordIODecoder, RecordIOEncoder
from partway.protocol.limits import MAX_WIDTH


@dataclass(frozen=True, slots=True)
class Format:
    """One media type of records.

    Attributes:
        name: the media type, in lower case.
        decoder: reads its records; without labels, if it is CSV.
    """

    name: str
    decoder: Callable[[Tabular], RecordDecoder]
    encoder: Callable[[], RecordEncoder]
    aliases: tuple[str, ...] = ()


_FORMATS: Final = (
    Format("text/csv", CsvDecoder, CsvEncoder),
    Format("text/libsvm", LibsvmDecoder, LibsvmEncoder, ("text/x-libsvm",)),
    Format("application/json", JsonDecoder, JsonEncoder),
    Format(
        "application/jsonlines", JsonLinesDecoder, JsonLinesEncoder, ("application/jsons", "jsons")
    ),
    Format("application/x-recordio-protobuf", RecordIODecoder, RecordIOEncoder),
    Format("application/x-npy", NpyDecoder, NpyEncoder),
)
_BY_NAME: Final = {name: each for each in _FORMATS for name in (each.name, *each.aliases)}

#: The media types of records.
RECORD_TYPES: Final = tuple(each.name for each in _FORMATS)


def format_of(content_type: str | MediaType) -> Format:
    """Return the format for a ``Content-Type``, whatever its case and parameters.

    Raises:
        UnsupportedMedia: the format is not supported for records.
    """
    asked = media_type(content_type) if isinstance(content_type, str) else content_type
    found = _BY_NAME.get(asked.name)
    if found is None:
        archive = (
            " (application/x-npz is not read: send x-npy, or sparse records in another format)"
        )
        hint = archive if asked.name == "application/x-npz" else ""
        given = f"{type_given(asked.name)}; it must be one of {', '.join(RECORD_TYPES)}"
        raise UnsupportedMedia(given + hint)
    return found


def decoder_for(content_type: str, wanted: Tabular) -> RecordDecoder:
    """Make a decoder for one body.

    In ``content_type``, ``label_size`` is the number of label columns in CSV.

    Raises:
        UnsupportedMedia: the format is not supported for records.
    """
    asked = media_type(content_type)
    found = format_of(asked)
    if found.name == "text/csv":
        return CsvDecoder(wanted, _label_size(asked))
    return found.decoder(wanted)


def decode(body: bytes, content_type: str, wanted: Tabular) -> Batch:
    """Decode all records of a body.

    Raises:
        UnsupportedMedia: the format is not supported for records.
        Malformed: the body does not have its declared type, or a record has the wrong form.
        OverLimit: a record is too long, or there are too many.
    """
    decoder = decoder_for(content_type, wanted)
    batch = joined([*decoder.feed(body), *decoder.finish()])
    return (
        batch
        if decoder.configuration is None
        else replace(batch, configuration=decoder.configuration)
    )


def encode(batch: Batch, content_type: str) -> bytes:
    """Encode records as a body.

    Raises:
        UnsupportedMedia: the format is not supported for records.
        CannotWrite: the format has no place for a member of the records.
    """
    return put_together(encode_pieces(batch, content_type))


def encode_pieces(batch: Batch, content_type: str) -> Iterator[Piece]:
    """Encode records in pieces, for a file's ``writelines``.

    The pieces of ``application/x-npy`` are the batch's own memory, without a copy: write them
    before the batch changes.

    Raises:
        UnsupportedMedia: the format is not supported for records; raised at the first piece.
        CannotWrite: the format has no place for a member of the records.
    """
    encoder = format_of(content_type).encoder()
    yield from encoder.pieces(batch)
    yield from encoder.finish()


def _label_size(asked: MediaType) -> int:
    text = asked.parameters.get("label_size", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < MAX_WIDTH):
        raise UnsupportedMedia(
            f"label_size={quoted(text)} was given; it must be a whole number of columns, 0 or more"
        )
    return int(text)
