"""Data formats of inference: bytes ↔ arrays, and the choice of the answer's format.

::

    wanted = Tabular(width=4, sparse=True)
    batch = decode(body, "text/csv; label_size=0", wanted)     # a whole body
    decoder = decoder_for(content_type, wanted)                # or as it comes
    for chunk in chunks:
        for batch in decoder.feed(chunk): ...                  # records that are whole
    for batch in decoder.finish(): ...

    batch.features        # numpy (records, width), or SparseRows: values, keys, starts, width
    batch.dense(0, 100)   # some rows, dense; batch.first is the number of the first in its body
    batch.labels, batch.uid, batch.metadata, batch.configurations, batch.configuration

    media = accepted(request.headers.getall("Accept", ()), ANSWER_TYPES)
    answers = AnswerColumns({"closest_cluster": c, "distance_to_cluster": d}, key="predictions",
                      uid=batch.uid, metadata=batch.metadata)
    encode_answers(answers, media)                             # the response's body
    encode(batch, "application/x-recordio-protobuf")           # records themselves as a body
    file.writelines(encode_pieces(batch, "application/x-npy")) # or as it is written, uncopied

A :class:`MediaFault` is a client's fault. It has a ``status`` (400, 406, 413, 415) and a
``reason``: a sentence that quotes nothing of a body. :class:`CannotWrite` and ``ValueError`` are
our own fault. They say that something cannot be written.

===================== ============================================================================
``formats``           media types, with their decoders and encoders
``negotiation``       ``Content-Type`` and ``Accept``
``guessing``          a file's media type, from its first bytes and its name
``batches``           ``Batch``, ``SparseRows``
``answers``           ``AnswerColumns``, written in each format
``decoding``          ``Tabular``, ``RecordDecoder``: the base of all decoders
``encoding``          ``RecordEncoder``: the base of all encoders
``csv`` …             a module for each format; they share ``lines``, ``instances``,
                      ``json_table``, ``column_order``, ``number_text``, ``tensors``,
                      ``records``, ``record_schema`` and ``recordio``
``faults``            faults of clients, by HTTP status
===================== ============================================================================
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from partway.protocol.formats.answers import ANSWER_TYPES, AnswerColumns, encode_answers
    from partway.protocol.formats.batches import Batch, SparseRows, joined
    from partway.protocol.formats.decoding import RecordDecoder, Tabular
    from partway.protocol.formats.encoding import CannotWrite, RecordEncoder
    from partway.protocol.formats.faults import (
        Malformed,
        MediaFault,
        NotAcceptable,
        OverLimit,
        UnsupportedMedia,
    )
    from partway.protocol.formats.formats import (
        RECORD_TYPES,
        decode,
        decoder_for,
        encode,
        encode_pieces,
        format_of,
    )
    from partway.protocol.formats.negotiation import MediaType, accepted, media_type, preferred

__all__ = [
    "ANSWER_TYPES",
    "RECORD_TYPES",
    "AnswerColumns",
    "Batch",
    "CannotWrite",
    "Malformed",
    "MediaFault",
    "MediaType",
    "NotAcceptable",
    "OverLimit",
    "RecordDecoder",
    "RecordEncoder",
    "SparseRows",
    "Tabular",
    "UnsupportedMedia",
    "accepted",
    "decode",
    "decoder_for",
    "encode",
    "encode_answers",
    "encode_pieces",
    "format_of",
    "joined",
    "media_type",
    "preferred",
]

#: The module of each name. A module is imported at the first use of a name: most need numpy, which
#: takes too long to import for a caller that only cuts records.
_HOMES: Final = {
    "answers": {"ANSWER_TYPES", "AnswerColumns", "encode_answers"},
    "batches": {"Batch", "SparseRows", "joined"},
    "decoding": {"RecordDecoder", "Tabular"},
    "encoding": {"CannotWrite", "RecordEncoder"},
    "faults": {"Malformed", "MediaFault", "NotAcceptable", "OverLimit", "UnsupportedMedia"},
    "formats": {
        "RECORD_TYPES",
        "decode",
        "decoder_for",
        "encode",
        "encode_pieces",
        "format_of",
    },
    "negotiation": {"MediaType", "accepted", "media_type", "preferred"},
}


def __getattr__(name: str) -> object:
    """Return a name of ``__all__``, from the module that has it (PEP 562)."""
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
