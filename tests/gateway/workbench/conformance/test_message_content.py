"""What long messages are filled with."""

from __future__ import annotations

import unicodedata

import pytest

from partway.gateway.workbench.conformance.message_content import long_bytes, long_text

SIZES = [*range(200), 65534, 65535, 65536, 65537, 1 << 20]


@pytest.mark.parametrize("size", SIZES)
def test_a_message_has_the_bytes_that_it_is_asked_for(size: int) -> None:
    assert len(long_bytes(size)) == size
    assert len(long_text(size).encode()) == size


def test_a_text_has_fewer_characters_than_bytes() -> None:
    """Whoever counts the wrong ones is seen."""
    assert all(len(long_text(size)) < size for size in SIZES if size > 1)


def test_no_piece_is_there_twice() -> None:
    for data in (long_bytes(1 << 20), long_text(1 << 20).encode()):
        pieces = [data[at : at + 64] for at in range(0, len(data), 64)]
        assert len(set(pieces)) == len(pieces)


def test_nothing_in_a_text_is_changed_by_who_means_well() -> None:
    text = long_text(1 << 16)
    assert unicodedata.normalize("NFKD", text) == unicodedata.normalize("NFKC", text) == text
    assert text.isalpha()
