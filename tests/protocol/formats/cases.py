"""What tests of several formats share: bodies, whole and cut."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from partway.protocol.formats import Batch, Malformed, RecordDecoder, Tabular, decoder_for, joined

SPARSE = Tabular(sparse=True)


def taken(decoder: RecordDecoder, pieces: Iterable[bytes]) -> Batch:
    """What a decoder makes of a body that comes in pieces."""
    batches = [batch for piece in pieces for batch in decoder.feed(piece)]
    return joined([*batches, *decoder.finish()])


def read(body: bytes, content_type: str, wanted: Tabular = SPARSE, *, size: int = 0) -> Batch:
    """A body, whole or in pieces of some bytes."""
    pieces = [body[at : at + size] for at in range(0, len(body), size)] if size else [body]
    return taken(decoder_for(content_type, wanted), pieces)


def refused(body: bytes, content_type: str, wanted: Tabular = SPARSE) -> str:
    """Why a body is not taken: the same, whole and byte by byte."""
    with pytest.raises(Malformed) as whole:
        read(body, content_type, wanted)
    with pytest.raises(Malformed) as cut:
        read(body, content_type, wanted, size=1)
    assert cut.value.reason == whole.value.reason
    assert whole.value.status == 400
    return whole.value.reason
