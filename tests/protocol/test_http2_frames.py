from __future__ import annotations

import pytest
from hyperframe.frame import DataFrame, GoAwayFrame, WindowUpdateFrame

from partway.protocol.http2_frames import DATA, END_STREAM, frame, goaway, window_update


@pytest.fixture(autouse=True)
def _no_leaks():
    """No loop runs here."""


def test_frames_of_our_own():
    assert window_update(77, 5) == WindowUpdateFrame(5, 77).serialize()
    assert goaway(9, 11) == GoAwayFrame(0, last_stream_id=9, error_code=11).serialize()
    ended = DataFrame(3, b"ab", flags=["END_STREAM"])
    assert frame(DATA, END_STREAM, 3, b"ab") == ended.serialize()
