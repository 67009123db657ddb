"""How often a byte is in a text, beside Python's own count."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from partway.protocol.byte_count import byte_count


@given(
    st.lists(st.sampled_from([b"[", b"0" * 63, b"0" * 1000, b"[" * 40]), max_size=60).map(b"".join)
)
@example(b"")
@example(b"[" * 9)
@example((b"[" + b"0" * 63) * 20)
@example((b"[" + b"0" * 62) * 20)
def test_it_is_the_count_itself(text):
    for byte in (b"[", b"0", b"{"):
        assert byte_count(text, byte) == text.count(byte)
