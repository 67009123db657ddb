"""partway.container.models.voice.open_streams: its bound, for streams opened at one moment too."""

from __future__ import annotations

import pytest

from partway.container.errors import Busy
from partway.container.models.voice.open_streams import OpenStreams


def test_streams_that_were_all_checked_first_stay_within_the_limit() -> None:
    streams = OpenStreams(2)
    for _ in range(3):
        streams.check()
    with streams.one(), streams.one(), pytest.raises(Busy, match="PARTWAY_VOICE_STREAMS"):
        streams.one().__enter__()
    streams.check()
