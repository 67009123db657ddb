"""Bodies in the formats of inference, for the fuzzer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from partway.protocol.formats import Batch, SparseRows, Tabular, decoder_for, encode, joined

_DENSE = np.array([[1.5, -2e300, 7], [0.25, 0.1, 8]])
_SPARSE = SparseRows(np.array([1.5, -7, 4]), np.array([0, 2, 1]), np.array([0, 2, 2, 3]), 3)
_KEPT = {"uid": ["a", None, "ü"], "metadata": [None, "b", "c"]}
_LABELS = np.array([[1.0], [0.0]])


def decoding(content_type: str) -> Callable[[Iterable[bytes]], Iterator[object]]:
    """What a decoder of the type makes of pieces of a body, in texts that can be compared."""

    def decode(pieces: Iterable[bytes]) -> Iterator[object]:
        decoder = decoder_for(content_type, Tabular(sparse=True))
        batches = [batch for piece in pieces for batch in decoder.feed(piece)]
        batch = joined([*batches, *decoder.finish()])
        rows = batch.sparse()
        labels = None if batch.labels is None else batch.labels.tolist()
        # As text: NaN is not what it is.
        yield str((rows.values.tolist(), rows.keys.tolist(), rows.starts.tolist(), rows.width))
        yield str((labels, batch.uid, batch.metadata, batch.configurations, decoder.configuration))

    return decode


def bodies() -> dict[str, list[bytes]]:
    """Valid bodies by their content type."""
    dense, many = Batch(_DENSE), Batch(np.tile(_DENSE, (20, 1)))
    sparse, kept = Batch(_SPARSE), Batch(_SPARSE, **_KEPT)
    recordio = "application/x-recordio-protobuf"
    bare = encode(Batch(_DENSE[:1]), recordio)[8:]
    return {
        "text/csv; label_size=1": [b'"1.5", +2,.5\r\n1,2,3\n\n', encode(many, "text/csv")],
        "text/libsvm": [b"0:1 2:5\n1:.5 # x\n", encode(sparse, "text/libsvm")],
        "application/json": [
            b'{"configuration": {"a": "}, {"}, "instances": [{"data": {"features": [1]}}]}',
            *(encode(each, "application/json") for each in (dense, many, sparse, kept)),
        ],
        "application/jsonlines": [
            encode(each, "application/jsonlines") for each in (dense, many, sparse, kept)
        ],
        recordio: [bare, *(
            encode(each, recordio)
            for each in (dense, many, sparse, kept, Batch(np.ones((2, 3), np.float32), _LABELS))
        )],
        "application/x-npy": [
            encode(dense, "application/x-npy"),
            encode(Batch(np.ones((2, 3), np.int8)), "application/x-npy"),
        ],
    }  # fmt: skip
